package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"strings"

	"notifylab/internal/event"
	"notifylab/internal/notify"
	"notifylab/internal/provider"
)

func replay() Scenario {
	return Scenario{
		Name: "replay", Outcome: Once, Next: "unroutable",
		Tags:     []string{"parked", "duplicate"},
		Title:    "dead letters, a repair, and a replay",
		Shows:    "a dead letter is replayed, sent once; what was sent stays",
		Settings: event.Settings{Idempotency: true, ClaimLease: true},
		Help: `The provider refuses two notifications for good, so both are parked in push.dlq, and no
record of them is left. Then the provider is repaired. Before anybody looks at the dead
letters, the producer publishes one of the two again, and it is sent.

Now notifylab dlq replay push --all. It reads each one's record first. The one without a
record is published, confirmed, and only then taken out of the dead letters, so a kill
leaves it in both places and never in none. The other's record says done: it was sent
after all, so it is reported as already sent, not published, and stays, for somebody to
purge. A record in state claimed (claim-lease off) says that nobody knows: it stays, too.
Without a record (idempotency off) both are published, and one is sent twice.

What to look for
  DEAD-LETTER twice, SENT for the one that is published again; then 1 replayed, 1 already
  sent, and SENT for the one that was replayed.`,
		ByHand: `  notifylab provider --refuse 410                                  # one terminal
  notifylab worker push --idempotency on --claim-lease on --provider-url http://127.0.0.1:3200   # another
  notifylab produce --channel push --id one; notifylab produce --channel push --id two    # a third: DEAD-LETTER, twice
  # now Ctrl-C the provider, and start it without --refuse
  notifylab produce --channel push --id two                        # SENT
  notifylab dlq replay push --all                                  # 1 replayed, 1 already sent`,
		channels: []notify.Channel{notify.Push},
		play:     playReplay,
		judge:    judgeReplay,
	}
}

func playReplay(ctx context.Context, s *stage) error {
	if _, err := s.worker(ctx, notify.Push); err != nil {
		return err
	}
	victim, again := s.notification(1, "7", s.text()), s.notification(2, "8", "published again")
	var f provider.Faults
	for _, n := range []notify.Notification{victim, again} {
		f.Refuse = append(f.Refuse, provider.Refusal{Target: provider.Target{ID: n.ID}, Status: http.StatusGone})
	}
	s.provider.SetFaults(f)
	if err := s.publish(ctx, post{victim, notify.Push, ""}, post{again, notify.Push, ""}); err != nil {
		return err
	}
	for _, n := range s.cast().all {
		if err := s.await(ctx, event.DeadLetter, n.ID, notify.Push); err != nil {
			return err
		}
	}
	s.provider.SetFaults(provider.Faults{}) // the repair
	if err := s.publish(ctx, post{again, notify.Push, ""}); err != nil {
		return err
	}
	if err := s.awaitDelivered(ctx, again, 2); err != nil {
		return err
	}
	s.note(victim, notify.Push, 0, "the provider is repaired, and one was published again; now: notifylab dlq replay push --all")
	sum, err := s.replay(ctx, notify.Push)
	if err != nil {
		return err
	}
	s.note(victim, notify.Push, sum.Replayed, fmt.Sprintf("%d replayed, %d already sent, %d unknown", sum.Replayed, sum.Already, sum.Unknown))
	s.note(again, notify.Push, sum.Already+sum.Unknown, fmt.Sprintf("%d of them not published, since there is a record", sum.Already+sum.Unknown))
	if !s.Settings.Idempotency {
		if err := s.awaitDelivered(ctx, again, 3); err != nil {
			return err
		}
	}
	return s.awaitDelivered(ctx, victim, 2)
}

// awaitDelivered waits until a notification is accepted, and so many of its messages
// are acked.
func (s *stage) awaitDelivered(ctx context.Context, n notify.Notification, messages int) error {
	if err := s.awaitAccepted(ctx, n.ID, notify.Push); err != nil {
		return err
	}
	return s.awaitTimes(ctx, messages, event.Acked, n.ID, notify.Push)
}

// replayed is what notifylab dlq replay says at its end.
type replayed struct {
	Kind     string `json:"kind"`
	Replayed int    `json:"replayed"`
	Already  int    `json:"already_sent"`
	Unknown  int    `json:"unknown"`
}

// replay replays all dead letters of a channel, by the command that people use.
func (s *stage) replay(ctx context.Context, c notify.Channel) (sum replayed, err error) {
	args := append(append([]string(nil), s.Program...), "dlq", "replay", string(c), "--all",
		"--namespace", string(s.Namespace), "--state-dir", s.dir, "-o", "json")
	var out, log bytes.Buffer
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = s.Env, &out, &log
	err = cmd.Run()
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if json.Unmarshal([]byte(lines[len(lines)-1]), &sum) == nil && sum.Kind == "replayed" {
		return sum, nil // its exit status says whether anything is unknown
	}
	return sum, fmt.Errorf("notifylab dlq replay: %w", errors.Join(err, errors.New(strings.TrimSpace(log.String()))))
}

func judgeReplay(c cast, r *Record) Verdict {
	victim, again := subject(c.victim, notify.Push), subject(c.all[1], notify.Push)
	replayed, accepted, stay := 2, accepts(c.settings, 2), 0
	why := "one was parked, replayed, and sent once; the other was sent before, and nothing remembered it"
	if c.settings.Idempotency {
		replayed, accepted, stay = 1, 1, 1
		why = "one was parked, replayed, and sent once; the other's record was read first, so it stayed"
	}
	findings := []Finding{
		r.refusals(c.victim.ID, victim, 1),
		r.accepted(c.victim.ID, victim, 1),
		r.said("worker lines", victim, event.DeadLetter, event.Note, event.Received, event.Sent),
		r.times("worker lines", victim, event.Sent, 1),
		r.noted("replayed", victim, replayed, "messages"),
		r.noted("not published: it has a record", again, stay, "messages"),
		r.refusals("the other", again, 1),
		r.accepted("the other", again, accepted),
		r.record(victim, remembered(c.settings), retention),
		r.ready("push.dlq", stay),
		r.kept(notify.Push, c.all[1:1+stay], [][]byte{notify.Encode(c.all[1])}, "refused, 1 attempt"),
		r.ready("notify.push", 0),
		r.elsewhere("push.dlq", "notify.push"),
	}
	v := judged(r, findings, []Fate{r.fate(c.victim, notify.Push), r.fate(c.all[1], notify.Push)}).about(c.victim.ID)
	v.Want, v.Why = Once, why
	return v
}
