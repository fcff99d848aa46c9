package api

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"notifylab/internal/idem"
	"notifylab/internal/lab"
	"notifylab/internal/notify"
	"notifylab/internal/rounds"
)

// statusBody is what is known of a notification, by channel: queued, pending, done,
// claimed, parked or unknown.
type statusBody struct {
	ID       string            `json:"id"`
	Channels map[string]string `json:"channels"`
}

func nobodyKnows() error {
	return refusal{http.StatusNotFound, "nobody knows of this notification"}
}

// notification answers GET /api/notifications/{id}: 404 for one that nobody knows.
//
// done: it was sent. parked: it is among the dead letters. pending: somebody has it
// for a lease. claimed: somebody has or had it, for good; whether it was sent nobody
// knows. queued: its message was confirmed, and nothing is known since. unknown: it
// was queued, and somebody keeps us from looking among the dead letters.
func (s *Server) notification(w http.ResponseWriter, r *http.Request, _ url.Values) error {
	id := r.PathValue("id")
	if (notify.Notification{ID: id, User: "any"}).Validate() != nil {
		return nobodyKnows() // nor can there be one
	}
	ctx, cancel := limited(r)
	defer cancel()
	states, err := s.written(ctx, id)
	if err != nil {
		return err
	}
	looks := map[notify.Channel]*rounds.Round[map[string]bool]{} // all are asked for before one is waited for
	for _, c := range notify.Channels() {
		if states[string(c)] != string(idem.Done) {
			looks[c] = s.lookouts[c].Join()
		}
	}
	var away error
	for c, look := range looks {
		parked, err := look.Wait(ctx)
		switch {
		case err != nil:
			away = err
			if states[string(c)] == stateQueued {
				states[string(c)] = "unknown"
			}
		case parked[id]:
			states[string(c)] = "parked"
		}
	}
	switch {
	case len(states) > 0:
		answer(w, http.StatusOK, statusBody{id, states})
		return nil
	case away != nil:
		return away
	}
	return nobodyKnows()
}

const stateQueued = "queued"

// written returns what is written down of a notification in Redis, by channel.
func (s *Server) written(ctx context.Context, id string) (map[string]string, error) {
	queued, err := lab.NewRequests(s.Redis, s.Namespace).WhereQueued(ctx, id)
	if err != nil {
		return nil, err
	}
	states := map[string]string{}
	for _, c := range queued {
		states[c] = stateQueued
	}
	records, err := Desk{Redis: s.Redis, Namespace: s.Namespace}.Records(ctx, id, "")
	for _, rec := range records {
		states[rec.Channel] = rec.State
	}
	return states, err
}

// parked returns the ids among the dead letters of a channel.
func (s *Server) parked(c notify.Channel) (map[string]bool, error) {
	ids := map[string]bool{}
	ctx := context.Background() // a look is for many, and ends by itself
	err := s.atTurn(ctx, func(d Desk) error {
		letters, _, err := d.Letters(ctx, c, Filter{}, manyLetters)
		for _, l := range letters {
			ids[l.ID] = true
		}
		return err
	})
	return ids, err
}

const manyLetters = 1 << 30

// readyBody says why the api can't publish, if it can't.
type readyBody struct {
	Status   string `json:"status"` // ready or not ready
	RabbitMQ string `json:"rabbitmq"`
	Redis    string `json:"redis"`
}

// ready answers 200 when an event could be published now.
func (s *Server) ready(w http.ResponseWriter, r *http.Request, _ url.Values) error {
	ctx, cancel := context.WithTimeout(r.Context(), 3*time.Second)
	defer cancel()
	b := readyBody{Status: "ready", RabbitMQ: "ok", Redis: "ok"}
	status := http.StatusOK
	if _, err := s.link.current(ctx); err != nil {
		b.RabbitMQ, status = err.Error(), http.StatusServiceUnavailable
	}
	if err := s.Redis.Ping(ctx).Err(); err != nil {
		b.Redis, status = err.Error(), http.StatusServiceUnavailable
	}
	if status != http.StatusOK {
		b.Status = "not ready"
		w.Header().Set("Retry-After", retryAfter)
	}
	answer(w, status, b)
	return nil
}
