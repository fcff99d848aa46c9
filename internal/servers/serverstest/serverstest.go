// Package serverstest gives tests real servers. A package whose tests need them
// has
//
//	func TestMain(m *testing.M) { os.Exit(serverstest.Main(m)) }
//
// and its tests ask for [URLs] and a [Namespace], or, if they harm servers, for a
// pair of their [Own]. No test is skipped for want of servers: it fails.
package serverstest

import (
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"notifylab/internal/servers"
)

// holdArgument makes the test's own binary the holder of a pair.
const holdArgument = "serverstest-hold"

// startLimit is for a start on a busy machine; it never passes when all is well.
const startLimit = 2 * time.Minute

// shared is the pair that a test binary's tests share: testing gives them nothing
// else in common to hang it on.
var shared sharedPair

type sharedPair struct {
	mu   sync.Mutex
	pair *servers.Pair
	err  error // of the start, which is tried once
}

// Main runs the tests and returns the exit code. The shared pair, if any test
// asked for it, is gone by then; if it can't be ended the code is 1.
func Main(m *testing.M) int {
	if len(os.Args) == 2 && os.Args[1] == holdArgument {
		if err := servers.Hold(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	}
	code := m.Run()
	if err := shared.close(); err != nil {
		fmt.Fprintln(os.Stderr, "close the tests' servers:", err)
		return max(code, 1)
	}
	return code
}

// Parallel has twice as many tests run at once as there are processors, up to eight,
// unless -parallel says how many: they wait for servers and processes half of the time,
// and all for the same ones. More of them get in each other's way, until time-outs pass
// that never do when all is well.
func Parallel() {
	const most = 8
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if given {
		return
	}
	if err := flag.Set("test.parallel", strconv.Itoa(min(most, 2*runtime.GOMAXPROCS(0)))); err != nil {
		panic(err)
	}
}

// URLs are those of the servers to test against: $AMQP_URL and $REDIS_URL if both
// are set, else those of a private pair that all tests of the binary share, and
// that the first to ask starts.
func URLs(t testing.TB) (amqpURL, redisURL string) {
	t.Helper()
	amqpURL, redisURL = os.Getenv("AMQP_URL"), os.Getenv("REDIS_URL")
	if amqpURL != "" && redisURL != "" {
		return amqpURL, redisURL
	}
	pair, err := shared.start()
	if err != nil {
		t.Fatalf("start the tests' servers: %v", err)
	}
	return pair.AMQPURL, pair.RedisURL
}

// Own is a pair for this test alone, to be harmed at will. It is closed when the
// test ends.
func Own(t testing.TB) *servers.Pair {
	t.Helper()
	return own(t, servers.Options{}, startLimit)
}

func own(t testing.TB, o servers.Options, limit time.Duration) *servers.Pair {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	o.Holder = Holder()
	pair, err := servers.Start(ctx, o)
	if err != nil {
		t.Fatalf("start the test's own servers: %v", err)
	}
	t.Cleanup(func() {
		if err := closePair(pair); err != nil {
			t.Errorf("close the test's own servers: %v", err)
		}
	})
	return pair
}

// ClustersVariable, set, has the tests run that start clusters: nine servers, which
// on a busy machine take a minute and all of its memory.
const ClustersVariable = "NOTIFYLAB_CLUSTER"

// NeedsClusters skips a test that starts clusters, unless those were asked for.
func NeedsClusters(t testing.TB) {
	t.Helper()
	if os.Getenv(ClustersVariable) == "" {
		t.Skip("it starts a RabbitMQ of three nodes or a Redis Cluster: set " + ClustersVariable + "=1")
	}
}

// Clusters is a pair as o has it, for this test alone, to be harmed at will, if
// clusters were asked for, see [NeedsClusters]. It is closed when the test ends.
func Clusters(t testing.TB, o servers.Options) *servers.Pair {
	t.Helper()
	NeedsClusters(t)
	return own(t, o, 2*startLimit)
}

// Namespace is a short name that no other test has: a letter, then letters and
// digits, all lower-case.
func Namespace(testing.TB) string {
	return "t" + strings.ToLower(rand.Text()[:8])
}

// Holder is the command that makes this test binary a holder, if its TestMain
// calls [Main].
func Holder() []string {
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0]
	}
	return []string{self, holdArgument}
}

func (s *sharedPair) start() (*servers.Pair, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pair == nil && s.err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), startLimit)
		defer cancel()
		s.pair, s.err = servers.Start(ctx, servers.Options{Holder: Holder()})
	}
	return s.pair, s.err
}

func (s *sharedPair) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pair == nil {
		return nil
	}
	return closePair(s.pair)
}

func closePair(pair *servers.Pair) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return pair.Close(ctx)
}
