package main

import (
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// machine is what .ci/setup is shown: a PATH with nothing but these programs,
// each a script, and the files below a root of its own.
type machine struct {
	programs map[string]string // what each does
	files    []string          // that there are; a directory ends in a slash
	env      []string
	answers  bool // servers at the usual ports
}

func TestSetup(t *testing.T) {
	mod, err := os.ReadFile(filepath.Join(moduleDir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	wanted := "Go " + string(regexp.MustCompile(`(?m)^go (\S+)$`).FindSubmatch(mod)[1]) + " or later must be installed"

	const installed = "exit 0"
	linux := func(more map[string]string) map[string]string {
		return merge(map[string]string{
			"uname": "echo Linux", "id": "echo 0", "apt-get": installed, "env": `shift; exec "$@"`,
			"cc": installed, "go": `case "$1 $2" in "env CC") echo cc;; esac`,
		}, more)
	}
	servers := map[string]string{"rabbitmq-server": installed, "rabbitmqctl": installed, "epmd": installed, "redis-server": installed}
	mac := func(brew string) map[string]string {
		return linux(map[string]string{"uname": "echo Darwin", "apt-get": "", "cc": "", "brew": brew})
	}

	for _, tt := range []struct {
		name    string
		args    string
		machine machine
		want    []string // a line each, or part of it
		fails   bool
	}{
		{
			name: "Go is there", args: "go",
			machine: machine{programs: linux(nil)},
		},
		{
			name: "no Go", args: "go",
			machine: machine{programs: linux(map[string]string{"go": ""})},
			want:    []string{wanted + ", and there is no go in PATH"}, fails: true,
		},
		{
			name: "Go is too old", args: "go",
			machine: machine{programs: linux(map[string]string{"go": `case $1 in env) echo go1.19.8;; *) echo "invalid go version"; exit 1;; esac`})},
			want:    []string{wanted + ", and here is go1.19.8"}, fails: true,
		},
		{
			name: "nothing is missing for the tests", args: "test",
			machine: machine{programs: linux(servers)},
		},
		{
			name: "all is missing, as root", args: "--dry-run test",
			machine: machine{programs: linux(map[string]string{"cc": "exit 1"})},
			want: []string{
				"· looking for packages: apt-get update",
				"· installing rabbitmq redis cc, which can take a minute or two: env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=300 rabbitmq-server redis-server gcc libc6-dev",
			},
		},
		{
			name: "only the compiler is missing", args: "--dry-run test",
			machine: machine{programs: linux(merge(servers, map[string]string{"cc": "exit 1"})), files: []string{"run/systemd/system/"}},
			want:    []string{"apt-get update", "· installing cc, which"},
		},
		{
			name: "Debian's rabbitmq is found outside PATH", args: "--dry-run test",
			machine: machine{
				programs: linux(map[string]string{"epmd": installed, "redis-server": installed}),
				files:    []string{"usr/lib/rabbitmq/bin/rabbitmq-server", "usr/lib/rabbitmq/bin/rabbitmqctl"},
			},
		},
		{
			name: "by sudo", args: "--dry-run test",
			machine: machine{programs: linux(merge(servers, map[string]string{"id": "echo 1000", "sudo": installed, "redis-server": ""}))},
			want:    []string{": sudo -n apt-get update", ": sudo -n env DEBIAN_FRONTEND=noninteractive apt-get install"},
		},
		{
			name: "sudo wants a password", args: "test",
			machine: machine{programs: linux(merge(servers, map[string]string{"id": "echo 1000", "sudo": "exit 1", "redis-server": ""}))},
			want:    []string{"run  sudo apt-get install redis-server  and then this again"}, fails: true,
		},
		{
			name: "services that start by themselves are announced", args: "--dry-run demo",
			machine: machine{programs: linux(nil), files: []string{"run/systemd/system/"}},
			want:    []string{"start RabbitMQ and Redis as services", "apt-get update", "apt-get install"},
		},
		{
			name: "an installation that fails is shown", args: "demo",
			machine: machine{programs: linux(map[string]string{"apt-get": `echo "apt says $1"; case $1 in install) exit 100;; esac`})},
			want:    []string{"apt-get update", "apt-get install", "apt says install", "did not work, see above"}, fails: true,
		},
		{
			name: "an installation that brings nothing is noticed", args: "demo",
			machine: machine{programs: linux(nil)},
			want:    []string{"apt-get update", "apt-get install", "RabbitMQ is installed, and yet not found"}, fails: true,
		},
		{
			name: "no package manager", args: "test",
			machine: machine{programs: linux(map[string]string{"apt-get": ""})},
			want:    []string{"missing: rabbitmq redis. There is no apt-get here"}, fails: true,
		},
		{
			name: "by Homebrew, which needs no compiler", args: "--dry-run test",
			machine: machine{programs: mac(installed)},
			want:    []string{"· installing rabbitmq redis, which can take some minutes: brew install rabbitmq redis"},
		},
		{
			name: "no Homebrew", args: "test",
			machine: machine{programs: mac("")},
			want:    []string{"missing: rabbitmq redis. Get Homebrew"}, fails: true,
		},
		{
			name: "servers that are named", args: "demo",
			machine: machine{programs: linux(nil), env: []string{"REDIS_URL=redis://:secret@elsewhere/0"}},
			want:    []string{"· using the servers that AMQP_URL and REDIS_URL name"},
		},
		{
			name: "servers that answer", args: "demo",
			machine: machine{programs: linux(servers), answers: true},
			want:    []string{"· using the RabbitMQ and Redis that answer at localhost"},
		},
		{
			name: "installed programs before Docker", args: "demo",
			machine: machine{programs: linux(merge(servers, map[string]string{"docker": installed}))},
			want:    []string{"· using the installed RabbitMQ and Redis"},
		},
		{
			name: "Docker before an installation", args: "demo",
			machine: machine{programs: linux(map[string]string{"docker": installed})},
			want: []string{
				"· starting rabbitmq redis with Docker, which can take a minute: docker compose up -d --wait rabbitmq redis",
				"to stop them and remove their data: docker compose down -v",
			},
		},
		{
			name: "a Docker without an engine", args: "--dry-run demo",
			machine: machine{programs: linux(map[string]string{"docker": "exit 1"})},
			want:    []string{"apt-get update", "apt-get install"},
		},
		{
			name: "a Docker without compose", args: "--dry-run demo",
			machine: machine{programs: linux(map[string]string{"docker": `[ "$1" = info ]`})},
			want:    []string{"apt-get update", "apt-get install"},
		},
		{
			name: "a Docker that can't", args: "demo",
			machine: machine{programs: linux(map[string]string{"docker": `case "$*" in *" up "*) echo no such image; exit 1;; esac`, "apt-get": "exit 100"})},
			want: []string{
				"docker compose up", "no such image", "Docker can't start them", "apt-get update", "going on with the package lists",
				"apt-get install", "did not work",
			},
			fails: true,
		},
		{
			name: "no such step", args: "all",
			machine: machine{programs: linux(nil)},
			want:    []string{"usage: .ci/setup [--dry-run] go|test|demo"}, fails: true,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			out, err := tt.machine.setup(t, strings.Fields(tt.args)...)
			if (err != nil) != tt.fails {
				t.Errorf("ended with %v", err)
			}
			lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
			if out == "" {
				lines = nil
			}
			if len(lines) != len(tt.want) {
				t.Fatalf("printed\n%s\nwant a line for each of %q", out, tt.want)
			}
			for i, want := range tt.want {
				if !strings.Contains(lines[i], want) {
					t.Errorf("line %d is %q, want %q in it", i+1, lines[i], want)
				}
			}
			if strings.Contains(out, "secret") {
				t.Errorf("printed a password:\n%s", out)
			}
		})
	}
}

// setup runs .ci/setup on the machine and returns all that it prints.
func (m machine) setup(t *testing.T, args ...string) (string, error) {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal(err)
	}
	bin, root := t.TempDir(), t.TempDir()
	write := func(path, text string) {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, does := range m.programs {
		write(filepath.Join(bin, name), "#!"+bash+"\n"+does+"\n")
	}
	for _, path := range m.files {
		if strings.HasSuffix(path, "/") {
			path += "something"
		}
		write(filepath.Join(root, path), "")
	}
	cmd := exec.Command(bash, append([]string{".ci/setup"}, args...)...)
	cmd.Dir = moduleDir
	cmd.Env = append([]string{"PATH=" + bin, "SETUP_ROOT=" + root}, m.env...)
	for _, port := range []string{"SETUP_AMQP_PORT", "SETUP_REDIS_PORT"} {
		cmd.Env = append(cmd.Env, port+"="+strconv.Itoa(m.port(t)))
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// port is one at which somebody answers, or nobody does.
func (m machine) port(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	if m.answers {
		t.Cleanup(func() { l.Close() })
	} else if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return l.Addr().(*net.TCPAddr).Port
}

// merge puts the second over the first; "" takes a program away.
func merge(first, second map[string]string) map[string]string {
	all := maps.Clone(first)
	maps.Copy(all, second)
	maps.DeleteFunc(all, func(_, does string) bool { return does == "" })
	return all
}
