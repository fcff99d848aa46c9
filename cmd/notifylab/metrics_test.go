package main

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"notifylab/internal/event"
)

// fetch returns the status and the body at a URL.
func fetch(t *testing.T, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(patience(t), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

// metricsURL is what the program has printed.
func (r *running) metricsURL() string {
	r.t.Helper()
	r.awaitError("metrics at http://")
	return strings.TrimSuffix(strings.Fields(having(r.errors(), "metrics at")[0])[2], "/metrics")
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"worker push --metrics-listen 127.0.0.1:0", "supervise push=1 --metrics-listen 127.0.0.1:0"} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			c := newCorner(t)
			r := c.start(strings.Fields(args)...)
			url := r.metricsURL()
			r.awaitLine("READY")
			eventually(t, "not ready", func() string {
				if status, body := fetch(t, url+"/readyz"); status != 200 {
					return body
				}
				return ""
			})
			if status, body := fetch(t, url+"/healthz"); status != 200 || body != `{"status":"alive"}`+"\n" {
				t.Error(status, body)
			}
			c.run("produce", "--channel", "push").wantStatus(0)
			c.run("produce", "--channel", "push").wantStatus(0)
			r.awaitLines(2, "SENT")
			wanted := []string{
				`notifylab_events_total{channel="push",kind="sent",source="push-worker-1"} 2`,
				`notifylab_events_total{channel="push",kind="acked",source="push-worker-1"} 2`,
				`notifylab_last_settled_timestamp_seconds{source="push-worker-1"} 1.`,
				"\ngo_goroutines ", "# TYPE notifylab_events_total counter",
			}
			eventually(t, "metrics lack", func() string {
				status, body := fetch(t, url+"/metrics")
				for _, want := range wanted {
					if status != 200 || !strings.Contains(body, want) {
						return want
					}
				}
				return ""
			})
			if status, _ := fetch(t, url+"/"); status != 404 {
				t.Error(status)
			}
			r.stop()
			if len(r.complaints()) != 1 {
				t.Error(r.all())
			}
		})
	}
}

// One that was given up is missing for good; one that is restarted comes back.
func TestMetrics_ready_is_everyone(t *testing.T) {
	t.Parallel()
	c := newCorner(t)
	r := c.start("supervise", "push=1", "email=1", "--max-restarts", "1", "--metrics-listen", "127.0.0.1:0")
	url := r.metricsURL()
	is := func(want int) {
		t.Helper()
		eventually(t, "readyz", func() string {
			if status, body := fetch(t, url+"/readyz"); status != want {
				return body
			}
			return ""
		})
	}
	is(200)
	c.run("produce", "--mode", "crash").wantStatus(0)
	r.awaitLine("RESTART push-worker-1")
	is(200)
	c.run("produce", "--channel", "push", "--crash-at", "after-receive,always").wantStatus(0)
	r.awaitLine("GAVE UP push-worker-1")
	is(503)
	if status, _ := fetch(t, url+"/healthz"); status != 200 {
		t.Error(status)
	}
	if _, body := fetch(t, url+"/metrics"); !strings.Contains(body, `notifylab_events_total{channel="",kind="gave_up",source="supervisor"} 1`) {
		t.Error(body)
	}
}

func TestMetrics_port(t *testing.T) {
	t.Parallel()
	shared := newCorner(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	for _, args := range []string{"worker push", "supervise"} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			c := cornerAt(t, shared.amqp, shared.redis)
			within(t, 5*time.Second, func() {
				r := c.run(append(strings.Fields(args), "--metrics-listen", ln.Addr().String())...)
				r.wantStatus(exitUnavailable)
				want := "notifylab: listen on " + ln.Addr().String() + ": bind: address already in use"
				if lines := r.errors(); len(lines) != 2 || lines[0] != want || !strings.Contains(lines[1], "--metrics-listen 127.0.0.1:PORT") || r.text() != "" {
					t.Error(r.all())
				}
			})
			c.wantUsage(append(strings.Fields(args), "--metrics-listen", "here"), "--metrics-listen", `"here"`, "HOST:PORT")
		})
	}
}

func TestMeters(t *testing.T) {
	t.Parallel()
	m := newMeters(2)
	step := func(kind event.Kind, about string, want bool) {
		t.Helper()
		e := event.Event{Time: time.Now(), Kind: kind, Source: about}
		if kind == event.Restart || kind == event.GaveUp || kind == event.Exited {
			e.Source, e.Owner = "supervisor", about
		}
		m.event(e)
		if m.fit() != want {
			t.Errorf("after %s of %s: fit %t", kind, about, !want)
		}
	}
	step(event.Disconnect, "a", false) // before it was ever ready
	step(event.Ready, "a", false)
	step(event.Ready, "b", true)
	step(event.Log, "b", true)
	step(event.Crash, "b", false)
	step(event.Restart, "b", false)
	step(event.Ready, "b", true)
	step(event.Disconnect, "a", false)
	step(event.Ready, "a", true)
	step(event.Disconnect, "a", false) // RabbitMQ,
	step(event.Disconnect, "a", false) // and Redis
	step(event.Reconnected, "a", false)
	step(event.Ready, "a", true)
	step(event.Stopped, "a", false)
	step(event.Woke, "a", true)
	step(event.Restart, "a", false) // killed, and back under another name
	step(event.Ready, "c", true)
	step(event.GaveUp, "c", false)
	step(event.Exited, "b", false)
}
