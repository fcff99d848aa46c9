package scenario

import (
	"slices"
	"time"

	"notifylab/internal/event"
	"notifylab/internal/notify"
	"notifylab/internal/servers"
)

func serverNote(server servers.Server, state string) event.Event {
	return event.Event{Kind: event.Note, Source: source, Owner: string(server), State: state}
}

// ofWorker is what the push worker says of itself.
func ofWorker(kind event.Kind) event.Event {
	return event.Event{Kind: kind, Source: "push-worker-1", Channel: push}
}

func life(kinds ...event.Kind) *Record {
	r := &Record{}
	for _, k := range kinds {
		r.Events = append(r.Events, ofWorker(k))
	}
	return r
}

// harmSpecimen is of a scenario whose victim was accepted so often, and the one
// behind it once.
func harmSpecimen(victim notify.Notification, accepted int, end Seen, story ...event.Event) specimen {
	return specimen{
		cast: cast{settings: withLease(), victim: victim, behind: two(), all: []notify.Notification{victim, two()}},
		record: &Record{
			Settings: withLease(), Events: story, Elapsed: 8 * time.Second, Ready: pushQueues(0),
			Ledger:  map[Subject]int{{victim.ID, push}: accepted, {two().ID, push}: 1},
			Records: map[Subject]Seen{{victim.ID, push}: end},
		},
		idle: func(e event.Event) bool {
			return e.ID == two().ID || slices.Contains([]event.Kind{event.Queued, event.Claimed, event.Acked}, e.Kind) ||
				e.Kind == event.Received && !e.Redelivered
		},
	}
}

func brokerRestartSpecimen() specimen {
	return harmSpecimen(one(), 1, Seen{Done, day},
		ofWorker(event.Ready), said(one(), push, event.Queued), said(two(), push, event.Queued),
		said(one(), push, event.Received), said(one(), push, event.Claimed),
		serverNote(servers.RabbitMQ, stopped), ofWorker(event.Disconnect),
		said(one(), push, event.Sent), said(one(), push, event.Done), said(one(), push, event.Dropped),
		serverNote(servers.RabbitMQ, running), ofWorker(event.Ready),
		redelivered(one()), said(one(), push, event.DuplicateDropped), said(one(), push, event.Acked),
		said(two(), push, event.Received), said(two(), push, event.Sent), said(two(), push, event.Acked))
}

func redisOutageSpecimen() specimen {
	s := harmSpecimen(one(), 1, Seen{Done, day},
		ofWorker(event.Ready), said(one(), push, event.Received), said(one(), push, event.Claimed),
		serverNote(servers.Redis, killed), said(two(), push, event.Received), ofWorker(event.Disconnect),
		said(one(), push, event.Sent), noted(two(), push, 0), ofWorker(event.Reconnected),
		said(one(), push, event.Done), said(one(), push, event.Acked), serverNote(servers.Redis, running),
		said(two(), push, event.Claimed), said(two(), push, event.Sent), said(two(), push, event.Acked))
	s.idle = func(e event.Event) bool {
		return e.Kind == event.Received || e.Kind == event.Claimed || e.Kind == event.Acked && e.ID == two().ID
	}
	return s
}

func redisAmnesiaSpecimen() specimen {
	s := harmSpecimen(one(), 2, Seen{Done, day},
		said(one(), push, event.Received), said(one(), push, event.Claimed), said(one(), push, event.Sent), said(one(), push, event.Done),
		said(one(), push, event.Crash), noted(one(), push, 1), restarted(),
		redelivered(one()), said(one(), push, event.Claimed), said(one(), push, event.Sent), said(one(), push, event.Done), said(one(), push, event.Acked),
		said(two(), push, event.Received), said(two(), push, event.Sent), said(two(), push, event.Acked))
	s.record.AtCrash = map[Subject]Seen{{one().ID, push}: {Done, day}}
	s.idle = func(e event.Event) bool {
		return e.ID == two().ID || e.Kind == event.Acked || e.Kind == event.Received && !e.Redelivered
	}
	return s
}

func brokerAlarmSpecimen() specimen {
	parked := deadLetterSpecimen()
	late := said(three(), push, event.Unconfirmed)
	retry := func(n int) event.Event {
		e := said(bad(), push, event.Retry)
		e.Attempt, e.BackoffMS = n, int64(500*n)
		return e
	}
	s := harmSpecimen(bad(), 0, Seen{State: NoRecord},
		said(bad(), push, event.Queued), said(two(), push, event.Queued), serverNote(servers.RabbitMQ, alarmed), ofWorker(event.Ready),
		said(bad(), push, event.Received), said(bad(), push, event.Claimed), said(bad(), push, event.CopyWaiting),
		said(two(), push, event.Received), said(two(), push, event.Sent), said(two(), push, event.Acked),
		late, noted(bad(), push, 0), serverNote(servers.RabbitMQ, running),
		retry(1), said(bad(), push, event.Acked), said(three(), push, event.Sent), said(three(), push, event.Acked),
		retry(2), said(bad(), push, event.Acked), said(bad(), push, event.DeadLetter), said(bad(), push, event.Acked))
	s.all = append(s.all, three())
	s.record.Ledger[Subject{three().ID, push}] = 1
	s.record.Refused, s.record.Parked, s.record.Ready = parked.record.Refused, parked.record.Parked, pushQueues(1)
	s.idle = func(e event.Event) bool {
		return slices.Contains([]event.Kind{event.Queued, event.Received, event.Claimed, event.Sent}, e.Kind) ||
			e.Kind == event.Acked && e.ID != two().ID
	}
	return s
}
