package supervise

import "time"

// A Policy says when a dead child is started again and how long one that was
// told to stop may take. The zero Policy stands for [DefaultPolicy].
type Policy struct {
	First       time.Duration // wait before the first restart in a row; 0: at once
	Min         time.Duration // wait before the second; doubled for each one after it
	Max         time.Duration // no wait is longer
	Healthy     time.Duration // that long after its READY a life ends the row
	MaxRestarts int           // restarts in a row before giving up; 0: no limit
	Grace       time.Duration // from SIGTERM to SIGKILL
	WaitDelay   time.Duration // how long others may hold a dead child's output open
}

// DefaultPolicy returns: restart at once, then after 0.1 s doubling to 30 s,
// without limit; 5 healthy seconds end a row; 10 s of grace.
func DefaultPolicy() Policy {
	return Policy{
		Min:       100 * time.Millisecond,
		Max:       30 * time.Second,
		Healthy:   5 * time.Second,
		Grace:     10 * time.Second,
		WaitDelay: time.Second,
	}
}

// wait returns how long to wait before the n-th restart in a row, n from 1.
func (p Policy) wait(n int) time.Duration {
	if n <= 1 {
		return p.First
	}
	d := p.Min
	for ; n > 2 && d < p.Max; n-- {
		d *= 2
	}
	return min(d, p.Max)
}

// exhausted says whether n restarts in a row are all there may be.
func (p Policy) exhausted(n int) bool {
	return p.MaxRestarts > 0 && n >= p.MaxRestarts
}
