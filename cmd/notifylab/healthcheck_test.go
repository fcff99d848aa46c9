package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestHealthcheck(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/well":
			w.WriteHeader(http.StatusNoContent)
		case "/elsewhere":
			http.Redirect(w, r, "/well", http.StatusFound)
		case "/slow":
			<-over
		case "/ill":
			http.Error(w, "not ready\x1b[2J", http.StatusServiceUnavailable)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(func() { close(over); server.Close() })
	// It needs no servers, whatever their addresses are, and no proxy.
	c := cornerAt(t, "", "").with("AMQP_URL=nonsense", "REDIS_URL=nonsense", "HTTP_PROXY=http://"+nowhere, "http_proxy=http://"+nowhere)
	address := strings.TrimPrefix(server.URL, "http://")
	for url, want := range map[string]string{
		"http://" + address + "/well":      "",
		"tcp://" + address:                 "",
		"http://" + address + "/ill":       `503 Service Unavailable: not ready\x1b[2J`,
		"http://" + address + "/none":      "404 Not Found: 404 page not found",
		"http://" + address + "/elsewhere": "302 Found",
		"http://" + nowhere + "/well":      "connection refused",
		"tcp://" + nowhere:                 "connection refused",
	} {
		r := c.run("healthcheck", url)
		if want == "" {
			r.wantStatus(0)
		} else {
			r.wantStatus(exitFinding)
		}
		if !strings.Contains(r.errorText(), want) || (want == "") != (r.errorText() == "") || r.text() != "" {
			t.Errorf("%s: want %q\n%s", url, want, r.all())
		}
	}
	within(t, 3*time.Second, func() {
		r := c.run("healthcheck", "http://"+address+"/slow", "--timeout", "200ms")
		r.wantStatus(exitFinding)
		if r.errorText() != "notifylab: no answer within 200ms" {
			t.Error(r.all())
		}
	})
	if r := c.run("--help"); strings.Contains(r.text(), "healthcheck") {
		t.Errorf("help shows it\n%s", r.text())
	}
}
