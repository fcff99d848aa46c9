package scenario

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"notifylab/internal/broker"
	"notifylab/internal/event"
	"notifylab/internal/idem"
	"notifylab/internal/notify"
)

// TestMatrix plays some cells of each fault for real, and those without which no
// guard would be seen, with the guard.
func TestMatrix(t *testing.T) {
	t.Parallel()
	names := []string{
		"ack-early/after-receive/kill", "ack-early/mid-send/kill", "none/after-ack/kill", "none/mid-send/kill", "key/after-send/kill", "lease/before-send/kill",
		"ack-early/before-send/stop", "ack-early/mid-send/stop", "none/after-receive/stop", "none/after-ack/stop", "record/after-claim/stop", "lease/after-send/stop", "lease+key/after-send/stop",
		"lease/before-copy/stop", "lease/after-copy/kill", "lease/after-copy/stop",
	}
	for _, g := range Guards() {
		names = append(names, g.Shows...)
	}
	var cells []Cell
	for _, name := range names {
		c, err := FindCell(name)
		if err != nil {
			t.Fatal(err)
		}
		cells = append(cells, c)
	}
	played := play(t, cells, "", 1)
	if len(played) != len(names) {
		t.Errorf("%d results of %d", len(played), len(names))
	}
	for _, r := range played {
		if r.Status != Held || r.Red() || r.Got() != r.Cell.Want.String() && !r.Cell.Want.OrTwice {
			t.Errorf("%s: got %s, want %s: %s", r.Cell, r.Got(), r.Cell.Want, explain(r.Verdict))
		}
		// An answer that nobody reads is what their lines know nothing of.
		if r.Point == "mid-send" && r.Fault == Kill && r.Agree() {
			t.Errorf("%s: the lines agree: %s", r.Cell, explain(r.Verdict))
		}
	}
}

// TestMatrix_full_hands plays cells with workers that have many messages in hand, of
// each kind of prediction for those beside the victim; CI plays all of them so.
func TestMatrix_full_hands(t *testing.T) {
	t.Parallel()
	var cells []Cell
	for _, name := range []string{
		"none/after-ack/kill", "record/before-send/kill", "lease/after-copy/kill",
		"ack-early/before-send/stop", "record/after-claim/stop", "lease/before-copy/stop",
		"lease/after-claim/twins", "lease/mid-send/twins",
	} {
		c, err := FindCell(name)
		if err != nil {
			t.Fatal(err)
		}
		cells = append(cells, c)
	}
	const many = 20
	for _, r := range play(t, cells, "", many) {
		if r.Status != Held || r.Red() {
			t.Errorf("%s: got %s, want %s: %s", r.Cell, r.Got(), r.Cell.Want, explain(r.Verdict))
		}
		beside := map[string]bool{}
		for _, e := range r.Events {
			if strings.Contains(e.ID, "-beside-") && e.Kind == event.Received {
				beside[e.ID] = true
			}
		}
		if len(beside) != many-1 {
			t.Errorf("%s: %d beside it", r.Cell, len(beside))
		}
	}
}

// play plays cells with workers that lack a guard, and sees that nothing is left. A
// server that stalls for longer than a run waits for it is rightly an error of the run,
// and not what the cells are about: then they are played again, in other namespaces.
func play(t *testing.T, cells []Cell, without string, inHand int) []Result {
	t.Helper()
	results, rigs, err := playOnce(t, cells, without, inHand)
	if unanswered(err) {
		t.Logf("played again after: %v", err)
		results, rigs, err = playOnce(t, cells, without, inHand)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rigs {
		r.left(t, nothing)
	}
	return results
}

// unanswered says whether err is that a server did not answer, or a connection's end.
func unanswered(err error) bool {
	var mq *broker.UnreachableError
	var redis *idem.UnreachableError
	var lost *amqp.Error
	return errors.As(err, &mq) || errors.As(err, &redis) || errors.As(err, &lost)
}

func playOnce(t *testing.T, cells []Cell, without string, inHand int) (results []Result, rigs []rig, err error) {
	t.Helper()
	var configs []Config
	for range cells {
		r := newRig(t)
		rigs = append(rigs, r)
		configs = append(configs, r.Config)
	}
	next := make(chan Config, len(cells))
	for _, cfg := range configs {
		cfg.Concurrency = inHand
		right := cfg.Worker
		cfg.Worker = func(c notify.Channel) []string {
			if without == "" {
				return right(c)
			}
			return append(right(c), "--break", without)
		}
		next <- cfg
	}
	err = PlayCells(t.Context(), cells, func(Cell) Config { return <-next }, func(r Result) { results = append(results, r) })
	return results, rigs, err
}

// TestGuards: without each of them every cell that it names turns red, and by the
// ledger.
func TestGuards(t *testing.T) {
	t.Parallel()
	together(t, len(Guards()), Guards(), func(g Guard) string { return g.Name }, func(t *testing.T, g Guard) {
		if len(g.Cells()) != len(g.Shows) {
			t.Fatalf("there are %v of %q", g.Cells(), g.Shows)
		}
		results := play(t, g.Cells(), g.Name, 1)
		for _, r := range results {
			if !r.Red() {
				t.Errorf("%s: got %s, want not %s: %s", r.Cell, r.Got(), r.Cell.Want, explain(r.Verdict))
			}
		}
		if unseen := g.Unseen(results); len(unseen) > 0 {
			t.Errorf("unseen: %v", unseen)
		}
	})
}

// TestGuards_others: what stands between a missing guard and a wrong outcome. A
// worker that wakes without its session makes no second claim, so that it does not
// matter how it would make it.
func TestGuards_others(t *testing.T) {
	t.Parallel()
	c, err := FindCell("lease/after-claim/stop")
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range Guards() {
		if g.Name != "compare-and-set" {
			continue
		}
		results := play(t, []Cell{c}, g.Name, 1)
		if len(g.Unseen(results)) != 1 || results[0].Status != Held {
			t.Errorf("seen: %s", explain(results[0].Verdict))
		}
	}
}

func TestFindCell(t *testing.T) {
	t.Parallel()
	for _, c := range Cells() {
		if found, err := FindCell(c.String()); err != nil || found.String() != c.String() || found.Want.Why != c.Want.Why {
			t.Errorf("%s: %v, %v", c, found, err)
		}
	}
	if n := len(Cells()); n != 37+37+4+2 {
		t.Errorf("%d cells", n)
	}
	for text, want := range map[string]string{
		"none/after-claim/kill":       "there is no claim with idempotency off",
		"ack-early/before-ack/kill":   "with ack early",
		"none/mid-send/twins":         "with a lease and no key",
		"record/before-copy/kill":     "lease/before-copy/kill",
		"lease/before-copy/twins":     "twins show something",
		"record+key/after-claim/kill": "",
		"lease/after-claim/killed":    "",
		"lease/after-clam/kill":       "",
		"lease/after-claim":           "",
		"lease/after-claim/kill/":     "",
		"":                            "",
	} {
		_, err := FindCell(text)
		if err == nil || errors.Is(err, ErrUnknownCell) != (want == "") || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// result is one of a cell in which the ledger says so many.
func result(t *testing.T, cell string, accepted int, story ...event.Event) Result {
	t.Helper()
	c, err := FindCell(cell)
	if err != nil {
		t.Fatal(err)
	}
	s := crashSpecimen(c.Setting.Settings, accepted, Seen{}, Seen{State: c.Want.Record, TTL: day}, story...)
	v := c.Scenario().judge(s.cast, s.record)
	v.Namespace = "k7f3"
	return Result{c, v, 1}
}

// resultHeld is a record's crash before the ack: once. The ledger can be made to
// say otherwise.
func resultHeld(t *testing.T, accepted int) Result {
	t.Helper()
	return result(t, "record/before-ack/kill", accepted,
		w1(event.Received), w1(event.Claimed), w1(event.Sent), w1(event.Crash), restarted(), handed(1), w1(event.DuplicateDropped), w1(event.Acked))
}

func TestResult_JSON(t *testing.T) {
	t.Parallel()
	r := resultHeld(t, 1)
	for _, tt := range []struct {
		result Result
		want   string
	}{
		{r, `{"kind":"cell","setting":"record","point":"before-ack","fault":"kill","accepted":1,"want":"1","got":"1","ok":true,"status":"held","sent":1,"agree":true,"ids":[],"concurrency":1,"namespace":"k7f3","elapsed_ms":2000}`},
		{resultHeld(t, 2), `{"kind":"cell","setting":"record","point":"before-ack","fault":"kill","accepted":2,"want":"1","got":"2","ok":false,"status":"not_held","sent":1,"agree":false,"ids":["k7f3-1"],"concurrency":1,"namespace":"k7f3","elapsed_ms":2000}`},
		{Result{r.Cell, inconclusive(nil, 0, "why"), 256}, `{"kind":"cell","setting":"record","point":"before-ack","fault":"kill","accepted":0,"want":"1","got":"?","ok":false,"status":"inconclusive","sent":0,"agree":true,"ids":[],"concurrency":256,"namespace":"","elapsed_ms":0}`},
	} {
		got, err := json.Marshal(tt.result)
		if err != nil || string(got) != tt.want {
			t.Errorf("%v\n got %s\nwant %s", err, got, tt.want)
		}
	}
}

// TestResult_Red: only the ledger and the queues turn a cell red, whatever the
// workers say.
func TestResult_Red(t *testing.T) {
	t.Parallel()
	silent := result(t, "record/before-ack/kill", 1, w1(event.Received))
	if silent.Status != NotHeld || silent.Red() {
		t.Errorf("without lines: %s, red %v", silent.Status, silent.Red())
	}
	for accepted, red := range map[int]bool{0: true, 1: false, 2: true} {
		if r := resultHeld(t, accepted); r.Red() != red {
			t.Errorf("%d accepted: red %v", accepted, r.Red())
		}
	}
	parked, err := FindCell("lease/before-copy/kill")
	if err != nil {
		t.Fatal(err)
	}
	nowhere := Result{parked, Verdict{Status: NotHeld, Want: Parked, Outcome: Lost}, 1}
	if !nowhere.Red() || nowhere.Got() != "0 lost" {
		t.Errorf("nowhere: red %v, got %s", nowhere.Red(), nowhere.Got())
	}
}

func TestMatrixVerdict(t *testing.T) {
	t.Parallel()
	held, red := resultHeld(t, 1), resultHeld(t, 2)
	open := Result{held.Cell, inconclusive(nil, 0, "why"), 1}
	nx := Guards()[0]
	for name, tt := range map[string]struct {
		results  []Result
		without  Guard
		status   Status
		outcome  Outcome
		accepted int
		ok       []bool
	}{
		"all held":               {[]Result{held, held}, Guard{}, Held, Once, 2, []bool{true, true}},
		"one not":                {[]Result{open, red, held}, Guard{}, NotHeld, Twice, 3, []bool{false, false, true}},
		"one inconclusive":       {[]Result{held, open}, Guard{}, Inconclusive, Once, 1, []bool{true, false}},
		"a guard missed":         {[]Result{red}, nx, NotHeld, Twice, 2, []bool{false}},
		"a guard missed by none": {[]Result{held}, nx, NotHeld, Once, 1, []bool{true, false}},
	} {
		v := MatrixVerdict(tt.results, tt.without, 7)
		var ok []bool
		for _, f := range v.Findings {
			ok = append(ok, f.OK)
		}
		if v.Scenario != "matrix" || v.Status != tt.status || v.Outcome != tt.outcome || v.Accepted != tt.accepted || v.ElapsedMS != 7 || !slices.Equal(ok, tt.ok) {
			t.Errorf("%s: %s", name, pretty(v))
		}
	}
}
