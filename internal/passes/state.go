package passes

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// A State is a group at one moment: all of it from one answer.
type State struct {
	Partitions int   // 0: nobody ever joined
	Generation int64 // from 1; 0: nobody ever joined
	Members    []Seen
	Cursors    map[int]int64 // the last committed offset by partition; none: nothing was committed
}

// Seen is a member as its group sees it.
type Seen struct {
	Name  string
	Nonce string
	Left  time.Duration // until it counts as dead; less than 0: it does, and nobody has put it out yet
}

// Names returns the members' names, in their order.
func (s State) Names() []string {
	names := []string{}
	for _, m := range s.Members {
		names = append(names, m.Name)
	}
	return names
}

// Owners returns the owner of each partition in this generation.
func (s State) Owners() []string { return Assign(s.Names(), s.Partitions) }

// Member returns the member of that name.
func (s State) Member(name string) (Seen, bool) {
	i := slices.IndexFunc(s.Members, func(m Seen) bool { return m.Name == name })
	if i < 0 {
		return Seen{}, false
	}
	return s.Members[i], true
}

// Has says whether who is in: under its name, in this life.
func (s State) Has(who Identity) bool {
	m, ok := s.Member(who.Name)
	return ok && m.Nonce == who.Nonce
}

// Cursor returns the last committed offset of a partition, -1 if there is none.
func (s State) Cursor(partition int) int64 {
	if offset, ok := s.Cursors[partition]; ok {
		return offset
	}
	return -1
}

// parseState reads what touch and look return.
func parseState(cmd *redis.Cmd) (State, error) {
	answer, err := cmd.Slice()
	if err != nil {
		return State{}, err
	}
	if len(answer) != 2 {
		return State{}, fmt.Errorf("an answer of %d parts", len(answer))
	}
	now, ok := answer[0].(int64)
	list, ok2 := answer[1].([]any)
	if !ok || !ok2 || len(list)%2 != 0 {
		return State{}, fmt.Errorf("an answer of %T and %T", answer[0], answer[1])
	}
	fields := map[string]string{}
	for i := 0; i < len(list); i += 2 {
		fields[fmt.Sprint(list[i])] = fmt.Sprint(list[i+1])
	}
	return state(now, fields)
}

// state reads the fields of a group's hash; now is in milliseconds.
func state(now int64, fields map[string]string) (State, error) {
	s := State{Cursors: map[int]int64{}}
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		kind, of, _ := strings.Cut(field, ":")
		value := fields[field]
		var err error
		switch kind {
		case "generation":
			s.Generation, err = number(value)
		case "partitions":
			s.Partitions, err = strconv.Atoi(value)
		case "member":
			nonce, until, _ := strings.Cut(value, " ")
			var ms int64
			ms, err = number(until)
			s.Members = append(s.Members, Seen{Name: of, Nonce: nonce, Left: time.Duration(ms-now) * time.Millisecond})
		case "offset":
			var partition int
			if partition, err = strconv.Atoi(of); err == nil {
				s.Cursors[partition], err = number(value)
			}
		}
		if err != nil {
			return State{}, fmt.Errorf("field %s: %w", field, err)
		}
	}
	return s, nil
}
