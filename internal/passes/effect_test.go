package passes

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"notifylab/internal/event"
	"notifylab/internal/notify"
)

func aPass(n string) Expired {
	return Expired{ID: "e" + n, Pass: "pass-" + n, User: n, Text: "your pass has expired"}
}

// The register knows whose pass it is until it is deleted, and deleting again is no
// error.
func TestRegister(t *testing.T) {
	t.Parallel()
	p := newRedis(t, 1)
	r := NewRegister(p.client, p.log.Namespace, time.Hour)
	if _, there, err := r.Fetch(soon(t), "pass-1"); there || err != nil {
		t.Errorf("before: %v, %v", there, err)
	}
	if err := errors.Join(r.Issue(soon(t), aPass("1"), aPass("2")), r.Issue(soon(t))); err != nil {
		t.Fatal(err)
	}
	if user, there, err := r.Fetch(soon(t), "pass-1"); user != "1" || !there || err != nil {
		t.Errorf("issued: %q, %v, %v", user, there, err)
	}
	for _, want := range []bool{true, false, false} {
		if got, err := r.Delete(soon(t), "pass-1"); got != want || err != nil {
			t.Errorf("delete: %v, %v, want %v", got, err, want)
		}
	}
	if all, err := r.All(soon(t)); !maps.Equal(all, map[string]string{"pass-2": "2"}) || err != nil {
		t.Errorf("in the end: %v, %v", all, err)
	}
}

// answers sends nothing and gives these answers, one after the other.
type answers []notify.Answer

func (a *answers) Send(context.Context, notify.Attempt) notify.Result {
	first := (*a)[0]
	*a = (*a)[1:]
	return notify.Result{Answer: first, Reason: first.String()}
}

// A caller does one thing after the other, and nothing behind the one that fails.
func TestCaller(t *testing.T) {
	t.Parallel()
	p := newRedis(t, 1)
	r := NewRegister(p.client, p.log.Namespace, time.Hour)
	if err := r.Issue(soon(t), aPass("1"), aPass("2")); err != nil {
		t.Fatal(err)
	}
	var said []event.Event
	c := &Caller{
		Register: r, Name: "caller", Emit: func(e event.Event) { said = append(said, e) },
		Effects: []Effect{Telling(&answers{notify.RefusedForNow, notify.Accepted}, notify.Push, limit), Deletion(r)},
	}
	for _, tt := range []struct {
		pass  string
		fails bool
		said  string
		left  int
	}{
		{"1", true, "fetched failed", 2}, // it is still there
		{"2", false, "fetched sent deleted", 1},
		{"3", true, "failed", 1}, // there is none
	} {
		said = nil
		err := c.Expire(soon(t), aPass(tt.pass))
		all, _ := r.All(soon(t))
		if (err != nil) != tt.fails || kinds(said) != tt.said || len(all) != tt.left {
			t.Errorf("%s: %v, %s, left %v", tt.pass, err, kinds(said), all)
		}
		for _, e := range said {
			if e.Source != "caller" || e.Pass != "pass-"+tt.pass || e.PID == 0 || e.Time.IsZero() {
				t.Errorf("%+v", e)
			}
		}
	}
}

func TestReactionPoints_are_not_a_members(t *testing.T) {
	t.Parallel()
	for _, p := range ReactionPoints() {
		if slices.Contains(Points(), p) {
			t.Errorf("%s is a member's", p)
		}
	}
}
