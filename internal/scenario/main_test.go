package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"notifylab/internal/event"
	"notifylab/internal/notify"
	"notifylab/internal/servers/serverstest"
)

func TestMain(m *testing.M) {
	code := serverstest.Main(m)
	if built.dir != "" {
		if err := os.RemoveAll(built.dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// built is the program whose workers the tests run: $NOTIFYLAB_BIN, or what the
// first to ask builds.
var built struct {
	sync.Mutex
	path, dir string
}

func binary(t testing.TB) string {
	t.Helper()
	built.Lock()
	defer built.Unlock()
	if built.path == "" {
		built.path = os.Getenv("NOTIFYLAB_BIN")
	}
	if built.path != "" {
		return built.path
	}
	dir, err := os.MkdirTemp("", "notifylab-test-")
	if err != nil {
		t.Fatal(err)
	}
	built.dir = dir
	path := filepath.Join(dir, "notifylab")
	if out, err := exec.Command("go", "build", "-race", "-o", path, "notifylab/cmd/notifylab").CombinedOutput(); err != nil {
		t.Fatalf("build notifylab: %v\n%s", err, out)
	}
	built.path = path
	return path
}

// rig is a run's configuration on the tests' servers, and what it emitted.
type rig struct {
	Config
	story *event.History
}

// deadline is of runs that end long before it.
const deadline = 2 * time.Minute

func newRig(t testing.TB) rig {
	t.Helper()
	amqpURL, redisURL := serverstest.URLs(t)
	return newRigAt(t, amqpURL, redisURL)
}

func newRigAt(t testing.TB, amqpURL, redisURL string) rig {
	t.Helper()
	bin := binary(t)
	story := new(event.History)
	return rig{story: story, Config: Config{
		AMQPURL: amqpURL, RedisURL: redisURL,
		Worker:  func(c notify.Channel) []string { return []string{bin, "worker", string(c)} },
		Program: []string{bin},
		Spike:   20,
		// The race detector lets a process wait for a second before it ends.
		Env:       append(os.Environ(), "GORACE=atexit_sleep_ms=0", "AMQP_URL="+amqpURL, "REDIS_URL="+redisURL),
		Namespace: notify.Namespace(serverstest.Namespace(t)),
		Seed:      41,
		Timeout:   deadline,
		Emit:      story.Add,
	}}
}

// chapter returns the scenarios of a chapter.
func chapter(name string) (some []Scenario) {
	for _, s := range Catalogue() {
		if s.Chapter == name {
			some = append(some, s)
		}
	}
	return some
}

// named returns a scenario of the catalogue, or a cell.
func named(t testing.TB, name string) Scenario {
	t.Helper()
	for _, s := range Catalogue() {
		if s.Name == name {
			return s
		}
	}
	cell, err := FindCell(name)
	if err != nil {
		t.Fatalf("no scenario %s: %v", name, err)
	}
	return cell.Scenario()
}

// run plays a scenario that can be played.
func (l rig) run(t testing.TB, s Scenario) Verdict {
	t.Helper()
	v, err := s.Run(t.Context(), l.Config)
	if err != nil {
		t.Fatalf("%s: %v", s.Name, err)
	}
	return v
}

// explain says what is wrong with a verdict, and how it came about.
func explain(v Verdict) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s in %s, %v: %s %s\n", v.Scenario, v.Status, v.Namespace, v.Settings, v.Outcome, v.Why)
	for _, f := range v.Findings {
		if !f.OK {
			fmt.Fprintf(&b, "  %s: want %s, got %s %v\n", f.What, f.Want, f.Got, f.IDs)
		}
	}
	for _, e := range v.Events {
		fmt.Fprintf(&b, "  %s", event.Encode(e))
	}
	return b.String()
}

// together runs a subtest for each case, limit at once: what they wait for is
// mostly not the processor.
func together[C any](t *testing.T, limit int, cases []C, name func(C) string, test func(*testing.T, C)) {
	t.Helper()
	var g errgroup.Group
	g.SetLimit(limit)
	for _, c := range cases {
		g.Go(func() error {
			t.Run(name(c), func(t *testing.T) { test(t, c) })
			return nil
		})
	}
	_ = g.Wait()
}

// allSettings are the eight there are.
func allSettings() []event.Settings {
	var all []event.Settings
	for i := range 8 {
		all = append(all, event.Settings{Idempotency: i&1 != 0, ClaimLease: i&2 != 0, ProviderKey: i&4 != 0})
	}
	return all
}

func settingsName(s event.Settings) string {
	var on []string
	for name, is := range map[string]bool{"idempotency": s.Idempotency, "claim-lease": s.ClaimLease, "provider-key": s.ProviderKey} {
		if is {
			on = append(on, name)
		}
	}
	if len(on) == 0 {
		return "none"
	}
	slices.Sort(on)
	return strings.Join(on, "+")
}

// same fails the test if two values are not deeply equal, and shows both, field by
// field.
func same(t testing.TB, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\n got %s\nwant %s", what, pretty(got), pretty(want))
	}
}

func pretty(v any) string {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Sprintf("%+v", v)
	}
	return string(b)
}

// within is a context that ends when the test should long have.
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	t.Cleanup(cancel)
	return ctx
}
