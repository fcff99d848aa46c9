package scenario

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"notifylab/internal/servers"
)

// An allowance is how many messages one interruption may lose, or have sent again.
type allowance struct{ kill, restart int }

// allowances are what the protocol leaves open in a soak, by its settings. A kill hits what its
// worker has in hand: with ack late all that is prefetched can come again, with a
// lease what each handler had sent and not yet marked. A restart of RabbitMQ ends
// the session of every worker; handlers go on, so with a record nothing is sent
// again. A key that the provider knows closes all of it.
func allowances(k Soak) (lost, twice allowance) {
	const all = crewSize * 2 // workers
	s, handlers, prefetch := k.Settings, k.concurrency(), k.prefetch()
	switch {
	case s.Ack == "early":
		return allowance{handlers, all * handlers}, allowance{prefetch, all * prefetch}
	case s.ProviderKey && s.Idempotency && !s.ClaimLease:
		return allowance{handlers, 0}, allowance{}
	case s.ProviderKey:
		return allowance{}, allowance{}
	case s.Idempotency && s.ClaimLease:
		return allowance{}, allowance{handlers, 0}
	case s.Idempotency:
		return allowance{handlers, 0}, allowance{}
	}
	return allowance{}, allowance{prefetch, all * prefetch}
}

func (a allowance) String() string {
	switch {
	case a == allowance{}:
		return "none"
	case a.restart == 0:
		return fmt.Sprintf("at most %d for each kill", a.kill)
	}
	return fmt.Sprintf("at most %d for each kill, %d for each restart of RabbitMQ", a.kill, a.restart)
}

// of returns how many one interruption may have.
func (a allowance) of(i interruption) int {
	switch i.what {
	case killOf:
		return a.kill
	case servers.RabbitMQ:
		return a.restart
	}
	return 0
}

// late is how long after a restart what was under way is given to come to its end.
// Handlers whose session has ended go on sending: on a machine that is busy the last
// of them are accepted when a send's time is over, and no later.
const (
	late     = sendTakes + time.Second
	lateSend = sendTakes + 5*time.Second
)

// judgeSoak is pure.
func judgeSoak(k Soak, e soakEnd) Verdict {
	lost, twice := allowances(k)
	v := Verdict{ElapsedMS: e.ElapsedMS, Accepted: e.Accepted}
	switch {
	case e.Confirmed == 0:
		return inconclusive(nil, time.Duration(e.ElapsedMS)*time.Millisecond, "nothing was published and confirmed")
	case k.KillEvery > 0 && k.KillEvery < k.Duration && e.Kills == 0:
		return inconclusive(nil, time.Duration(e.ElapsedMS)*time.Millisecond, "no worker could be killed")
	case k.restarts() && min(e.RabbitMQRestarts, e.RedisRestarts) == 0:
		return inconclusive(nil, time.Duration(e.ElapsedMS)*time.Millisecond, "not each server was restarted")
	}
	v.Findings = []Finding{lostFinding(e, lost), twiceFinding(k, e, twice)}
	v.Status, v.Outcome, v.Want = Held, Once, Once
	for _, f := range v.Findings {
		if !f.OK {
			v.Status = NotHeld
		}
	}
	for _, o := range []struct {
		outcome Outcome
		n       int
	}{{Lost, e.Lost}, {Twice, e.Twice}, {Parked, e.Parked}} {
		if o.n > 0 {
			v.Outcome = o.outcome
			break
		}
	}
	v.Why = fmt.Sprintf("%d confirmed: %d once, %d twice, %d lost, %d parked, through %s and %s",
		e.Confirmed, e.Once, e.Twice, e.Lost, e.Parked, quantity(e.Kills, "kills"), quantity(e.RabbitMQRestarts+e.RedisRestarts, "restarts"))
	for _, s := range e.lost {
		v.Outcomes = append(v.Outcomes, Fate{ID: s.ID, Channel: s.Channel, Outcome: Lost})
	}
	return v
}

func lostFinding(e soakEnd, a allowance) Finding {
	most := 0
	for _, i := range e.harm {
		most += a.of(i)
	}
	f := Finding{What: "lost", Want: a.String(), Got: fmt.Sprint(e.Lost), OK: e.Lost <= most}
	for _, s := range e.lost {
		f.IDs = append(f.IDs, s.ID)
	}
	return f
}

// twiceFinding checks that each second acceptance has a cause of its own, which may
// have no more than so many: the killed worker's call was one of the two, or there was
// a restart between them, or the first one's answer never came (UNKNOWN).
func twiceFinding(k Soak, e soakEnd, a allowance) Finding {
	f := Finding{What: "sent again", Want: a.String(), Got: fmt.Sprint(len(e.again))}
	without := e.again // a key closes all of it
	if !k.Settings.ProviderKey {
		without = unexplained(e, a)
		if a != (allowance{}) {
			f.Want += ", between the two sends"
		}
		if e.Unanswered > 0 {
			f.Want += fmt.Sprintf("; at most one for each of %d UNKNOWN", e.Unanswered)
		}
		if len(e.again) > 0 {
			f.Got += fmt.Sprintf(", %d without a cause", len(without))
		}
	}
	f.OK = len(without) == 0
	for _, s := range without[:min(mostNamed, len(without))] {
		f.IDs = append(f.IDs, fmt.Sprintf("%s-%d", e.ns, s.n))
	}
	return f
}

// unexplained returns the second acceptances for which no cause is left. Each
// interruption, in their order, takes those that must find one soonest.
func unexplained(e soakEnd, a allowance) []sentAgain {
	answers := map[numbered]int{} // that did not come
	maps.Copy(answers, e.unanswered)
	open := slices.DeleteFunc(slices.Clone(e.again), func(s sentAgain) bool {
		answers[s.numbered]--
		return answers[s.numbered] >= 0
	})
	slices.SortFunc(open, func(x, y sentAgain) int { return int(x.at - y.at) })
	for _, i := range e.harm {
		room := a.of(i)
		open = slices.DeleteFunc(open, func(s sentAgain) bool {
			if room == 0 || !s.by(i, e.began) {
				return false
			}
			room--
			return true
		})
	}
	return open
}

// by says whether an interruption can be the cause. A killed worker's call can have
// been the second one: accepted when another had taken its message over.
func (s sentAgain) by(i interruption, began time.Time) bool {
	if i.from.Sub(began) > s.at {
		return false
	}
	if i.what == killOf {
		return slices.Contains(s.callers[:], i.pid)
	}
	return s.before <= i.to.Sub(began)+lateSend
}
