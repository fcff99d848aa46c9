package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"notifylab/internal/event"
	"notifylab/internal/notify"
)

// A Scenario is one thing that is done to the lab, and the lesson that it shows.
type Scenario struct {
	Name    string
	Lesson  int    // its number, 0 if it is none
	Chapter string // of the story; empty: the first
	Title   string // what it is, in a few words
	Shows   string // one line for the list
	Outcome Outcome
	Help    string   // the lesson
	ByHand  string   // the same with the parts, in lines for a shell
	Mode    string   // of the event that it publishes, for produce and the api; may be empty
	Next    string   // the scenario to run after it
	Tags    []string // what it is about, to choose it by

	// Settings are the lesson's own. Any says that it comes out alike under all, Unset
	// that nobody in it reads any.
	Settings event.Settings
	Any      bool
	Unset    bool
	// Spikes says that it has passes expire at once, as many as it is told.
	Spikes bool
	// Harms says that it stops servers or has them misbehave: it is played on a
	// pair of its own.
	Harms bool

	channels []notify.Channel
	// check refuses settings under which there is nothing to play.
	check func(event.Settings) error
	// play does it, up to the point where everything has come to its end.
	play func(context.Context, *stage) error
	// judge is pure: it judges what was recorded.
	judge func(cast, *Record) Verdict
}

// cast is who plays: what play and judge both have to know.
type cast struct {
	settings event.Settings
	victim   notify.Notification
	behind   notify.Notification
	all      []notify.Notification // these two among them
	beside   []notify.Notification // in the worker's hand with the victim, and not among them
}

// Catalogue returns every scenario, in the order in which they are to be run: the
// lessons, then those that go on from there.
func Catalogue() []Scenario {
	return append([]Scenario{
		fanOut(), crash(), idempotency(), crashClaim(), claimLease(), deadLetter(),
		crashSend(), providerKey(), zombie(), zombieSend(),
		duplicatePublish(), liveTakeover(), drain(), prefetchBlast(), headOfLine(),
		poison(), malformed(), replay(), unroutable(),
		brokerRestart(), redisOutage(), redisAmnesia(), brokerAlarm(),
	}, fromQueueToLog()...)
}

// Tags returns every tag that a scenario has, in the catalogue's order.
func Tags() []string {
	var all []string
	for _, s := range Catalogue() {
		for _, tag := range s.Tags {
			if !slices.Contains(all, tag) {
				all = append(all, tag)
			}
		}
	}
	return all
}

// Lessons is how many of them are numbered.
func Lessons() int {
	n := 0
	for _, s := range Catalogue() {
		n = max(n, s.Lesson)
	}
	return n
}

// Check returns an error if the scenario can't be played under these settings.
func (s Scenario) Check(settings event.Settings) error {
	if s.check == nil {
		return nil
	}
	return s.check(settings)
}

// Limit is how long a run may take if nobody says otherwise.
func (s Scenario) Limit() time.Duration {
	if s.Harms {
		return 2 * time.Minute // a broker takes seconds to boot
	}
	return 30 * time.Second
}

// Unplayed is the verdict on a scenario that could not be begun, and why.
func (s Scenario) Unplayed(cfg Config, why string) Verdict {
	return s.signed(inconclusive(nil, 0, why), cfg)
}

// errTimeout is the cause of a run that took too long.
var errTimeout = errors.New("time is up")

// overdue says whether ctx has ended or is about to: what has the same deadline, a
// dial, can fail of it a moment before ctx says so.
func overdue(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(deadline)
}

// lookLimit is how long it may take to look at everything when a run is over.
const lookLimit = 10 * time.Second

// Run plays the scenario once and judges it. An error without a verdict means that it
// could not be played (servers that are away or refuse; a signal: ctx's cause); one
// beside a verdict, that its namespace could not be cleaned up, which is tried in any
// case unless it is to be kept. Servers that go away meanwhile make it inconclusive.
// When Run returns nothing that it started runs. A pair that it harmed is as it was
// only if the verdict is held or not held; else it is of no use any more.
func (s Scenario) Run(ctx context.Context, cfg Config) (v Verdict, err error) {
	if s.Harms && cfg.Pair == nil {
		return s.Unplayed(cfg, "there are no servers that it may harm"), nil
	}
	timed, cancel := context.WithTimeoutCause(ctx, cfg.Timeout, errTimeout)
	defer cancel()
	stage, err := setUp(timed, cfg, s.channels)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return v, context.Cause(ctx)
	case overdue(timed):
		return s.signed(inconclusive(stage.history.All(), stage.elapsed(), never{what: "the stage was not up"}.within(cfg.Timeout)), cfg), nil
	default:
		return v, err
	}
	defer func() { err = errors.Join(err, stage.tearDown()) }()

	playing, giveUp := context.WithCancelCause(timed)
	defer giveUp(nil)
	stage.giveUp = giveUp
	playErr := s.play(playing, stage)
	if ctx.Err() != nil {
		return v, context.Cause(ctx)
	}
	// Before the workers are stopped: the last event is to be the last of the play.
	end := stage.history.Len()
	unplayed := s.signed(inconclusive(stage.history.All(), stage.elapsed(), missing(playErr, cfg.Timeout)), cfg)
	if playErr != nil && !(errors.As(playErr, new(vanished)) && errors.Is(playErr, errTimeout)) {
		return unplayed, nil
	}
	record, err := stage.record(context.WithoutCancel(ctx))
	switch {
	case playErr != nil && (err != nil || record.waiting() > 0 || record.handedOver(end)):
		return unplayed, nil
	case err != nil:
		return s.signed(inconclusive(stage.history.All(), stage.elapsed(), err.Error()), cfg), nil
	}
	return s.signed(s.judge(stage.cast(), record), cfg), nil
}

// signed says whose verdict it is.
func (s Scenario) signed(v Verdict, cfg Config) Verdict {
	v.Scenario, v.Settings, v.Namespace, v.Seed = s.Name, cfg.Settings, string(cfg.Namespace), cfg.Seed
	return v
}

// A never is what a play waited for in vain.
type never struct {
	what string // that was not so
	hint string // what there was instead; may be empty
	err  error  // why it waits no longer
}

func (n never) Error() string {
	if n.hint == "" {
		return fmt.Sprintf("%s: %v", n.what, n.err)
	}
	return fmt.Sprintf("%s: %v (%s)", n.what, n.err, n.hint)
}

func (n never) Unwrap() error { return n.err }

// within says it of a wait that took too long.
func (n never) within(limit time.Duration) string {
	text := fmt.Sprintf("%s within %s", n.what, event.Short(limit))
	if n.hint != "" {
		text += ": " + n.hint
	}
	return text
}

// missing says what a play did not come to.
func missing(err error, limit time.Duration) string {
	var n never
	switch {
	case err == nil:
		return ""
	case !errors.Is(err, errTimeout):
		return err.Error()
	case errors.As(err, &n):
		return n.within(limit)
	}
	return never{what: "not everything came to its end"}.within(limit)
}
