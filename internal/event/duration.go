package event

import (
	"strings"
	"time"
)

// Short writes a duration as people do, without zeros at its end: 24h, 10s,
// 1m30s.
func Short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
