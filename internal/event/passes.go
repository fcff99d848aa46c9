package event

// Of a member of a consumer group, on its way through a log.
const (
	Joined        Kind = "joined"         // it is in the group, in that generation
	Assigned      Kind = "assigned"       // it knows its partitions in that generation; none: it is idle
	Read          Kind = "read"           // a record was read, and nothing done with it yet
	Committed     Kind = "committed"      // the group's cursor is at that offset
	CommitRefused Kind = "commit_refused" // the generation has moved, or the cursor is further on
	Rebalanced    Kind = "rebalanced"     // there is another generation: it reads nothing more in this one
	Left          Kind = "left"           // it is out of the group, by its own will
)

// Of a pass that has come to its end, in the hands of whoever reacts.
const (
	Fetched        Kind = "fetched"         // it was read
	Deleted        Kind = "deleted"         // it is gone now
	AlreadyDeleted Kind = "already_deleted" // it was gone before: deleting it again changed nothing
	Failed         Kind = "failed"          // a step threw, and what stood behind it was not done
	Produced       Kind = "produced"        // a producer has done all that it was to do
)

// Membership is the part of an [Event] that is about a consumer group.
type Membership struct {
	Group      string `json:"group,omitempty"`
	Generation int64  `json:"generation,omitempty"` // counts from 1
}

// An Assignment is the part of an [Event] that says who has what in a generation.
// Empty lists say so: a member without partitions is idle.
type Assignment struct {
	Members    []string `json:"members"`    // of the group
	Partitions []int    `json:"partitions"` // of the event's source, from 0
}

// A Position is the part of an [Event] that is about one record of a log. Both count
// from 0, so neither is left out of JSON.
type Position struct {
	Partition int   `json:"partition"`
	Offset    int64 `json:"offset"`
}
