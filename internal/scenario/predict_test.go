package scenario

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"notifylab/internal/event"
	"notifylab/internal/worker"
)

// rows are the settings by the names that the matrix has for them.
func rows() map[string]event.Settings {
	return map[string]event.Settings{
		"ack-early":  {Ack: "early"},
		"none":       {},
		"record":     {Idempotency: true},
		"lease":      {Idempotency: true, ClaimLease: true},
		"key":        {ProviderKey: true},
		"lease+key":  {Idempotency: true, ClaimLease: true, ProviderKey: true},
		"record+key": {Idempotency: true, ProviderKey: true},
	}
}

// TestPredict_is_the_matrix compares every cell of kill with the table by which the
// protocol was agreed upon. Of its two rows for the provider's key the cell with two
// values is one in each here.
func TestPredict_is_the_matrix(t *testing.T) {
	t.Parallel()
	const table = `
	            after-receive after-claim before-send mid-send after-send before-ack after-ack
	ack-early   0             –           0           1        1          –          –
	none        1             –           1           2        2          2          1
	record      1             0           0           1        1          1          1
	lease       1             1           1           2        2          1          1
	key         1             –           1           1        1          1          1
	lease+key   1             1           1           1        1          1          1
	record+key  1             0           0           1        1          1          1`

	lines := strings.Split(strings.TrimPrefix(table, "\n"), "\n")
	points := strings.Fields(lines[0])
	for _, line := range lines[1:] {
		cells := strings.Fields(line)
		settings := rows()[cells[0]]
		for i, want := range cells[1:] {
			p, err := Predict(settings, worker.Point(points[i]))
			got := fmt.Sprint(p.Accepted)
			if err != nil {
				got = "–"
			}
			if got != want {
				t.Errorf("%s, %s: predicted %s, want %s", cells[0], points[i], got, want)
			}
		}
	}
}

func TestPredict_agrees_with_itself(t *testing.T) {
	t.Parallel()
	settings := allSettings()
	settings = append(settings, event.Settings{Ack: "early"}, event.Settings{Ack: "early", Idempotency: true, ClaimLease: true, ProviderKey: true})
	for _, s := range settings {
		for _, point := range worker.Points() {
			p, err := Predict(s, point)
			if err != nil {
				continue
			}
			name := fmt.Sprintf("%+v, %s", s, point)
			if p.Outcome != outcome(p.Accepted, false, false) {
				t.Errorf("%s: %s, and %d accepted", name, p.Outcome, p.Accepted)
			}
			if s.ProviderKey && s.Ack == "" && p.Accepted > 1 {
				t.Errorf("%s: %d accepted, although the provider knows the key", name, p.Accepted)
			}
			if s.Idempotency && s.ClaimLease && s.Ack == "" && p.Accepted < 1 {
				t.Errorf("%s: lost, although there is a lease", name)
			}
			if p.Why == "" || slices.Index(p.Lines, event.Crash) < 0 {
				t.Errorf("%s: no reason or no crash: %+v", name, p)
			}
			if redelivered := s.Ack == "" && point != worker.AfterAck; p.Redelivered != redelivered {
				t.Errorf("%s: redelivered %v", name, p.Redelivered)
			}
			if after := p.Lines[slices.Index(p.Lines, event.Crash)+1:]; p.Redelivered != (len(after) > 0) {
				t.Errorf("%s: redelivered %v, and then the workers say %v", name, p.Redelivered, after)
			}
		}
	}
}

func TestPredict_refuses_what_never_comes_there(t *testing.T) {
	t.Parallel()
	for _, settings := range rows() {
		for _, point := range []worker.Point{worker.BeforeCopy, worker.AfterCopy} {
			if p, err := Predict(settings, point); err == nil {
				t.Errorf("%+v, %s: %+v", settings, point, p)
			}
		}
	}
	// A lease without a record is nothing, so there is no claim either.
	if p, err := Predict(event.Settings{ClaimLease: true}, worker.AfterClaim); err == nil {
		t.Errorf("claim-lease alone, after-claim: %+v", p)
	}
}

// TestPredict_whole compares everything that is predicted of the lessons' cells.
func TestPredict_whole(t *testing.T) {
	t.Parallel()
	cases := []struct {
		row   string
		point worker.Point
		want  Prediction
	}{
		{"none", worker.BeforeAck, Prediction{
			Accepted: 2, Outcome: Twice, Redelivered: true, Record: NoRecord,
			Lines: []event.Kind{event.Sent, event.Crash, event.Received, event.Sent},
			Why:   "sent, not acked, redelivered and sent again: nothing remembered it",
		}},
		{"record", worker.BeforeAck, Prediction{
			Accepted: 1, Outcome: Once, Redelivered: true, Record: Claimed,
			Lines: []event.Kind{event.Sent, event.Crash, event.DuplicateDropped},
			Why:   "sent before the crash, and the redelivery found its record and was dropped",
		}},
		{"record", worker.AfterClaim, Prediction{
			Accepted: 0, Outcome: Lost, Redelivered: true, Record: Claimed,
			Lines: []event.Kind{event.Crash, event.DuplicateDropped},
			Why:   "claimed, never sent, then dropped as a duplicate",
		}},
		{"lease", worker.AfterClaim, Prediction{
			Accepted: 1, Outcome: Once, Redelivered: true, Record: Done,
			Lines: []event.Kind{event.Claimed, event.Crash, event.ClaimRecovered, event.Sent, event.Done},
			Why:   "the claim was pending, its owner dead: recovered, sent once",
		}},
		{"lease", worker.MidSend, Prediction{
			Accepted: 2, Outcome: Twice, Redelivered: true, Record: Done,
			Lines: []event.Kind{event.Claimed, event.Crash, event.ClaimRecovered, event.Sent, event.Done},
			Why:   "sent, not yet done, redelivered and sent again: no lease closes this window",
		}},
		{"lease", worker.BeforeAck, Prediction{
			Accepted: 1, Outcome: Once, Redelivered: true, Record: Done,
			Lines: []event.Kind{event.Claimed, event.Sent, event.Done, event.Crash, event.DuplicateDropped},
			Why:   "sent and done before the crash, so the redelivery was dropped",
		}},
		{"none", worker.AfterAck, Prediction{
			Accepted: 1, Outcome: Once, Redelivered: false, Record: NoRecord,
			Lines: []event.Kind{event.Sent, event.Crash},
			Why:   "acked before the crash: nothing was redelivered",
		}},
		{"ack-early", worker.AfterSend, Prediction{
			Accepted: 1, Outcome: Once, Redelivered: false, Record: NoRecord,
			Lines: []event.Kind{event.Sent, event.Crash},
			Why:   "acked early, and the crash came after the acceptance",
		}},
	}
	for _, c := range cases {
		got, err := Predict(rows()[c.row], c.point)
		if err != nil {
			t.Errorf("%s, %s: %v", c.row, c.point, err)
		}
		same(t, c.row+", "+string(c.point), got, c.want)
	}
}
