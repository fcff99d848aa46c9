package provider

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"notifylab/internal/event"
	"notifylab/internal/notify"
)

// Source is who says the provider's events.
const Source = "provider"

// KeyHeader is the header that a notification's key comes in.
const KeyHeader = "Idempotency-Key"

// CallerHeader is the header in which a caller says its pid, so that the ledger can
// tell which of several workers made a call, the dead ones among them.
const CallerHeader = "X-Notifylab-Pid"

// maxBody bounds a call, in bytes: the longest text, with each byte escaped
// the longest way, and room for the rest.
const maxBody = 6*notify.MaxText + 8<<10

// badUser's push is refused each time, as if the phone were gone: the lab's
// notification that can never be delivered.
const (
	badUser   = "999"
	badStatus = http.StatusBadRequest
	badReason = "invalid device token"
)

// Options say how a provider starts.
type Options struct {
	// Emit, if not nil, gets an event for every call in the ledger: one at a
	// time, in the ledger's order, before the call is answered. It must not
	// ask the ledger, and what it takes, every call waits for.
	Emit func(event.Event)
	// Faults are the first; see [Server.SetFaults].
	Faults Faults
	// Brief is for long runs: the ledger keeps counts, and no calls.
	Brief bool
}

// A Server is the outside world: an HTTP provider that remembers each call in
// its [Ledger], and can be told to misbehave.
//
//	POST /<channel>   a notification; 200 if accepted
//	GET /ledger       all calls, as a JSON array
//
// A request that is no notification (404, 405, 400, 413) is not in the ledger.
type Server struct {
	*Ledger
	plan    atomic.Pointer[plan]
	setting sync.Mutex // one SetFaults at a time
	alone   life       // of calls that come by ServeHTTP
}

// New returns a provider that listens nowhere yet: see [Server.Listen].
func New(o Options) *Server {
	s := &Server{Ledger: newLedger(o.Emit)}
	s.brief = o.Brief
	s.SetFaults(o.Faults)
	return s
}

// Faults returns what the provider does wrong now.
func (s *Server) Faults() Faults {
	return newPlan(s.plan.Load().Faults, nil).Faults // copies
}

// SetFaults replaces all faults, for the calls that come from now on. Calls
// that wait go on waiting as they were told, but for those at a gate that is
// no longer there: they go through.
func (s *Server) SetFaults(f Faults) {
	s.setting.Lock()
	defer s.setting.Unlock()
	s.plan.Store(newPlan(f, s.plan.Load()))
}

// ServeHTTP handles one request, for servers other than [Server.Listen]'s.
// Those have no way to end a call that is delayed or held: it waits its time.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.serve(w, r, &s.alone) }

func (s *Server) serve(w http.ResponseWriter, r *http.Request, l *life) {
	path := strings.TrimPrefix(r.URL.Path, "/")
	if path == "ledger" {
		if r.Method != http.MethodGet {
			methodNotAllowed(w, http.MethodGet)
			return
		}
		s.writeLedger(w)
		return
	}
	channel, err := notify.ParseChannel(path)
	if err != nil {
		answer(w, http.StatusNotFound, err.Error())
		return
	}
	if r.Method != http.MethodPost {
		methodNotAllowed(w, http.MethodPost)
		return
	}
	n, status, err := readCall(w, r)
	if err != nil {
		answer(w, status, err.Error())
		return
	}
	if !l.enter() {
		panic(http.ErrAbortHandler) // closing: neither accepted nor answered
	}
	defer l.leave()
	s.handle(w, n, channel, r, l)
}

// handle takes one call through the faults into the ledger, and answers it. A
// panic with [http.ErrAbortHandler] is net/http's way to close the connection
// without an answer.
func (s *Server) handle(w http.ResponseWriter, n notify.Notification, c notify.Channel, r *http.Request, l *life) {
	var never chan struct{}
	p := s.plan.Load()
	p.arrived(n.ID)

	if _, hang := lastFor(p.Hang, n, c); hang {
		s.wait(n.ID, c, never, r.Context().Done(), l.closing)
		panic(http.ErrAbortHandler)
	}
	for _, g := range p.holding(n.ID) {
		if !s.wait(n.ID, c, g.open, never, l.closing) {
			panic(http.ErrAbortHandler)
		}
	}
	if d, late := lastFor(p.Delay, n, c); late && d.For > 0 {
		over := make(chan struct{})
		timer := time.AfterFunc(d.For, func() { close(over) })
		defer timer.Stop()
		if !s.wait(n.ID, c, over, never, l.closing) {
			panic(http.ErrAbortHandler)
		}
	}

	caller, _ := strconv.Atoi(r.Header.Get(CallerHeader)) // who says none is 0
	call := Call{ID: n.ID, Channel: c, User: n.User, Text: n.Text, Key: r.Header.Get(KeyHeader), Caller: caller, Status: http.StatusOK}
	if call.Status, call.Reason = refusal(p, n, c); call.Reason != "" {
		s.refuse(call)
		answer(w, call.Status, call.Reason)
		return
	}
	s.accept(call) // before the first byte of any answer
	if _, mute := lastFor(p.AcceptHang, n, c); mute {
		s.wait(n.ID, c, never, r.Context().Done(), l.closing)
		panic(http.ErrAbortHandler)
	}
	// The same words whether it was the first, another, or recognised: a
	// client learns only that it need not try again.
	answer(w, call.Status, "accepted")
}

// refusal returns the status and reason of a call that is to be refused, or
// 200 and no reason.
func refusal(p *plan, n notify.Notification, c notify.Channel) (int, string) {
	if n.User == badUser && c == notify.Push {
		return badStatus, badReason
	}
	if f, ok := lastFor(p.Refuse, n, c); ok {
		reason := strings.ToLower(http.StatusText(f.Status))
		if reason == "" {
			reason = "refused"
		}
		return f.Status, reason
	}
	return http.StatusOK, ""
}

// wait returns true when until is closed, false if gone or closing was first.
// Meanwhile the call counts as held.
func (s *Server) wait(id string, c notify.Channel, until, gone, closing <-chan struct{}) bool {
	s.hold(id, c, +1)
	defer s.hold(id, c, -1)
	select {
	case <-until:
		return true
	case <-gone:
	case <-closing:
	}
	return false
}

// readCall returns the notification, or the status that says why it is none. What a
// page can have a browser post here, text or with the page's origin, is none: it
// would be in the ledger.
func readCall(w http.ResponseWriter, r *http.Request) (notify.Notification, int, error) {
	if r.Header.Get("Origin") != "" {
		return notify.Notification{}, http.StatusForbidden, errors.New("no browsers here")
	}
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/json" {
		return notify.Notification{}, http.StatusUnsupportedMediaType, errors.New("only application/json here")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long):
		return notify.Notification{}, http.StatusRequestEntityTooLarge, fmt.Errorf("more than %d bytes", long.Limit)
	case err != nil:
		return notify.Notification{}, http.StatusBadRequest, fmt.Errorf("read body: %w", err)
	}
	n, err := notify.Decode(body)
	return n, http.StatusBadRequest, err
}

func methodNotAllowed(w http.ResponseWriter, want string) {
	w.Header().Set("Allow", want)
	answer(w, http.StatusMethodNotAllowed, "only "+want+" here")
}

// answer writes one line, and has it on its way when it returns: a server may
// close the connection right after.
func answer(w http.ResponseWriter, status int, line string) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.Itoa(len(line)+1))
	w.WriteHeader(status)
	// Errors from here on mean that the client has gone, which changes nothing.
	_, _ = io.WriteString(w, line+"\n")
	_ = http.NewResponseController(w).Flush()
}

// writeLedger writes the calls there are when it starts, one a line.
func (s *Server) writeLedger(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	pages, _ := s.view()
	b := bufio.NewWriter(w)
	defer b.Flush()
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	between := "["
	for _, page := range pages {
		for _, c := range page {
			_, _ = b.WriteString(between)
			if e.Encode(c) != nil {
				return // the reader has gone
			}
			between = ","
		}
	}
	if between == "[" {
		_, _ = b.WriteString(between)
	}
	_, _ = b.WriteString("]\n")
}
