package broker

import "testing"

// Deliveries that are settled in the order in which they came, and every other one
// first: the two ends of how an owner can find them.
func BenchmarkAcks(b *testing.B) {
	const window = 512
	for name, order := range map[string]func(i int) int{
		"in order":  func(i int) int { return i },
		"scattered": func(i int) int { return (i*2)%window + i*2/window },
	} {
		b.Run(name, func(b *testing.B) {
			a := newAcks(window, func() bool { return true })
			b.ReportAllocs()
			first := uint64(1)
			for b.Loop() {
				for range window {
					a.opened()
				}
				for i := range window {
					a.settle(first + uint64(order(i)))
					if i%32 == 31 {
						a.take(false)
					}
				}
				first += window
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/window, "ns/delivery")
			if n := a.giveBack(); n != 0 {
				b.Fatalf("%d are open", n)
			}
		})
	}
}
