package idem

import (
	"context"
	"testing"
	"time"

	"notifylab/internal/notify"
)

// TestClaim_Table is the record's whole table: what is found × what is done →
// the answer, the record, and its time to live. Wherever something is found,
// foundTTL is what it has.
func TestClaim_Table(t *testing.T) {
	t.Parallel()
	claimTable(t, "")
}

// The same on a Cluster: each command and script keeps to one key.
func TestClaim_Table_on_a_Cluster(t *testing.T) {
	t.Parallel()
	claimTable(t, clusterURL(startCluster(t)))
}

func claimTable(t *testing.T, url string) {
	const foundTTL = 500 * time.Second
	type after struct {
		value string // "": nothing
		ttl   time.Duration
	}
	// A row is a found record, as a value and for what it stands.
	type row struct {
		found string
		value func(mine Record, l *lab) string
		// try is the verdict of Try and Again; again that of Again, where it
		// differs; the two bools are what complete and release say.
		try               Verdict
		again             Verdict
		complete, release bool
	}
	other := func(s State, o func(*lab) Owner, fingerprint string) func(Record, *lab) string {
		return func(mine Record, l *lab) string {
			r := Record{State: s, Owner: o(l), Nonce: "othernonce", Fingerprint: mine.Fingerprint}
			if fingerprint != "" {
				r.Fingerprint = fingerprint
			}
			return r.String()
		}
	}
	alive := func(l *lab) Owner { return takeSlot(l.t, l.dir).Owner() }
	dead := (*lab).dead
	unknown := func(l *lab) Owner { o := l.dead(); o.Boot = "another-machine"; return o }
	text := func(s string) func(Record, *lab) string { return func(Record, *lab) string { return s } }

	rows := []row{
		{"nothing", text(""), Acquired, Acquired, true, true},
		{"mine", func(r Record, _ *lab) string { return r.String() }, Acquired, Acquired, true, true},
		{"my own done", func(r Record, _ *lab) string { return r.with(Done).String() }, Duplicate, Duplicate, true, false},
		{"another's claimed", other(Claimed, alive, ""), Duplicate, Duplicate, false, false},
		{"a dead one's claimed", other(Claimed, dead, ""), Duplicate, Duplicate, false, false},
		{"another's done", other(Done, alive, ""), Duplicate, Duplicate, false, false},
		{"a dead one's done", other(Done, dead, ""), Duplicate, Duplicate, false, false},
		{"pending, its owner alive", other(Pending, alive, ""), Busy, Busy, false, false},
		{"pending, its owner dead", other(Pending, dead, ""), Recovered, Recovered, false, false},
		{"pending, its owner unknown", other(Pending, unknown, ""), Busy, Busy, false, false},
		{"claimed with another text", other(Claimed, alive, "ffff"), Conflict, Conflict, false, true},
		{"pending with another text, its owner dead", other(Pending, dead, "ffff"), Conflict, Conflict, false, true},
		{"done with another text", other(Done, alive, "ffff"), Conflict, Conflict, false, true},
		{"no record at all", text("written by hand"), Conflict, Conflict, false, true},
		{"a record in no known state", text("sent a/1:2/3/d n f"), Conflict, Conflict, false, true},
	}
	for _, r := range rows {
		for _, leased := range []bool{true, false} {
			prepare := func(t *testing.T) (l *lab, c *Claim, found, mine after) {
				t.Parallel()
				l = newLabAt(t, url)
				c = l.worker(l.redis).Claim(hello, notify.Push, leased)
				found = after{r.value(c.Mine(), l), foundTTL}
				l.put(c.Key(), found.value, found.ttl)
				mine = after{c.Mine().String(), testRetention}
				if leased {
					mine.ttl = testLease
				}
				return l, c, found, mine
			}
			name := r.found + "/claimed/"
			if leased {
				name = r.found + "/leased/"
			}
			t.Run(name+"try", func(t *testing.T) {
				l, c, found, mine := prepare(t)
				attempt(t, "try", c.Try, r.try)
				want := found
				if r.try == Recovered || found.value == "" {
					want = mine
				}
				l.is(c.Key(), want.value, want.ttl)
			})
			t.Run(name+"again", func(t *testing.T) {
				l, c, found, mine := prepare(t)
				attempt(t, "again", c.Again, r.again)
				want := found
				if r.again == Recovered || r.again == Acquired {
					want = mine
				}
				l.is(c.Key(), want.value, want.ttl)
			})
			t.Run(name+"complete", func(t *testing.T) {
				l, c, found, _ := prepare(t)
				want, ours := found, r.complete
				switch done := c.Mine().with(Done).String(); {
				case !leased:
					ours = true // and nothing is looked at
				case found.value != done && ours:
					want = after{done, testRetention}
				}
				settle(t, "complete", c.Complete, ours)
				l.is(c.Key(), want.value, want.ttl)
			})
			t.Run(name+"release", func(t *testing.T) {
				l, c, found, _ := prepare(t)
				settle(t, "release", c.Release, r.release)
				if found.value == c.Mine().String() {
					found.value = ""
				}
				l.is(c.Key(), found.value, found.ttl)
			})
		}
	}
}

// What is found is what the caller is told about.
func TestClaim_ReturnsTheRecordThatItMet(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	theirs := l.worker(l.redis).Claim(hello, notify.Push, true)
	attempt(t, "theirs", theirs.Try, Acquired)
	mine := l.worker(l.redis).Claim(hello, notify.Push, true)
	if found := attempt(t, "mine", mine.Try, Busy); found != theirs.Mine() {
		t.Errorf("want %v, got %v", theirs.Mine(), found)
	}
	still(t, mine, theirs.Mine(), true)
	settle(t, "complete", theirs.Complete, true)
	still(t, mine, theirs.Mine(), false)
	l.put(mine.Key(), "", 0)
	still(t, mine, theirs.Mine(), false)
	if left, err := mine.Remaining(soon(t)); err != nil || left != 0 {
		t.Errorf("of nothing 0 remains, got %v, %v", left, err)
	}
}

func still(t *testing.T, c *Claim, r Record, want bool) {
	t.Helper()
	if got, err := c.Still(soon(t), r); err != nil || got != want {
		t.Errorf("still %v: want %v, got %v, %v", r, want, got, err)
	}
}

// Neither an empty value nor another type is free, mine or a record.
func TestClaim_LeavesAloneWhatIsNoRecord(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(context.Context, Client, string) error{
		"empty": func(ctx context.Context, c Client, key string) error { return c.Set(ctx, key, "", time.Hour).Err() },
		"list":  func(ctx context.Context, c Client, key string) error { return c.LPush(ctx, key, "x").Err() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			c := l.worker(l.redis).Claim(hello, notify.Push, true)
			if err := write(soon(t), l.redis, c.Key()); err != nil {
				t.Fatal(err)
			}
			before := l.redis.Dump(soon(t), c.Key()).Val()
			if found := attempt(t, "try", c.Try, Conflict); found != (Record{}) {
				t.Errorf("want no record, got %v", found)
			}
			attempt(t, "again", c.Again, Conflict)
			settle(t, "complete", c.Complete, false)
			settle(t, "release", c.Release, true)
			still(t, c, c.Mine(), false)
			if after := l.redis.Dump(soon(t), c.Key()).Val(); after != before {
				t.Errorf("want %q, got %q", before, after)
			}
		})
	}
}
