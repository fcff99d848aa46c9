package scenario

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"notifylab/internal/event"
	"notifylab/internal/notify"
	"notifylab/internal/provider"
	"notifylab/internal/supervise"
)

// A Soak is a long run under load: an event each so often, on every channel, while
// workers are killed and servers restarted, and in the end the ledger. It keeps
// counts, and no history: a run of any length fits into memory.
type Soak struct {
	// Config has the pair that is restarted. Its Timeout is how long it may take until
	// the first message is confirmed, and, after the traffic, until everything is
	// settled. Settings may say ack early.
	// Emit gets what is said of processes and servers, and nothing of messages.
	Config
	Duration     time.Duration // of the traffic, from the first message that is confirmed
	Every        time.Duration // an event
	KillEvery    time.Duration // a worker; 0: none
	RestartEvery time.Duration // a server, in turn; 0: none
	// Progress, if not nil, is told now and then what there is so far.
	Progress func(Tally)
}

// What each soak has: sends take a while, so that a kill always hits some.
const (
	crewSize  = 2 // workers of each channel
	sendTakes = 20 * time.Millisecond
)

// soaking is one run of a soak.
type soaking struct {
	*stage
	plan  Soak
	tally *soakTally
	crew  []crewMember
	pids  map[string]int // of the workers' last lives, by name; of heard alone
	flows chan struct{}  // closed when a message was confirmed
}

// A crewMember is a worker's place.
type crewMember struct {
	*supervise.Process
	channel notify.Channel
}

// Run soaks, and judges what became of each message by the provider's ledger. Its
// errors are those of [Scenario.Run]. The tally is what there was in the end,
// whatever the error.
func (k Soak) Run(ctx context.Context) (Verdict, Tally, error) {
	cfg := k.Config
	cfg.Timeout += k.Duration // for which queues and keys have to stay
	st, err := makeRoom(ctx, cfg, notify.Channels())
	if err != nil {
		return Verdict{}, Tally{}, because(ctx, err)
	}
	s := &soaking{stage: st, plan: k, tally: newSoakTally(st.began), pids: map[string]int{}, flows: make(chan struct{})}
	v, err := s.run(ctx)
	err = errors.Join(err, st.tearDown())
	v.Scenario, v.Settings, v.Namespace, v.Seed = "soak", k.Settings, string(k.Namespace), k.Seed
	return v, s.tally.sum(), err
}

// because returns why ctx ended if it did, else err.
func because(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func (s *soaking) run(ctx context.Context) (Verdict, error) {
	delay := provider.Delay{For: sendTakes}
	err := s.open(provider.Options{Brief: true, Emit: s.tally.called, Faults: provider.Faults{Delay: []provider.Delay{delay}}}, supervise.Config{
		Sink:     s.heard,
		Settled:  func(e event.Event) bool { return e.Kind == event.Sent || e.Kind == event.DuplicateDropped },
		Hopeless: func(status int) bool { return status == 64 },
	})
	if err != nil {
		return Verdict{}, err
	}
	playing, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	s.giveUp = giveUp
	err = s.play(playing)
	switch {
	case ctx.Err() != nil:
		return Verdict{}, context.Cause(ctx)
	case err != nil:
		return inconclusive(s.history.All(), s.elapsed(), missing(err, s.plan.Timeout)), nil
	}
	end, err := s.finish(context.WithoutCancel(ctx))
	if err != nil {
		return Verdict{}, err
	}
	return judgeSoak(s.plan, end), nil
}

// play is the traffic and the harm, side by side, and then the wait until all is
// settled.
func (s *soaking) play(ctx context.Context) error {
	if err := s.muster(ctx); err != nil {
		return err
	}
	told := s.tell()
	defer told()
	harming, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	traffic := make(chan error, 1)
	go func() {
		err := s.traffic(harming)
		stop(err)
		traffic <- err
	}()
	err := s.awaitTraffic(harming)
	if err == nil {
		err = s.harm(harming)
	}
	stop(errTrafficOver)
	if sent := <-traffic; sent != nil && !errors.Is(sent, errTrafficOver) {
		return sent
	}
	if err != nil {
		return err
	}
	settling, cancel := context.WithTimeoutCause(ctx, s.plan.Timeout, errTimeout)
	defer cancel()
	return s.settle(settling)
}

// awaitTraffic waits until the traffic flows: a message is confirmed.
func (s *soaking) awaitTraffic(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.plan.Timeout, errTimeout)
	defer cancel()
	select {
	case <-s.flows:
		return nil
	case <-ctx.Done():
		return never{what: "no message was confirmed", err: context.Cause(ctx)}
	}
}

// errTrafficOver ends the traffic as planned.
var errTrafficOver = errors.New("the traffic is over")

// muster starts the workers that there are to be, and returns when they are ready.
func (s *soaking) muster(ctx context.Context) error {
	s.crew = nil
	flags := []string{"--events", "summary", "--journal", "off", "--crash-points=false", "--say-pid"}
	for _, c := range s.topology.Channels {
		for range crewSize {
			p, err := s.worker(ctx, c, flags...)
			if err != nil {
				return err
			}
			s.crew = append(s.crew, crewMember{p, c})
		}
	}
	return nil
}

// heard takes what the workers say. Of messages there is too much of it, and it
// proves nothing, but that an answer did not come.
func (s *soaking) heard(e event.Event) {
	if e.ID != "" {
		s.tally.told(e)
		return
	}
	s.happened(e)
	e.Detail = e.Kind != event.GaveUp && e.Kind != event.Log // the servers' coming and going is the story
	s.telling.Lock()
	s.history.Add(e)
	s.Emit(e)
	s.telling.Unlock()
	if e.Kind == event.GaveUp {
		s.giveUp(never{what: e.Owner + " was given up", hint: s.lastLog(), err: errors.New(e.Exit)})
	}
}

// happened notes what happens to workers and was not done to them here.
func (s *soaking) happened(e event.Event) {
	switch {
	case e.Kind == event.Ready:
		s.pids[e.Source] = e.PID
		s.tally.lives(e.PID, e.Time)
	case e.Kind == event.Disconnect && e.Queue != "":
		s.tally.interrupted(interruption{sessionEnd, e.PID, e.Time})
	case (e.Kind == event.Restart || e.Kind == event.Exited || e.Kind == event.GaveUp) && e.Exit != "exit 0":
		s.tally.interrupted(interruption{workerDied, s.pids[e.Owner], e.Time})
	}
}

// tell tells of the progress until what it returns is called.
func (s *soaking) tell() (stop func()) {
	if s.plan.Progress == nil {
		return func() {}
	}
	again := time.NewTicker(500 * time.Millisecond)
	over := make(chan struct{})
	var telling sync.WaitGroup
	telling.Go(func() {
		for {
			select {
			case <-again.C:
				s.plan.Progress(s.tally.sum())
			case <-over:
				return
			}
		}
	})
	return func() {
		again.Stop()
		close(over)
		telling.Wait()
	}
}

// settle waits until every message is settled: nothing waits in the queues, and the
// workers, stopped in their orderly way, have given nothing back.
func (s *soaking) settle(ctx context.Context) error {
	for {
		if err := s.awaitEmpty(ctx); err != nil {
			return err
		}
		for _, w := range s.crew {
			if err := w.Stop(ctx); err != nil {
				return err
			}
		}
		left, err := s.left(ctx)
		if err != nil || left == 0 {
			return err
		}
		if err := s.muster(ctx); err != nil {
			return err
		}
	}
}

// awaitEmpty waits until no message waits in any queue from which it would be sent.
func (s *soaking) awaitEmpty(ctx context.Context) error {
	again := time.NewTicker(5 * between)
	defer again.Stop()
	for {
		left, err := s.waiting(ctx)
		if err == nil && left == 0 {
			return nil
		}
		select {
		case <-again.C:
			if err == nil {
				continue
			}
		case <-ctx.Done():
		}
		if ctx.Err() == nil {
			return err
		}
		s.tally.waiting(left)
		return never{what: "not everything was settled", hint: s.lastLog(), err: context.Cause(ctx)}
	}
}

// waiting counts what is ready to be taken.
func (s *soaking) waiting(ctx context.Context) (int, error) {
	left := 0
	for _, q := range s.sources() {
		n, _, _, err := s.conn.Ready(ctx, q)
		if err != nil {
			return left, err
		}
		left += n
	}
	return left, nil
}

// sources are the queues from which messages are sent, at once or later.
func (s *soaking) sources() []string {
	var all []string
	for _, c := range s.topology.Channels {
		all = append(all, s.topology.Work(c))
		for _, d := range s.topology.Delays {
			all = append(all, s.topology.Retry(c, d))
		}
	}
	return all
}

// left counts what waits when no worker has anything in hand.
func (s *soaking) left(ctx context.Context) (int, error) {
	left := 0
	for _, q := range s.sources() {
		n, err := s.settled(ctx, q)
		if err != nil {
			return left, err
		}
		left += max(0, n)
	}
	return left, nil
}

// finish takes in what the judgement rests on, when all workers are gone.
func (s *soaking) finish(ctx context.Context) (soakEnd, error) {
	_ = s.workers.Stop() // who was given up has been said
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	if err := s.listening.Close(ctx); err != nil {
		return soakEnd{}, err
	}
	r := &Record{Ready: map[string]int{}}
	for _, c := range s.topology.Channels {
		if err := s.recordParked(ctx, r, c); err != nil {
			return soakEnd{}, err
		}
	}
	parked := map[Subject]string{}
	for _, p := range r.Parked {
		if n, err := notify.Decode(p.Body); err == nil {
			parked[Subject{n.ID, channelOf(p.Queue)}] = strings.TrimSuffix(p.why()+": "+p.Last, ": ")
		}
	}
	return s.tally.end(string(s.Namespace), parked, s.elapsed()), nil
}

func channelOf(dlq string) string { return dlq[:len(dlq)-len(".dlq")] }
