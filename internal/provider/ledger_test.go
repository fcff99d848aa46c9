package provider

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"notifylab/internal/event"
	"notifylab/internal/notify"
)

func call(id, user, key string) Call {
	return Call{ID: id, Channel: notify.Push, User: user, Key: key, Status: 200}
}

func TestLedger_says_what_each_acceptance_was(t *testing.T) {
	t.Parallel()
	email := call("a", "7", "")
	email.Channel = notify.Email
	for _, tc := range []struct {
		name  string
		calls []Call
		want  []event.Kind
	}{
		{"the second of the same is again", []Call{call("a", "7", ""), call("a", "7", "")},
			[]event.Kind{event.Accepted, event.AcceptedAgain}},
		{"another id is not the same", []Call{call("a", "7", ""), call("b", "7", "")},
			[]event.Kind{event.Accepted, event.Accepted}},
		{"another user is not the same", []Call{call("a", "7", ""), call("a", "8", "")},
			[]event.Kind{event.Accepted, event.Accepted}},
		{"another channel is not the same", []Call{call("a", "7", ""), email},
			[]event.Kind{event.Accepted, event.Accepted}},
		{"a key is recognised", []Call{call("a", "7", "k"), call("a", "7", "k"), call("a", "7", "k")},
			[]event.Kind{event.Accepted, event.Deduplicated, event.Deduplicated}},
		{"a key that came later can't be", []Call{call("a", "7", ""), call("a", "7", "k"), call("a", "7", "k")},
			[]event.Kind{event.Accepted, event.AcceptedAgain, event.Deduplicated}},
		{"a key that is left out can't be", []Call{call("a", "7", "k"), call("a", "7", "")},
			[]event.Kind{event.Accepted, event.AcceptedAgain}},
		{"another key is another", []Call{call("a", "7", "k"), call("a", "7", "l")},
			[]event.Kind{event.Accepted, event.AcceptedAgain}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			l := newLedger(nil)
			for _, c := range tc.calls {
				l.accept(c)
			}
			var got []event.Kind
			for _, c := range l.Calls() {
				got = append(got, c.Kind)
			}
			if fmt.Sprint(got) != fmt.Sprint(tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestLedger_a_refused_key_is_not_known(t *testing.T) {
	t.Parallel()
	l := newLedger(nil)
	l.refuse(call("a", "7", "k"))
	l.accept(call("a", "7", "k"))
	if l.Accepted("a", notify.Push) != 1 || l.Refused("a", notify.Push) != 1 || l.Deduplicated("a", notify.Push) != 0 {
		t.Errorf("%+v", l.Calls())
	}
}

// A brief ledger counts as any other, and keeps no call.
func TestServer_brief(t *testing.T) {
	t.Parallel()
	var told []event.Event
	s := New(Options{Brief: true, Emit: func(e event.Event) { told = append(told, e) }})
	for range 3 {
		s.accept(call("a", "7", ""))
	}
	s.accept(call("b", "7", "k"))
	s.accept(call("b", "7", "k"))
	if n := len(s.Calls()); n != 0 {
		t.Errorf("it keeps %d calls", n)
	}
	if s.Len() != 5 || s.Accepted("a", notify.Push) != 3 || s.Count(event.AcceptedAgain) != 2 || s.Deduplicated("b", notify.Push) != 1 || len(told) != 5 {
		t.Errorf("%d calls, %d accepted, %d again, %d known, %d told", s.Len(), s.Accepted("a", notify.Push), s.Count(event.AcceptedAgain), s.Deduplicated("b", notify.Push), len(told))
	}
}

// Many write, many ask and wait; counts, calls and events must agree.
func TestLedger_is_whole_under_load(t *testing.T) {
	t.Parallel()
	const writers, each, ids = 16, 500, 40
	var told []event.Event // without a lock: Emit is called one at a time
	l := newLedger(func(e event.Event) { told = append(told, e) })
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range each {
				c := call(fmt.Sprint("n-", i%ids), "7", "")
				switch {
				case w == 0:
					l.refuse(c)
				case w%2 == 0:
					c.Key = c.ID
					fallthrough
				default:
					l.accept(c)
				}
			}
		})
	}
	for range 4 {
		all.Go(func() {
			if err := l.Await(soon(t), func(l *Ledger) bool { return l.Len() == writers*each }); err != nil {
				t.Error(err)
			}
		})
		all.Go(func() {
			// One that lags behind sees a whole beginning of the list.
			for seen := 0; seen < writers*each; {
				calls := l.Calls()
				if len(calls) < seen {
					t.Errorf("the ledger shrank from %d to %d", seen, len(calls))
				}
				seen = len(calls)
			}
		})
	}
	all.Wait()

	calls := l.Calls()
	kinds, accepted := map[event.Kind]int{}, map[string]int{}
	for i, c := range calls {
		kinds[c.Kind]++
		if c.Kind == event.Accepted || c.Kind == event.AcceptedAgain {
			accepted[c.ID]++
		}
		if i > 0 && c.Time.Before(calls[i-1].Time) {
			t.Fatalf("call %d is older than the one before", i)
		}
		if e := told[i]; e.Kind != c.Kind || e.ID != c.ID || !e.Time.Equal(c.Time) || e.Source != "provider" {
			t.Fatalf("event %d is %+v, of the call %+v", i, e, c)
		}
	}
	if len(calls) != writers*each || len(told) != len(calls) || l.Len() != len(calls) {
		t.Errorf("%d calls, %d events, length %d, want %d", len(calls), len(told), l.Len(), writers*each)
	}
	if kinds[event.Accepted] != ids || kinds[event.Refused] != each {
		t.Errorf("kinds %v, want %d accepted and %d refused", kinds, ids, each)
	}
	for k, n := range kinds {
		if l.Count(k) != n {
			t.Errorf("counted %d %s, there are %d", l.Count(k), k, n)
		}
	}
	for id, n := range accepted {
		if got := l.Accepted(id, notify.Push); got != n {
			t.Errorf("%s: counted %d accepted, there are %d", id, got, n)
		}
	}
}

func TestLedger_Await(t *testing.T) {
	t.Parallel()
	t.Run("returns at once for what is true already", func(t *testing.T) {
		t.Parallel()
		over, cancel := context.WithCancel(context.Background())
		cancel()
		if err := newLedger(nil).Await(over, func(*Ledger) bool { return true }); err != nil {
			t.Error(err)
		}
	})
	t.Run("says why it gave up", func(t *testing.T) {
		t.Parallel()
		why := errors.New("the worker died")
		ctx, cancel := context.WithCancelCause(soon(t))
		l := newLedger(nil)
		l.accept(call("a", "7", ""))
		err := l.Await(ctx, func(*Ledger) bool { cancel(why); return false })
		if !errors.Is(err, why) || !strings.Contains(err.Error(), "1 calls") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("misses nothing that happens while it looks", func(t *testing.T) {
		t.Parallel()
		l := newLedger(nil)
		err := l.Await(soon(t), func(l *Ledger) bool {
			n := l.Len()
			if n < 5 {
				l.accept(call(fmt.Sprint(n), "7", "")) // after the look, before the wait
			}
			return n == 5
		})
		if err != nil {
			t.Error(err)
		}
	})
}

func BenchmarkLedger_with_a_waiter(b *testing.B) {
	l := newLedger(func(event.Event) {})
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	var waiter sync.WaitGroup
	waiter.Go(func() { _ = l.Await(ctx, func(l *Ledger) bool { return l.Count(event.Refused) > 0 }) })
	for i := 0; b.Loop(); i++ {
		l.accept(call(fmt.Sprint(i), "7", fmt.Sprint("k", i)))
	}
	cancel()
	waiter.Wait()
}
