package scenario

import (
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"notifylab/internal/event"
	"notifylab/internal/notify"
)

// The specimens of the second chapter are the records of real runs, kept in testdata.
var update = flag.Bool("update", false, "write the second chapter's specimens anew, from runs")

// A specimenFile is a specimen as it is kept.
type specimenFile struct {
	All    []notify.Notification `json:",omitempty"`
	Events []event.Event
	Ledger map[string]int // by id and channel
	Order  []Subject
	Ready  map[string]int
	Passes PassRecord
}

func (f specimenFile) specimen() specimen {
	r := &Record{Events: f.Events, Ledger: map[Subject]int{}, Order: f.Order, Ready: f.Ready, Passes: f.Passes, Elapsed: time.Second}
	for key, n := range f.Ledger {
		id, channel, _ := strings.Cut(key, " ")
		r.Ledger[Subject{id, channel}] = n
	}
	return specimen{cast: cast{all: f.All}, record: r}
}

// encode writes an event a line, so that what changed can be seen.
func (f specimenFile) encode(t *testing.T) []byte {
	t.Helper()
	var events []string
	noise := []event.Kind{event.Queued, event.Committed, event.Sent, event.Rebalanced, event.Exited}
	for _, e := range f.Events {
		if len(f.Events) > 400 && slices.Contains(noise, e.Kind) { // of which there is enough in the others
			continue
		}
		events = append(events, strings.TrimSpace(string(event.Encode(e))))
	}
	f.Events = nil
	b, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	return []byte(strings.Replace(string(b), `"Events":null`, "\"Events\":[\n"+strings.Join(events, ",\n")+"\n]", 1) + "\n")
}

func fileOf(name string) string { return filepath.Join("testdata", name+".json") }

// passSpecimens are one for each scenario of the second chapter.
func passSpecimens(t *testing.T) map[string]specimen {
	t.Helper()
	all := map[string]specimen{}
	for _, s := range chapter(QueueToLog) {
		b, err := os.ReadFile(fileOf(s.Name))
		if err != nil {
			t.Fatal(err)
		}
		var f specimenFile
		if err := json.Unmarshal(b, &f); err != nil {
			t.Fatal(err)
		}
		all[s.Name] = f.specimen()
	}
	return all
}

// updating is a scenario that writes the record of its run as its specimen, in the
// namespace and of the size that specimens have.
func updating(t *testing.T, r *rig, s Scenario) Scenario {
	r.Namespace, r.Spike = "k7f3", 3
	judge := s.judge
	s.judge = func(c cast, record *Record) Verdict {
		f := specimenFile{All: c.all, Events: record.Events, Ledger: map[string]int{}, Order: record.Order, Ready: record.Ready, Passes: record.Passes}
		for subject, n := range record.Ledger {
			f.Ledger[subject.ID+" "+subject.Channel] = n
		}
		if err := os.WriteFile(fileOf(s.Name), f.encode(t), 0o644); err != nil {
			t.Error(err)
		}
		return judge(c, record)
	}
	return s
}

// clone is a record of which everything that alterations touch is its own.
func (r *Record) clone() *Record {
	c := r.altered(func(*Record) {})
	c.Order = slices.Clone(r.Order)
	p := &c.Passes
	p.Published, p.Left = slices.Clone(p.Published), maps.Clone(p.Left)
	if p.Left == nil {
		p.Left = map[string]string{}
	}
	p.Log = nil
	for _, ids := range r.Passes.Log {
		p.Log = append(p.Log, slices.Clone(ids))
	}
	p.Cursors = map[string]map[int]int64{}
	for group, cursors := range r.Passes.Cursors {
		p.Cursors[group] = maps.Clone(cursors)
	}
	for i := range c.Events {
		if at := c.Events[i].Position; at != nil {
			own := *at
			c.Events[i].Position = &own
		}
	}
	return c
}
