package main

import (
	"regexp"
	"strings"
	"testing"
)

// nowhere is an address at which nothing answers: what is wrong with the command
// line is said before anybody is dialled.
const nowhere = "127.0.0.1:1"

func (c corner) nowhere() corner {
	c.amqp, c.redis = "amqp://"+nowhere, "redis://"+nowhere
	return c
}

// wantUsage runs the program and expects 64, nothing on standard output, and on
// standard error one line with all the parts, and the help of the command or of one
// that is named in its stead.
func (c corner) wantUsage(args []string, parts ...string) {
	c.t.Helper()
	r := c.runRefused(args...)
	r.wantStatus(exitUsage)
	lines := r.errors()
	if r.text() != "" || len(lines) != 2 || len(having(lines[:1], parts...)) != 1 || !helpLine.MatchString(lines[1]) {
		c.t.Errorf("%s, want %q\n%s", r.name, parts, r.all())
	}
}

var helpLine = regexp.MustCompile(`^  help: notifylab( [a-z-]+)*( --help| scenario list)$`)

// misused runs wrong commands and gives what each said on standard error, by line, to
// check.
func misused(t *testing.T, wants map[string]string, check func(t *testing.T, said []string, want string)) {
	t.Helper()
	c := cornerAt(t, "", "").nowhere()
	for args, want := range wants {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			c := c
			c.t = t
			r := c.runRefused(strings.Fields(args)...)
			r.wantStatus(exitUsage)
			check(t, r.errors(), want)
		})
	}
}

func TestUsage_error_names_the_help_that_helps(t *testing.T) {
	t.Parallel()
	misused(t, map[string]string{
		"prodcue":                   "notifylab --help",
		"--bogus":                   "notifylab --help",
		"help prodcue":              "notifylab --help",
		"produce --cuont 3":         "notifylab produce --help",
		"produce --amqp-url x":      "notifylab produce --help",
		"dlq bogus":                 "notifylab dlq --help",
		"dlq list fax":              "notifylab dlq list --help",
		"supervise push=0":          "notifylab supervise --help",
		"supervise -- --prefetch 0": "notifylab worker --help",
		"scenario crash-clam":       "notifylab scenario list",
		"scenario crash --bogus":    "notifylab scenario crash --help",
	}, func(t *testing.T, said []string, want string) {
		if len(said) != 2 || said[1] != "  help: "+want {
			t.Errorf("want help: %s, got %q", want, said)
		}
	})
}

func TestUnknown_command_scenario_channel_or_flag_value(t *testing.T) {
	t.Parallel()
	c := cornerAt(t, "", "").nowhere()
	const channels, switches = "there are push, email", "want on, off, true, false, 1 or 0"
	for args, parts := range map[string][]string{
		"prodcue":                                      {`"prodcue"`, "did you mean produce?"},
		"help prodcue":                                 {`"prodcue"`, "did you mean produce?"},
		"servers upp":                                  {`"upp"`, "there are down, run, up", "did you mean up?"},
		"completion bsh":                               {`"bsh"`, "did you mean bash?"},
		"scenario crash-clam":                          {`"crash-clam"`, "did you mean crash-claim?"},
		"scenario nothing-like-it":                     {`"nothing-like-it"`},
		"scenario crash extra":                         {`"extra"`},
		"worker":                                       {"which channel?", "push, email"},
		"worker puhs":                                  {`"puhs"`, channels, "did you mean push?"},
		"worker fax":                                   {`"fax"`, channels},
		"worker push email":                            {"which channel?"},
		"supervise puhs=1":                             {`"puhs"`, channels},
		"supervise push=0":                             {"push=0", "1 to 1000"},
		"supervise push=many":                          {"push=many"},
		"supervise -- --prefetc 3":                     {"--prefetc", "did you mean --prefetch?"},
		"supervise -- push":                            {`"push"`},
		"produce --channel fax":                        {"--channel", `"fax"`, channels},
		"produce --mode crsh":                          {"--mode", `"crsh"`, "default, crash, crash-claim, bad-token", "did you mean crash?"},
		"produce --crash-at after-clam":                {"--crash-at", `"after-clam"`, "after-receive", "did you mean after-claim?"},
		"produce --crash-at after-ack,x":               {"--crash-at", `"x"`, "stop", "always"},
		"produce --queue-type strem":                   {"--queue-type", "quorum, classic"},
		"produce --rate fast":                          {"--rate", `"fast"`, "500/s"},
		"produce --rate NaN":                           {"--rate", `"NaN"`},
		"produce --count 0":                            {"--count 0", "at least 1"},
		"produce --count x":                            {`--count "x": want a whole number`},
		"produce --count 99999999999999999999":         {`--count "99999999999999999999": want a number that is not that large`},
		"bench --workers 1,x":                          {`--workers "1,x": want whole numbers with commas between`},
		"soak --duration 5":                            {`--duration "5": want a duration such as 500ms`},
		"bench --only=":                                {"--only", "name a part"},
		"soak --duration":                              {"--duration"},
		"dlq purge push --yes --id=":                   {"--id is empty"},
		"dlq replay push --all --user=":                {"--user is empty"},
		"dlq replay push --all --id x":                 {"--all", "not both"},
		"settings set claim-lease=on claim-lease=off":  {"claim-lease", "not both"},
		"produce --publish-timeout 0s":                 {"--publish-timeout 0s", "more than 0"},
		"produce --txet x":                             {"--txet", "did you mean --text?"},
		"produce -text x":                              {"-text", "did you mean --text?"},
		"produce extra":                                {`"extra"`},
		"produce amqp://u:S3/cr@3t@host/":              {`"amqp://***@host/"`},
		"produce -o jsn":                               {"--output", `"jsn"`, "text, json", "did you mean json?"},
		"produce --color sometimes":                    {"--color", `"sometimes"`, "auto, always, never"},
		"worker push --idempotency maybe":              {"--idempotency", `"maybe"`, switches},
		"worker push --ack never":                      {"--ack", `"never"`, "late, early"},
		"worker push --provider-url x":                 {"--provider-url"},
		"worker push --backoff 1us":                    {"--backoff 1µs"},
		"worker push --attempts 0":                     {"--attempts 0"},
		"worker push --grace -1s":                      {"--grace -1s"},
		"scenario crash --claim-lease x":               {"--claim-lease", `"x"`, switches},
		"scenario crash --expect thrice":               {"--expect", `"thrice"`, "once, twice, lost, parked", "did you mean twice?"},
		"scenario crash --repeat 0":                    {"--repeat 0", "at least 1"},
		"scenario crash --timeout 0s":                  {"--timeout 0s", "more than 0"},
		"scenario all --tag kil":                       {"--tag", `"kil"`, "did you mean kill?"},
		"scenario list --tag crash":                    {"--tag", `"crash"`, "there is none"},
		"scenario all --skip crash-clam":               {"--skip", `"crash-clam"`, "did you mean crash-claim?"},
		"scenario list --skip paked":                   {"--skip", `"paked"`, "did you mean parked?"},
		"scenario all --skip lesson --tag lesson":      {"--tag and --skip leave no scenario"},
		"provider --refuse 200":                        {`"200"`},
		"provider --hang everybody":                    {`"everybody"`, "push, email"},
		"provider --listen here":                       {"--listen", `"here"`, "HOST:PORT"},
		"provider --listen :99999":                     {"--listen", `":99999"`, "65535"},
		"api --listen here":                            {"--listen", `"here"`, "HOST:PORT"},
		"api --listen :99999":                          {"--listen", `":99999"`, "65535"},
		"api --listen 127.0.0.1:-1":                    {"--listen", `"127.0.0.1:-1"`, "65535"},
		"worker push --metrics-listen :99999":          {"--metrics-listen", `":99999"`, "65535"},
		"supervise --metrics-listen :99999":            {"--metrics-listen", `":99999"`, "65535"},
		"supervise -- --metrics-listen :99999":         {"--metrics-listen", `":99999"`, "65535"},
		"servers up --amqp-port 70000":                 {"--amqp-port 70000"},
		"reset":                                        {"the lab's queues and keys in namespace ", "--yes"},
		"servers run":                                  {"which command?"},
		"servers run -- no-such-program":               {"no-such-program"},
		"scenario broker-alarm --keep":                 {"--keep: not for broker-alarm", "end with it"},
		"scenario consumer-group --idempotency on":     {"--idempotency: not for consumer-group", "no worker that reads settings"},
		"scenario fifo --provider-key off":             {"--provider-key: not for fifo"},
		"scenario crash --spike 5":                     {"--spike: not for crash"},
		"soak --setting lesae":                         {"--setting", `"lesae"`, "did you mean lease?"},
		"soak --rate fast":                             {"--rate", `"fast"`, "500/s"},
		"soak --duration 0s":                           {"--duration 0s", "more than 0"},
		"soak --kill-every -1s":                        {"--kill-every -1s", "never"},
		"soak --restart-every -1s":                     {"--restart-every -1s", "never"},
		"soak extra":                                   {`"extra"`},
		"matrix extra":                                 {`"extra"`},
		"matrix --repeat 0":                            {"--repeat 0", "at least 1"},
		"matrix --concurrency 0":                       {"--concurrency 0", "from 1 to 512"},
		"matrix --concurrency 513":                     {"--concurrency 513", "from 1 to 512"},
		"matrix --timeout 0s":                          {"--timeout 0s", "more than 0"},
		"matrix --break nxx":                           {"--break", "nx, compare-and-set, clock, confirm", "did you mean nx?"},
		"matrix --only lease":                          {"--only", `"lease"`, "SETTING/POINT/FAULT"},
		"matrix --only lease/after-claim/stopp":        {"--only", "did you mean lease/after-claim/stop?"},
		"matrix --only none/after-claim/kill":          {"--only", "no claim with idempotency off"},
		"matrix --only ack-early/after-ack/stop":       {"--only", "with ack early"},
		"matrix --only key/before-copy/kill":           {"--only", "lease/before-copy/kill"},
		"matrix --break nx --only lease/mid-send/kill": {"--only lease/mid-send/kill", "without nx", "record/mid-send/kill"},
		"matrix --junit /no/such/place":                {"--junit"},
		"worker push --break locks":                    {"--break", "nx, compare-and-set, clock, confirm"},
		// The settings under which the crash point is never met.
		"scenario crash-claim --idempotency off": {"after-claim", "idempotency off"},
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			c := c
			c.t = t
			c.wantUsage(strings.Fields(args), parts...)
		})
	}
	t.Run("a namespace", func(t *testing.T) {
		t.Parallel()
		r := c.launch(command(t, "produce", "--namespace", "K7:f3"))
		r.wantStatus(exitUsage)
		if len(having(r.errors(), "namespace", `"K7:f3"`)) != 1 {
			t.Error(r.all())
		}
	})
	t.Run("a variable", func(t *testing.T) {
		t.Parallel()
		c := newCorner(t).with("IDEMPOTENCY_ENABLED=perhaps")
		c.wantUsage([]string{"worker", "push"}, "$IDEMPOTENCY_ENABLED", `"perhaps"`, "on, off")
	})
}

func TestURL_that_does_not_parse(t *testing.T) {
	t.Parallel()
	for name, given := range map[string]struct {
		variable string
		flag     []string
		want     string
	}{
		"AMQP_URL":    {"AMQP_URL=amqp://u:S3cr3t@host:port/", nil, "$AMQP_URL: not an AMQP URL"},
		"scheme":      {"AMQP_URL=http://u:S3cr3t@host/", nil, "$AMQP_URL: not an AMQP URL"},
		"REDIS_URL":   {"REDIS_URL=redis://u:S3cr3t@host:x/0", nil, "$REDIS_URL: not a Redis URL"},
		"database":    {"REDIS_URL=redis://u:S3cr3t@host/zero", nil, "$REDIS_URL: not a Redis URL"},
		"--amqp-url":  {"", []string{"--amqp-url", "u:S3cr3t@host"}, "--amqp-url: not an AMQP URL"},
		"--redis-url": {"", []string{"--redis-url", "redis://u:S3cr3t@[::1/0"}, "--redis-url: not a Redis URL"},
		"one dash":    {"", []string{"-amqp-url=u:S3cr3t@host"}, "unknown flag: -amqp-url; did you mean --amqp-url?"},
		"a flag before a variable": {"AMQP_URL=amqp://127.0.0.1:1", []string{"--amqp-url", "amqp://%zz:S3cr3t@host"},
			"--amqp-url: not an AMQP URL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := cornerAt(t, "", "").with(given.variable)
			for _, args := range [][]string{{"produce"}, {"worker", "push"}, {"supervise"}, {"scenario", "crash"}, {"scenario", "all", "-v", "-o", "json"}} {
				r := c.run(append(args, given.flag...)...)
				r.wantStatus(exitUsage)
				if len(having(r.errors(), given.want)) != 1 || strings.Contains(r.all(), "S3cr3t") || r.text() != "" {
					t.Errorf("%s\n%s", r.name, r.all())
				}
			}
		})
	}
}

func TestID_or_user_with_colon_control_characters_empty_or_4KiB(t *testing.T) {
	t.Parallel()
	c := cornerAt(t, "", "").nowhere()
	for _, field := range []string{"id", "user"} {
		for name, bad := range map[string]struct{ value, want string }{
			"colon":         {"a:b", `has a colon`},
			"newline":       {"a\nb", `"a\\nb" has a control character`},
			"escape":        {"\x1b[31m", `has a control character`},
			"C1":            {"\u009b31m", `has a control character`},
			"empty":         {"", "is empty"},
			"4 KiB":         {strings.Repeat("x", 4096), "has 4096 bytes, at most 128"},
			"invalid UTF-8": {"\xff", "is not valid UTF-8"},
		} {
			t.Run(field+" "+name, func(t *testing.T) {
				t.Parallel()
				c := c
				c.t = t
				c.wantUsage([]string{"produce", "--" + field, bad.value}, field+" ", strings.ReplaceAll(bad.want, `\\`, `\`))
			})
		}
	}
	t.Run("an id that is too long with its number", func(t *testing.T) {
		t.Parallel()
		c := c
		c.t = t
		c.wantUsage([]string{"produce", "--count", "1000", "--id", strings.Repeat("x", 126)}, "id has 131 bytes")
	})
	t.Run("text", func(t *testing.T) {
		t.Parallel()
		c := c
		c.t = t
		c.wantUsage([]string{"produce", "--text", "\xff"}, "text is not valid UTF-8")
		c.wantUsage([]string{"produce", "--text", strings.Repeat("x", 1<<15)}, "text has 32768 bytes")
	})
}

func TestPrefetch_0_concurrency_over_prefetch_and_a_lease_too_short(t *testing.T) {
	t.Parallel()
	c := cornerAt(t, "", "").nowhere()
	for args, parts := range map[string][]string{
		"--prefetch 0":                     {"--prefetch 0", "at least 1", "no limit"},
		"--prefetch -1":                    {"--prefetch -1"},
		"--prefetch 70000":                 {"--prefetch 70000", "65535"},
		"--prefetch 4":                     {"--concurrency 16 is more than --prefetch 4"},
		"--concurrency 0":                  {"--concurrency 0"},
		"--lease 7999ms":                   {"--lease", "7.999s is too short", "send time-out of 5s", "at least 8s"},
		"--send-timeout 8s":                {"--lease", "10s is too short", "send time-out of 8s", "at least 11s"},
		"--send-timeout 0s":                {"--send-timeout 0s", "more than 0"},
		"--retention 5s":                   {"--retention 5s", "shorter than --lease 10s"},
		"--heartbeat 10ms":                 {"--heartbeat 10ms"},
		"--lease 8s --send-timeout 5001ms": {"at least 8.001s"},
	} {
		for _, command := range []string{"worker push ", "supervise push=1 -- "} {
			t.Run(command+args, func(t *testing.T) {
				t.Parallel()
				c := c
				c.t = t
				c.wantUsage(strings.Fields(command+args), parts...)
			})
		}
	}
}
