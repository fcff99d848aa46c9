package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"time"
)

// A reply is an answer with its body as JSON.
type reply struct {
	status int
	header http.Header
	text   string
	body   map[string]any // if it is an object
	list   []map[string]any
}

// ask sends a request with JSON, or with no body. Headers are name, value and so on.
func (r *rig) ask(method, path, body string, headers ...string) reply {
	r.Helper()
	got, err := r.try(method, path, body, headers...)
	if err != nil {
		r.Fatalf("%s %s: %v", method, path, err)
	}
	return got
}

func (r *rig) try(method, path, body string, headers ...string) (reply, error) {
	req, err := http.NewRequest(method, r.url+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return reply{}, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		}
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	got := reply{status: res.StatusCode, header: res.Header, text: string(text)}
	return got, errors.Join(err, got.read(path))
}

func (g *reply) read(path string) error {
	if path == "/metrics" || len(g.text) == 0 || g.text[0] != '{' && g.text[0] != '[' {
		return nil
	}
	var to any = &g.body
	if g.text[0] == '[' {
		to = &g.list
	}
	if kind := g.header.Get("Content-Type"); kind != "application/json" {
		return fmt.Errorf("the answer is %s", kind)
	}
	return json.Unmarshal([]byte(g.text), to)
}

// want compares an answer with its status and, if it is given, its whole body.
func (r *rig) want(got reply, status int, body ...map[string]any) {
	r.Helper()
	if got.status != status {
		r.Fatalf("status %d, want %d: %s", got.status, status, got.text)
	}
	if len(body) > 0 && !reflect.DeepEqual(got.body, body[0]) {
		r.Errorf("got %v\nwant %v", got.body, body[0])
	}
	if retry := got.header.Get("Retry-After"); (retry != "") != (status == 503 || status == 409) {
		r.Errorf("status %d with Retry-After %q", status, retry)
	}
}

// object is a JSON object.
type object = map[string]any

// within fails if do takes longer: it is what a client has been promised.
func (r *rig) within(most time.Duration, do func()) {
	r.Helper()
	began := time.Now()
	do()
	if took := time.Since(began); took > most {
		r.Errorf("took %v, want at most %v", took, most)
	}
}

// eventually asks until wrong returns nothing. It is for what nobody tells of.
func (r *rig) eventually(wrong func() string) {
	r.Helper()
	ctx := soon(r)
	for {
		text := wrong()
		if text == "" {
			return
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			r.Fatal(text)
		}
	}
}
