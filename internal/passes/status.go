package passes

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"notifylab/internal/broker"
	"notifylab/internal/idem"
	"notifylab/internal/notify"
)

// A Row is one partition as one group sees it.
type Row struct {
	Group      string `json:"group"`
	Partition  int    `json:"partition"`
	Committed  int64  `json:"committed"`  // the last offset that is done with, -1: none
	End        int64  `json:"end"`        // the last offset that there is, -1: none, or no such stream
	Lag        int64  `json:"lag"`        // what lies between
	Owner      string `json:"owner"`      // "": nobody, or a dead one that nobody has put out yet
	Generation int64  `json:"generation"` // the group's
}

// Status returns the rows of some groups, of all in the namespace if none is named: by
// group as given, or by name, and then by partition. It takes nothing out and changes
// nothing, and is of no one moment: the cursors are read before the ends, so a lag is
// too large rather than too small. A stream that looks empty takes wait to look at (see
// [broker.Conn.End]); all are looked at at once.
func Status(ctx context.Context, c idem.Client, conn *broker.Conn, ns notify.Namespace, wait time.Duration, groups ...string) ([]Row, error) {
	if len(groups) == 0 {
		var err error
		if groups, err = Groups(ctx, c, ns); err != nil {
			return nil, err
		}
	}
	rows := []Row{}
	partitions := 0
	for _, name := range groups {
		s, err := NewGroup(c, Log{Namespace: ns}, name, 0).Look(ctx)
		if err != nil {
			return nil, err
		}
		rows = append(rows, rowsOf(name, s)...)
		partitions = max(partitions, s.Partitions)
	}
	ends, err := Ends(ctx, conn, Log{ns, partitions}, wait)
	if err != nil {
		return nil, err
	}
	for i := range rows {
		rows[i].End = ends[rows[i].Partition]
		rows[i].Lag = max(0, rows[i].End-rows[i].Committed)
	}
	return rows, nil
}

// rowsOf returns what is known of a group without its log.
func rowsOf(name string, s State) []Row {
	var rows []Row
	for p, owner := range s.Owners() {
		if m, ok := s.Member(owner); ok && m.Left < 0 {
			owner = ""
		}
		rows = append(rows, Row{Group: name, Partition: p, Committed: s.Cursor(p), Owner: owner, Generation: s.Generation})
	}
	return rows
}

// Ends returns the last offset of each partition, -1 for one that is empty or not
// there. One that looks empty takes wait to look at; all are looked at at once.
func Ends(ctx context.Context, conn *broker.Conn, log Log, wait time.Duration) ([]int64, error) {
	ends := make([]int64, log.Partitions)
	g, ctx := errgroup.WithContext(ctx)
	for p := range ends {
		g.Go(func() error {
			ends[p] = -1
			if _, _, there, err := conn.Ready(ctx, log.Queue(p)); err != nil || !there {
				return err
			}
			last, ok, err := conn.End(ctx, log.Queue(p), wait)
			if ok {
				ends[p] = last
			}
			return err
		})
	}
	return ends, g.Wait()
}
