package main

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifylab/internal/event"
	"notifylab/internal/notify"
	"notifylab/internal/passes"
	"notifylab/internal/scenario"
)

// The parts of the second chapter by hand: a log, a group that reads it, and the look at
// how far it is; and a reset finds all of that.
func TestGroups(t *testing.T) {
	t.Parallel()
	c := newCorner(t)
	r := c.run("groups")
	r.wantStatus(exitOK)
	if got := r.text(); got != "no groups: nobody has read the log" {
		t.Errorf("%q", got)
	}
	c.run("expire", "--log", "--partitions", "2", "--count", "8", "--passes", "4").wantStatus(exitOK)
	var ends []int64
	for range 2 {
		ends = append(ends, -1)
	}
	log := passes.Log{Partitions: 2}
	for n := range 8 {
		ends[log.Partition(fmt.Sprintf("pass-%d", n%4+1))]++
	}
	watch := c.start("groups", "-w")
	reader := c.start("reader", "c1", "--partitions", "2", "--beat", "50ms", "--ttl", "10s")
	for p, end := range ends {
		watch.awaitLine(fmt.Sprintf("notify P%d  committed %d of %d, lag 0, owner c1, generation 1", p, end, end))
	}
	eventually(t, "groups", func() string {
		all := c.look("partition", "groups", "notify")
		for p, end := range ends {
			want := map[string]any{"kind": "group", "group": "notify", "partition": float64(p), "committed": float64(end), "end": float64(end), "lag": 0.0, "owner": "c1", "generation": 1.0}
			if got := all[fmt.Sprint(p)]; fmt.Sprint(got) != fmt.Sprint(want) {
				return fmt.Sprintf("P%d: %v, want %v", p, got, want)
			}
		}
		return ""
	})
	reader.signal(syscall.SIGTERM)
	reader.wantStatus(exitOK)
	if len(having(reader.lines(), "LEFT group notify, generation 2")) != 1 {
		t.Error(reader.all())
	}
	watch.awaitLine("owner nobody, generation 2")
	watch.signal(syscall.SIGINT)
	watch.wantStatus(exitOK)
	if text := c.run("groups").text(); !regexp.MustCompile(`^group +partition +committed +end +lag +owner +generation\nnotify +0 `).MatchString(text) {
		t.Error(text)
	}
	c.run("reset", "--yes").wantStatus(exitOK)
	for _, command := range []string{"groups", "queues"} {
		if text := c.run(command).text(); !strings.HasPrefix(text, "no ") {
			t.Errorf("after a reset: %s", text)
		}
	}
}

// The queue half: reactions get copies of what is announced, and a caller that does all
// itself stops at what fails.
func TestExpire(t *testing.T) {
	t.Parallel()
	c := newCorner(t)
	r := c.run("expire")
	r.wantStatus(exitFinding) // no queue gets it
	if len(having(r.lines(), "PRODUCED 1 event", "returned")) != 1 {
		t.Error(r.all())
	}
	notifies := c.start("reaction", "notify")
	deletes := c.start("reaction", "delete-pass", "--ack", "read")
	notifies.awaitLine("READY on passes.notify (ack late)")
	deletes.awaitLine("READY on passes.delete-pass (ack read)")
	c.run("expire", "--count", "2", "--prefix", "k7f3").wantStatus(exitOK)
	notifies.awaitLine("SENT push notif:k7f3-2")
	deletes.awaitLine("DELETED pass:pass-2 notif:k7f3-2")
	c.run("expire", "--crash-at", "before-ack").wantStatus(exitOK)
	notifies.awaitLine("CRASH — worker dying after send, BEFORE ack")
	notifies.wantStatus(137)
	deletes.wantStatus(137) // its copy arms the point, too

	provider := c.start("provider", "--listen", "127.0.0.1:0", "--refuse", "push=503")
	provider.awaitError("provider at http://")
	url := regexp.MustCompile(`http://\S+`).FindString(provider.errorText())
	r = c.run("expire", "--direct", "--provider-url", url)
	r.wantStatus(exitFinding)
	if len(having(r.lines(), "FAILED pass:pass-1", "1 step behind it not done")) != 1 || r.errorText() != "" {
		t.Error(r.all())
	}
	provider.signal(syscall.SIGINT)
	c.run("expire", "--direct", "--count", "2").wantStatus(exitOK)
	c.run("reset", "--yes").wantStatus(exitOK)
}

// hooked is called with each pipeline that a client of Redis is about to send: its
// handshake is one, too.
type hooked func([]redis.Cmder)

func (hooked) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (hooked) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (h hooked) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		h(commands)
		return next(ctx, commands)
	}
}

// Told to stop while it issues a pass, as a busy machine has it, it does that one whole
// and says what it has done. (It had ended without a word.)
func TestExpire_told_to_stop_at_any_moment(t *testing.T) {
	t.Parallel()
	c := newCorner(t)
	client := c.store()
	ctx, cancel := context.WithCancelCause(t.Context())
	issues := 0
	client.AddHook(hooked(func(commands []redis.Cmder) {
		if commands[0].Name() != "hset" {
			return
		}
		if issues++; issues == 2 {
			cancel(interrupted{syscall.SIGTERM})
		}
	}))
	var said []event.Event
	p := &part{register: passes.NewRegister(client, notify.Namespace(c.ns), 0), emit: func(e event.Event) { said = append(said, e) }}
	f := expireFlags{every: time.Millisecond, first: 1, prefix: "k7f3", text: "hello"}
	var announced []string
	err := p.produce(ctx, f, "watcher", func(_ context.Context, posts ...passes.Post) error {
		announced = append(announced, posts[0].ID)
		return nil
	})
	if err != nil || fmt.Sprint(announced) != "[k7f3-1 k7f3-2]" || len(said) != 1 || said[0].Kind != event.Produced || said[0].Messages != 2 {
		t.Errorf("%v, %v, %+v", err, announced, said)
	}
}

// What a scenario leaves that is killed as hard as can be: its parts end, and a reset in
// its namespace finds its streams, which never expire.
func TestScenario_killed_leaves_what_a_reset_finds(t *testing.T) {
	t.Parallel()
	c := newCorner(t)
	r := c.start("scenario", "consumer-group")
	ns := regexp.MustCompile(`namespace (\S+)`).FindStringSubmatch(r.awaitLine("namespace "))[1]
	r.awaitLine("SENT push")
	r.signal(syscall.SIGKILL)
	r.wantStatus(137)
	c.awaitNoProcess()
	there := c
	there.ns = ns
	queues := there.look("queue", "queues")
	for p := range 4 {
		if name := fmt.Sprintf("%s.passes.%d", ns, p); queues[name]["type"] != "stream" {
			t.Errorf("%s is not noted: %v", name, queues)
		}
	}
	there.run("reset", "--yes").wantStatus(exitOK)
	if left := there.look("queue", "queues"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestParts_usage(t *testing.T) {
	t.Parallel()
	misused(t, map[string]string{
		"reader":                           "which name?",
		"reader a:b":                       "without blanks and colons",
		"reader c1 --ttl 1s --beat 600ms":  "--ttl 1s: at least twice --beat 600ms",
		"reader c1 --partitions 0":         "--partitions 0",
		"reader c1 --group g":              "--do",
		"reader c1 --do nothing":           `"nothing"`,
		"reaction":                         "which reaction?",
		"reaction notfy":                   "notify",
		"reaction notify --prefetch 0":     "--prefetch 0",
		"reaction notify --ack never":      "--ack",
		"expire --count 0":                 "--every",
		"expire --first 0":                 "--first",
		"expire --direct --log":            "not with --log",
		"expire --crash-at nowhere":        "--crash-at",
		"expire --prefix a:b":              "--prefix",
		"expire --provider-url ftp://x":    "--provider-url",
		"scenario direct-call --spike 0":   "--spike 0",
		"scenario partitions --spike 5":    "not for partitions: it has no spike",
		"expire --partitions 65 --log":     "--partitions 65",
		"reaction notify --send-timeout 0": "--send-timeout",
	}, func(t *testing.T, said []string, want string) {
		if len(having(said, want)) == 0 {
			t.Errorf("no %q in %q", want, said)
		}
	})
}

// Every command of a lesson's "By hand" is one that there is, with flags that it has.
func TestByHand_commands_are_there(t *testing.T) {
	t.Parallel()
	c := cornerAt(t, "", "").nowhere()
	command := regexp.MustCompile(`notifylab [^&|#]+`)
	seen := map[string]bool{}
	for _, s := range scenario.Catalogue() {
		lines := command.FindAllString(s.ByHand, -1)
		if len(lines) == 0 {
			t.Errorf("%s has none", s.Name)
		}
		for _, line := range lines {
			if line = strings.TrimSpace(line); seen[line] {
				continue
			}
			seen[line] = true
			t.Run(line, func(t *testing.T) {
				t.Parallel()
				c := c
				c.t = t
				before, _, _ := strings.Cut(line, " -- ")
				c.run(append(words(before)[1:], "--help")...).wantStatus(exitOK)
			})
		}
	}
}
