package lab

import (
	"slices"
	"strings"
	"testing"
	"time"

	"notifylab/internal/notify"
)

func TestRequests(t *testing.T) {
	t.Parallel()
	c, n := dial(t)
	ns := place(t, c)
	r, other := NewRequests(c, ns), NewRequests(c, place(t, c))
	begin := func(r *Requests, body, id string, state RequestState, wantID string) Request {
		t.Helper()
		q, err := r.Begin(soon(t), "k 1", body, id)
		if err != nil || q.State != state || q.ID != wantID {
			t.Errorf("%s %s: got %v %q, %v, want %v %q", body, id, q.State, q.ID, err, state, wantID)
		}
		return q
	}
	end := func(q Request, done bool) {
		t.Helper()
		if err := r.End(soon(t), "k 1", q, done); err != nil {
			t.Error(err)
		}
	}
	n.losing("set", 1)
	first := begin(r, "b1", "n 1", RequestMine, "n 1")
	begin(r, "b1", "n2", RequestBusy, "n 1")
	begin(r, "b2", "n3", RequestOther, "")
	begin(other, "b2", "n3", RequestMine, "n3")
	end(first, false) // it was not done: the next may, with the first one's id
	second := begin(r, "b1", "n4", RequestMine, "n 1")
	if ttl := c.TTL(soon(t), r.busy("k 1")).Val(); ttl <= 0 || ttl > requestTime {
		t.Errorf("others are kept away for %v, want at most %v", ttl, requestTime)
	}

	// It takes too long, and another is at it: the end of the first is not the other's.
	if err := c.Del(soon(t), r.busy("k 1")).Err(); err != nil {
		t.Fatal(err)
	}
	third := begin(r, "b1", "n5", RequestMine, "n 1")
	end(second, false)
	begin(r, "b1", "n6", RequestBusy, "n 1")
	end(second, true) // done it was, however late
	begin(r, "b1", "n6", RequestDone, "n 1")
	end(third, false)
	begin(r, "b1", "n7", RequestDone, "n 1")
	begin(r, "b2", "n7", RequestOther, "")
	for _, key := range []string{r.key("k 1")} {
		if ttl := c.TTL(soon(t), key).Val(); ttl <= requestMemory-time.Minute || ttl > requestMemory {
			t.Errorf("%s is remembered for %v, want %v", key, ttl, requestMemory)
		}
	}
}

// Between the first look at a key and the turn at it somebody may end the request:
// then it is done, and not to be done again.
func TestRequests_ended_while_another_begins(t *testing.T) {
	t.Parallel()
	quick, _ := dial(t)
	c, n := dial(t)
	ns := place(t, quick)
	slow := NewRequests(c, ns)
	if _, err := slow.Begin(soon(t), "warm", "b", "n0"); err != nil { // connected
		t.Fatal(err)
	}
	r := NewRequests(quick, ns)
	first, err := r.Begin(soon(t), "k", "b", "n1")
	if err != nil || first.State != RequestMine {
		t.Fatal(first, err)
	}
	release := n.holding()
	began := make(chan Request, 1)
	go func() {
		q, err := slow.Begin(soon(t), "k", "b", "n2")
		if err != nil {
			t.Error(err)
		}
		began <- q
	}()
	await(t, n.waiting) // it has seen that the request is open
	if err := r.End(soon(t), "k", first, true); err != nil {
		t.Fatal(err)
	}
	release()
	if q := <-began; q.State != RequestDone || q.ID != "n1" {
		t.Errorf("got %v %q, want it done", q.State, q.ID)
	}
	if left := quick.Exists(soon(t), r.busy("k")).Val(); left != 0 {
		t.Error("others are kept away from what is done")
	}
}

func TestRequests_Redis_away(t *testing.T) {
	t.Parallel()
	c, n := dial(t)
	r := NewRequests(c, place(t, c))
	q, err := r.Begin(soon(t), "k", "b", "n1")
	if err != nil {
		t.Fatal(err)
	}
	n.losing("set", 2)
	if err := r.End(soon(t), "k", q, true); err == nil || !strings.Contains(err.Error(), "is done") {
		t.Errorf("its end was lost twice: %v", err)
	}
	n.losing("set", 2)
	if q, err := r.Begin(soon(t), "k2", "b", "n1"); err == nil || !strings.HasPrefix(err.Error(), "remember the request: ") {
		t.Errorf("got %v, %v", q, err)
	}
}

func TestRequests_queued(t *testing.T) {
	t.Parallel()
	c, _ := dial(t)
	r := NewRequests(c, place(t, c))
	n := notify.Notification{ID: "n1", User: "7"}
	for _, step := range []struct {
		note []notify.Channel
		want []string
	}{{nil, nil}, {[]notify.Channel{notify.Push}, []string{"push"}}, {notify.Channels(), []string{"email", "push"}}} {
		if err := r.Queued(soon(t), n, step.note); err != nil {
			t.Fatal(err)
		}
		if got, err := r.WhereQueued(soon(t), "n1"); !slices.Equal(got, step.want) || err != nil {
			t.Errorf("got %q, %v, want %q", got, err, step.want)
		}
	}
	if ttl := c.TTL(soon(t), r.queued("n1")).Val(); ttl <= 0 || ttl > requestMemory {
		t.Errorf("remembered for %v", ttl)
	}
}
