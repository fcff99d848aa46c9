package scenario

import (
	"context"
	"fmt"

	"notifylab/internal/event"
)

func twoCursors() Scenario {
	return Scenario{
		Name: "two-cursors", Outcome: Once, Next: "partitions",
		Tags:  []string{"log"},
		Title: "a log: reading moves a cursor and takes nothing out",
		Shows: "one log, a cursor each; a late one starts at the first",
		Help: `The events are appended to a log, a RabbitMQ stream, and stay there. Each reaction has a
group with a cursor of its own: notify is at offset 6 while delete-pass, which was away,
is at 4; it comes back and goes on at 5. A third reaction, email, is thought of only when
all is over. It starts at the first offset and gets everything, which no queue could do.

What to look for
  READ P0@0 three times, once for each group, and never a second time by the same. The
  log holds as much after all that as before. (redelivered) never appears: a stream does
  not know who has read what, the cursors do.` + inProduction,
		ByHand: `  notifylab expire --log --count 5                        # one terminal
  notifylab reader n1 --group notify                      # another
  notifylab reader d1 --group delete-pass                 # a third; Ctrl-C it
  notifylab expire --log --count 2 && notifylab groups    # notify has no lag, delete-pass has
  notifylab reader e1 --group email                       # late, and it gets all seven`,
		play:  onPasses(playTwoCursors),
		judge: judgeTwoCursors,
	}
}

// Events before delete-pass goes away, and in all.
const (
	cursorFirst = 5
	cursorAll   = 7
)

func playTwoCursors(ctx context.Context, s *passStage) error {
	if err := s.layLog(ctx, 1); err != nil {
		return err
	}
	if _, err := s.reader(ctx, "n1", reactNotify); err != nil {
		return err
	}
	away, err := s.reader(ctx, "d1", reactDelete)
	if err != nil {
		return err
	}
	first := s.expire(cursorFirst)
	if err := s.append(ctx, first...); err != nil {
		return err
	}
	if err := s.committed(ctx, reactDelete, first...); err != nil {
		return err
	}
	if err := away.Stop(ctx); err != nil {
		return err
	}
	rest := s.expire(cursorAll - cursorFirst)
	if err := s.append(ctx, rest...); err != nil {
		return err
	}
	if err := s.committed(ctx, reactNotify, append(first, rest...)...); err != nil {
		return err
	}
	at, err := s.cursors(ctx)
	if err != nil {
		return err
	}
	for _, group := range []string{reactNotify, reactDelete} {
		s.tell(event.Event{Membership: event.Membership{Group: group}, Position: &event.Position{Offset: at[group][0]},
			Reason: fmt.Sprintf("%s is at %d", group, at[group][0])})
	}
	if _, err := s.reader(ctx, "d2", reactDelete); err != nil {
		return err
	}
	if err := s.committed(ctx, reactDelete, rest...); err != nil {
		return err
	}
	before, err := s.contents(ctx)
	if err != nil {
		return err
	}
	s.tell(event.Event{Messages: len(before[0]), Reason: fmt.Sprintf("both have read it all, and the log holds %d. A third reaction comes late", len(before[0]))})
	if _, err := s.reader(ctx, "e1", reactEmail); err != nil {
		return err
	}
	return s.committed(ctx, reactEmail, append(first, rest...)...)
}

func judgeTwoCursors(_ cast, r *Record) Verdict {
	p := &r.Passes
	all := p.ids(1, cursorAll)
	findings := []Finding{
		r.eachTold("notify", all, told, 1),
		r.eachTold("email, which came late", all, "email", 1),
		r.eachSaid("delete-pass", "", event.Deleted, all, 1),
		r.passesLeft("in the end", all, nil),
		r.cursorNoted(reactNotify, cursorAll-1),
		r.cursorNoted(reactDelete, cursorFirst-1),
	}
	for _, group := range []string{reactNotify, reactDelete, reactEmail} {
		findings = append(findings, r.readInOrder(group, 0, all), r.cursor(group, 0, cursorAll-1))
	}
	findings = append(findings, r.logBefore(cursorAll), r.logHolds(all))
	return judgedPasses(r, all, findings...).as(Once, "read by three groups, each with a cursor of its own, from one copy that stays")
}

// cursorNoted checks where a group was in the middle of the run.
func (r *Record) cursorNoted(group string, want int64) Finding {
	f := Finding{What: group + ", in the middle", Want: fmt.Sprintf("at %d", want), Got: "never looked at"}
	for _, e := range r.Events {
		if e.Kind == event.Note && e.Source == source && e.Group == group && e.Position != nil {
			f.Got = fmt.Sprintf("at %d", e.Offset)
		}
	}
	f.OK = f.Got == f.Want
	return f
}

// cursor checks where a group is in the end.
func (r *Record) cursor(group string, partition int, want int64) Finding {
	f := Finding{What: fmt.Sprintf("cursor of %s, P%d", group, partition), Want: fmt.Sprint(want), Got: "none"}
	if got, ever := r.Passes.Cursors[group][partition]; ever {
		f.Got = fmt.Sprint(got)
	}
	f.OK = f.Got == f.Want
	return f
}

// logBefore checks how many records there were before the last reading.
func (r *Record) logBefore(want int) Finding {
	f := Finding{What: "the log, before the third", Want: quantity(want, "records"), Got: "never looked at"}
	for _, e := range r.Events {
		if e.Kind == event.Note && e.Source == source && e.Messages > 0 && e.Group == "" {
			f.Got = quantity(e.Messages, "records")
		}
	}
	f.OK = f.Got == f.Want
	return f
}
