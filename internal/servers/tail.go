package servers

import (
	"bytes"
	"io"
	"os"
	"strings"
)

// tail returns the last lines of a file that may be long, not be there, or be
// empty.
func tail(path string, lines int) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	return tailOf(file, lines)
}

func tailOf(file *os.File, lines int) string {
	const most = 64 << 10
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return ""
	}
	text := make([]byte, min(size, most))
	n, _ := file.ReadAt(text, size-int64(len(text)))
	return lastLines(text[:n], lines)
}

// lastLines returns the last lines that have something in them.
func lastLines(text []byte, most int) string {
	var kept []string
	for line := range bytes.Lines(text) {
		if line := strings.TrimRight(string(line), " \r\n"); line != "" {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept[max(0, len(kept)-most):], "\n")
}
