package notify

import (
	"fmt"
	"strings"
)

// A Namespace keeps runs on the same servers apart: it stands in front of every
// queue and every key. The empty one is the lessons' own, in which all names
// are literal.
type Namespace string

// ParseNamespace returns s as a namespace, or an error that says what one may
// be made of: up to 40 of a-z, 0-9 and -, a letter first.
func ParseNamespace(s string) (Namespace, error) {
	ok := len(s) <= 40
	for i, r := range s {
		letter := r >= 'a' && r <= 'z'
		ok = ok && (letter || i > 0 && (r == '-' || r >= '0' && r <= '9'))
	}
	if !ok {
		return "", fmt.Errorf("namespace %q: up to 40 of a-z, 0-9 and -, a letter first", s)
	}
	return Namespace(s), nil
}

// Queue returns the full name of a queue: k7f3.notify.push.
func (n Namespace) Queue(name string) string {
	if n == "" {
		return name
	}
	return string(n) + "." + name
}

// Key returns the full name of a Redis key: k7f3:lab:flags.
func (n Namespace) Key(name string) string {
	if n == "" {
		return name
	}
	return string(n) + ":" + name
}

// Bare returns the name of a queue or key without the namespace, as people are
// shown it.
func (n Namespace) Bare(name string) string {
	if n == "" {
		return name
	}
	if bare, ok := strings.CutPrefix(name, string(n)+"."); ok {
		return bare
	}
	return strings.TrimPrefix(name, string(n)+":")
}
