package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"

	"notifylab/internal/event"
	"notifylab/internal/notify"
	"notifylab/internal/scenario"
)

// A runner plays scenarios one after another and keeps their ends.
type runner struct {
	*app
	flags  scenarioFlags
	many   bool // runs, one after another
	cancel context.CancelCauseFunc
	ends   []ended
	left   []error // what could not be deleted of a run, on servers that stay

	usual, harmed *place // nil until a scenario needs it
}

type ended struct {
	name    string
	verdict scenario.Verdict
}

// judged is an end as reports have it.
func (r *runner) judged(e ended) judged {
	v := e.verdict
	j := judged{suite: "scenario", name: e.name, status: v.Status, elapsedMS: v.ElapsedMS, facts: [][2]string{
		{"settings", settingsText(&v.Settings)}, {"outcome", string(v.Outcome)}, {"namespace", v.Namespace},
		{"seed", fmt.Sprint(v.Seed)}, {"rabbitmq", v.RabbitMQ}, {"redis", v.Redis},
	}}
	if v.Status != scenario.Held {
		words, _, text := ending(newPalette(false), v)
		var details bytes.Buffer
		r.account(&printer{w: event.NewWriter(&details), palette: newPalette(false), ns: notify.Namespace(v.Namespace)}, v)
		j.why, j.details = words+" "+text, details.String()
	}
	return j
}

func (r *runner) play(ctx context.Context, s scenario.Scenario) error {
	for i := range r.flags.repeat {
		if i > 0 && !r.json() {
			fmt.Fprintln(r.stdout)
		}
		v, err := r.once(ctx, s)
		if err != nil {
			return err
		}
		r.ends = append(r.ends, ended{s.Name, v})
		if !r.flags.asItStands(s) {
			continue
		}
		if err := r.remember(s.Name, v); err != nil {
			fmt.Fprintf(r.stderr, "notifylab: %s\n", escape(err.Error())) // the list is a comfort
		}
	}
	return nil
}

func (r *runner) json() bool { return r.output == "json" }

func (r *runner) once(ctx context.Context, s scenario.Scenario) (scenario.Verdict, error) {
	at, none := r.place(ctx, s)
	switch {
	case none == nil:
	case !s.Harms || ctx.Err() != nil:
		return scenario.Verdict{}, none
	default: // it can't be judged without servers to harm
		at = &place{}
	}
	out := r.printer(r.cancel)
	cfg := r.config(at)
	cfg.Settings, cfg.Emit = r.flags.settings(s), out.event
	cfg.Keep, cfg.Spike, cfg.Timeout = r.flags.keeps(s), r.flags.spike, r.flags.limit(s)
	if s.Harms {
		cfg.Pair = at.pair
	}
	out.ns = cfg.Namespace
	endGroup := func() {}
	if !r.json() {
		if r.many {
			endGroup = r.group(out, s.Name)
		}
		r.header(out, s, cfg, at.versions)
		out.relative = true
	}
	v, err := s.Unplayed(cfg, reason(none)), error(nil)
	if none == nil {
		v, err = s.Run(ctx, cfg)
	}
	if s.Harms && none == nil && err != nil && v.Status == "" && ctx.Err() == nil {
		// RabbitMQ 3.10 can be left by a restart so that it declares nothing more until
		// the next: these servers are ours, so others will do.
		r.spoilt()
		if again, failed := r.place(ctx, s); failed == nil {
			at = again
			cfg.AMQPURL, cfg.RedisURL, cfg.Env, cfg.Pair = at.amqpURL, at.redisURL, at.childEnv(), at.pair
			v, err = s.Run(ctx, cfg)
		}
	}
	if s.Harms && (err != nil || v.Status == scenario.Inconclusive) {
		r.spoilt()
	}
	switch {
	case err == nil:
	case v.Status == "": // it could not be played
		return v, because(ctx, unavailableError{err})
	default:
		text := fmt.Sprintf("namespace %s is not cleaned up: %v", cfg.Namespace, err)
		if at.pair == nil {
			r.left = append(r.left, hinted{
				unavailableError{errors.New(text)},
				[]string{fmt.Sprintf("delete what is left of it   notifylab reset --namespace %s --yes", cfg.Namespace)},
			})
		} else { // all that is on them goes with them
			fmt.Fprintf(r.stderr, "notifylab: %s; its servers end with this run\n", escapeLines(text))
		}
	}
	v.RabbitMQ, v.Redis = at.versions.rabbitmq, at.versions.redis
	v = r.expected(v)
	if r.json() {
		out.object(v)
	} else {
		r.verdict(out, s, v)
		endGroup()
		r.annotate(out, r.judged(ended{s.Name, v}))
	}
	if ctx.Err() != nil { // nobody reads any more
		return v, context.Cause(ctx)
	}
	return v, nil
}

// reason says why there are no servers to harm.
func reason(err error) string {
	if err == nil {
		return ""
	}
	return "it harms servers, so it needs some of its own: " + err.Error()
}

// config is what any run needs to know: where, and in a namespace of its own.
func (r *runner) config(at *place) scenario.Config {
	cfg := scenario.Config{
		AMQPURL: at.amqpURL, RedisURL: at.redisURL,
		Worker:    func(c notify.Channel) []string { return []string{self(), "worker", string(c)} },
		Program:   []string{self()},
		Env:       at.childEnv(),
		Namespace: r.runNamespace(), Seed: r.flags.seed,
	}
	if cfg.Seed == 0 {
		cfg.Seed = int64(rand.IntN(1000) + 1)
	}
	return cfg
}

// runNamespace returns a new namespace: the one that was asked for and four
// characters, so that runs never meet.
func (a *app) runNamespace() notify.Namespace {
	const letters, all = "abcdefghijklmnopqrstuvwxyz", "abcdefghijklmnopqrstuvwxyz0123456789"
	b := []byte{letters[rand.IntN(len(letters))]}
	for range 3 {
		b = append(b, all[rand.IntN(len(all))])
	}
	if a.namespace != "" {
		return notify.Namespace(a.namespace + "-" + string(b))
	}
	return notify.Namespace(b)
}

func self() string {
	path, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return path
}

// expected judges the outcome that --expect names, instead of the prediction.
func (r *runner) expected(v scenario.Verdict) scenario.Verdict {
	want := scenario.Outcome(r.flags.expect)
	if want == "" || v.Status == scenario.Inconclusive {
		return v
	}
	ok := v.Outcome == want
	v.Findings = []scenario.Finding{{What: "outcome, by --expect", Want: string(want), Got: string(v.Outcome), OK: ok}}
	if v.Status == scenario.NotHeld {
		v.Bug, v.Fixed, v.Why = false, false, "as expected, and not as the protocol predicts"
	}
	v.Status, v.Want = scenario.Held, want
	if !ok {
		v.Status = scenario.NotHeld
	}
	return v
}

// end returns what many runs come to: 1 if one did not hold, else 75 if one is
// inconclusive, else 69 if something is left of one.
func (r *runner) end() error {
	if !r.json() && r.many {
		r.summary()
	}
	status := exitOK
	for _, e := range r.ends {
		switch {
		case e.verdict.Status == scenario.NotHeld:
			status = exitFinding
		case e.verdict.Status == scenario.Inconclusive && status == exitOK:
			status = exitInconclusive
		}
	}
	if status == exitOK && !r.agree() {
		status = exitFinding
	}
	if status == exitOK && len(r.left) > 0 {
		status = exitUnavailable
	}
	if status == exitOK {
		return nil
	}
	return statusError{status, ""}
}

// reportLeft says what could not be deleted: at the end, since it decides the exit status.
func (r *runner) reportLeft() {
	for _, err := range r.left {
		report(r.stderr, err)
	}
}

// agree says whether the repetitions of each scenario had one outcome.
func (r *runner) agree() bool {
	first := map[string]scenario.Outcome{}
	for _, e := range r.ends {
		o, seen := first[e.name]
		if seen && o != e.verdict.Outcome {
			return false
		}
		first[e.name] = e.verdict.Outcome
	}
	return true
}
