package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

type composeFile struct {
	Name     string
	Services map[string]composeService
	Volumes  map[string]any
}

type composeService struct {
	Image string
	Build struct {
		Context    string
		Dockerfile string `yaml:"dockerfile_inline"`
	}
	ContainerName string `yaml:"container_name"`
	Hostname      string
	User          string
	Command       []string
	Environment   map[string]*string
	Ports         []string
	Volumes       []string
	Restart       string
	Init          bool
	DependsOn     map[string]struct{ Condition string } `yaml:"depends_on"`
	Healthcheck   struct {
		Test     []string
		Interval string
		Timeout  string
		Retries  int
	}
}

func TestCompose(t *testing.T) {
	var c composeFile
	readYAML(t, "compose.yaml", &c)
	rabbitmq, redis := c.Services["rabbitmq"], c.Services["redis"]

	if rabbitmq.ContainerName != "rabbitmq" {
		t.Errorf("rabbitmq's container is %q, the lessons say docker exec rabbitmq", rabbitmq.ContainerName)
	}
	if rabbitmq.User != "rabbitmq" {
		t.Errorf("rabbitmq runs as %q: a health check as root can make a cookie that the server can't read", rabbitmq.User)
	}
	if rabbitmq.Hostname == "" {
		t.Error("rabbitmq has no host name: its data would be another node's the next time")
	}
	command := strings.Join(redis.Command, " ")
	for _, want := range []string{"--appendonly yes", "--appendfsync everysec", "--save  ", "--maxmemory-policy noeviction"} {
		if !strings.Contains(command+" ", want) {
			t.Errorf("redis is started by %q, want %s", redis.Command, want)
		}
	}
	for name, want := range map[string]struct{ program, port string }{
		"rabbitmq": {"rabbitmq-diagnostics", "127.0.0.1:5672:5672"},
		"redis":    {"redis-cli", "127.0.0.1:6379:6379"},
	} {
		s := c.Services[name]
		if !slices.Contains(s.Healthcheck.Test, want.program) || s.Healthcheck.Retries == 0 {
			t.Errorf("%s has no health check by %s: %v", name, want.program, s.Healthcheck)
		}
		if !slices.Contains(s.Ports, want.port) {
			t.Errorf("%s has ports %q, want %s", name, s.Ports, want.port)
		}
	}
	pinned := regexp.MustCompile(`^[a-z/]+:\d+\.\d+(\.\d+)?(-[a-z]+)?$`)
	for name, s := range c.Services {
		if s.Image != "" && !pinned.MatchString(s.Image) {
			t.Errorf("%s has image %q, want a minor version", name, s.Image)
		}
		for _, port := range s.Ports {
			if !strings.HasPrefix(port, "127.0.0.1:") {
				t.Errorf("%s publishes %s to the network", name, port)
			}
		}
	}
}

func TestWorkflow(t *testing.T) {
	var w struct {
		Permissions map[string]string
		Jobs        map[string]struct {
			RunsOn      string            `yaml:"runs-on"`
			Permissions map[string]string // of its own, which could be more
			Steps       []struct {
				Run  string
				Uses string
				With map[string]string
			}
		}
	}
	readYAML(t, ".github/workflows/ci.yml", &w)
	if len(w.Permissions) != 1 || w.Permissions["contents"] != "read" {
		t.Errorf("permissions are %v, want contents: read", w.Permissions)
	}
	major := regexp.MustCompile(`^actions/[a-z-]+@v\d+$`)
	runs := make(map[string]string) // by system, what its jobs run
	for name, job := range w.Jobs {
		if job.Permissions != nil {
			t.Errorf("job %s has permissions of its own: %v", name, job.Permissions)
		}
		system, _, _ := strings.Cut(job.RunsOn, "-")
		if system == job.RunsOn || strings.HasSuffix(job.RunsOn, "latest") {
			t.Errorf("job %s runs on %q, want a version", name, job.RunsOn)
		}
		for _, step := range job.Steps {
			if step.Uses != "" && !major.MatchString(step.Uses) {
				t.Errorf("job %s uses %s, want an action at a major version", name, step.Uses)
			}
			if strings.Contains(step.Uses, "setup-go") && step.With["go-version-file"] != "go.mod" {
				t.Errorf("job %s has Go of %v, want that of go.mod", name, step.With)
			}
			runs[system] += step.Run + "\n"
		}
	}
	for system, want := range map[string]string{"ubuntu": ".ci/run\n", "macos": "make lint\n"} {
		if !strings.Contains(runs[system], want) {
			t.Errorf("on %s it runs %q, want %q", system, runs[system], want)
		}
	}
}

func TestMakefile(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(moduleDir, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}

	t.Run("make prints every target with a line", func(t *testing.T) {
		printed := make(map[string]bool)
		for line := range strings.Lines(dryMake(t)) {
			if words := strings.Fields(line); len(words) > 2 && words[0] == "make" {
				printed[words[1]] = true
			}
		}
		targets := regexp.MustCompile(`(?m)^([a-z][a-z-]*):`).FindAllStringSubmatch(string(text), -1)
		if len(targets) < 6 {
			t.Fatalf("found targets %q only", targets)
		}
		for _, target := range targets {
			if !printed[target[1]] {
				t.Errorf("make doesn't print %s", target[1])
			}
			if !regexp.MustCompile(`(?m)^\.PHONY:.* ` + target[1] + `\b`).Match(text) {
				t.Errorf("%s is not .PHONY: a file of that name would stand for it", target[1])
			}
		}
	})

	// What a target would run, in this order.
	for target, want := range map[string][]string{
		"demo": {".ci/setup go", "-o bin/notifylab ./cmd/notifylab", ".ci/setup demo", "bin/notifylab scenario crash-claim"},
		"test": {
			".ci/setup go", ".ci/setup test", "-o bin/notifylab ./cmd/notifylab", "-race -o bin/race/notifylab ./cmd/notifylab",
			"NOTIFYLAB_BIN=", "NOTIFYLAB_PLAIN_BIN=", "bin/notifylab servers run -- go test -race -count=1 -timeout 30m ./...",
		},
		"clusters": {
			".ci/setup test", "-race -o bin/race/notifylab ./cmd/notifylab", "NOTIFYLAB_CLUSTER=1", "NOTIFYLAB_BIN=", "NOTIFYLAB_PLAIN_BIN=",
			"go test -race -count=1 -timeout 30m ", "-run '[Cc]lusters' ./internal/servers ./internal/lab ./cmd/notifylab",
		},
		"lint": {
			"gofmt", "GOOS=linux go vet ./...", "GOOS=darwin go vet ./...", "go run honnef.co/go/tools/cmd/staticcheck@v",
			"bash -n", "GOOS=darwin GOARCH=amd64 go build", "GOOS=darwin GOARCH=arm64 go build",
		},
	} {
		t.Run("make "+target, func(t *testing.T) {
			got := dryMake(t, "-n", target)
			rest := got
			for _, step := range want {
				_, after, found := strings.Cut(rest, step)
				if !found {
					t.Fatalf("no %q, or too early, in:\n%s", step, got)
				}
				rest = after
			}
		})
	}
}

func TestScripts(t *testing.T) {
	for _, script := range []string{".ci/run", ".ci/setup"} {
		info, err := os.Stat(filepath.Join(moduleDir, script))
		if err != nil {
			t.Error(err)
		} else if info.Mode().Perm()&0o111 != 0o111 {
			t.Errorf("%s is not executable: %v", script, info.Mode())
		}
	}
}

// dryMake returns what make prints. It is not a part of the make that may have
// started this test.
func dryMake(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("make", args...)
	cmd.Dir = moduleDir
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "MAKE") || strings.HasPrefix(v, "MFLAGS=") || strings.HasPrefix(v, "GNUMAKEFLAGS=")
	})
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("make %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func readYAML(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(moduleDir, name))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatalf("parse %s: %v", name, err)
	}
}
