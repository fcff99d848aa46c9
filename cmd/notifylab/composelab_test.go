package main

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"notifylab/internal/notify"
)

// labServices are those of compose.yaml that are ours.
func labServices(t *testing.T) map[string]composeService {
	t.Helper()
	var c composeFile
	readYAML(t, "compose.yaml", &c)
	ours := map[string]composeService{}
	for name, s := range c.Services {
		if s.Image == "" {
			ours[name] = s
		}
	}
	want := []string{"api", "provider"}
	for _, channel := range notify.Channels() {
		want = append(want, string(channel)+"-worker")
	}
	for _, name := range want {
		if _, ok := ours[name]; !ok {
			t.Errorf("there is no service %s", name)
		}
	}
	if len(ours) != len(want) || len(c.Services) != len(want)+2 || c.Name != "notifylab" {
		t.Errorf("the services of %s are %v", c.Name, c.Services)
	}
	return ours
}

// No Docker is at hand where the tests run: what it would be told is held instead.
func TestCompose_lab(t *testing.T) {
	var c composeFile
	readYAML(t, "compose.yaml", &c)
	for name, s := range labServices(t) {
		if s.Restart != "unless-stopped" || !s.Init {
			t.Errorf("%s: restart %q, init %t: a crash point kills the process, and Docker starts it again", name, s.Restart, s.Init)
		}
		for variable, want := range map[string]string{"AMQP_URL": "@rabbitmq:5672/", "REDIS_URL": "//redis:6379/0"} {
			if v := s.Environment[variable]; v == nil || !strings.HasSuffix(*v, want) {
				t.Errorf("%s: %s is not …%s", name, variable, want)
			}
		}
		h := s.Healthcheck
		if len(h.Test) != 4 || h.Test[0] != "CMD" || h.Test[1] != "/notifylab" || h.Test[2] != "healthcheck" || h.Retries < 10 || h.Interval == "" || h.Timeout == "" {
			t.Errorf("%s has health check %+v", name, h)
		}
		needs := []string{"rabbitmq", "redis"}
		switch {
		case name == "provider":
			needs = nil
		case strings.HasSuffix(name, "-worker"):
			needs = append(needs, "provider")
			if v, ok := s.Environment["IDEMPOTENCY_ENABLED"]; !ok || v != nil {
				t.Errorf("%s does not take IDEMPOTENCY_ENABLED from outside", name)
			}
			if len(s.Ports) > 0 { // --scale would have two want the same
				t.Errorf("%s has ports %q", name, s.Ports)
			}
		}
		if len(s.DependsOn) != len(needs) {
			t.Errorf("%s depends on %v, want %q", name, s.DependsOn, needs)
		}
		for _, other := range needs {
			if s.DependsOn[other].Condition != "service_healthy" {
				t.Errorf("%s does not wait until %s is healthy", name, other)
			}
		}
	}
	for name, port := range map[string]string{"api": "3100", "provider": "3200"} {
		s := c.Services[name]
		if !slices.Equal(s.Ports, []string{"127.0.0.1:" + port + ":" + port}) || !slices.Contains(s.Command, "0.0.0.0:"+port) || !strings.Contains(s.Healthcheck.Test[3], "127.0.0.1:"+port) {
			t.Errorf("%s: ports %q, command %q, health %q; want %s", name, s.Ports, s.Command, s.Healthcheck.Test, port)
		}
	}
}

// The image: a static binary, nobody's user, and a place for the slots that is that
// user's, shared by the workers.
func TestCompose_image(t *testing.T) {
	mod, err := os.ReadFile(filepath.Join(moduleDir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	minor := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(mod)[1]
	var c composeFile
	readYAML(t, "compose.yaml", &c)
	for name, s := range labServices(t) {
		file := s.Build.Dockerfile
		for _, want := range []string{
			"FROM golang:" + string(minor) + " AS build\n", "RUN CGO_ENABLED=0 go build ", " -o /out/notifylab ./cmd/notifylab", "\nFROM scratch\n",
			"COPY --from=build /out/notifylab /notifylab\n", "COPY --from=build --chown=65532:65532 /out/slots /slots\n", "USER 65532:65532\n", `ENTRYPOINT ["/notifylab"]`,
		} {
			if !strings.Contains(file, want) {
				t.Errorf("%s: no %q in\n%s", name, want, file)
			}
		}
		if n := strings.Count(file, "FROM "); n != 2 || s.Build.Context != "." {
			t.Errorf("%s: %d stages, in %q", name, n, s.Build.Context)
		}
		for _, m := range regexp.MustCompile(`(?m)^COPY ([a-z].*) \S+$`).FindAllStringSubmatch(file, -1) {
			for _, source := range strings.Fields(m[1]) {
				if _, err := os.Stat(filepath.Join(moduleDir, source)); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
		if !strings.HasSuffix(name, "-worker") {
			continue
		}
		if _, there := c.Volumes["slots"]; !there || !slices.Equal(s.Volumes, []string{"slots:/slots"}) || !strings.Contains(strings.Join(s.Command, " "), "--state-dir /slots") {
			t.Errorf("%s: volumes %q, command %q", name, s.Volumes, s.Command)
		}
	}
}

// Every service's command, run as it stands but for the addresses, becomes well by
// its own health check; and the lessons can be done with them.
func TestCompose_commands(t *testing.T) {
	t.Parallel()
	c := newCorner(t)
	services := labServices(t)
	at := map[string]string{} // by service, what stands for 127.0.0.1:9100, or its port
	local := func(name string, args []string) []string {
		if at[name] == "" {
			at[name] = net.JoinHostPort("127.0.0.1", listenable(t))
		}
		replace := strings.NewReplacer("127.0.0.1:9100", at[name], "0.0.0.0:3100", at[name], "0.0.0.0:3200", at[name],
			"127.0.0.1:3100", at[name], "127.0.0.1:3200", at[name], "provider:3200", at["provider"], "/slots", filepath.Join(c.dir, "slots"))
		var own []string
		for _, arg := range args {
			own = append(own, replace.Replace(arg))
		}
		return own
	}
	up := func(name string, flags ...string) *running {
		r := c.launch(command(t, slices.Concat(local(name, services[name].Command), flags, []string{"--namespace", c.ns})...))
		check := local(name, services[name].Healthcheck.Test[2:])
		eventually(t, name+" does not become healthy", func() string {
			if r.over() {
				t.Fatal(r.all())
			}
			h := c.launch(command(t, check...))
			if h.wait() != 0 {
				return h.errorText()
			}
			return ""
		})
		return r
	}
	lease := []string{"--lease", "1m"} // nobody waits so long here for one to run out
	provider, api, email, push := up("provider"), up("api"), up("email-worker"), up("push-worker", lease...)
	post := func(method, path, body string, want int) {
		t.Helper()
		req, err := http.NewRequestWithContext(patience(t), method, "http://"+at["api"]+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%s %s: %s", path, body, res.Status)
		}
	}
	post("POST", "/api/notify", `{"mode":"default"}`, http.StatusAccepted)
	push.awaitLine("SENT push notif:")
	email.awaitLine("SENT email notif:")
	post("PUT", "/api/lab/flags", `{"idempotency":true,"claimLease":true}`, http.StatusOK)
	post("POST", "/api/notify", `{"mode":"crash-claim"}`, http.StatusAccepted)
	push.awaitLine("CRASH — worker dying AFTER claim, BEFORE send")
	push.wantStatus(137)
	push = up("push-worker", lease...) // as Docker does
	within(t, 5*time.Second, func() {  // the shared slots tell at once who is dead
		push.awaitLine("CLAIM RECOVERED")
		push.awaitLine("SENT push notif:")
	})
	provider.awaitLines(2, "ACCEPTED push")
	if n := len(having(provider.lines(), "ACCEPTED push")); n != 2 {
		t.Errorf("%d accepted\n%s", n, provider.all())
	}
	for _, r := range []*running{push, email, api, provider} {
		r.signal(15)
		r.wantStatus(0)
	}
	if entries, err := filepath.Glob(filepath.Join(c.dir, "slots", "slots", c.ns, "*", "*")); err != nil || len(entries) != 2 {
		t.Errorf("slots are %q, %v", entries, err)
	}
}
