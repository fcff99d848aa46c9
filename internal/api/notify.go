package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/rs/xid"

	"notifylab/internal/broker"
	"notifylab/internal/lab"
	"notifylab/internal/notify"
)

// notifyBody asks for an event: by a mode, or by what it is, or both. What is not
// given is the mode's.
type notifyBody struct {
	Mode     *string  `json:"mode"`
	ID       *string  `json:"id"`
	User     *string  `json:"user"`
	Text     *string  `json:"text"`
	Channels []string `json:"channels"`
}

// queuedBody is the answer when everything was confirmed.
type queuedBody struct {
	Queued bool     `json:"queued"`
	ID     string   `json:"id"`
	User   string   `json:"user"`
	Queues []string `json:"queues"`
	Mode   string   `json:"mode"`
}

// partBody is the answer when not everything was.
type partBody struct {
	Error    string            `json:"error"`
	Queued   bool              `json:"queued"`
	ID       string            `json:"id"`
	Channels map[string]string `json:"channels"` // confirmed, returned, nacked, unknown or not published
}

// An order is a request to notify that makes sense.
type order struct {
	notify.Notification
	mode     string
	channels []notify.Channel
	crash    string
}

func (s *Server) order(b notifyBody) (order, error) {
	o := order{mode: "default"}
	if b.Mode != nil {
		o.mode = *b.Mode
	}
	m, ok := s.Modes[o.mode]
	if !ok {
		return order{}, badRequest("mode %q: there are %s", o.mode, strings.Join(slices.Sorted(maps.Keys(s.Modes)), ", "))
	}
	o.channels, o.crash = m.Channels, m.Crash
	o.Notification = notify.Notification{ID: xid.New().String(), User: m.User, Text: s.Text}
	for to, given := range map[*string]*string{&o.ID: b.ID, &o.User: b.User, &o.Text: b.Text} {
		if given != nil {
			*to = *given
		}
	}
	if b.Channels != nil {
		o.channels = nil
		for _, name := range b.Channels {
			c, err := notify.ParseChannel(name)
			if err != nil {
				return order{}, badRequest("channels: %v", err)
			}
			if !slices.Contains(o.channels, c) {
				o.channels = append(o.channels, c)
			}
		}
		if len(o.channels) == 0 {
			return order{}, badRequest("channels is empty")
		}
	}
	if err := o.Validate(); err != nil {
		return order{}, badRequest("%v", err)
	}
	return o, nil
}

// notify answers POST /api/notify. A client that leaves changes nothing: what was
// begun comes to its end, so that the next one with the same key hears of it.
func (s *Server) notify(w http.ResponseWriter, r *http.Request, _ url.Values) error {
	var b notifyBody
	err := decode(r, map[string]any{"mode": &b.Mode, "id": &b.ID, "user": &b.User, "text": &b.Text, "channels": &b.Channels})
	if err != nil {
		return err
	}
	o, err := s.order(b)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), min(s.Timeout, answerTime))
	defer cancel()
	if key := r.Header.Get("Idempotency-Key"); key != "" {
		return s.publishOnce(ctx, w, o, key, b)
	}
	s.tell(w, o, s.publishAll(ctx, o))
	return nil
}

// publishOnce publishes at most one event for an Idempotency-Key, whoever posts it
// again and however often.
func (s *Server) publishOnce(ctx context.Context, w http.ResponseWriter, o order, key string, b notifyBody) error {
	if len(key) > 255 {
		return badRequest("Idempotency-Key has more than 255 bytes")
	}
	keys := lab.NewRequests(s.Redis, s.Namespace)
	body, err := json.Marshal(b)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(body)
	claim, err := keys.Begin(ctx, key, hex.EncodeToString(sum[:8]), o.ID)
	if err != nil {
		return err
	}
	switch claim.State {
	case lab.RequestOther:
		return refusal{http.StatusUnprocessableEntity, "this Idempotency-Key was used with another body"}
	case lab.RequestBusy:
		w.Header().Set("Retry-After", "1")
		return refusal{http.StatusConflict, "a request with this Idempotency-Key is being answered"}
	case lab.RequestDone:
		o.ID = claim.ID
		w.Header().Set("Idempotency-Replayed", "true")
		answer(w, http.StatusAccepted, s.queued(o))
		return nil
	case lab.RequestMine:
	}
	o.ID = claim.ID // the first one's, if that came to no end
	part := s.publishAll(ctx, o)
	// Before the answer: who posts again at once is not told that it is busy. It may
	// take what time the answer still has, and a note's: forgotten, the event is
	// published again, under the same id.
	deadline, _ := ctx.Deadline()
	ending, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline.Add(noteTime))
	defer cancel()
	_ = keys.End(ending, key, claim, part.Queued) // else it ends by itself
	s.tell(w, o, part)
	return nil
}

func (s *Server) queued(o order) queuedBody {
	b := queuedBody{Queued: true, ID: o.ID, User: o.User, Mode: o.mode}
	for _, c := range o.channels {
		b.Queues = append(b.Queues, s.Namespace.Bare(s.Topology.Work(c)))
	}
	return b
}

// noteTime is how long writing down what was done may take.
const noteTime = 250 * time.Millisecond

// publishAll publishes an order and says what became of it.
func (s *Server) publishAll(ctx context.Context, o order) partBody {
	part := partBody{ID: o.ID, Channels: map[string]string{}}
	var confirmed []notify.Channel
	var whys []string
	for _, p := range s.link.send(ctx, o.Notification, o.channels, o.crash) {
		part.Channels[string(p.channel)] = p.fate
		s.metrics.published.WithLabelValues(string(p.channel), p.fate).Inc()
		if p.fate == broker.Confirmed.String() {
			confirmed = append(confirmed, p.channel)
			continue
		}
		whys = append(whys, fmt.Sprintf("%s: %s: %s", s.Namespace.Bare(s.Topology.Work(p.channel)), p.fate, p.why))
	}
	// Whoever asks later what became of it is told; a note that can't be written
	// changes nothing of what was queued.
	noting, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTime)
	defer cancel()
	_ = lab.NewRequests(s.Redis, s.Namespace).Queued(noting, o.Notification, confirmed)
	part.Queued, part.Error = len(whys) == 0, strings.Join(whys, "; ")
	return part
}

func (s *Server) tell(w http.ResponseWriter, o order, part partBody) {
	if part.Queued {
		answer(w, http.StatusAccepted, s.queued(o))
		return
	}
	w.Header().Set("Retry-After", retryAfter)
	answer(w, http.StatusServiceUnavailable, part)
}
