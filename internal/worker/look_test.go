package worker_test

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"notifylab/internal/broker"
	"notifylab/internal/event"
	"notifylab/internal/idem"
	"notifylab/internal/notify"
)

// word is an event of a worker in a word, a redelivery with a star. (Of messages
// that are acked early the next one has always been handed over.)
func (r *rig) word(e event.Event) string {
	switch e.Kind {
	case event.Received:
		if e.Redelivered && !r.AckEarly {
			return "received*"
		}
	case event.ClaimRecovered:
		return "recovered"
	case event.DuplicateDropped:
		return "duplicate"
	case event.LeaseBusy:
		return "busy"
	case event.LeaseLost:
		return "lost"
	case event.DeadLetter:
		return "parked"
	}
	return string(e.Kind)
}

// story is all that workers said of a notification, in words.
func (r *rig) story(id string) string { return r.storyOf("", id) }

// storyOf is what one worker said of it.
func (r *rig) storyOf(source, id string) string {
	var words []string
	for _, e := range r.history.All() {
		if tellsOf(e, id) && (source == "" || source == e.Source) {
			words = append(words, r.word(e))
		}
	}
	return strings.Join(words, " ")
}

// tellsOf says whether an event is a word of a notification's story.
func tellsOf(e event.Event, id string) bool {
	return e.ID == id && e.Source != "supervisor" && e.Kind != event.Draining
}

// tells waits until a story is as long as it should be, and checks it. If there are
// several as it may be, they are equally long.
func (r *rig) tells(id string, wants ...string) {
	r.t.Helper()
	long := len(strings.Fields(wants[0]))
	_, err := r.history.Await(r.ctx, func(e event.Event) bool {
		if tellsOf(e, id) {
			long--
		}
		return long <= 0
	})
	if r.compare(id, r.story(id), wants...) && err != nil {
		r.t.Error(err)
	}
}

// compare checks a story that has come to its end.
func (r *rig) compare(id, got string, wants ...string) bool {
	r.t.Helper()
	ok := slices.Contains(wants, got)
	if !ok {
		r.t.Errorf("%s\n got %s\nwant %s", id, got, strings.Join(wants, "\n  or "))
	}
	return ok
}

// compact is a story without repeated neighbours: how often something is tried before it
// succeeds is a matter of time.
func compact(story string) string {
	return strings.Join(slices.Compact(strings.Fields(story)), " ")
}

// busyOnce is a story in which a message that is handed over again, and found busy again,
// is so once: a session can end by a heartbeat that a busy machine kept waiting.
func busyOnce(story string) string { return busyAgain.ReplaceAllString(story, "$1") }

var busyAgain = regexp.MustCompile(`(received\* busy )+`)

// mixed are the stories that begin alike, and with which two handlers then go on at
// once: each says its own words, in their order.
func mixed(begin, one, other string) []string {
	if one == "" || other == "" {
		return []string{begin + " " + one + other}
	}
	first, ones, _ := strings.Cut(one, " ")
	second, others, _ := strings.Cut(other, " ")
	return append(mixed(begin+" "+first, ones, other), mixed(begin+" "+second, one, others)...)
}

// places says in which queues the messages of each id lie, ready: work, retry,
// dlq; one for each copy.
func (r *rig) places() map[string]string {
	r.t.Helper()
	in := map[string][]string{}
	look := func(queue, name string) {
		parked, err := r.conn.Look(r.ctx, queue, 1000)
		r.ok(err)
		for _, p := range parked {
			in[p.ID] = append(in[p.ID], name)
		}
	}
	top := r.topology()
	look(top.Work(notify.Push), "work")
	for _, delay := range top.Delays {
		look(top.Retry(notify.Push, delay), "retry")
	}
	look(top.DeadLetters(notify.Push), "dlq")
	places := map[string]string{}
	for id, names := range in {
		places[id] = strings.Join(names, " ")
	}
	return places
}

// lie checks where messages lie once no worker has any: an id that is not named
// lies nowhere. The broker is a moment behind, on a busy machine longer; but a look
// counts as a delivery, and the broker parks what is delivered too often, so there are
// few.
func (r *rig) lie(want map[string]string) {
	r.t.Helper()
	want = maps.Clone(want)
	maps.DeleteFunc(want, func(_, place string) bool { return place == "" })
	for wait := 100 * time.Millisecond; ; wait *= 2 {
		got := r.places()
		if maps.Equal(got, want) {
			return
		}
		if wait > limit/10 {
			r.t.Errorf("messages lie\n     in %v\nwant in %v", got, want)
			return
		}
		select {
		case <-time.After(wait):
		case <-r.ctx.Done():
		}
	}
}

// parked returns the dead letters.
func (r *rig) parked() []broker.Parked {
	r.t.Helper()
	p, err := r.conn.Look(r.ctx, r.topology().DeadLetters(notify.Push), 1000)
	r.ok(err)
	return p
}

// record returns the state of a notification's record, "" if there is none.
func (r *rig) record(n notify.Notification) string {
	r.t.Helper()
	found, _, ok, err := idem.Look(r.ctx, r.redis, r.Namespace, n, notify.Push)
	if err != nil {
		return "no record"
	}
	if !ok {
		return ""
	}
	return string(found.State)
}

// put writes a record by hand.
func (r *rig) put(n notify.Notification, value string, ttl time.Duration) {
	r.t.Helper()
	r.ok(r.redis.Set(r.ctx, r.Namespace.Key(notify.Key(n, notify.Push)), value, ttl).Err())
}

// by is a record of n in a state, by an owner.
func by(o idem.Owner, n notify.Notification, s idem.State) string {
	return idem.Record{State: s, Owner: o, Nonce: "nonce", Fingerprint: notify.Fingerprint(n)}.String()
}
