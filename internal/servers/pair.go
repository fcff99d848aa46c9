package servers

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Options say what pair to start.
type Options struct {
	// Holder is the command that runs [Hold] on its standard input and output.
	Holder []string
	// AMQPPort and RedisPort are the ports to listen on, of the first node where
	// there are several, 0 for any free one.
	AMQPPort, RedisPort int
	// RabbitNodes is how many nodes of RabbitMQ there are to be, in one cluster; 0
	// is 1, too.
	RabbitNodes int
	// RedisCluster makes Redis a Cluster of six nodes: three masters, 1 to 3, and
	// a replica of each, 4 to 6.
	RedisCluster bool
}

// Pair is a RabbitMQ and a Redis of the caller's own. They live until Close, or
// until the caller's process ends, however it ends. The methods may be called
// concurrently; they take turns.
type Pair struct {
	// AMQPURL and RedisURL stay the same when servers are started again.
	AMQPURL, RedisURL string

	holder *holderProcess
	mu     sync.Mutex
	info   Info
	closed bool
}

// Start starts a pair and returns when both servers answer. The programs are
// those that [Find] finds. The error is [ErrNotInstalled], or [ErrPortTaken] for a
// port that was asked for, or has the end of the failed server's log; after an
// error nothing is left. ctx bounds the start only.
func Start(ctx context.Context, o Options) (*Pair, error) {
	holder, info, err := open(ctx, o)
	if err != nil {
		return nil, err
	}
	return &Pair{AMQPURL: info.AMQPURL, RedisURL: info.RedisURL, holder: holder, info: info}, nil
}

func open(ctx context.Context, o Options) (*holderProcess, Info, error) {
	binaries, err := Find()
	if err != nil {
		return nil, Info{}, err
	}
	holder, err := spawn(o.Holder)
	if err != nil {
		return nil, Info{}, err
	}
	info, err := holder.ask(ctx, request{Do: doOpen, Open: &opening{
		Dir: holder.dir, Binaries: binaries, AMQPPort: o.AMQPPort, RedisPort: o.RedisPort,
		RabbitNodes: max(1, o.RabbitNodes), RedisCluster: o.RedisCluster,
	}})
	if err != nil {
		return nil, Info{}, errors.Join(fmt.Errorf("start a private pair: %w", err), holder.abandon(info))
	}
	return holder, info, nil
}

// Info is the pair as it is now.
func (p *Pair) Info() Info {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.info
}

// Env is the pair's URLs as environment variables.
func (p *Pair) Env() []string { return p.Info().Env() }

// Rabbitmqctl runs rabbitmqctl against this pair's RabbitMQ, see
// [Info.Rabbitmqctl].
func (p *Pair) Rabbitmqctl(ctx context.Context, args ...string) (string, error) {
	return p.Info().Rabbitmqctl(ctx, args...)
}

// Stop ends a server in its own orderly way, which closes its clients'
// connections and takes RabbitMQ a second. What it has stored stays for Start. A
// server that doesn't end in 20 s is killed; one that isn't there is no error.
func (p *Pair) Stop(ctx context.Context, s Server) error { return p.ask(ctx, doStop, s) }

// Kill ends a server with SIGKILL, suspended or not, and returns when it is gone.
// What it has stored stays for Start. One that isn't there is no error.
func (p *Pair) Kill(ctx context.Context, s Server) error { return p.ask(ctx, doKill, s) }

// Start starts a server that was stopped or killed, or has died, on its port and
// with its data, and returns when it answers. One that runs is an error. After an
// error the server isn't there. Of several RabbitMQ nodes one must run: they wait
// for each other.
func (p *Pair) Start(ctx context.Context, s Server) error { return p.ask(ctx, doStart, s) }

// Suspend halts a server's process and returns when it stands still. The kernel
// still takes connections and bytes for it; nothing answers.
func (p *Pair) Suspend(ctx context.Context, s Server) error { return p.ask(ctx, doSuspend, s) }

// Resume lets a suspended server go on.
func (p *Pair) Resume(ctx context.Context, s Server) error { return p.ask(ctx, doResume, s) }

func (p *Pair) ask(ctx context.Context, do verb, s Server) error {
	info, err := p.holder.ask(ctx, request{Do: do, Server: s})
	if info.Dir != "" {
		p.learn(info)
	}
	if err != nil {
		return fmt.Errorf("%s the private %s: %w", do, s, err)
	}
	return nil
}

func (p *Pair) learn(i Info) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.info = i
}

// Close ends both servers, what belongs to them, and their data, and returns when
// all are gone. That happens also if ctx has ended or the holder was killed; the
// error then says so. The second Close does nothing.
func (p *Pair) Close(ctx context.Context) error {
	if !p.closing() {
		return nil
	}
	return p.holder.end(ctx, p.Info())
}

func (p *Pair) closing() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := !p.closed
	p.closed = true
	return first
}
