package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"notifylab/internal/event"
	"notifylab/internal/idem"
	"notifylab/internal/notify"
	"notifylab/internal/worker"
)

// A symptom is one thing that the doctor has looked at.
type symptom struct {
	Kind   string `json:"kind"` // symptom
	What   string `json:"what"`
	Status string `json:"status"` // ok, warning, bad, or unseen
	Is     string `json:"is"`     // how it is
	Do     string `json:"do"`     // what to do about it; empty: nothing
}

const (
	fine    = "ok"
	warning = "warning"
	bad     = "bad"
	unseen  = "unseen" // it can't be looked at from here
)

type doctorFlags struct {
	worker     workerFlags
	management string
	strict     bool
}

func (a *app) doctorCommand() *cobra.Command {
	var f doctorFlags
	cmd := &cobra.Command{
		Use:     "doctor",
		GroupID: groupSetUp,
		Short:   "Is it fit? Servers, queues, eviction, lease, locks, clock",
		Long: `Looks at what the lab stands on, and says of each thing that is not as it should be
what to do about it. What can't be seen from here is said to be so. It changes
nothing. Exit status: 69 if something is bad; with --strict also if there is a warning.

The flags are those of the workers that are to run.`,
		Example: "  notifylab doctor\n  notifylab doctor --strict -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkManagement(f.management); err != nil {
				return err
			}
			return a.doctor(cmd.Context(), f)
		},
	}
	f.worker.register(cmd.Flags())
	cmd.Flags().VisitAll(hideAllBut("send-timeout", "lease", "queue-type", "backoff"))
	cmd.Flags().StringVar(&f.management, "management-url", "", "RabbitMQ's management API (default: port 15672 of the host in --amqp-url, if that is amqp://)")
	cmd.Flags().BoolVar(&f.strict, "strict", false, "warnings count, too: for CI")
	return cmd
}

func (a *app) doctor(ctx context.Context, f doctorFlags) error {
	ctx, cancel, done := a.signals(ctx)
	defer done()
	out := a.printer(cancel)
	worst := exitOK
	tell := func(s symptom) {
		if ctx.Err() != nil {
			return // what is found then is the interruption's
		}
		s.Kind = "symptom"
		if s.Status == bad || f.strict && s.Status == warning {
			worst = exitUnavailable
		}
		tellSymptom(out, s)
	}
	tell(leaseSymptom(f.worker))
	tell(a.examineState())
	a.examineRedis(ctx, tell)
	a.examineRabbit(ctx, f, tell)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if worst != exitOK {
		return statusError{worst, ""}
	}
	return nil
}

func tellSymptom(out *printer, s symptom) {
	if out.json {
		out.object(s)
		return
	}
	p := out.palette
	c := map[string]interface{ Sprint(...any) string }{fine: p.green, warning: p.yellow, bad: p.red, unseen: p.dim}[s.Status]
	text := fmt.Sprintf("%s  %s  %s\n", c.Sprint(pad(s.Status, len(warning))), pad(s.What, 22), escape(s.Is))
	if s.Do != "" {
		text += fmt.Sprintf("%s  do: %s\n", pad("", len(warning)+2+22), escape(s.Do))
	}
	out.text(text)
}

func leaseSymptom(w workerFlags) symptom {
	s := symptom{What: "lease", Status: fine, Is: fmt.Sprintf("%s for a send time-out of %s", event.Short(w.lease), event.Short(w.sendTimeout))}
	if err := worker.CheckLease(w.lease, w.sendTimeout); err != nil {
		s.Status, s.Is, s.Do = bad, err.Error(), "--lease "+event.Short(worker.MinLease(w.sendTimeout))+" or a shorter --send-timeout"
	}
	return s
}

// examineState looks whether slots can be locked where they are to be: taken, and
// not taken twice.
func (a *app) examineState() symptom {
	s := symptom{What: "slot directory", Status: fine, Is: a.state() + ", where each worker locks a slot"}
	const nobodys = notify.Namespace("_doctor") // no namespace can be called that
	err := withSlot(a.state(), nobodys, func(first int) error {
		return withSlot(a.state(), nobodys, func(second int) error {
			if first == second {
				return errors.New("a lock there does not lock")
			}
			return nil
		})
	})
	if err != nil {
		s.Status, s.Is, s.Do = bad, fmt.Sprintf("%s: %v", a.state(), err), "--state-dir DIRECTORY that belongs to you, on a local file system"
	}
	return s
}

func withSlot(dir string, ns notify.Namespace, do func(slot int) error) error {
	slot, err := idem.TakeSlot(dir, ns, notify.Push)
	if err != nil {
		return err
	}
	return errors.Join(do(slot.Number()), slot.Free())
}

func (a *app) examineRedis(ctx context.Context, tell func(symptom)) {
	client, err := idem.Dial(a.redisURL, 2)
	if err == nil {
		defer client.Close()
		err = idem.Ping(ctx, client, a.redisURL)
	}
	var health idem.Health
	if err == nil {
		health, err = idem.Examine(ctx, client)
	}
	if err != nil {
		tell(awaySymptom("Redis", err))
		return
	}
	tell(redisSymptom(health))
	if nodes, several, err := idem.ExamineCluster(ctx, client); several {
		tell(redisNodesSymptom(nodes, err))
	}
	for _, s := range []symptom{evictionSymptom(health), persistenceSymptom(health), clockSymptom(health.Skew)} {
		tell(s)
	}
}

func redisSymptom(h idem.Health) symptom {
	s := symptom{What: "Redis", Status: fine, Is: h.Version}
	if h.Major < 7 {
		s.Status, s.Do = bad, "Redis 7.0 or newer: SET NX GET together came with it"
	}
	return s
}

// notAllowed is why a setting of Redis's can't be seen.
const notAllowed = "CONFIG GET is not allowed here"

func evictionSymptom(h idem.Health) symptom {
	s := symptom{What: "Redis eviction", Status: fine, Is: h.Eviction}
	switch h.Eviction {
	case "noeviction":
	case "":
		s.Status, s.Is = unseen, notAllowed
	default:
		s.Status, s.Do = warning, "CONFIG SET maxmemory-policy noeviction: records have a time to live, so they are the first to be evicted, and what they are about is sent again"
	}
	return s
}

func persistenceSymptom(h idem.Health) symptom {
	s := symptom{What: "Redis persistence", Status: fine, Is: "appendonly yes, appendfsync " + h.AppendFsync}
	switch h.AppendOnly {
	case "yes":
	case "":
		s.Status, s.Is = unseen, notAllowed
	default:
		s.Status, s.Is, s.Do = warning, "no append-only file", "CONFIG SET appendonly yes, and in its configuration: without it a restart forgets every record, and what is redelivered is sent again"
	}
	return s
}

// clockSymptom compares the clocks. Leases don't depend on it, times in lists do.
func clockSymptom(skew time.Duration) symptom {
	s := symptom{What: "clock", Status: fine, Is: fmt.Sprintf("%v from Redis's", skew.Round(time.Millisecond))}
	if skew.Abs() > 2*time.Second {
		s.Status, s.Do = warning, "synchronise the clocks: leases don't need it, but --since and the times of dead letters do"
	}
	return s
}

// awaySymptom is that of a server that does not answer or won't have us. Errors begin
// with its name, as the line does.
func awaySymptom(server string, err error) symptom {
	return symptom{What: server, Status: bad, Is: strings.TrimPrefix(err.Error(), server+" "), Do: firstHint(err)}
}

// firstHint is the first of an error's hints, as one line: the command, and behind it
// what it does.
func firstHint(err error) string {
	if all := hints(err); len(all) > 0 {
		parts := hintColumns.Split(all[0], -1)
		if len(parts) == 1 {
			return all[0]
		}
		about := parts[0]
		for _, remark := range parts[2:] {
			about += "; " + strings.Trim(remark, "()")
		}
		return fmt.Sprintf("%s (%s)", parts[1], about)
	}
	if errors.Is(err, io.EOF) {
		return "look into the server's log: it hung up"
	}
	return ""
}

// hintColumns stands between the columns of a hint: what to do, how, and a remark.
var hintColumns = regexp.MustCompile(` {3,}`)
