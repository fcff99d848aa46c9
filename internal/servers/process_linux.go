package servers

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// observe looks at a pid in /proc. alive is false if there is no such process or
// only what is left of one that nobody has waited for.
func observe(pid int) (seen sighting, alive bool, err error) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return sighting{}, false, nil
	}
	if err != nil {
		return sighting{}, false, err
	}
	fields, ok := statFields(stat)
	if !ok {
		return sighting{}, false, fmt.Errorf("read /proc/%d/stat: unknown shape", pid)
	}
	state, threads, start := fields[0], fields[17], fields[19]
	// A process is a zombie as soon as its first thread is, but its files and
	// ports stay open until the last thread has ended.
	if state == "X" || state == "Z" && (threads == "0" || threads == "1") {
		return sighting{}, false, nil
	}
	// The start time counts from the boot, so it means something only with it.
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return sighting{}, false, err
	}
	return sighting{
		born:    string(bytes.TrimSpace(boot)) + "/" + start,
		stopped: state == "T",
	}, true, nil
}

// statFields splits what proc(5) says of a process: "pid (name) state ppid …". It
// returns the fields from the state on, of which num_threads is 17, starttime 19.
// The name may hold blanks and parentheses, so they begin after the last ')'.
func statFields(stat []byte) ([]string, bool) {
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	return fields, len(fields) >= 20
}
