package scenario

import (
	"fmt"
	"strings"
	"time"
)

// An allowance is how many messages one interruption may lose, or have sent again.
type allowance struct {
	kill    int
	restart int  // of RabbitMQ
	session int  // that ended
	unknown bool // an answer that did not come may cost one
}

// allowances are what the protocol leaves open in a soak, by its settings. A kill hits
// what its worker has in hand: with ack late all that is prefetched can come again, with
// a lease what each handler had sent and not yet marked. A restart of RabbitMQ ends the
// session of every worker; handlers go on, so with a record nothing is sent again. Who
// has no answer tries again. A key that the provider knows closes all of it.
func allowances(k Soak) (lost, twice allowance) {
	const all = crewSize * 2 // workers
	s, handlers, prefetch := k.Settings, k.concurrency(), k.prefetch()
	switch {
	case s.Ack == "early":
		return allowance{kill: handlers, restart: all * handlers}, allowance{kill: prefetch, session: prefetch, unknown: true}
	case s.ProviderKey && s.Idempotency && !s.ClaimLease:
		return allowance{kill: handlers}, allowance{}
	case s.ProviderKey:
		return allowance{}, allowance{}
	case s.Idempotency && s.ClaimLease:
		return allowance{}, allowance{kill: handlers, unknown: true}
	case s.Idempotency:
		return allowance{kill: handlers}, allowance{unknown: true}
	}
	return allowance{}, allowance{kill: prefetch, session: prefetch, unknown: true}
}

func (a allowance) String() string {
	var most []string
	for _, m := range []struct {
		n    int
		each string
	}{{a.kill, "kill"}, {a.restart, "restart of RabbitMQ"}, {a.session, "session that ended"}} {
		if m.n > 0 {
			most = append(most, fmt.Sprintf("%d for each %s", m.n, m.each))
		}
	}
	if len(most) == 0 {
		return "none"
	}
	return "at most " + strings.Join(most, ", ")
}

// of returns how many one interruption may have lost.
func (a allowance) of(i interruption) int {
	switch i.what {
	case workerKilled, workerDied:
		return a.kill
	case rabbitRestart:
		return a.restart
	}
	return 0
}

// judgeSoak is pure.
func judgeSoak(k Soak, e soakEnd) Verdict {
	lost, twice := allowances(k)
	v := Verdict{ElapsedMS: e.ElapsedMS, Accepted: e.Accepted}
	switch {
	case e.Confirmed == 0:
		return inconclusive(nil, time.Duration(e.ElapsedMS)*time.Millisecond, "nothing was published and confirmed")
	case k.kills() && e.Kills == 0:
		return inconclusive(nil, time.Duration(e.ElapsedMS)*time.Millisecond, "no worker could be killed")
	case k.restarts() && min(e.RabbitMQRestarts, e.RedisRestarts) == 0:
		return inconclusive(nil, time.Duration(e.ElapsedMS)*time.Millisecond, "not each server was restarted")
	}
	v.Findings = []Finding{lostFinding(e, lost), twiceFinding(e, twice)}
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

// twiceFinding checks that each second acceptance has a cause of its own.
func twiceFinding(e soakEnd, a allowance) Finding {
	without := unexplained(e, a)
	f := Finding{What: "sent again", Want: a.String(), Got: fmt.Sprint(len(e.again)), OK: len(without) == 0}
	if a.unknown && e.Unanswered > 0 {
		f.Want += fmt.Sprintf("; 1 for each of %d UNKNOWN", e.Unanswered)
	}
	if len(e.again) > 0 && f.Want != "none" {
		f.Got += fmt.Sprintf(", %d without a cause", len(without))
	}
	for _, s := range without[:min(mostNamed, len(without))] {
		f.IDs = append(f.IDs, fmt.Sprintf("%s-%d", e.ns, s.n))
	}
	return f
}
