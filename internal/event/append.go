package event

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Append adds e to dst as one line of JSON with its newline, byte for byte what
// encoding/json makes of it, and returns the whole. It is made by hand since a worker
// says five events about each message: room in dst is all that most of them take.
// Text from outside keeps its true bytes: escaping is for terminals.
func Append(dst []byte, e Event) []byte {
	b, err := e.Time.UTC().AppendText(append(dst, `{"time":"`...))
	if err != nil {
		panic(err) // the time is not within years 0 to 9999
	}
	b = quote(append(b, `","kind":`...), string(e.Kind))
	b = text(b, `,"source":`, e.Source)
	b = number(b, `,"pid":`, e.PID)

	b = text(b, `,"id":`, e.ID)
	b = text(b, `,"channel":`, e.Channel)
	b = text(b, `,"user":`, e.User)
	b = text(b, `,"text":`, e.Text)
	b = text(b, `,"pass":`, e.Pass)
	b = number(b, `,"attempt":`, e.Attempt)

	b = text(b, `,"queue":`, e.Queue)
	b = flag(b, `,"redelivered":true`, e.Redelivered)
	b = number(b, `,"attempts":`, e.Attempts)
	b = number(b, `,"backoff_ms":`, e.BackoffMS)
	b = text(b, `,"reason":`, e.Reason)
	b = number(b, `,"caller":`, e.Caller)

	b = text(b, `,"key":`, e.Key)
	b = text(b, `,"state":`, e.State)
	b = number(b, `,"ttl_ms":`, e.TTLMS)
	b = text(b, `,"owner":`, e.Owner)
	b = number(b, `,"slot":`, e.Slot)
	b = text(b, `,"point":`, e.Point)
	b = number(b, `,"elapsed_ms":`, e.Elapsed)

	if e.Settings != nil {
		b = append(append(b, `,"settings":`...), object(e.Settings)...)
	}
	b = number(b, `,"messages":`, e.Messages)
	b = text(b, `,"exit":`, e.Exit)
	b = number(b, `,"restarts":`, e.Restarts)
	b = number(b, `,"wait_ms":`, e.WaitMS)
	b = text(b, `,"line":`, e.Line)
	b = flag(b, `,"detail":true`, e.Detail)

	b = text(b, `,"group":`, e.Group)
	b = number(b, `,"generation":`, e.Generation)
	if e.Assignment != nil {
		b = inline(b, object(e.Assignment))
	}
	if e.Position != nil {
		b = inline(b, object(e.Position))
	}
	return append(b, "}\n"...)
}

func text(b []byte, name, s string) []byte {
	if s == "" {
		return b
	}
	return quote(append(b, name...), s)
}

func number[N int | int64](b []byte, name string, n N) []byte {
	if n == 0 {
		return b
	}
	return strconv.AppendInt(append(b, name...), int64(n), 10)
}

func flag(b []byte, fact string, is bool) []byte {
	if !is {
		return b
	}
	return append(b, fact...)
}

// inline adds an object's fields as if they were those of the object around it.
func inline(b, object []byte) []byte {
	return append(append(b, ','), object[1:len(object)-1]...)
}

// object is what is said too rarely to be made by hand.
func object(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // strings, numbers and switches always encode
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// quote adds s as a JSON string. Bytes that are no UTF-8 become U+FFFD, escaped, and
// U+2028 and U+2029 are escaped since JavaScript once took them for ends of lines.
func quote(b []byte, s string) []byte {
	const (
		special = "\"\\\b\f\n\r\t"
		short   = `"\bfnrt`
		hex     = "0123456789abcdef"
	)
	b = append(b, '"')
	done := 0 // bytes of s
	for i, r := range s {
		if r >= ' ' && r != '"' && r != '\\' && r|1 != '\u2029' && r != utf8.RuneError {
			continue
		}
		size := utf8.RuneLen(r)
		if r == utf8.RuneError {
			if strings.HasPrefix(s[i:], string(utf8.RuneError)) {
				continue // it was there
			}
			size = 1
		}
		b = append(b, s[done:i]...)
		if k := strings.IndexRune(special, r); k >= 0 {
			b = append(b, '\\', short[k])
		} else {
			b = append(b, '\\', 'u', hex[r>>12], hex[r>>8&15], hex[r>>4&15], hex[r&15])
		}
		done = i + size
	}
	return append(append(b, s[done:]...), '"')
}
