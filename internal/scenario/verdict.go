package scenario

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"notifylab/internal/event"
)

// Status is whether things came out as predicted.
type Status string

const (
	Held         Status = "held"
	NotHeld      Status = "not_held"
	Inconclusive Status = "inconclusive"
)

// A Finding is one thing that was checked.
type Finding struct {
	What string   `json:"what"`
	Want string   `json:"want"`
	Got  string   `json:"got"`
	OK   bool     `json:"ok"`
	IDs  []string `json:"ids"` // whom it is about
}

// A Fate is what became of one notification on one channel.
type Fate struct {
	ID       string  `json:"id"`
	Channel  string  `json:"channel"`
	Accepted int     `json:"accepted"`
	Outcome  Outcome `json:"outcome"`
}

// A Verdict is the end of a scenario.
type Verdict struct {
	Scenario  string         `json:"scenario"`
	Status    Status         `json:"status"`
	Outcome   Outcome        `json:"outcome"`  // the victim's; else the worst
	Accepted  int            `json:"accepted"` // the victim's; else the sum
	Outcomes  []Fate         `json:"outcomes"`
	Findings  []Finding      `json:"findings"`
	Settings  event.Settings `json:"settings"`
	Namespace string         `json:"namespace"`
	Seed      int64          `json:"seed"`
	RabbitMQ  string         `json:"rabbitmq"` // version
	Redis     string         `json:"redis"`    // version
	ElapsedMS int64          `json:"elapsed_ms"`

	// For text.
	Want   Outcome       `json:"-"`
	Why    string        `json:"-"` // how the outcome came about; of an inconclusive one, what was missing
	Bug    bool          `json:"-"` // the outcome is one that nobody wants
	Fixed  bool          `json:"-"` // the outcome of a crash, and the one that everybody wants
	Last   string        `json:"-"` // of an inconclusive one: the last event
	Victim string        `json:"-"` // whose lines to show when it was not held
	Events []event.Event `json:"-"`
}

// MarshalJSON writes the verdict as the object that ends a scenario's JSON: with
// its kind, and nothing left out.
func (v Verdict) MarshalJSON() ([]byte, error) {
	type plain Verdict
	if v.Outcomes == nil {
		v.Outcomes = []Fate{}
	}
	v.Findings = append([]Finding{}, v.Findings...) // what is changed below is the caller's, too
	for i := range v.Findings {
		if v.Findings[i].IDs == nil {
			v.Findings[i].IDs = []string{}
		}
	}
	return json.Marshal(struct {
		Kind string `json:"kind"`
		plain
	}{"verdict", plain(v)})
}

// judged makes a verdict of a record and what was found in it.
func judged(r *Record, findings []Finding, fates []Fate) Verdict {
	v := Verdict{Status: Held, Findings: findings, Outcomes: fates, Events: r.Events, ElapsedMS: r.Elapsed.Milliseconds()}
	for _, f := range findings {
		if !f.OK {
			v.Status = NotHeld
		}
	}
	v.Outcome = worst(fates)
	for _, f := range fates {
		v.Accepted += f.Accepted
	}
	return v
}

// about makes the victim's fate the verdict's.
func (v Verdict) about(id string) Verdict {
	for _, f := range v.Outcomes {
		if f.ID == id {
			v.Accepted, v.Outcome, v.Victim = f.Accepted, f.Outcome, id
		}
	}
	return v
}

// worst returns the worst of some outcomes, "" of none.
func worst(fates []Fate) Outcome {
	order := []Outcome{Lost, Unknown, Twice, Parked, Once}
	for _, o := range order {
		for _, f := range fates {
			if f.Outcome == o {
				return o
			}
		}
	}
	return ""
}

// inconclusive is the verdict on a run that can't be judged.
func inconclusive(events []event.Event, elapsed time.Duration, why string) Verdict {
	v := Verdict{Status: Inconclusive, Why: why, Events: events, ElapsedMS: elapsed.Milliseconds()}
	v.Findings = []Finding{{What: "the play", Want: "comes to its end", Got: why}}
	if len(events) > 0 {
		v.Last = describe(events[len(events)-1])
	}
	return v
}

func describe(e event.Event) string {
	return strings.Join(strings.Fields(fmt.Sprintf("%s %s %s %s %s %s", e.Source, words(e.Kind), e.Channel, e.ID, e.Exit, e.Reason)), " ")
}
