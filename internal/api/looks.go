package api

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"notifylab/internal/event"
	"notifylab/internal/idem"
	"notifylab/internal/lab"
)

func (s *Server) settings() *lab.Settings { return lab.NewSettings(s.Redis, s.Namespace) }

func limited(r *http.Request) (context.Context, context.CancelFunc) {
	return context.WithTimeout(r.Context(), answerTime)
}

func (s *Server) flags(w http.ResponseWriter, r *http.Request, _ url.Values) error {
	ctx, cancel := limited(r)
	defer cancel()
	v, err := s.settings().Get(ctx)
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, event.Settings{Idempotency: v.Idempotency, ClaimLease: v.ClaimLease, ProviderKey: v.ProviderKey})
	return nil
}

// setFlags takes the switches by the names of the lessons' curl commands.
func (s *Server) setFlags(w http.ResponseWriter, r *http.Request, q url.Values) error {
	var idempotency, lease, key *bool
	if err := decode(r, map[string]any{"idempotency": &idempotency, "claimLease": &lease, "providerKey": &key}); err != nil {
		return err
	}
	if idempotency == nil || lease == nil {
		return badRequest("idempotency and claimLease must both be given, true or false")
	}
	switches := map[string]bool{"idempotency": *idempotency, "claim-lease": *lease}
	if key != nil {
		switches["provider-key"] = *key
	}
	ctx, cancel := limited(r)
	defer cancel()
	if err := s.settings().Set(ctx, switches); err != nil {
		return err
	}
	return s.flags(w, r, q)
}

func (s *Server) queues(w http.ResponseWriter, r *http.Request, _ url.Values) error {
	ctx, cancel := limited(r)
	defer cancel()
	d, err := s.desk(ctx)
	if err != nil {
		return err
	}
	all, err := d.Queues(ctx)
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, all)
	return nil
}

// desk returns a desk for what needs no turn.
func (s *Server) desk(ctx context.Context) (Desk, error) {
	conn, err := s.link.looking(ctx)
	return Desk{Redis: s.Redis, Broker: conn, Namespace: s.Namespace, Who: "the api"}, err
}

func (s *Server) records(w http.ResponseWriter, r *http.Request, q url.Values) error {
	switch state := idem.State(q.Get("state")); state {
	case "", idem.Claimed, idem.Pending, idem.Done:
	default:
		return badRequest("state %q: there are %s, %s, %s", state, idem.Claimed, idem.Pending, idem.Done)
	}
	ctx, cancel := limited(r)
	defer cancel()
	all, err := Desk{Redis: s.Redis, Namespace: s.Namespace}.Records(ctx, q.Get("id"), q.Get("state"))
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, all)
	return nil
}

// eventsBody is a page of the journal: of the events after since, or, without one,
// the newest. Next goes into the next request's since.
type eventsBody struct {
	Events []event.Event `json:"events"`
	Next   string        `json:"next"`
}

const (
	somePage = 1000
	mostPage = 10_000
	// beforeAll is the cursor before every event.
	beforeAll = "0-0"
)

func (s *Server) events(w http.ResponseWriter, r *http.Request, q url.Values) error {
	limit := somePage
	if q.Has("limit") {
		n, err := strconv.Atoi(q.Get("limit"))
		if err != nil || n < 1 || n > mostPage {
			return badRequest("limit %q: want a number from 1 to %d", q.Get("limit"), mostPage)
		}
		limit = n
	}
	after, err := lab.ParseSince(q.Get("since"), time.Now())
	if err != nil {
		return badRequest("%v", err)
	}
	ctx, cancel := limited(r)
	defer cancel()
	var entries []lab.Entry
	if after == "" {
		after = beforeAll
		entries, err = lab.LatestJournal(ctx, s.Redis, s.Namespace, limit)
	} else {
		entries, err = lab.ReadJournal(ctx, s.Redis, s.Namespace, after, limit)
	}
	if err != nil {
		return err
	}
	body := eventsBody{Events: []event.Event{}, Next: after}
	for _, e := range entries {
		body.Events = append(body.Events, e.Event)
		body.Next = e.Cursor
	}
	answer(w, http.StatusOK, body)
	return nil
}

func (s *Server) reset(w http.ResponseWriter, r *http.Request, _ url.Values) error {
	ctx, cancel := limited(r)
	defer cancel()
	d, err := s.desk(ctx)
	if err != nil {
		return err
	}
	done, err := d.Reset(ctx)
	s.link.stale.Store(true) // our queues went, too
	if err != nil {
		fail(w, err, done)
		return nil
	}
	answer(w, http.StatusOK, done)
	return nil
}
