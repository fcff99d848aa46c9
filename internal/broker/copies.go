package broker

import (
	"context"
	"fmt"
	"maps"
	"math"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"notifylab/internal/notify"
)

// Our own headers. All begin alike, so that a copy can tell them from the
// broker's.
const (
	headerSerial   = "x-notifylab-serial"      // of one copy, to match returns; of others it is in correlation-id
	headerCrash    = "x-notifylab-crash"       // arms a crash point
	headerAttempts = "x-notifylab-attempts"    // sends tried so far
	headerReason   = "x-notifylab-reason"      // why the last copy was made, one word
	headerFirst    = "x-notifylab-first-error" // what the first attempt said
	headerLast     = "x-notifylab-last-error"  // what the last attempt said
	headerTime     = "x-notifylab-time"        // when the last copy was made, RFC 3339
	headerWorker   = "x-notifylab-worker"      // by whom
	headerHistory  = "x-notifylab-history"     // a line for each copy, oldest first
)

const (
	maxError   = 512 // bytes of an error in a header
	maxHistory = 20  // lines
)

// isBrokers says whether the broker wrote a header or would act on it. A copy
// that carries x-death back to a queue named in it is confirmed and dropped in
// silence by 3.10 (measured: it takes it for a cycle).
func isBrokers(header string) bool {
	switch header {
	case "x-death", "x-delivery-count", "x-acquired-count", "CC", "BCC":
		return true
	}
	return strings.HasPrefix(header, "x-first-death-") || strings.HasPrefix(header, "x-last-death-")
}

// clean returns the message without what the broker added to it: the same body,
// byte for byte, the producer's properties, and our headers. user-id is left
// out, since a foreign one closes the channel, and so is expiration.
func clean(d amqp.Delivery) amqp.Publishing {
	headers := amqp.Table{}
	for k, v := range d.Headers {
		if !isBrokers(k) {
			headers[k] = v
		}
	}
	return amqp.Publishing{
		Headers:         headers,
		ContentType:     d.ContentType,
		ContentEncoding: d.ContentEncoding,
		Priority:        d.Priority,
		CorrelationId:   d.CorrelationId,
		ReplyTo:         d.ReplyTo,
		MessageId:       d.MessageId,
		Timestamp:       d.Timestamp,
		Type:            d.Type,
		AppId:           d.AppId,
		Body:            d.Body,
	}
}

// failed returns the copy of a message with why it was made written into its
// headers.
func failed(d amqp.Delivery, f notify.Failure) amqp.Publishing {
	p := clean(d)
	h := maps.Clone(p.Headers)
	said := cut(f.Error)
	h[headerAttempts] = int64(f.Attempts)
	h[headerReason] = f.Reason
	if _, ok := h[headerFirst].(string); !ok {
		h[headerFirst] = said
	}
	h[headerLast] = said
	h[headerTime] = f.At.UTC().Format(time.RFC3339Nano)
	h[headerWorker] = f.Worker
	history, _ := h[headerHistory].([]any)
	line := fmt.Sprintf("%s %s attempt %d %s: %s", f.At.UTC().Format(time.RFC3339Nano), f.Worker, f.Attempts, f.Reason, said)
	history = append(append([]any(nil), history...), line)
	h[headerHistory] = history[max(0, len(history)-maxHistory):]
	p.Headers = h
	return p
}

func cut(s string) string {
	s = strings.ToValidUTF8(s, "?")
	if len(s) <= maxError {
		return s
	}
	return strings.ToValidUTF8(s[:maxError], "") + "…"
}

// received turns the library's delivery into ours.
func received(d amqp.Delivery) *notify.Delivery {
	n := &notify.Delivery{Tag: d.DeliveryTag, Body: d.Body, Redelivered: d.Redelivered, Origin: d}
	if count, ok := integer(d.Headers["x-delivery-count"]); ok {
		n.Count, n.Counted = count, true
	} else if d.Redelivered {
		n.Count = 1
	}
	attempts, _ := integer(d.Headers[headerAttempts])
	n.Attempts = min(max(0, attempts), math.MaxInt32) // anyone can write a header
	n.Crash, _ = d.Headers[headerCrash].(string)
	return n
}

// integer reads a number of whatever width the other side chose.
func integer(v any) (int, bool) {
	switch n := v.(type) {
	case int64:
		return int(n), true
	case int32:
		return int(n), true
	case int16:
		return int(n), true
	case int8:
		return int(n), true
	case byte:
		return int(n), true
	case uint32:
		return int(n), true
	case uint16:
		return int(n), true
	case int:
		return n, true
	}
	return 0, false
}

// Retry publishes a copy of d to the retry queue of that delay, to come back to
// the work queue after it. nil: confirmed, so the original may be acked. An
// error that is [notify.ErrReturned] or [notify.ErrNacked]: no copy is there.
// [notify.ErrBlocked]: the broker holds publishers back, and says so at once; the
// same call again goes on with the copy that is on its way, if one is. Any other:
// there may be one, and the session is over. The original is not touched.
func (s *Session) Retry(ctx context.Context, d *notify.Delivery, delay time.Duration, f notify.Failure) error {
	return s.copy(ctx, d, s.topology.Retry(s.channel, delay), f)
}

// Park publishes a copy of d to the dead letters. Its errors are those of
// [Session.Retry].
func (s *Session) Park(ctx context.Context, d *notify.Delivery, f notify.Failure) error {
	return s.copy(ctx, d, s.topology.DeadLetters(s.channel), f)
}

// Unblocked returns a channel that is closed when the broker does not, or no
// longer, hold copies back. It stays open if the session ends before that.
func (s *Session) Unblocked() <-chan struct{} {
	_, free := s.copies.changes()
	return free
}

func (s *Session) copy(ctx context.Context, d *notify.Delivery, to string, f notify.Failure) error {
	origin, ok := d.Origin.(amqp.Delivery)
	if !ok {
		return fmt.Errorf("copy to %s: not a delivery of this broker", to)
	}
	if s.Err() != nil {
		return fmt.Errorf("copy to %s: %w", to, notify.ErrSessionOver)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.publishTimeout, fmt.Errorf("no answer within %v", s.publishTimeout))
	defer cancel()
	r, underWay := s.held.take(d)
	if !underWay {
		err := s.copies.isBlocked()
		if err != nil {
			return err
		}
		if r, err = s.copies.start(ctx, to, failed(origin, f)); err != nil {
			s.end(fmt.Errorf("publish to %s: %w", to, err))
			return fmt.Errorf("copy to %s: %w: %w", to, notify.ErrSessionOver, err)
		}
	}
	if err := r.held(ctx); err != nil {
		s.held.put(d, r)
		return err
	}
	switch fate, why := r.Wait(ctx); fate {
	case Confirmed:
		return nil
	case Returned:
		return fmt.Errorf("copy to %s: %w (%w)", to, notify.ErrReturned, why)
	case Nacked:
		return fmt.Errorf("copy to %s: %w", to, notify.ErrNacked)
	default:
		s.end(fmt.Errorf("publish to %s: %w", to, why))
		return fmt.Errorf("copy to %s: %w: %w", to, notify.ErrSessionOver, why)
	}
}

// A holdup is the copies that were under way when the broker began to hold
// publishers back, by their originals.
type holdup struct {
	mu       sync.Mutex
	receipts map[*notify.Delivery]*Receipt
}

func (h *holdup) put(d *notify.Delivery, r *Receipt) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.receipts == nil {
		h.receipts = map[*notify.Delivery]*Receipt{}
	}
	h.receipts[d] = r
}

func (h *holdup) take(d *notify.Delivery) (*Receipt, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r, ok := h.receipts[d]
	delete(h.receipts, d)
	return r, ok
}
