package servers

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// ErrNotInstalled is in the chain of an error that names the programs that the
// machine lacks.
var ErrNotInstalled = errors.New("not installed")

// Binaries are the absolute paths of the programs that make up a pair.
type Binaries struct {
	RabbitMQServer string `json:"rabbitmq_server"`
	Rabbitmqctl    string `json:"rabbitmqctl"`
	EPMD           string `json:"epmd"`
	RedisServer    string `json:"redis_server"`
}

// Find locates the programs. If any is missing the error names all that are, and
// is [ErrNotInstalled].
func Find() (Binaries, error) {
	return find(usualPlaces(os.Getenv("HOMEBREW_PREFIX")), exec.LookPath)
}

// usualPlaces lists the directories to look in before PATH, by program.
func usualPlaces(brewPrefix string) map[string][]string {
	// Debian's rabbitmq-server on PATH is a wrapper that changes to the user
	// rabbitmq and its directories. The script below lib doesn't.
	rabbitmq := []string{"/usr/lib/rabbitmq/bin"}
	var epmd, redis []string
	for _, brew := range []string{brewPrefix, "/opt/homebrew", "/usr/local", "/home/linuxbrew/.linuxbrew"} {
		if brew == "" {
			continue
		}
		rabbitmq = append(rabbitmq, filepath.Join(brew, "opt/rabbitmq/sbin"))
		epmd = append(epmd, filepath.Join(brew, "opt/erlang/bin"))
		redis = append(redis, filepath.Join(brew, "opt/redis/bin"))
	}
	return map[string][]string{
		"rabbitmq-server": rabbitmq,
		"rabbitmqctl":     rabbitmq,
		"epmd":            epmd,
		"redis-server":    redis,
	}
}

func find(places map[string][]string, lookPath func(string) (string, error)) (Binaries, error) {
	var missing []string
	locate := func(program string) string {
		for _, dir := range places[program] {
			if path := filepath.Join(dir, program); executable(path) {
				return path
			}
		}
		path, err := lookPath(program)
		if err == nil {
			path, err = filepath.Abs(path)
		}
		if err != nil {
			missing = append(missing, program)
			return ""
		}
		return path
	}
	b := Binaries{
		RabbitMQServer: locate("rabbitmq-server"),
		Rabbitmqctl:    locate("rabbitmqctl"),
		EPMD:           locate("epmd"),
		RedisServer:    locate("redis-server"),
	}
	if len(missing) > 0 {
		return Binaries{}, fmt.Errorf("find %s: %w", strings.Join(missing, ", "), ErrNotInstalled)
	}
	return b, nil
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

// searchPath is a PATH for the servers: where the programs were found, so that
// the start script finds its Erlang, and then the caller's own.
func (b Binaries) searchPath() string {
	dirs := []string{filepath.Dir(b.EPMD), filepath.Dir(b.RabbitMQServer)}
	if own := os.Getenv("PATH"); own != "" {
		dirs = append(dirs, own)
	}
	dirs = append(dirs, "/usr/bin", "/bin", "/usr/sbin", "/sbin")
	return strings.Join(dirs, string(os.PathListSeparator))
}
