package broker

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"notifylab/internal/notify"
)

// An unroutable message is returned and confirmed, by two ways: none may be
// taken for confirmed.
func TestPublisher_TellsReturnedFromConfirmed(t *testing.T) {
	t.Parallel()
	const each, publishers = 1000, 8 // half of them unroutable
	b := newBench(t)
	p := b.publisher(t, 512)
	var all sync.WaitGroup
	for i := range publishers {
		all.Go(func() {
			type flight struct {
				r    *Receipt
				want Fate
			}
			flights := make(chan flight, each)
			all.Go(func() {
				for f := range flights {
					if got, why := f.r.Wait(soon(t)); got != f.want {
						t.Errorf("to %s: want %v, got %v (%v)", f.r.to, f.want, got, why)
						return
					}
				}
			})
			defer close(flights)
			for n := range each {
				m, want := Message{Queue: b.work(), ID: "same", Body: []byte("x")}, Confirmed
				if (n+i)%2 == 0 {
					m.Queue, want = b.Queue("nowhere"), Returned
				}
				r, err := p.Start(soon(t), m)
				if err != nil {
					t.Error(err)
					return
				}
				flights <- flight{r, want}
			}
		})
	}
	all.Wait()
	b.awaitReady(t, b.work(), each*publishers/2)
}

// Both kinds of serial: a copy's correlation-id is another's, and may look like ours.
func TestPublisher_TellsACopyFromItsCorrelationID(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.publisher(t, 2)
	first, err := p.Start(soon(t), Message{Queue: b.work(), ID: "same"})
	if err != nil {
		t.Fatal(err)
	}
	m := amqp.Publishing{MessageId: "same", CorrelationId: first.serial, Headers: amqp.Table{headerSerial: first.serial}}
	second, err := p.start(soon(t), b.Queue("nowhere"), m)
	if err != nil {
		t.Fatal(err)
	}
	fate, why := second.Wait(soon(t))
	if was, _ := first.Wait(soon(t)); was != Confirmed || fate != Returned {
		t.Errorf("got %v and %v (%v)", was, fate, why)
	}
}

// rabbitmq/rabbitmq-dotnet-client#298
func TestPublisher_SaysWhyAMessageCameBack(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.publisher(t, 1)
	r, err := p.Start(soon(t), Message{Queue: b.Queue("nowhere")})
	if err != nil {
		t.Fatal(err)
	}
	if fate, why := r.Wait(soon(t)); fate != Returned || fmt.Sprint(why) != "312 NO_ROUTE" {
		t.Errorf("got %v, %v", fate, why)
	}
}

// RabbitMQ 3.10 ends the connection with INTERNAL_ERROR if it deletes a quorum
// queue under a publish (measured): that one is unknown then, not confirmed.
func TestPublisher_SeesAQueueDeletedMidway(t *testing.T) {
	t.Parallel()
	for _, kind := range []QueueType{Quorum, Classic} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, func(tp *Topology) { tp.Type = kind })
			p, other := b.publisher(t, 64), b.dial(t)
			deleted := make(chan error, 1)
			for n := 0; ; n++ {
				if n == 100 {
					go func() { deleted <- other.Delete(soon(t), b.work()) }()
				}
				fate := b.publish(t, p, b.work(), "x")[0]
				if fate == Confirmed {
					continue
				}
				if err := <-deleted; n < 100 || err != nil {
					t.Fatalf("%v after %d, %v", fate, n, err)
				}
				if fate == Unknown && kind == Quorum {
					<-p.Over()
					p = b.publisher(t, 64)
				} else if fate != Returned {
					t.Error("the last is ", fate)
				}
				break
			}
			equal(t, "ever after", b.publish(t, p, b.work(), "y", "z"), []Fate{Returned, Returned})
		})
	}
}

// A queue that is full and refuses more is not a queue that is not there.
func TestPublisher_TellsNackedFromReturned(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	full := b.Queue("full")
	raw := b.raw(t)
	if _, err := raw.QueueDeclare(full, true, false, false, false, amqp.Table{"x-max-length": 1, "x-overflow": "reject-publish"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = raw.QueueDelete(full, false, false, false) })
	p := b.publisher(t, 8)
	equal(t, "one at a time", append(b.publish(t, p, full, "a"), b.publish(t, p, full, "b")...), []Fate{Confirmed, Nacked})
	r, err := p.Start(soon(t), Message{Queue: full})
	if err != nil {
		t.Fatal(err)
	}
	_, why := r.Wait(soon(t))
	wantIs(t, why, notify.ErrNacked)
	equal(t, "the publisher goes on", b.publish(t, p, b.work(), "c"), []Fate{Confirmed})
}

func TestPublisher_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c := b.dial(t)
	stopped := fmt.Errorf("stopped by the test")
	ctx, stop := context.WithCancelCause(context.Background())
	p, err := c.Publisher(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	stop(stopped)
	<-p.Over()
	wantIs(t, p.Err(), stopped)
	_, err = p.Start(soon(t), Message{Queue: b.work()})
	wantIs(t, err, stopped)
	_, err = c.Publisher(ctx, 1)
	wantIs(t, err, stopped)
}

// A connection cut under a publisher leaves what is in flight unknown, at once.
// (rabbitmq/amqp091-go#182)
func TestPublisher_KnowsNothingOfWhatWasInFlight(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	// The broker may have confirmed all of it before the cut.
	for tries := 1; b.cutInFlight(t) == 0; tries++ {
		if tries == 20 {
			t.Fatal("nothing is unknown, ever")
		}
	}
}

// cutInFlight cuts a connection under a publisher that has just started a thousand
// messages, and returns of how many it is not known what became of them.
func (b bench) cutInFlight(t *testing.T) (unknown int) {
	t.Helper()
	c := b.dial(t)
	p, err := c.Publisher(context.Background(), 1000)
	if err != nil {
		t.Fatal(err)
	}
	var receipts []*Receipt
	for range 1000 {
		r, err := p.Start(soon(t), Message{Queue: b.work(), Body: make([]byte, 1000)})
		if err != nil {
			t.Fatal(err)
		}
		receipts = append(receipts, r)
	}
	c.cut()
	began := time.Now()
	for _, r := range receipts {
		switch fate, why := r.Wait(soon(t)); fate {
		case Unknown:
			unknown++
			if why == nil {
				t.Error("unknown, and no word why")
			}
		case Confirmed:
		default:
			t.Error("got ", fate, why)
		}
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("%d of %d unknown, after %v", unknown, len(receipts), took)
	}
	if _, err := p.Start(soon(t), Message{Queue: b.work()}); err == nil {
		t.Error("a publisher that has ended starts another")
	}
	return unknown
}
