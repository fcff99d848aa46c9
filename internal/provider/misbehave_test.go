package provider

import (
	"context"
	"strings"
	"testing"
	"time"

	"notifylab/internal/event"
	"notifylab/internal/notify"
)

func held(id string, n int) func(*Ledger) bool {
	return func(l *Ledger) bool { return l.Held(id, notify.Push) == n }
}

func TestDelay_accepts_late_and_only_where_it_was_told(t *testing.T) {
	t.Parallel()
	const delay = 50 * time.Millisecond
	s, c := pair(t, Faults{Delay: []Delay{{For: time.Hour}, {For: delay}, {Target: Target{User: "8"}}}})
	start := time.Now()
	if r := c.Send(soon(t), attempt("slow", "7")); r.Answer != notify.Accepted {
		t.Fatalf("got %+v", r)
	}
	if took := s.Calls()[0].Time.Sub(start); took < delay {
		t.Errorf("accepted after %s, want at least %s", took, delay)
	}
	c.Send(soon(t), attempt("quick", "8")) // by the first in the list this would be an hour
}

func TestDelay_accepts_what_was_given_up(t *testing.T) {
	t.Parallel()
	s, c := pair(t, Faults{Delay: []Delay{{For: 100 * time.Millisecond}}})
	ctx, cancel := context.WithCancel(soon(t))
	result := sendAside(t, ctx, c, attempt("n", "7"))
	await(t, s, held("n", 1))
	cancel()
	if r := <-result; r.Answer != notify.Unknown {
		t.Errorf("got %+v, want unknown", r)
	}
	await(t, s, func(l *Ledger) bool { return l.Accepted("n", notify.Push) == 1 })
}

func TestRefuse(t *testing.T) {
	t.Parallel()
	s, c := pair(t, Faults{Refuse: []Refusal{{Status: 503}, {Target{User: "42"}, 410}, {Target{ID: "broken"}, 500}, {Target{ID: "odd"}, 599}}})
	for _, tc := range []struct {
		a    notify.Attempt
		want notify.Result
	}{
		{keyed("n", "7"), notify.Result{Answer: notify.RefusedForNow, Reason: "503 service unavailable"}},
		{keyed("n", "42"), notify.Result{Answer: notify.RefusedForGood, Reason: "410 gone"}},
		{keyed("broken", "7"), notify.Result{Answer: notify.Unknown, Reason: "500 internal server error"}},
		{keyed("odd", "7"), notify.Result{Answer: notify.Unknown, Reason: "599 refused"}},
	} {
		if got := c.Send(soon(t), tc.a); got != tc.want {
			t.Errorf("%s of %s: got %+v, want %+v", tc.a.Notification.ID, tc.a.Notification.User, got, tc.want)
		}
	}
	s.SetFaults(Faults{})
	if r := c.Send(soon(t), keyed("n", "42")); r.Answer != notify.Accepted {
		t.Errorf("without the fault: %+v", r)
	}
	if s.Count(event.Refused) != 4 || s.Count(event.Accepted) != 1 {
		t.Errorf("ledger: %+v", s.Calls())
	}
}

func TestHang_is_neither_accepted_nor_answered(t *testing.T) {
	t.Parallel()
	s, c := pair(t, Faults{Hang: []Target{{Channel: notify.Push}}})
	ctx, cancel := context.WithCancel(soon(t))
	result := sendAside(t, ctx, c, attempt("n", "7"))
	await(t, s, held("n", 1))
	s.SetFaults(Faults{}) // for later calls: this one hangs on
	email := attempt("n", "7")
	email.Channel = notify.Email
	if r := c.Send(soon(t), email); r.Answer != notify.Accepted {
		t.Errorf("email: %+v", r)
	}
	cancel()
	if r := <-result; r.Answer != notify.Unknown {
		t.Errorf("got %+v, want unknown", r)
	}
	await(t, s, held("n", 0))
	if s.Accepted("n", notify.Push) != 0 || s.Len() != 1 {
		t.Errorf("ledger: %+v", s.Calls())
	}
}

func TestAcceptHang_is_accepted_and_never_answered(t *testing.T) {
	t.Parallel()
	s, c := pair(t, Faults{AcceptHang: []Target{{User: "7"}}})
	ctx, cancel := context.WithCancel(soon(t))
	result := sendAside(t, ctx, c, keyed("n", "7"))
	await(t, s, held("n", 1))
	if s.Accepted("n", notify.Push) != 1 {
		t.Errorf("ledger: %+v", s.Calls())
	}
	select {
	case r := <-result:
		t.Errorf("answered: %+v", r)
	default:
	}
	cancel()
	if r := <-result; r.Answer != notify.Unknown {
		t.Errorf("got %+v, want unknown", r)
	}
	s.SetFaults(Faults{})
	if r := c.Send(soon(t), keyed("n", "7")); r.Answer != notify.Accepted || s.Accepted("n", notify.Push) != 1 {
		t.Errorf("the next attempt with its key: %+v, ledger %+v", r, s.Calls())
	}
}

func TestGate(t *testing.T) {
	t.Parallel()
	gate := Gate{Hold: "a", Until: "b"}
	t.Run("holds one call until the other has come", func(t *testing.T) {
		t.Parallel()
		s, c := pair(t, Faults{Gate: []Gate{gate}})
		first := sendAside(t, soon(t), c, attempt("a", "7"))
		await(t, s, held("a", 1))
		if r := c.Send(soon(t), attempt("c", "7")); r.Answer != notify.Accepted {
			t.Errorf("a call it is not about: %+v", r)
		}
		email := attempt("b", "8")
		email.Channel = notify.Email
		if r := c.Send(soon(t), email); r.Answer != notify.Accepted {
			t.Errorf("the one it waits for: %+v", r)
		}
		if r := <-first; r.Answer != notify.Accepted {
			t.Errorf("the one it holds: %+v", r)
		}
		if r := c.Send(soon(t), attempt("a", "7")); r.Answer != notify.Accepted {
			t.Errorf("a gate that was opened stays open: %+v", r)
		}
	})
	t.Run("is open if the other came first", func(t *testing.T) {
		t.Parallel()
		_, c := pair(t, Faults{Gate: []Gate{gate}})
		c.Send(soon(t), attempt("b", "7"))
		if r := c.Send(soon(t), attempt("a", "7")); r.Answer != notify.Accepted {
			t.Errorf("got %+v", r)
		}
	})
	t.Run("opens when the other has come, even if that one is refused or hangs", func(t *testing.T) {
		t.Parallel()
		s, c := pair(t, Faults{Gate: []Gate{gate}, Hang: []Target{{ID: "b"}}})
		first := sendAside(t, soon(t), c, attempt("a", "7"))
		await(t, s, held("a", 1))
		sendAside(t, soon(t), c, attempt("b", "7"))
		if r := <-first; r.Answer != notify.Accepted {
			t.Errorf("got %+v", r)
		}
	})
	t.Run("lets go when it is taken away, and not when others are added", func(t *testing.T) {
		t.Parallel()
		s, c := pair(t, Faults{Gate: []Gate{gate}})
		first := sendAside(t, soon(t), c, attempt("a", "7"))
		await(t, s, held("a", 1))
		s.SetFaults(Faults{Gate: []Gate{{Hold: "x", Until: "y"}, gate}})
		sendAside(t, soon(t), c, attempt("x", "7"))
		await(t, s, held("x", 1))
		if s.Held("a", notify.Push) != 1 {
			t.Error("another gate opened this one")
		}
		s.SetFaults(Faults{Gate: []Gate{{Hold: "x", Until: "y"}}})
		if r := <-first; r.Answer != notify.Accepted {
			t.Errorf("got %+v", r)
		}
		if s.Held("x", notify.Push) != 1 {
			t.Error("a gate that stayed let go")
		}
	})
}

func TestFaults_are_a_copy(t *testing.T) {
	t.Parallel()
	mine := Faults{Refuse: []Refusal{{Status: 503}}}
	s := New(Options{Faults: mine})
	mine.Refuse[0].Status = 410
	s.Faults().Refuse[0].Status = 411
	if got := s.Faults().Refuse[0].Status; got != 503 {
		t.Errorf("changed from outside to %d", got)
	}
}

func TestClose_ends_calls_that_wait(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]Faults{
		"delayed": {Delay: []Delay{{For: time.Hour}}},
		"hanging": {Hang: []Target{{}}},
		"held":    {Gate: []Gate{{Hold: "n", Until: "never"}}},
		"mute":    {AcceptHang: []Target{{}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := New(Options{Faults: f})
			r := listen(t, s)
			result := sendAside(t, soon(t), client(t, r.URL(), ClientOptions{}), attempt("n", "7"))
			await(t, s, held("n", 1))
			if err := r.Close(soon(t)); err != nil {
				t.Error(err)
			}
			if got := <-result; got.Answer != notify.Unknown || !strings.HasPrefix(got.Reason, "no answer, ") {
				t.Errorf("got %+v, want unknown", got)
			}
			want := 0
			if name == "mute" {
				want = 1
			}
			if s.Accepted("n", notify.Push) != want || s.Held("n", notify.Push) != 0 {
				t.Errorf("ledger: %+v", s.Calls())
			}
		})
	}
}
