package passes

import "slices"

// Assign returns the owner of each partition, by partition; "" for all if there are
// no members. It depends on nothing but who the members are and how many partitions
// there are: in the order of their names they get runs of partitions of equal length,
// the first ones one more if it doesn't come out even. So each partition has one
// owner, and with more members than partitions the last ones have none.
func Assign(members []string, partitions int) []string {
	owners := make([]string, max(0, partitions))
	names := sorted(members)
	if len(names) == 0 {
		return owners
	}
	each, more := partitions/len(names), partitions%len(names)
	next := 0
	for i, name := range names {
		n := each
		if i < more {
			n++
		}
		for ; n > 0; n-- {
			owners[next] = name
			next++
		}
	}
	return owners
}

// Owned returns the partitions that a member has, in their order; never nil.
func Owned(owners []string, member string) []int {
	owned := []int{}
	for p, owner := range owners {
		if owner == member {
			owned = append(owned, p)
		}
	}
	return owned
}

// Idle returns the members that have no partition, in the order of their names.
func Idle(members, owners []string) []string {
	return slices.DeleteFunc(sorted(members), func(name string) bool { return slices.Contains(owners, name) })
}

// sorted returns the members' names, each once.
func sorted(members []string) []string { return slices.Compact(slices.Sorted(slices.Values(members))) }
