package main

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"notifylab/internal/scenario"
)

// A selection is some of the scenarios: those with one of the tags, all if there is
// none, without those that are skipped by name or tag.
type selection struct{ tags, skip []string }

func (s *selection) register(set *pflag.FlagSet) {
	words := scenario.Tags()
	set.Var(&choices{&s.tags, "TAG", words}, "tag", "only scenarios about this topic; of several, about one of them ("+strings.Join(words, ", ")+"). Outcomes are no topics")
	for _, c := range scenario.Catalogue() {
		words = append(words, c.Name)
	}
	set.Var(&choices{&s.skip, "NAME|TAG", words}, "skip", "without this scenario, or those about this topic; may be repeated")
}

// given is the selection as it was typed.
func (s selection) given() string {
	text := ""
	for _, tag := range s.tags {
		text += " --tag " + tag
	}
	for _, skip := range s.skip {
		text += " --skip " + skip
	}
	return text
}

// scenarios returns those that are selected, in their order. None is an error.
func (s selection) scenarios() ([]scenario.Scenario, error) {
	among := func(words []string) func(string) bool {
		return func(word string) bool { return slices.Contains(words, word) }
	}
	var all []scenario.Scenario
	for _, c := range scenario.Catalogue() {
		wanted := len(s.tags) == 0 || slices.ContainsFunc(c.Tags, among(s.tags))
		if wanted && !slices.ContainsFunc(append([]string{c.Name}, c.Tags...), among(s.skip)) {
			all = append(all, c)
		}
	}
	if len(all) == 0 {
		return nil, usagef("--tag and --skip leave no scenario")
	}
	return all, nil
}
