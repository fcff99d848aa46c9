package scenario

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"notifylab/internal/event"
	"notifylab/internal/worker"
)

// rows are the settings by the names that the matrix has for them, and one that it
// leaves out.
func rows() map[string]event.Settings {
	all := map[string]event.Settings{"record+key": {Idempotency: true, ProviderKey: true}}
	for _, s := range NamedSettings() {
		all[s.Name] = s.Settings
	}
	return all
}

// TestPredict_is_the_matrix compares every cell with the table by which the protocol
// was agreed upon. Of its rows for the provider's key the cell with two values is one
// in each here. Two cells differ from it, by what was found out since:
//
//	lease, before-send, stop      1, and not 1 or 2: the deadline of a send is made from what is left of the
//	                              lease when it begins, and whoever wakes when another could claim has none left
//	ack-early, mid-send, stop     1 or 2, and not 1: the send has timed out while its worker was stopped, so
//	                              unless the answer is read all the same it is unknown, and tried again
func TestPredict_is_the_matrix(t *testing.T) {
	t.Parallel()
	const table = `
	                  after-receive after-claim before-send mid-send after-send before-ack after-ack before-copy after-copy
	ack-early   kill  0_lost        –           0_lost      1        1          –          –         –           –
	ack-early   stop  1_late        –           1_late      1_or_2   1          –          –         –           –
	none        kill  1             –           1           2        2          2          1         parked      parked
	none        stop  2             –           2           2        2          2          1         parked      parked
	record      kill  1             0_lost      0_lost      1        1          1          1         parked      parked
	record      stop  1             1_late      1_late      1        1          1          1         parked      parked
	lease       kill  1             1           1           2        2          1          1         parked      parked
	lease       stop  1             1           1           2        2          1          1         parked      parked
	lease       twins –             1           –           1        –          –          –         –           –
	key         kill  1             –           1           1        1          1          1         parked      parked
	key         stop  1             –           1           1        1          1          1         parked      parked
	lease+key   kill  1             1           1           1        1          1          1         parked      parked
	lease+key   stop  1             1           1           1        1          1          1         parked      parked
	record+key  kill  1             0_lost      0_lost      1        1          1          1         parked      parked
	record+key  stop  1             1_late      1_late      1        1          1          1         parked      parked`

	lines := strings.Split(strings.TrimPrefix(table, "\n"), "\n")
	points := strings.Fields(lines[0])
	predicted := 0
	for _, line := range lines[1:] {
		cells := strings.Fields(line)
		for i, want := range cells[2:] {
			p, err := Predict(rows()[cells[0]], worker.Point(points[i]), Fault(cells[1]))
			got := strings.ReplaceAll(p.String(), " ", "_")
			if err != nil {
				got = "–"
			} else {
				predicted++
			}
			if got != want {
				t.Errorf("%s, %s, %s: predicted %s, want %s", cells[0], points[i], cells[1], got, want)
			}
		}
	}
	all := 0 // that there are, so that the table lacks none
	for _, s := range rows() {
		for _, p := range worker.Points() {
			for _, f := range Faults() {
				if _, err := Predict(s, p, f); err == nil {
					all++
				}
			}
		}
	}
	if predicted != all {
		t.Errorf("%d cells in the table, of %d", predicted, all)
	}
}

func TestPredict_agrees_with_itself(t *testing.T) {
	t.Parallel()
	settings := allSettings()
	settings = append(settings, event.Settings{Ack: "early"}, event.Settings{Ack: "early", Idempotency: true, ClaimLease: true, ProviderKey: true})
	for _, s := range settings {
		for _, point := range worker.Points() {
			for _, fault := range Faults() {
				if p, err := Predict(s, point, fault); err == nil {
					consistent(t, fmt.Sprintf("%+v, %s, %s", s, point, fault), s, point, fault, p)
				}
			}
		}
	}
}

func consistent(t *testing.T, name string, s event.Settings, point worker.Point, fault Fault, p Prediction) {
	t.Helper()
	if p.Outcome != outcome(p.Accepted, aroundCopy(point), false) {
		t.Errorf("%s: %s, and %d accepted", name, p.Outcome, p.Accepted)
	}
	if s.ProviderKey && s.Ack == "" && p.Accepted > 1 {
		t.Errorf("%s: %d accepted, although the provider knows the key", name, p.Accepted)
	}
	if s.Idempotency && s.ClaimLease && s.Ack == "" && p.Outcome == Lost {
		t.Errorf("%s: lost, although there is a lease", name)
	}
	at := event.Stopped
	if fault == Kill {
		at = event.Crash
	}
	i := slices.Index(p.Lines, at)
	if p.Why == "" || i < 0 {
		t.Errorf("%s: no reason or no %s: %+v", name, at, p)
	}
	if redelivered := s.Ack == "" && point != worker.AfterAck && !(fault == Twins && point == worker.AfterClaim); p.Redelivered != redelivered {
		t.Errorf("%s: redelivered %v", name, p.Redelivered)
	}
	after := p.Lines[i+1:]
	if fault == Stop && !aroundCopy(point) {
		woke := slices.Index(after, event.Woke)
		if woke < 0 {
			t.Fatalf("%s: never woke: %v", name, p.Lines)
		}
		after = after[:woke]
	}
	if fault != Twins && p.Redelivered != (len(after) > 0) {
		t.Errorf("%s: redelivered %v, and then the workers say %v", name, p.Redelivered, after)
	}
	if p.Late && (fault != Stop || p.Redelivered && slices.Contains(after, event.Sent)) {
		t.Errorf("%s: late, and yet sent before it woke: %+v", name, p)
	}
}

// TestPredict_late: what is accepted late, when the worker wakes, is lost when it is
// killed there instead.
func TestPredict_late(t *testing.T) {
	t.Parallel()
	for name, s := range rows() {
		for _, point := range worker.Points() {
			killed, err := Predict(s, point, Kill)
			if err != nil {
				continue
			}
			stopped, err := Predict(s, point, Stop)
			if err != nil || (killed.Outcome == Lost) != stopped.Late {
				t.Errorf("%s, %s: killed %s, stopped %s, %v", name, point, killed, stopped, err)
			}
		}
	}
}

func TestPredict_refuses_what_never_comes_there(t *testing.T) {
	t.Parallel()
	for _, fault := range Faults() {
		// A lease without a record is nothing, so there is no claim either.
		if p, err := Predict(event.Settings{ClaimLease: true}, worker.AfterClaim, fault); err == nil {
			t.Errorf("claim-lease alone, after-claim, %s: %+v", fault, p)
		}
	}
}

// TestPredict_whole compares everything that is predicted of the lessons' cells.
func TestPredict_whole(t *testing.T) {
	t.Parallel()
	cases := []struct {
		row   string
		point worker.Point
		fault Fault
		want  Prediction
	}{
		{"none", worker.BeforeAck, Kill, Prediction{
			Accepted: 2, Outcome: Twice, Redelivered: true, Record: NoRecord,
			Lines: []event.Kind{event.Sent, event.Crash, event.Received, event.Sent},
			Why:   "sent, not acked, redelivered and sent again: nothing remembered it",
		}},
		{"record", worker.BeforeAck, Kill, Prediction{
			Accepted: 1, Outcome: Once, Redelivered: true, Record: Claimed,
			Lines: []event.Kind{event.Sent, event.Crash, event.DuplicateDropped},
			Why:   "sent before the crash, and the redelivery found its record and was dropped",
		}},
		{"record", worker.AfterClaim, Kill, Prediction{
			Accepted: 0, Outcome: Lost, Redelivered: true, Record: Claimed,
			Lines: []event.Kind{event.Crash, event.DuplicateDropped},
			Why:   "claimed, never sent, then dropped as a duplicate",
		}},
		{"lease", worker.AfterClaim, Kill, Prediction{
			Accepted: 1, Outcome: Once, Redelivered: true, Record: Done,
			Lines: []event.Kind{event.Claimed, event.Crash, event.ClaimRecovered, event.Sent, event.Done},
			Why:   "the claim was pending, its owner dead: recovered, sent once",
		}},
		{"lease", worker.MidSend, Kill, Prediction{
			Accepted: 2, Outcome: Twice, Redelivered: true, Record: Done,
			Lines: []event.Kind{event.Claimed, event.Crash, event.ClaimRecovered, event.Sent, event.Done},
			Why:   "sent, not yet done, redelivered and sent again: no lease closes this window",
		}},
		{"lease", worker.BeforeAck, Kill, Prediction{
			Accepted: 1, Outcome: Once, Redelivered: true, Record: Done,
			Lines: []event.Kind{event.Claimed, event.Sent, event.Done, event.Crash, event.DuplicateDropped},
			Why:   "sent and done before the crash, so the redelivery was dropped",
		}},
		{"none", worker.AfterAck, Kill, Prediction{
			Accepted: 1, Outcome: Once, Redelivered: false, Record: NoRecord,
			Lines: []event.Kind{event.Sent, event.Crash},
			Why:   "acked before the crash: nothing was redelivered",
		}},
		{"ack-early", worker.AfterSend, Kill, Prediction{
			Accepted: 1, Outcome: Once, Redelivered: false, Record: NoRecord,
			Lines: []event.Kind{event.Sent, event.Crash},
			Why:   "acked early, and the crash came after the acceptance",
		}},
		{"record", worker.AfterClaim, Stop, Prediction{
			Accepted: 1, Outcome: Once, Late: true, Redelivered: true, Record: Claimed,
			Lines: []event.Kind{event.Stopped, event.DuplicateDropped, event.Woke, event.Sent},
			Why:   "dropped as a duplicate while it was stopped, so the broker had forgotten it; it woke and sent it",
		}},
		{"lease", worker.AfterClaim, Stop, Prediction{
			Accepted: 1, Outcome: Once, Redelivered: true, Record: Done,
			Lines: []event.Kind{event.Claimed, event.Stopped, event.LeaseBusy, event.Claimed, event.Sent, event.Done, event.Woke, event.LeaseLost},
			Why:   "the lease ended while it was stopped, so another sent it; it woke, saw that by the clock, and did not send",
		}},
		{"lease", worker.MidSend, Stop, Prediction{
			Accepted: 2, Outcome: Twice, Redelivered: true, Record: Done,
			Lines: []event.Kind{event.Claimed, event.Stopped, event.LeaseBusy, event.Claimed, event.Sent, event.Done, event.Woke, event.LeaseLost},
			Why:   "accepted, not yet done, and the lease ended while it was stopped: sent again, and no lease closes this window",
		}},
		{"lease+key", worker.MidSend, Stop, Prediction{
			Accepted: 1, Outcome: Once, Redelivered: true, Record: Done,
			Lines: []event.Kind{event.Claimed, event.Stopped, event.LeaseBusy, event.Claimed, event.Sent, event.Done, event.Woke, event.LeaseLost},
			Why:   "both sent, and the provider knew the second by its key",
		}},
		{"none", worker.AfterReceive, Stop, Prediction{
			Accepted: 2, Outcome: Twice, Redelivered: true, Record: NoRecord,
			Lines: []event.Kind{event.Stopped, event.Received, event.Sent, event.Woke, event.Sent},
			Why:   "redelivered and sent while it was stopped; then it woke and sent, and nothing stopped it",
		}},
		{"lease", worker.AfterCopy, Kill, Prediction{
			Outcome: Parked, Redelivered: true, Record: NoRecord,
			Lines: []event.Kind{event.Retry, event.Crash, event.Retry, event.DeadLetter},
			Why:   "a copy is confirmed before its original is acked: two, never none",
		}},
	}
	for _, c := range cases {
		got, err := Predict(rows()[c.row], c.point, c.fault)
		if err != nil {
			t.Errorf("%s, %s: %v", c.row, c.point, err)
		}
		same(t, c.row+", "+string(c.point), got, c.want)
	}
}
