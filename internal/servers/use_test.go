package servers_test

import (
	"context"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"

	"notifylab/internal/servers"
)

const (
	queue = "kept"
	key   = "kept"
)

// store puts one message into a quorum queue, confirmed, and one value into
// Redis. Both are to be there after a restart.
func store(t *testing.T, i servers.Info, text string) {
	t.Helper()
	ctx := within(t)
	ch := channel(t, i)
	if err := ch.Confirm(false); err != nil {
		t.Fatal("confirm mode:", err)
	}
	declare(t, ch)
	confirm, err := ch.PublishWithDeferredConfirmWithContext(ctx, "", queue,
		true,  // mandatory
		false, // immediate
		amqp.Publishing{Body: []byte(text), DeliveryMode: amqp.Persistent})
	if err != nil {
		t.Fatal("publish:", err)
	}
	if ok, err := confirm.WaitContext(ctx); err != nil || !ok {
		t.Fatalf("publish: want a confirm, got %v, %v", ok, err)
	}
	if err := redisOf(t, i).Set(ctx, key, text, 0).Err(); err != nil {
		t.Fatal("set:", err)
	}
}

// requireStored fails the test unless both are there, and takes the message.
func requireStored(t *testing.T, i servers.Info, want string) {
	t.Helper()
	ch := channel(t, i)
	declare(t, ch)
	d, ok, err := ch.Get(queue,
		true) // ack at once
	if err != nil || !ok || string(d.Body) != want {
		t.Errorf("get: want %q, got %q, %v, %v", want, d.Body, ok, err)
	}
	if got, err := redisOf(t, i).Get(within(t), key).Result(); err != nil || got != want {
		t.Errorf("get: want %q, got %q, %v", want, got, err)
	}
}

func channel(t *testing.T, i servers.Info) *amqp.Channel {
	t.Helper()
	conn, err := amqp.Dial(i.AMQPURL)
	if err != nil {
		t.Fatal("dial RabbitMQ:", err)
	}
	t.Cleanup(func() { conn.Close() })
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal("open a channel:", err)
	}
	return ch
}

func declare(t *testing.T, ch *amqp.Channel) {
	t.Helper()
	if _, err := ch.QueueDeclare(queue,
		true,  // durable
		false, // auto-delete
		false, // exclusive
		false, // no-wait
		amqp.Table{amqp.QueueTypeArg: amqp.QueueTypeQuorum}); err != nil {
		t.Fatal("declare:", err)
	}
}

func redisOf(t *testing.T, i servers.Info) *redis.Client {
	t.Helper()
	options, err := redis.ParseURL(i.RedisURL)
	if err != nil {
		t.Fatal(err)
	}
	options.ContextTimeoutEnabled = true
	client := redis.NewClient(options)
	t.Cleanup(func() { client.Close() })
	return client
}

// answers reports whether Redis answers before ctx ends.
func answers(ctx context.Context, c *redis.Client) bool { return c.Ping(ctx).Err() == nil }
