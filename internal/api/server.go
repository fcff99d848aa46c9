package api

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"notifylab/internal/broker"
	"notifylab/internal/idem"
	"notifylab/internal/notify"
	"notifylab/internal/rounds"
)

// Bounds of a request.
const (
	maxBody    = 32 << 10        // bytes
	headerTime = 5 * time.Second // for a client to send its headers
	bodyTime   = 10 * time.Second
	// answerTime is how long an answer may take, replays and the like apart: a
	// little less than the five seconds that are promised.
	answerTime = 4500 * time.Millisecond
	retryAfter = "5" // seconds
)

// A Mode is a kind of event that the lessons speak of.
type Mode struct {
	User     string
	Channels []notify.Channel
	Crash    string // the crash point that it arms
}

// Config is what an api is made of.
type Config struct {
	Namespace notify.Namespace
	Redis     idem.Client
	// Dial connects to the broker, for as long as ctx lets it.
	Dial     func(ctx context.Context, name string) (*broker.Conn, error)
	Topology broker.Topology
	// Declared hears which queues were made.
	Declared func(context.Context, broker.Topology)
	Modes    map[string]Mode
	Text     string // what a person reads if the request does not say
	// Timeout is for publishing and all its confirms, at most 5 s.
	Timeout time.Duration
	// AnyHost lets requests of every Host in: on an address that is no loopback it
	// has names that nobody here knows.
	AnyHost bool
}

// A Server answers the lab's HTTP requests.
type Server struct {
	Config
	link     *link
	lookouts map[notify.Channel]*rounds.Rounds[map[string]bool] // among the dead letters: which ids are there
	metrics  *metrics
	mux      *http.ServeMux
}

// New returns a server. It connects when it is first asked to publish, or by
// [Server.Connect].
func New(cfg Config) *Server {
	s := &Server{Config: cfg, lookouts: map[notify.Channel]*rounds.Rounds[map[string]bool]{}, metrics: newMetrics(), mux: http.NewServeMux()}
	s.link = newLink(cfg.Dial, cfg.Topology, cfg.Declared)
	for _, c := range notify.Channels() {
		s.lookouts[c] = rounds.New(func(time.Time) (map[string]bool, error) { return s.parked(c) })
	}
	s.routes()
	return s
}

// Connect makes the connection to publish on, and the queues.
func (s *Server) Connect(ctx context.Context) error {
	_, err := s.link.publish.get(ctx)
	return err
}

// Close ends the connections, and waits for what was begun on them. Requests must be
// over.
func (s *Server) Close() {
	for _, l := range s.lookouts {
		l.Drain()
	}
	s.link.end()
}

func (s *Server) routes() {
	s.route("POST /api/notify", true, s.notify)
	s.route("GET /api/notifications/{id}", false, s.notification)
	s.route("GET /api/lab/flags", false, s.flags)
	s.route("PUT /api/lab/flags", true, s.setFlags)
	s.route("GET /api/lab/queues", false, s.queues)
	s.route("GET /api/lab/keys", false, s.records, "id", "state")
	s.route("GET /api/lab/events", false, s.events, "since", "limit")
	s.route("GET /api/lab/dlq/{channel}", false, s.letters, "id", "user", "reason")
	s.route("DELETE /api/lab/dlq/{channel}", false, s.purge, "id", "user", "reason")
	s.route("POST /api/lab/dlq/{channel}/replay", false, s.replay, "id", "user", "reason", "dry-run", "force")
	s.route("POST /api/lab/reset", false, s.reset)
	s.route("GET /healthz", false, func(w http.ResponseWriter, _ *http.Request, _ url.Values) error {
		answer(w, http.StatusOK, map[string]string{"status": "alive"})
		return nil
	})
	s.route("GET /readyz", false, s.ready)
	s.mux.Handle("GET /metrics", s.metrics.handler())
}

// route lets handle answer the requests that fit: with JSON as their body, or
// without one, and with no parameters that are not known. An error that it returns
// is the answer.
func (s *Server) route(pattern string, takesJSON bool, handle func(http.ResponseWriter, *http.Request, url.Values) error, known ...string) {
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		q, err := parameters(r, known...)
		switch {
		case err != nil:
		case !takesJSON:
			err = withoutBody(r)
		case !isJSON(r):
			err = notJSON()
		}
		if err == nil {
			err = handle(w, r, q)
		}
		if err != nil {
			fail(w, err, nil)
		}
	})
}

// ServeHTTP implements [http.Handler]. A page of another site can make a browser
// send requests here, or point a name of its own at this address; so a Host or an
// Origin that is not ours is refused.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.AnyHost && !ours(r.Host) || !oursOrigin(r) {
		fail(w, refusal{http.StatusForbidden, "this Host or Origin is not let in"}, nil)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	s.metrics.count(s.mux, w, r)
}

// ours says whether a Host header names the loopback.
func ours(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.Trim(host, "[]")
	}
	ip := net.ParseIP(name)
	return strings.EqualFold(name, "localhost") || ip != nil && ip.IsLoopback()
}

// oursOrigin says whether the page that made a browser send a request, if one did,
// came from this machine or from this very address.
func oursOrigin(r *http.Request) bool {
	origins := r.Header.Values("Origin")
	for _, origin := range origins {
		u, err := url.Parse(origin)
		if err != nil || u.Host == "" || !ours(u.Host) && !strings.EqualFold(u.Host, r.Host) {
			return false
		}
	}
	return true
}

// HTTPServer returns the server to listen with.
func (s *Server) HTTPServer() *http.Server {
	return &http.Server{Handler: s, ReadHeaderTimeout: headerTime, ReadTimeout: bodyTime, MaxHeaderBytes: 64 << 10}
}

// answer writes v as JSON.
func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // the client may have gone
}

// A failure is the answer to what did not come about. Done is what was done before.
type failure struct {
	Error string `json:"error"`
	Done  any    `json:"done,omitempty"`
}

// fail answers a request that makes no sense, or says that a server is away.
func fail(w http.ResponseWriter, err error, done any) {
	var said refusal
	var turn *TurnError
	status := http.StatusServiceUnavailable
	switch {
	case errors.As(err, &said):
		status = said.status
	case errors.As(err, &turn):
		status = http.StatusConflict
		w.Header().Set("Retry-After", "1")
	default:
		w.Header().Set("Retry-After", retryAfter)
	}
	answer(w, status, failure{err.Error(), done})
}
