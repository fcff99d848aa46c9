package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"notifylab/internal/event"
)

// meters count events, of one worker or of all that a supervisor hears, and know
// who is ready.
type meters struct {
	registry *prometheus.Registry
	events   *prometheus.CounterVec
	settled  *prometheus.GaugeVec
	workers  int // that there are to be

	mu    sync.Mutex
	ready map[string]int // by source, for who was ready in this life: outages since that go on
}

func newMeters(workers int) *meters {
	m := &meters{
		registry: prometheus.NewRegistry(),
		events:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "notifylab_events_total", Help: "Events, by kind, channel and who said so."}, []string{"kind", "channel", "source"}),
		settled:  prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "notifylab_last_settled_timestamp_seconds", Help: "When a worker last acked a delivery: one that lives and gets nothing done stands still here."}, []string{"source"}),
		workers:  workers, ready: map[string]int{},
	}
	m.registry.MustRegister(m.events, m.settled, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// event counts one.
func (m *meters) event(e event.Event) {
	if e.Kind == event.Log {
		return
	}
	m.events.WithLabelValues(string(e.Kind), e.Channel, e.Source).Inc()
	if e.Kind == event.Acked {
		m.settled.WithLabelValues(e.Source).Set(float64(e.Time.UnixMilli()) / 1000)
	}
	m.stand(e)
}

// stand keeps who is ready. A worker says READY in the beginning and after an outage
// of RabbitMQ, and that it is connected again after one of Redis; there can be both
// at once.
func (m *meters) stand(e event.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	outages, known := m.ready[e.Source]
	switch e.Kind {
	case event.Ready:
		m.ready[e.Source] = max(0, outages-1)
	case event.Reconnected, event.Woke:
		if known {
			m.ready[e.Source] = max(0, outages-1)
		}
	case event.Disconnect, event.Stopped:
		if known {
			m.ready[e.Source] = outages + 1
		}
	case event.Crash:
		delete(m.ready, e.Source)
	case event.Restart, event.GaveUp, event.Exited:
		delete(m.ready, e.Owner)
	}
}

// fit says whether as many are ready as there are to be.
func (m *meters) fit() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, outages := range m.ready {
		if outages == 0 {
			n++
		}
	}
	return n >= m.workers
}

func (m *meters) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, `{"status":"alive"}`) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !m.fit() {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintln(w, `{"status":"not ready"}`)
			return
		}
		fmt.Fprintln(w, `{"status":"ready"}`)
	})
	return mux
}

// offerMetrics serves one worker's meters at an address, if one was asked for, and
// lets them hear what emit hears. It returns what ends that.
func (a *app) offerMetrics(listen string, emit *func(event.Event)) (func(), error) {
	return a.offerMetricsOf(1, listen, emit)
}

// offerMetricsOf is offerMetrics for as many workers.
func (a *app) offerMetricsOf(workers int, listen string, emit *func(event.Event)) (func(), error) {
	if listen == "" {
		return func() {}, nil
	}
	ln, err := net.Listen("tcp", listen)
	if err != nil {
		return nil, hinted{unavailableError{fmt.Errorf("listen on %s: %w", listen, listenReason(err))}, []string{"another address   --metrics-listen 127.0.0.1:PORT"}}
	}
	fmt.Fprintf(a.stderr, "metrics at http://%s/metrics (and /healthz, /readyz)\n", ln.Addr())
	m := newMeters(workers)
	heard := *emit
	*emit = func(e event.Event) {
		m.event(e) // first: whoever reads the line finds it counted
		heard(e)
	}
	s := &http.Server{Handler: m.handler(), ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			s.Close()
		}
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			fmt.Fprintf(a.stderr, "notifylab: metrics: %v\n", err)
		}
	}, nil
}
