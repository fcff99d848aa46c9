package api

import (
	"strings"
	"testing"
	"time"

	"notifylab/internal/idem"
	"notifylab/internal/notify"
)

// What is known of a notification, by whatever can be known of it. (emqx/emqx#1234)
func TestNotification(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	is := func(id string, channels object) {
		t.Helper()
		r.want(r.ask("GET", "/api/notifications/"+id, ""), 200, object{"id": id, "channels": channels})
	}
	r.park(note("refused"), note("crashed"), note("sent-before"))
	r.want(r.ask("POST", "/api/notify", `{"id":"n"}`), 202)
	is("n", object{"push": "queued", "email": "queued"})
	is("refused", object{"push": "parked"})
	for _, state := range []idem.State{idem.Pending, idem.Claimed, idem.Done} {
		r.record(note("n"), state)
		is("n", object{"push": string(state), "email": "queued"})
	}
	r.record(note("crashed"), idem.Claimed) // what is parked as crashed keeps its record
	is("crashed", object{"push": "parked"})
	r.record(note("sent-before"), idem.Done)
	is("sent-before", object{"push": "done"})
	for _, id := range []string{"nobody", "n:push", "*", "refuse", strings.Repeat("x", 200), "%00"} {
		r.want(r.ask("GET", "/api/notifications/"+id, ""), 404)
	}
	r.want(r.ask("GET", "/api/notifications/n?channel=push", ""), 400)
}

// While somebody keeps us from looking among the dead letters, only what is written
// down is known. However many ask, they share two looks.
func TestNotification_DeadLettersTaken(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.park(note("parked"))
	r.want(r.ask("POST", "/api/notify", `{"id":"n"}`), 202)
	r.record(note("done"), idem.Done)
	turn, err := r.dial().DeadLetters(soon(t), r.names(), notify.Push)
	if err != nil {
		t.Fatal(err)
	}
	r.within(16*time.Second, func() {
		var done []chan reply
		for _, id := range []string{"n", "done", "parked"} {
			c := make(chan reply, 1)
			done = append(done, c)
			go func() {
				got, err := r.try("GET", "/api/notifications/"+id, "")
				if err != nil {
					t.Error(err)
				}
				c <- got
			}()
		}
		r.want(<-done[0], 200, object{"id": "n", "channels": object{"push": "unknown", "email": "queued"}})
		r.want(<-done[1], 200, object{"id": "done", "channels": object{"push": "done"}})
		r.want(<-done[2], 503)
	})
	if err := turn.Close(); err != nil {
		t.Fatal(err)
	}
	r.within(limit/2, func() {
		got := make(chan reply)
		for range 100 {
			go func() {
				a, err := r.try("GET", "/api/notifications/parked", "")
				if err != nil {
					t.Error(err)
				}
				got <- a
			}()
		}
		for range 100 {
			if a := <-got; a.status != 200 || !strings.Contains(a.text, `"push":"parked"`) {
				t.Error(a.status, a.text)
			}
		}
	})
}
