package api

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"notifylab/internal/broker"
	"notifylab/internal/lab"
	"notifylab/internal/notify"
)

// lettersBody is what is among the dead letters.
type lettersBody struct {
	All     int      `json:"all"` // that match; the first of them are shown
	Letters []Letter `json:"dead_letters"`
}

// purgedBody is what a purge came to.
type purgedBody struct {
	Kind   string `json:"kind"` // purged
	Purged int    `json:"purged"`
}

const maxLetters = 1000 // in one answer

func filter(q url.Values) Filter {
	return Filter{ID: q.Get("id"), User: q.Get("user"), Reason: q.Get("reason")}
}

// channelOf returns the channel that the path names.
func channelOf(r *http.Request) (notify.Channel, error) {
	c, err := notify.ParseChannel(r.PathValue("channel"))
	if err != nil {
		return "", refusal{http.StatusNotFound, err.Error()}
	}
	return c, nil
}

// atTurn calls do at a desk with a connection of its own: to the broker, turns of
// one connection are one.
func (s *Server) atTurn(ctx context.Context, do func(Desk) error) error {
	dialling, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	conn, err := s.Dial(dialling, "api dead letters")
	if err != nil {
		return fmt.Errorf("%w: %w", errAway, err)
	}
	defer conn.Close()
	return do(Desk{Redis: s.Redis, Broker: conn, Namespace: s.Namespace, Who: "the api",
		Dial: func(ctx context.Context) (*broker.Conn, error) { return s.Dial(ctx, "api replays") }})
}

func (s *Server) letters(w http.ResponseWriter, r *http.Request, q url.Values) error {
	c, err := channelOf(r)
	if err != nil {
		return err
	}
	return s.atTurn(r.Context(), func(d Desk) error {
		letters, all, err := d.Letters(r.Context(), c, filter(q), maxLetters)
		if err == nil {
			answer(w, http.StatusOK, lettersBody{all, letters})
		}
		return err
	})
}

func (s *Server) purge(w http.ResponseWriter, r *http.Request, q url.Values) error {
	c, err := channelOf(r)
	if err != nil {
		return err
	}
	return s.atTurn(r.Context(), func(d Desk) error {
		n, err := d.Purge(r.Context(), c, filter(q))
		done := purgedBody{"purged", n}
		if err != nil {
			fail(w, err, done)
			return nil
		}
		answer(w, http.StatusOK, done)
		return nil
	})
}

func (s *Server) replay(w http.ResponseWriter, r *http.Request, q url.Values) error {
	c, err := channelOf(r)
	if err != nil {
		return err
	}
	o := ReplayOptions{Filter: filter(q)}
	for name, to := range map[string]*bool{"dry-run": &o.DryRun, "force": &o.Force} {
		if !q.Has(name) {
			continue
		}
		if *to, err = lab.ParseSwitch(q.Get(name)); err != nil {
			return badRequest("%s: %v", name, err)
		}
	}
	return s.atTurn(r.Context(), func(d Desk) error {
		sum, err := d.Replay(r.Context(), c, o)
		switch {
		case err == nil:
			answer(w, http.StatusOK, sum)
		case sum.Kind == "": // it was nobody's turn
			return err
		default:
			fail(w, err, sum)
		}
		return nil
	})
}
