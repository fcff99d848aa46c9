package scenario

import (
	"encoding/json"
	"testing"
	"time"

	"notifylab/internal/event"
)

// TestVerdict_JSON is what programs read: all of it is always there.
func TestVerdict_JSON(t *testing.T) {
	t.Parallel()
	s := specimens()["crash-claim"]
	held := named(t, "crash-claim").judge(s.cast, s.record)
	held.Findings = held.Findings[:2]
	held.Scenario, held.Settings, held.Namespace, held.Seed = "crash-claim", s.settings, "k7f3", 41
	held.RabbitMQ, held.Redis = "3.10.8", "7.0.15"
	held.Findings = append(held.Findings, Finding{What: "notify.push", Want: "0 messages", Got: "0 messages", OK: true})
	cases := []struct {
		name    string
		verdict Verdict
		want    string
	}{
		{"held", held, `{"kind":"verdict","scenario":"crash-claim","status":"held","outcome":"lost","accepted":0,` +
			`"outcomes":[{"id":"k7f3-1","channel":"push","accepted":0,"outcome":"lost"},{"id":"k7f3-2","channel":"push","accepted":1,"outcome":"once"}],` +
			`"findings":[{"what":"provider, k7f3-1","want":"0 accepted","got":"0 accepted","ok":true,"ids":["k7f3-1"]},` +
			`{"what":"provider, the one behind it","want":"1 accepted","got":"1 accepted","ok":true,"ids":["k7f3-2"]},` +
			`{"what":"notify.push","want":"0 messages","got":"0 messages","ok":true,"ids":[]}],` +
			`"settings":{"idempotency":true,"claimLease":false,"providerKey":false},"namespace":"k7f3","seed":41,` +
			`"rabbitmq":"3.10.8","redis":"7.0.15","elapsed_ms":2000}`},
		{"inconclusive", inconclusive([]event.Event{said(one(), push, event.Received)}, 1500*time.Millisecond, "why"), `{"kind":"verdict","scenario":"","status":"inconclusive","outcome":"","accepted":0,` +
			`"outcomes":[],"findings":[{"what":"the play","want":"comes to its end","got":"why","ok":false,"ids":[]}],"settings":{"idempotency":false,"claimLease":false,"providerKey":false},"namespace":"","seed":0,` +
			`"rabbitmq":"","redis":"","elapsed_ms":1500}`},
	}
	for _, c := range cases {
		got, err := json.Marshal(c.verdict)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
	if held.Findings[2].IDs != nil {
		t.Error("marshalling has changed the verdict")
	}
}

func TestVerdict_of_several(t *testing.T) {
	t.Parallel()
	fates := []Fate{{"a", push, 1, Once}, {"b", push, 2, Twice}, {"c", push, 0, Parked}}
	v := judged(&Record{}, []Finding{{OK: true}, {OK: false}, {OK: true}}, fates)
	if v.Status != NotHeld || v.Outcome != Twice || v.Accepted != 3 {
		t.Errorf("%s, %s, %d: want not held, the worst, the sum", v.Status, v.Outcome, v.Accepted)
	}
	if v = v.about("c"); v.Outcome != Parked || v.Accepted != 0 || v.Victim != "c" {
		t.Errorf("%s, %d, %s: want the victim's", v.Outcome, v.Accepted, v.Victim)
	}
	for want, fates := range map[Outcome][]Fate{
		"": nil, Lost: {{Outcome: Unknown}, {Outcome: Lost}, {Outcome: Twice}}, Unknown: {{Outcome: Twice}, {Outcome: Unknown}}, Parked: {{Outcome: Once}, {Outcome: Parked}},
	} {
		if got := worst(fates); got != want {
			t.Errorf("worst of %v: %q, want %q", fates, got, want)
		}
	}
}
