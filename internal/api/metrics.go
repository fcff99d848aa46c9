package api

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics are the api's own, in a registry of its own.
type metrics struct {
	registry  *prometheus.Registry
	requests  *prometheus.CounterVec
	seconds   *prometheus.HistogramVec
	published *prometheus.CounterVec
}

func newMetrics() *metrics {
	m := &metrics{
		registry:  prometheus.NewRegistry(),
		requests:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "notifylab_http_requests_total", Help: "Requests answered, by route and status."}, []string{"route", "status"}),
		seconds:   prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "notifylab_http_request_seconds", Help: "Time to answer, by route."}, []string{"route"}),
		published: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "notifylab_published_total", Help: "Messages published, by channel and what became of them."}, []string{"channel", "fate"}),
	}
	m.registry.MustRegister(m.requests, m.seconds, m.published,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// count serves a request and counts it by its route, so that ids do not become
// metrics.
func (m *metrics) count(mux *http.ServeMux, w http.ResponseWriter, r *http.Request) {
	_, route := mux.Handler(r)
	if route == "" {
		route = "none"
	}
	began := time.Now()
	rec := &recorder{ResponseWriter: w, status: http.StatusOK}
	mux.ServeHTTP(rec, r)
	m.requests.WithLabelValues(route, strconv.Itoa(rec.status)).Inc()
	m.seconds.WithLabelValues(route).Observe(time.Since(began).Seconds())
}

// recorder remembers the status.
type recorder struct {
	http.ResponseWriter
	status int
}

func (r *recorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController through.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
