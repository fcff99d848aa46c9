package lab

import (
	"context"
	"strconv"

	"github.com/redis/go-redis/v9"

	"notifylab/internal/notify"
)

// journalMark is how many events lie between two marks.
const journalMark = 1000

// The stream is to keep so many events, and Redis can cut it only by entries, of which
// nobody knows how many events they hold. So events are counted as they are added, in
// a sorted set beside the stream, and whoever's write passes a multiple of a thousand
// marks its last entry with the count. The stream is cut then, at the newest mark behind
// which there are as many as it keeps: those, and up to two thousand and two writes
// more. So
//
//	a burst drops about as many as it is long from the old end, whether those came one
//	  by one or forty to an entry
//	a crash between the count and the mark delays the cut until the next mark
//	a wrong count, after a reply that was lost or the set, keeps more or fewer for as
//	  long as it takes to add that many; never more entries than events may be, since
//	  XADD cuts there by itself
//
// On a Redis Cluster they are where the stream is: what of a write went to another node
// could fail by itself, and the write be repeated until it does not.
func journalMarks(ns notify.Namespace) string {
	return ns.Key("lab:journal-marks:{" + journalKey(ns) + "}")
}

// journalAdded is the name of the count among the marks' ids.
const journalAdded = "added"

func passesMark(before, after int64) bool { return before/journalMark < after/journalMark }

// trim marks an entry up to which there were so many events, and drops what is too
// much by now. If it can't, the next one will.
func (j *Journal) trim(ctx context.Context, id string, all int64) {
	j.client.ZAdd(ctx, j.marks, redis.Z{Score: float64(all), Member: id})
	old := strconv.FormatInt(all-j.length, 10)
	newest := &redis.ZRangeBy{Min: "-inf", Max: old, Count: 1}
	if marks := j.client.ZRevRangeByScore(ctx, j.marks, newest).Val(); len(marks) > 0 {
		j.client.XTrimMinID(ctx, j.key, marks[0])
		j.client.ZRemRangeByScore(ctx, j.marks, "-inf", "("+old)
	}
}
