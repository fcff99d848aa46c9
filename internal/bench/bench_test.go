package bench

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"notifylab/internal/broker"
	"notifylab/internal/event"
	"notifylab/internal/idem"
	"notifylab/internal/lab"
	"notifylab/internal/notify"
	"notifylab/internal/servers/serverstest"
)

func TestMain(m *testing.M) { os.Exit(serverstest.Main(m)) }

// a run on the tests' servers, small in everything.
func newConfig(t *testing.T) Config {
	t.Helper()
	amqpURL, redisURL := serverstest.URLs(t)
	program := os.Getenv("NOTIFYLAB_BIN")
	if program == "" {
		program = filepath.Join(t.TempDir(), "notifylab")
		if out, err := exec.Command("go", "build", "-o", program, "notifylab/cmd/notifylab").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	return Config{
		AMQPURL: amqpURL, RedisURL: redisURL, Namespace: notify.Namespace(serverstest.Namespace(t)), StateDir: t.TempDir(),
		Program: program, Env: append(os.Environ(), "AMQP_URL="+amqpURL, "REDIS_URL="+redisURL),
		Messages: 400, Rounds: 1, Prefetch: 64, Concurrency: 32, Recoveries: 2, Backlogs: []int{200, 400}, Workers: []int{1, 2},
		QueueType: broker.Quorum,
	}
}

// ctx ends long after what ends by itself.
func patient(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*patience)
	t.Cleanup(cancel)
	return ctx
}

// Everything is measured, on a broker whose first node does not answer.
func TestRun(t *testing.T) {
	t.Parallel()
	cfg := newConfig(t)
	cfg.Messages = 2000 // with fewer Redis's work is not to be told from that of its being asked
	cfg.AMQPURL = "amqp://guest:guest@127.0.0.1:1/," + cfg.AMQPURL
	cfg.Env = append(cfg.Env, "AMQP_URL="+cfg.AMQPURL)
	figures := map[string]Figure{}
	var names []string
	cfg.Emit = func(f Figure) { names = append(names, f.Name); figures[f.Name] = f }
	runToTheEnd(t, cfg)
	if !slices.Equal(names, Names(cfg)) {
		t.Errorf("figures %q, want %q", names, Names(cfg))
	}
	for name, f := range figures {
		wrong := f.Kind != "figure" || f.Runs < 1
		switch part, _, _ := strings.Cut(name, "/"); part {
		case "publish", "consume", "workers":
			wrong = wrong || f.PerS <= 0 || (f.Ratio == 0) != (f.Against == "") || (f.Against == "") != (strings.HasSuffix(name, "/bare") || name == "workers/1")
			_, worker := consumeManners()[name]
			asks := name != handlers && name != "consume/none" && strings.HasPrefix(name, "consume/") && name != consumeBare
			wrong = wrong || asks && f.RedisUS <= 0
			wrong = wrong || worker != (f.LikeRatio > 0) || worker != (f.Like != "") || f.Like != "" && figures[f.Like].PerS == 0
		case "latency":
			wrong = wrong || f.P50MS <= 0 || f.P95MS < f.P50MS || f.P99MS < f.P95MS || f.PerS <= 0 || f.Messages < 1
		case "recovery":
			wrong = wrong || f.P50MS <= 0 || f.P95MS < f.P50MS || f.Runs != cfg.Recoveries
		case "memory":
			wrong = wrong || f.MemoryMB < 5 || f.MemoryMB > 500
		}
		if wrong {
			t.Errorf("%+v", f)
		}
	}
	nothingIsLeft(t, cfg)
}

// runToTheEnd runs it, and sees that the steps are as many as it says.
func runToTheEnd(t *testing.T, cfg Config) {
	t.Helper()
	last, all := 0, 0
	cfg.Progress = func(what string, step, steps int) {
		if step != last+1 || step > steps {
			t.Errorf("%s is step %d of %d, after %d", what, step, steps, last)
		}
		last, all = step, steps
	}
	if err := Run(patient(t), cfg); err != nil {
		t.Fatal(err)
	}
	if last != all {
		t.Errorf("step %d of %d was the last", last, all)
	}
}

// With one figure alone there are as many steps as that takes.
func TestRun_only(t *testing.T) {
	t.Parallel()
	for only, want := range map[string]string{
		"publish/bare":    "publish/bare",
		"publish/produce": "publish/bare publish/produce",
		"consume/bare":    "consume/bare",
		"consume/record":  "consume/bare consume/record",
		"recovery/second": "recovery/second",
		"recovery":        "recovery recovery/second",
	} {
		t.Run(only, func(t *testing.T) { // one at a time
			cfg := newConfig(t)
			cfg.Only, cfg.Messages, cfg.Rounds = []string{only}, 50, 2
			var got []string
			cfg.Emit = func(f Figure) { got = append(got, f.Name) }
			runToTheEnd(t, cfg)
			if strings.Join(got, " ") != want {
				t.Errorf("got %q", got)
			}
			nothingIsLeft(t, cfg)
		})
	}
}

// nothingIsLeft looks for queues and keys of a run.
func nothingIsLeft(t *testing.T, cfg Config) {
	t.Helper()
	ctx := context.WithoutCancel(patient(t))
	conn, err := broker.Dial(ctx, broker.Config{URL: cfg.AMQPURL, Name: "test", Heartbeat: 10 * time.Second, Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, q := range (&bench{Config: cfg}).topology().QueueNames() {
		if _, _, there, err := conn.Ready(ctx, q); there || err != nil {
			t.Errorf("%s: %t, %v", q, there, err)
		}
	}
	client, err := idem.Dial(cfg.RedisURL, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if n, err := idem.Forget(ctx, client, cfg.Namespace); n != 0 || err != nil {
		t.Errorf("%d keys, %v", n, err)
	}
}

// Ended in the middle it says why, and leaves nothing.
func TestRun_ended(t *testing.T) {
	t.Parallel()
	cfg := newConfig(t)
	why := errors.New("enough")
	ctx, end := context.WithCancelCause(patient(t))
	cfg.Emit = func(Figure) {}
	cfg.Progress = func(what string, _, _ int) {
		if strings.HasPrefix(what, "consume/lease") {
			end(why)
		}
	}
	if err := Run(ctx, cfg); !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
	nothingIsLeft(t, cfg)
}

// A worker that loses its broker measures nothing: no figure, but why.
func TestRun_a_session_that_breaks(t *testing.T) {
	t.Parallel()
	cfg := newConfig(t)
	cfg.Only, cfg.Messages = []string{"consume/none"}, 20000
	ctx := patient(t)
	conn, err := broker.Dial(ctx, broker.Config{URL: cfg.AMQPURL, Name: "test", Heartbeat: 10 * time.Second, Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	cfg.Emit = func(f Figure) { t.Errorf("got %+v", f) }
	b := &bench{Config: cfg}
	work := b.work()
	cfg.Progress = func(what string, _, _ int) {
		if strings.HasPrefix(what, "consume/none") { // its consumer is there as soon as the queue is full
			go func() {
				for {
					if _, consumers, _, err := conn.Ready(ctx, work); err != nil || consumers > 0 {
						_ = conn.Delete(ctx, work)
						return
					}
				}
			}()
		}
	}
	if err := Run(ctx, cfg); err == nil || !strings.Contains(err.Error(), "measure consume: consume/none: ") {
		t.Errorf("got %v", err)
	}
}

// What each manner is said to do, it does.
func TestManners(t *testing.T) {
	t.Parallel()
	manners := consumeManners()
	names := slices.DeleteFunc(consumeNames(), func(name string) bool { return strings.HasPrefix(name, handlers) })
	if len(manners) != len(names) {
		t.Errorf("%d manners, %d names", len(manners), len(names))
	}
	for _, name := range names {
		m, there := manners[name]
		if !there {
			t.Fatalf("no %s", name)
		}
		does := strings.TrimPrefix(name, "consume/")
		all := strings.Contains(does, "all")
		want := manner{
			settings: event.Settings{Idempotency: does != "none", ClaimLease: strings.HasPrefix(does, "lease"), ProviderKey: strings.Contains(does, "key")},
			read:     all || strings.Contains(does, "settings"), lines: all || strings.Contains(does, "lines"),
			journal: all || strings.Contains(does, "journal"), http: strings.Contains(does, "http"),
		}
		if m != want {
			t.Errorf("%s: %+v, want %+v", name, m, want)
		}
		like, _, _ := strings.Cut(does, "+")
		if like = strings.TrimSuffix("consume/handlers+"+like, "+none"); m.like() != like {
			t.Errorf("%s is like %s, want %s", name, m.like(), like)
		}
	}
}

// A worker does what its manner says: it asks Redis for its settings, or doesn't, and
// its events get into the journal, or don't.
func TestWorker_manner(t *testing.T) {
	t.Parallel()
	for _, m := range []manner{{}, {read: true}, {lines: true}, {journal: true}, {read: true, lines: true, journal: true}} {
		m.settings = event.Settings{Idempotency: true}
		b := &bench{Config: newConfig(t)}
		ctx := patient(t)
		if err := b.open(ctx); err != nil {
			t.Fatal(err)
		}
		run, closing, err := b.worker(ctx, m, 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := lab.NewSettings(b.redis, b.Namespace).Set(ctx, map[string]bool{"idempotency": false}); err != nil {
			t.Fatal(err)
		}
		if s, err := run.Settings(ctx); err != nil || s.Idempotency == m.read {
			t.Errorf("%+v: settings %+v, %v", m, s, err)
		}
		run.Emit(event.Event{Kind: event.Note, Reason: "hello"})
		closing()
		journal, err := b.redis.XLen(ctx, b.Namespace.Key("lab:journal")).Result()
		if err != nil || (journal > 0) != m.journal {
			t.Errorf("%+v: %d entries, %v", m, journal, err)
		}
		if err := b.close(); err != nil {
			t.Error(err)
		}
	}
}
