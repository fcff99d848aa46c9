package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

// A refusal is an answer to a request that does not make sense.
type refusal struct {
	status int
	why    string
}

func (r refusal) Error() string { return r.why }

func badRequest(format string, args ...any) error {
	return refusal{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

// parameters returns the request's query, which may have each of the known ones
// once and nothing else: a filter that was misspelt would choose everything.
func parameters(r *http.Request, known ...string) (url.Values, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, badRequest("the query can't be read: %v", err)
	}
	for _, name := range slices.Sorted(maps.Keys(q)) {
		if !slices.Contains(known, name) {
			if len(known) == 0 {
				return nil, badRequest("parameter %q: there are none", name)
			}
			return nil, badRequest("parameter %q: there are %s", name, strings.Join(known, ", "))
		}
		if len(q[name]) > 1 {
			return nil, badRequest("parameter %q is given twice", name)
		}
	}
	return q, nil
}

// decode reads the one JSON object that a body must be: each of the known fields at
// most once, by its exact name, and nothing else. What is null is left alone.
func decode(r *http.Request, fields map[string]any) error {
	body, err := io.ReadAll(r.Body)
	var large *http.MaxBytesError
	var said refusal
	switch {
	case errors.As(err, &large):
		return refusal{http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is larger than %d bytes", maxBody)}
	case err != nil:
		return badRequest("the body can't be read: %v", err)
	case len(bytes.TrimSpace(body)) == 0:
		return badRequest("the body is empty: want a JSON object")
	case !utf8.Valid(body):
		return badRequest("the body is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	if err := decodeObject(d, fields); errors.As(err, &said) {
		return err
	} else if err != nil {
		return badRequest("the body is not JSON: %v", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return badRequest("something follows the JSON object")
	}
	return nil
}

func decodeObject(d *json.Decoder, fields map[string]any) error {
	if t, err := d.Token(); err != nil {
		return err
	} else if t != json.Delim('{') {
		return badRequest("the body is not a JSON object")
	}
	seen := map[string]bool{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return err
		}
		name, _ := t.(string) // the decoder takes nothing else for a name
		to, known := fields[name]
		switch {
		case !known:
			return badRequest("field %q: there are %s", name, strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
		case seen[name]:
			return badRequest("field %q is given twice", name)
		}
		seen[name] = true
		var unfit *json.UnmarshalTypeError
		if err := d.Decode(to); errors.As(err, &unfit) {
			return badRequest("field %q is a %s: want %s", name, unfit.Value, wanted(to))
		} else if err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}

func wanted(to any) string {
	switch to.(type) {
	case **bool:
		return "true or false"
	case *[]string:
		return "a list of strings"
	}
	return "a string"
}

// isJSON says whether a body says that it is JSON. Others could come from a form of
// another site's page.
func isJSON(r *http.Request) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && kind == "application/json"
}

func notJSON() error {
	return refusal{http.StatusUnsupportedMediaType, "Content-Type must be application/json"}
}

// withoutBody refuses a body that says something: who sent a filter in it would find
// that everything was chosen.
func withoutBody(r *http.Request) error {
	some, err := io.ReadAll(r.Body)
	text := strings.TrimSpace(string(some))
	switch {
	case err != nil:
	case text == "", text == "{}" && isJSON(r):
		return nil
	case !isJSON(r):
		return notJSON()
	}
	return badRequest("no body is wanted here: say it in the query")
}
