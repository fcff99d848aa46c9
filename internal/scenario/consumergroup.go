package scenario

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"notifylab/internal/event"
	"notifylab/internal/supervise"
)

func consumerGroup() Scenario {
	return Scenario{
		Name: "consumer-group", Outcome: Once, Next: "commit-order",
		Tags:  []string{"log"},
		Title: "one partition, one reader of the group; the rest is idle",
		Shows: "members come and go: an owner a partition, the rest idle",
		Help: `The partitions of the log are shared out among the members of a group: each has one
owner, which is what makes a group read everything once. Members join one by one, past
the number of partitions, and leave again. Each time the group is in a new generation
and the partitions are shared out anew: idle are members − partitions, or nobody.

Two partitions and three members leave one idle, and so do four and five. Four and three
leave nobody idle: one of the three has two partitions. Another group, delete-pass, gets
everything again: ownership is per group.

What to look for
  ASSIGNED after each JOINED and LEFT, with the same generation for all; "idle" for the
  third of two and the fifth of four; READ of a partition by its owner alone.` + inProduction,
		ByHand: `  notifylab expire --log --count 20                                    # one terminal
  notifylab reader c1 & notifylab reader c2 & notifylab reader c3 &    # more of them: up to c5
  notifylab groups -w                                                  # another: owners, generation, lag`,
		play:  onPasses(playConsumerGroup),
		judge: judgeConsumerGroup,
	}
}

// A picture is a group of which members come, and go again.
type picture struct {
	group      string
	partitions int
	prefix     string // of its members' names
	most       int    // members
	leave      bool   // they go again, one by one, until one is left
}

func pictures() []picture {
	return []picture{{reactEmail, 2, "m", 3, false}, {reactNotify, logPartitions, "c", 5, true}}
}

// steps are the numbers of members that there are, one after the other.
func (p picture) steps() []int {
	var all []int
	for n := 1; n <= p.most; n++ {
		all = append(all, n)
	}
	for n := p.most - 1; n >= 1 && p.leave; n-- {
		all = append(all, n)
	}
	return all
}

// fed is how many events each partition gets in each step: two readers of one partition
// would be seen.
const fed = 2

// feeds is how many events a picture takes.
func (p picture) feeds() int { return len(p.steps()) * p.partitions * fed }

func playConsumerGroup(ctx context.Context, s *passStage) error {
	for _, p := range pictures() {
		if err := s.layLog(ctx, p.partitions); err != nil {
			return err
		}
		if err := s.show(ctx, p); err != nil {
			return err
		}
	}
	if _, err := s.reader(ctx, "d1", reactDelete); err != nil {
		return err
	}
	return s.each(ctx, "committed by "+reactDelete, s.publishedIDs(), func(e event.Event) bool {
		return e.Kind == event.Committed && e.Group == reactDelete
	})
}

// show has members join and leave, and lets them read in each generation.
func (s *passStage) show(ctx context.Context, p picture) error {
	var names []string
	var members []*supervise.Process
	for i, n := range p.steps() {
		from := s.history.Len()
		if n > len(names) {
			name := fmt.Sprint(p.prefix, i+1)
			member, err := s.reader(ctx, name, p.group)
			if err != nil {
				return err
			}
			names, members = append(names, name), append(members, member)
		} else {
			if err := members[0].Stop(ctx); err != nil {
				return err
			}
			names, members = names[1:], members[1:]
		}
		if err := s.step(ctx, from, p, names); err != nil {
			return err
		}
	}
	for _, member := range members {
		if err := member.Stop(ctx); err != nil {
			return err
		}
	}
	return nil
}

// step feeds each partition in the generation of these members.
func (s *passStage) step(ctx context.Context, from int, p picture, names []string) error {
	generation, err := s.settle(ctx, from, p.group, names...)
	if err != nil {
		return err
	}
	idle := "nobody is idle"
	if n := len(names) - p.partitions; n > 0 {
		idle = fmt.Sprintf("%d idle", n)
	}
	s.tell(event.Event{
		Membership: event.Membership{Group: p.group, Generation: generation},
		Assignment: &event.Assignment{Members: names, Partitions: []int{}},
		Reason:     fmt.Sprintf("%s, %s: %s", quantity(p.partitions, "partitions"), quantity(len(names), "members"), idle),
	})
	var each []int
	for i := range p.partitions * fed {
		each = append(each, i%p.partitions)
	}
	posts := s.expireIn(each...)
	if err := s.append(ctx, posts...); err != nil {
		return err
	}
	return s.committed(ctx, p.group, posts...)
}

// settle waits until each of these members of a group, and nobody else, knows its
// partitions in one and the same generation, and returns that.
func (s *passStage) settle(ctx context.Context, from int, group string, members ...string) (generation int64, err error) {
	knows := map[int64]map[string]bool{}
	what := fmt.Sprintf("%s did not become the members of %s", strings.Join(members, ", "), group)
	_, err = s.hear(ctx, from, what, func(e event.Event) bool {
		if e.Kind != event.Assigned || e.Group != group || !slices.Equal(e.Members, members) {
			return false
		}
		if knows[e.Generation] == nil {
			knows[e.Generation] = map[string]bool{}
		}
		knows[e.Generation][e.Source] = true
		generation = e.Generation
		return len(knows[generation]) == len(members)
	})
	return generation, err
}

func (s *passStage) publishedIDs() []string {
	var ids []string
	for _, x := range s.events {
		ids = append(ids, x.ID)
	}
	return ids
}

func judgeConsumerGroup(_ cast, r *Record) Verdict {
	p := &r.Passes
	var findings []Finding
	all := 0
	for _, picture := range pictures() {
		findings = append(findings, r.idleness(picture)...)
		findings = append(findings, r.oneOwner(picture.group))
		all += picture.feeds()
	}
	ids := p.ids(1, all)
	email := pictures()[0].feeds()
	findings = append(findings,
		number("published", all, len(p.Published), "events"),
		r.logHolds(ids),
		r.eachTold("by group email", p.ids(1, email), "email", 1),
		r.eachTold("by group notify", ids, told, 1),
		r.eachSaid("group delete-pass, all again", "", event.Deleted, ids, 1),
		r.passesLeft("in the end", ids, nil))
	return judgedPasses(r, ids, findings...).as(Once, "each partition has one owner in each generation, so each group gets everything once")
}

// idleness checks for each step how many members read, and so how many did not.
func (r *Record) idleness(p picture) []Finding {
	steps := r.all(func(e event.Event) bool {
		return e.Kind == event.Note && e.Source == source && e.Group == p.group && e.Assignment != nil
	})
	var findings []Finding
	for i, members := range p.steps() {
		reading := min(members, p.partitions)
		f := Finding{
			What: fmt.Sprintf("%s, %s", quantity(p.partitions, "partitions"), quantity(members, "members")),
			Want: fmt.Sprintf("%d read, %d idle", reading, members-reading), Got: "never came to it",
		}
		if i < len(steps) {
			readers, read := r.readers(p.group, steps[i].Generation)
			f.Got = fmt.Sprintf("%d read, %d idle", len(readers), len(steps[i].Members)-len(readers))
			if read != p.partitions {
				f.Got += fmt.Sprintf(", %d of %s", read, quantity(p.partitions, "partitions"))
			}
			for _, name := range readers {
				if !slices.Contains(steps[i].Members, name) {
					f.Got += ", " + name + " who is no member"
				}
			}
			f.IDs = steps[i].Members
		}
		f.OK = f.Got == f.Want
		findings = append(findings, f)
	}
	return findings
}

// readers returns who read in a generation of a group, and of how many partitions.
func (r *Record) readers(group string, generation int64) (names []string, partitions int) {
	seen := map[int]bool{}
	for _, e := range r.Events {
		if e.Kind == event.Read && e.Group == group && e.Generation == generation && e.Position != nil {
			seen[e.Partition] = true
			if !slices.Contains(names, e.Source) {
				names = append(names, e.Source)
			}
		}
	}
	return names, len(seen)
}
