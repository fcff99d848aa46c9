package servers_test

import (
	"strings"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"

	"notifylab/internal/servers"
	"notifylab/internal/servers/serverstest"
)

// Nine servers of one holder: the steps share them.
func TestPair_of_clusters(t *testing.T) {
	began := time.Now()
	pair := serverstest.Clusters(t, servers.Options{RabbitNodes: 3, RedisCluster: true})
	t.Logf("nine servers answer after %.1f s", time.Since(began).Seconds())
	info := pair.Info()
	if len(info.Members) != 9 || len(mentioning(t, info.Dir)) < 9 {
		t.Fatalf("%d members, %d processes", len(info.Members), len(mentioning(t, info.Dir)))
	}
	t.Run("RabbitMQ is one cluster, by each of its URLs", func(t *testing.T) {
		urls := strings.Split(pair.AMQPURL, ",")
		if len(urls) != 3 {
			t.Fatal("want three nodes:", pair.AMQPURL)
		}
		for i, url := range urls {
			conn, err := amqp.Dial(url)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			ch, err := conn.Channel()
			if err != nil {
				t.Fatal(err)
			}
			// Made by the first, it is known to the others.
			if _, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil); (err == nil) != (i > 0) {
				t.Errorf("node %d: %v", i+1, err)
			}
			if i == 0 {
				ch, err = conn.Channel()
				if err == nil {
					_, err = ch.QueueDeclare(queue, true, false, false, false, amqp.Table{"x-queue-type": "quorum"})
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		members, err := pair.Rabbitmqctl(within(t), "list_queues", "name", "members")
		if err != nil || strings.Count(members, "@localhost") != 3 {
			t.Errorf("want the queue on three nodes: %s, %v", members, err)
		}
	})
	t.Run("Redis is one Cluster, with a replica of each master", func(t *testing.T) {
		o, err := redis.ParseClusterURL(pair.RedisURL)
		if err != nil || len(o.Addrs) != 6 {
			t.Fatal(pair.RedisURL, err)
		}
		client := redis.NewClusterClient(o)
		defer client.Close()
		shards, err := client.ClusterShards(within(t)).Result()
		if err != nil || len(shards) != 3 {
			t.Fatalf("want three shards: %v, %v", shards, err)
		}
		covered := int64(0)
		for _, s := range shards {
			for _, r := range s.Slots {
				covered += r.End - r.Start + 1
			}
			if len(s.Nodes) != 2 {
				t.Errorf("want a master and a replica: %v", s)
			}
		}
		if covered != 16384 {
			t.Errorf("%d slots are somebody's", covered)
		}
	})
	t.Run("a node that was killed comes back", func(t *testing.T) {
		for _, s := range []servers.Server{servers.RabbitMQ, servers.RabbitMQ.Nth(3), servers.Redis.Nth(2), servers.Redis.Nth(6)} {
			if err := pair.Kill(within(t), s); err != nil {
				t.Fatal(err)
			}
			if s == servers.RabbitMQ {
				// Whoever is left speaks for all.
				if got, err := pair.Rabbitmqctl(within(t), "list_vhosts", "name"); err != nil || got != "/\n" {
					t.Errorf("got %q, %v", got, err)
				}
			}
			if err := pair.Start(within(t), s); err != nil {
				t.Fatal(err)
			}
			if m := pair.Info().Member(s); !m.Process.Alive() || !listening(m.Port) {
				t.Errorf("%s is not there", s)
			}
		}
		if err := pair.Kill(within(t), servers.Redis.Nth(7)); err == nil {
			t.Error("killed one that there is not")
		}
	})
	t.Run("leaves nothing when its holder is killed", func(t *testing.T) {
		if err := pair.Suspend(within(t), servers.RabbitMQ.Nth(2)); err != nil {
			t.Error(err)
		}
		if err := pair.Suspend(within(t), servers.Redis.Nth(4)); err != nil {
			t.Error(err)
		}
		info := pair.Info()
		if err := syscall.Kill(info.Holder.PID, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		for _, p := range info.Processes() {
			eventually(t, "the servers end by themselves", func() bool { return !p.Alive() })
		}
		eventually(t, "their helpers end", func() bool { return len(mentioning(t, info.Dir)) == 0 })
		if err := pair.Close(within(t)); err == nil {
			t.Error("want an error that says killed")
		}
		requireGone(t, info)
	})
}
