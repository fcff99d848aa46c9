package passes

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"notifylab/internal/notify"
)

// long is a time to live that does not end in any test.
const long = time.Minute

func who(name string) Identity { return Identity{Name: name, Nonce: "nonce-of-" + name, TTL: long} }

func (i Identity) with(nonce string) Identity         { i.Nonce = nonce; return i }
func (i Identity) livingFor(d time.Duration) Identity { i.TTL = d; return i }

func ok[T any](t testing.TB) func(T, error) T {
	t.Helper()
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// shape is a state without what differs from run to run.
func shape(s State) string { return fmt.Sprint(s.Generation, s.Names(), s.Partitions, s.Cursors) }

func TestGroup_members(t *testing.T) {
	t.Parallel()
	join := func(g *Group, i Identity) func(*testing.T) State {
		return func(t *testing.T) State { t.Helper(); return ok[State](t)(g.Join(soon(t), i)) }
	}
	beat := func(g *Group, i Identity) func(*testing.T) State {
		return func(t *testing.T) State { t.Helper(); return ok[State](t)(g.Beat(soon(t), i)) }
	}
	leave := func(g *Group, i Identity) func(*testing.T) State {
		return func(t *testing.T) State {
			t.Helper()
			ok[int64](t)(g.Leave(soon(t), i))
			return ok[State](t)(g.Look(soon(t)))
		}
	}
	// dies makes a member dead: as far as the group can tell it never beats again.
	dies := func(g *Group, i Identity) func(*testing.T) State {
		return func(t *testing.T) State {
			t.Helper()
			ok[State](t)(g.Beat(soon(t), i.livingFor(time.Millisecond)))
			return awaitDead(t, g, i.Name)
		}
	}
	type step struct {
		what string
		do   func(*testing.T) State
		want string
	}
	for name, steps := range map[string]func(*Group) []step{
		"every change makes a generation": func(g *Group) []step {
			return []step{
				{"c1 joins", join(g, who("c1")), "1 [c1] 4 map[]"},
				{"c2 joins", join(g, who("c2")), "2 [c1 c2] 4 map[]"},
				{"c3 joins", join(g, who("c3")), "3 [c1 c2 c3] 4 map[]"},
				{"c2 leaves", leave(g, who("c2")), "4 [c1 c3] 4 map[]"},
				{"c2 joins again", join(g, who("c2")), "5 [c1 c2 c3] 4 map[]"},
			}
		},
		"what is repeated makes none": func(g *Group) []step {
			return []step{
				{"c1 joins", join(g, who("c1")), "1 [c1] 4 map[]"},
				{"c1 joins, the answer was lost", join(g, who("c1")), "1 [c1] 4 map[]"},
				{"c1 beats", beat(g, who("c1")), "1 [c1] 4 map[]"},
				{"c1 leaves", leave(g, who("c1")), "2 [] 4 map[]"},
				{"c1 leaves, the answer was lost", leave(g, who("c1")), "2 [] 4 map[]"},
				{"c1 beats late", beat(g, who("c1")), "2 [] 4 map[]"},
			}
		},
		"the dead are put out by whoever comes": func(g *Group) []step {
			return []step{
				{"c1 joins", join(g, who("c1")), "1 [c1] 4 map[]"},
				{"c2 joins", join(g, who("c2")), "2 [c1 c2] 4 map[]"},
				{"c1 dies, and nobody has noticed", dies(g, who("c1")), "2 [c1 c2] 4 map[]"},
				{"c2 beats", beat(g, who("c2")), "3 [c2] 4 map[]"},
				{"c1 was not dead: it stays out", beat(g, who("c1")), "3 [c2] 4 map[]"},
				{"c1 joins again", join(g, who("c1")), "4 [c1 c2] 4 map[]"},
				{"c2 dies", dies(g, who("c2")), "4 [c1 c2] 4 map[]"},
				{"c3 joins: one generation for both", join(g, who("c3")), "5 [c1 c3] 4 map[]"},
			}
		},
		"one that nobody has put out goes on": func(g *Group) []step {
			return []step{
				{"c1 joins", join(g, who("c1")), "1 [c1] 4 map[]"},
				{"c1 seems dead", dies(g, who("c1")), "1 [c1] 4 map[]"},
				{"c1 beats", beat(g, who("c1")), "1 [c1] 4 map[]"},
			}
		},
		"the last to come has the name": func(g *Group) []step {
			return []step{
				{"c1 joins", join(g, who("c1")), "1 [c1] 4 map[]"},
				{"another c1 joins", join(g, who("c1").with("other")), "2 [c1] 4 map[]"},
				{"the first beats: it is not in", beat(g, who("c1")), "2 [c1] 4 map[]"},
				{"the first leaves: it was not in", leave(g, who("c1")), "2 [c1] 4 map[]"},
				{"the second leaves", leave(g, who("c1").with("other")), "3 [] 4 map[]"},
			}
		},
		"names may be anything": func(g *Group) []step {
			odd := Identity{Name: "a b:c 7", Nonce: "x", TTL: long}
			return []step{
				{"it joins", join(g, odd), "1 [a b:c 7] 4 map[]"},
				{"it beats", beat(g, odd), "1 [a b:c 7] 4 map[]"},
				{"it dies", dies(g, odd), "1 [a b:c 7] 4 map[]"},
				{"c1 joins", join(g, who("c1")), "2 [c1] 4 map[]"},
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newRedis(t, 4).group("notify")
			if got := shape(ok[State](t)(g.Look(soon(t)))); got != "0 [] 0 map[]" {
				t.Error("before anything: ", got)
			}
			for _, s := range steps(g) {
				if got := shape(s.do(t)); got != s.want {
					t.Fatalf("%s:\n got %s\nwant %s", s.what, got, s.want)
				}
			}
		})
	}
}

// awaitDead waits until a member's time is over, on Redis's clock.
func awaitDead(t testing.TB, g *Group, name string) State {
	t.Helper()
	for ctx := soon(t); ; {
		s := ok[State](t)(g.Look(ctx))
		if m, there := s.Member(name); !there || m.Left < 0 {
			return s
		}
		if !pause(ctx, time.Millisecond) {
			t.Fatalf("%s lives", name)
		}
	}
}

func TestGroup_Join_another_number_of_partitions(t *testing.T) {
	t.Parallel()
	p := newRedis(t, 4)
	ok[State](t)(p.group("notify").Join(soon(t), who("c1")))
	other := NewGroup(p.client, Log{p.log.Namespace, 5}, "notify", time.Hour)
	for what, do := range map[string]func(context.Context, Identity) (State, error){"join": other.Join, "beat": other.Beat} {
		if _, err := do(soon(t), who("c2")); !errors.Is(err, ErrPartitions) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if got := shape(ok[State](t)(other.Look(soon(t)))); got != "1 [c1] 4 map[]" {
		t.Error(got)
	}
}

func TestGroup_is_remembered_for_its_time(t *testing.T) {
	t.Parallel()
	p := newRedis(t, 4)
	for memory, want := range map[time.Duration]time.Duration{time.Hour: time.Hour, 0: -1} {
		g := NewGroup(p.client, p.log, "for "+memory.String(), memory)
		ok[State](t)(g.Join(soon(t), who("c1")))
		got := ok[time.Duration](t)(p.client.PTTL(soon(t), g.Key()).Result())
		if memory > 0 && (got > want || got < want-limit) || memory == 0 && got != want {
			t.Errorf("%s lives for %v, want %v", g.Name(), got, want)
		}
	}
	same(t, "groups", ok[[]string](t)(Groups(soon(t), p.client, p.log.Namespace)), []string{"for 0s", "for 1h0m0s"})
	same(t, "elsewhere", ok[[]string](t)(Groups(soon(t), p.client, p.log.Namespace+"-")), []string(nil))
}

func TestGroup_Commit(t *testing.T) {
	t.Parallel()
	g := newRedis(t, 4).group("notify")
	ok[State](t)(g.Join(soon(t), who("c1")))
	ok[State](t)(g.Join(soon(t), who("c2")))
	for _, tt := range []struct {
		what       string
		generation int64
		partition  int
		offset     int64
		want       Commit
	}{
		{"the first one", 2, 0, 0, Commit{true, 2, 0}},
		{"the same again: the answer was lost", 2, 0, 0, Commit{true, 2, 0}},
		{"forward", 2, 0, 7, Commit{true, 2, 7}},
		{"back", 2, 0, 6, Commit{false, 2, 7}},
		{"another partition has its own", 2, 3, 1, Commit{true, 2, 1}},
		{"an older generation", 1, 0, 8, Commit{false, 2, 7}},
		{"an older generation, nothing was committed yet", 1, 1, 0, Commit{false, 2, -1}},
		{"a generation that there isn't", 3, 0, 8, Commit{false, 2, 7}},
		{"no generation", 0, 0, 8, Commit{false, 2, 7}},
		{"far", 2, 0, 1 << 50, Commit{true, 2, 1 << 50}},
		{"far and back", 2, 0, 1<<50 - 1, Commit{false, 2, 1 << 50}},
	} {
		if got, err := g.Commit(soon(t), tt.generation, tt.partition, tt.offset); err != nil || got != tt.want {
			t.Errorf("%s: got %+v, %v, want %+v", tt.what, got, err, tt.want)
		}
	}
	if got := shape(ok[State](t)(g.Look(soon(t)))); got != fmt.Sprintf("2 [c1 c2] 4 map[0:%d 3:1]", int64(1)<<50) {
		t.Error(got)
	}
	none := newRedis(t, 4).group("none")
	if got, err := none.Commit(soon(t), 1, 0, 5); err != nil || got != (Commit{false, 0, -1}) {
		t.Errorf("nobody ever joined: %+v, %v", got, err)
	}
}

// Many commit at once while generations come and go. Whatever the order: a cursor
// never goes back, what was said to be committed stays so, and nothing is committed
// for a generation after the next one was learnt.
func TestGroup_Commit_races(t *testing.T) {
	t.Parallel()
	p := newRedis(t, 1)
	seed := rand.Uint64()
	type said struct {
		offset     int64
		generation int64
		Commit
	}
	var mu sync.Mutex
	var all []said
	var racing sync.WaitGroup
	for m := range 6 {
		g, me := p.group("notify"), who(fmt.Sprint("c", m))
		r := rand.New(rand.NewPCG(seed, uint64(m)))
		racing.Go(func() {
			for round := range 15 {
				s, err := g.Join(soon(t), me)
				if err != nil {
					t.Error(err)
					return
				}
				before := s.Cursor(0)
				for range 10 {
					offset := before + r.Int64N(20)
					c, err := g.Commit(soon(t), s.Generation, 0, offset)
					if err != nil {
						t.Error(err)
						return
					}
					if c.Cursor < before {
						t.Errorf("the cursor went from %d back to %d (seed %d)", before, c.Cursor, seed)
					}
					if c.Committed && c.Cursor != offset {
						t.Errorf("committed %d, and the cursor is at %d (seed %d)", offset, c.Cursor, seed)
					}
					before = c.Cursor
					mu.Lock()
					all = append(all, said{offset, s.Generation, c})
					mu.Unlock()
				}
				if round%3 == m%3 {
					if _, err := g.Leave(soon(t), me); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	racing.Wait()
	committed, refused := 0, 0
	last := map[int64]int64{} // the highest offset of each generation
	for _, s := range all {
		if s.Committed {
			committed++
			if s.generation != s.Commit.Generation {
				t.Errorf("%+v (seed %d)", s, seed)
			}
			last[s.generation] = max(last[s.generation], s.offset)
		} else {
			refused++
		}
	}
	// A later generation begins where the ones before it have ended.
	var generations []int64
	for g := range last {
		generations = append(generations, g)
	}
	slices.Sort(generations)
	for i := 1; i < len(generations); i++ {
		for _, s := range all {
			if s.Committed && s.generation == generations[i] && s.offset < last[generations[i-1]] {
				t.Errorf("generation %d committed %d, the one before had %d (seed %d)", s.generation, s.offset, last[generations[i-1]], seed)
			}
		}
	}
	if committed == 0 || refused == 0 {
		t.Errorf("%d committed, %d refused: nobody raced (seed %d)", committed, refused, seed)
	}
	if got, want := ok[State](t)(p.group("notify").Look(soon(t))).Cursor(0), last[generations[len(generations)-1]]; got != want {
		t.Errorf("the cursor is at %d, the last commit was %d (seed %d)", got, want, seed)
	}
}

// All join and beat at once: whoever is told the same generation is told the same
// members, so all agree who owns what.
func TestGroup_generations_are_the_same_for_all(t *testing.T) {
	t.Parallel()
	p := newRedis(t, 4)
	var mu sync.Mutex
	told := map[int64]map[string]bool{} // what was said of each generation
	var racing sync.WaitGroup
	for m := range 8 {
		g, me := p.group("notify"), who(fmt.Sprint("c", m))
		racing.Go(func() {
			for round := range 20 {
				do := g.Beat
				switch round % 5 {
				case 0:
					do = g.Join
				case 3: // dead at once, as far as others can see
					do = func(ctx context.Context, i Identity) (State, error) { return g.Beat(ctx, i.livingFor(0)) }
				}
				s, err := do(soon(t), me)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if told[s.Generation] == nil {
					told[s.Generation] = map[string]bool{}
				}
				told[s.Generation][fmt.Sprint(s.Names())] = true
				mu.Unlock()
			}
		})
	}
	racing.Wait()
	for generation, members := range told {
		if len(members) != 1 {
			t.Errorf("generation %d has members %v", generation, members)
		}
	}
	if len(told) < 8 {
		t.Errorf("only %d generations", len(told))
	}
}

func TestState_what_is_no_group(t *testing.T) {
	t.Parallel()
	p := newRedis(t, 4)
	for field, value := range map[string]string{
		"generation": "x", "partitions": "", "member:c1": "nonce", "offset:x": "1", "offset:0": "x",
	} {
		g := p.group(field)
		if err := p.client.HSet(soon(t), g.Key(), field, value).Err(); err != nil {
			t.Fatal(err)
		}
		if s, err := g.Look(soon(t)); err == nil {
			t.Errorf("%s %q: %+v", field, value, s)
		}
	}
	g := p.group("a string")
	if err := p.client.Set(soon(t), g.Key(), "x", time.Hour).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Look(soon(t)); err == nil {
		t.Error("a string is looked at")
	}
	if _, err := g.Join(soon(t), who("c1")); err == nil {
		t.Error("a string is joined")
	}
}

func TestStatus_of_the_dead(t *testing.T) {
	t.Parallel()
	s := State{Partitions: 4, Generation: 7, Members: []Seen{{"c1", "n", -time.Millisecond}, {"c2", "n", 0}}, Cursors: map[int]int64{1: 5}}
	same(t, "rows", rowsOf("notify", s), []Row{
		{Group: "notify", Partition: 0, Committed: -1, Owner: "", Generation: 7},
		{Group: "notify", Partition: 1, Committed: 5, Owner: "", Generation: 7},
		{Group: "notify", Partition: 2, Committed: -1, Owner: "c2", Generation: 7},
		{Group: "notify", Partition: 3, Committed: -1, Owner: "c2", Generation: 7},
	})
	same(t, "of none", rowsOf("none", State{}), []Row(nil))
	var none notify.Namespace
	same(t, "key", NewGroup(nil, Log{none, 4}, "notify", 0).Key(), "passes:group:notify")
}
