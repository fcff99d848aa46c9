package bench

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// A meter takes the time that messages take, and Redis's CPU time with it.
type meter struct {
	*bench
	messages int
	began    time.Time
	redis    time.Duration
}

func (b *bench) startMeter(ctx context.Context, messages int) (m meter, err error) {
	m.bench, m.messages = b, messages
	m.redis, err = b.redisCPU(ctx)
	m.began = time.Now()
	return m, err
}

// stop returns what a run's messages took since the start.
func (m meter) stop(ctx context.Context) (pace, error) {
	perS := rate(m.messages, m.began)
	now, err := m.redisCPU(ctx)
	took := now - m.redis
	us := float64(took.Microseconds()) / float64(m.messages)
	if us < 0.5 || took < 2*time.Millisecond { // nothing was asked of it, but this, and what nodes ask each other
		us = 0
	}
	return pace{perS, us}, err
}

// redisCPU returns how long Redis has worked so far, all masters together.
func (b *bench) redisCPU(ctx context.Context) (all time.Duration, err error) {
	one := func(ctx context.Context, c *redis.Client) (time.Duration, error) {
		info, err := c.Info(ctx, "cpu").Result()
		if err != nil {
			return 0, fmt.Errorf("ask Redis for its CPU time: %w", err)
		}
		return cpuTime(info), nil
	}
	switch c := b.redis.(type) {
	case *redis.Client:
		return one(ctx, c)
	case *redis.ClusterClient:
		var mu sync.Mutex
		err = c.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error {
			d, err := one(ctx, c)
			mu.Lock()
			defer mu.Unlock()
			all += d
			return err
		})
	}
	return all, err
}

// cpuTime reads used_cpu_user and used_cpu_sys, seconds, of what INFO says.
func cpuTime(info string) (all time.Duration) {
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if s, err := strconv.ParseFloat(value, 64); err == nil && (name == "used_cpu_user" || name == "used_cpu_sys") {
			all += time.Duration(s * float64(time.Second))
		}
	}
	return all
}
