package idem

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifylab/internal/notify"
	"notifylab/internal/servers/serverstest"
)

func TestAddr(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"redis://host:6380/3":              "host:6380",
		"redis://host":                     "host:6379",
		"redis://":                         "localhost:6379",
		"rediss://u:S3cr3t@[::1]:7":        "[::1]:7",
		"redis://:S3cr3t@host?protocol=2":  "host:6379",
		"unix://u:S3cr3t@/run/redis.sock":  "/run/redis.sock",
		"http://u:S3cr3t@host":             "",
		"host:6379":                        "",
		"redis://u:S3cr3t@host/S3cr3t":     "",
		"redis://u:S3cr3t@host:S3cr3t":     "",
		"redis://u:S3cr3t@ho st":           "",
		"redis://u:S3cr3t%zz@host":         "",
		"redis://host?password=S3cr3t":     "",
		"redis://host?read_timeout=S3cr3t": "",

		"redis://u:S3cr3t@a:1?addr=b:2&addr=[::1]:3":                  "a:1, b:2, [::1]:3",
		"rediss://a/0?addr=a:6379":                                    "a:6379, a:6379",
		"redis://u:S3cr3t@a:1/3?addr=b:2":                             "", // a Cluster has one database
		"redis://u:S3cr3t@a:1?addr=b":                                 "",
		"redis://u:S3cr3t@a:1?addr=b:2&S3cr3t=1":                      "",
		"redis://u:S3cr3t@a:1?master_name=m&addr=b:2&password=S3cr3t": "a:1, b:2",
		"redis://a:1/3?master_name=m":                                 "a:1",
		"redis://u:S3cr3t@a:1?master_name=":                           "",
		"redis://u:S3cr3t@a:1/S3cr3t?master_name=m":                   "",
		"redis://a?master_name=m&route_randomly=true":                 "a:6379", // and it is not done
	} {
		got, err := Addr(url)
		client, dialErr := Dial(url, 1)
		if dialErr == nil {
			_ = client.Close()
		}
		if got != want || (err == nil) != (want != "") || (err == nil) != (dialErr == nil) {
			t.Errorf("%s: want %q, got %q, %v, %v", url, want, got, err, dialErr)
		}
		for _, err := range []error{err, dialErr} {
			if err != nil && (!errors.Is(err, ErrURL) || strings.Contains(err.Error(), "S3cr3t")) {
				t.Errorf("%s: %v", url, err)
			}
		}
	}
}

// reply is an error that Redis sends.
type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

func TestUnreachableError_Refused(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]bool{
		reply("NOAUTH Authentication required."):                             true,
		reply("WRONGPASS invalid username-password pair"):                    true,
		reply("NOPERM this user has no permissions"):                         true,
		reply("ERR DB index is out of range"):                                true,
		reply("LOADING Redis is loading the dataset in memory"):              false,
		reply("BUSY Redis is busy running a script"):                         false,
		reply("MISCONF Redis is configured to save RDB snapshots"):           false,
		reply("OOM command not allowed when used memory > 'maxmemory'."):     false,
		reply("READONLY You can't write against a read only replica."):       false,
		reply("MASTERDOWN Link with MASTER is down"):                         false,
		reply("CLUSTERDOWN The cluster is down"):                             false,
		reply("ERR max number of clients reached"):                           false,
		&net.OpError{Op: "dial", Err: errors.New("connection refused")}:      false,
		context.DeadlineExceeded:                                             false,
		redis.ErrPoolTimeout:                                                 false,
		errors.New("WRONGPASS in a text that is not Redis's own, say a DNS"): false,
	} {
		e := &UnreachableError{Addr: "host:6379", Err: errors.Join(err)}
		if got := e.Refused(); got != want {
			t.Errorf("%v: want %v, got %v", err, want, got)
		}
		var r redis.Error
		if refuses := strings.HasPrefix(e.Error(), "Redis at host:6379 refuses: "); refuses != errors.As(err, &r) {
			t.Errorf("%v: %v", err, e)
		}
	}
}

func TestPing(t *testing.T) {
	t.Parallel()
	c := dial(t, "")
	if err := Ping(soon(t), c, ""); err != nil {
		t.Error(err)
	}
	if v, err := Version(soon(t), c); err != nil || strings.Count(v, ".") != 2 {
		t.Errorf("version: %q, %v", v, err)
	}
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := nobody.Addr().String()
	_ = nobody.Close()
	u := "redis://u:S3cr3t@" + addr
	err = Ping(soon(t), dial(t, u), u)
	var unreachable *UnreachableError
	if !errors.As(err, &unreachable) || unreachable.Refused() {
		t.Fatalf("want an UnreachableError that is no refusal, got %v", err)
	}
	if want := "Redis does not answer at " + addr + ": connection refused"; err.Error() != want {
		t.Errorf("want %q, got %q", want, err)
	}
}

// One node of a Cluster answers, and has a part of the keys.
func TestPing_one_node_of_a_Cluster(t *testing.T) {
	t.Parallel()
	addrs := startCluster(t)
	for _, who := range []string{"", "u:S3cr3t@"} {
		u := "redis://" + who + addrs[0]
		err := Ping(soon(t), dial(t, "redis://"+addrs[0]), u)
		var cluster *ClusterError
		if !errors.As(err, &cluster) || strings.Contains(err.Error(), "does not answer") || strings.Contains(err.Error()+cluster.URL, "S3cr3t") {
			t.Fatalf("%s: got %v", u, err)
		}
		shown := "redis://"
		if who != "" {
			shown += "user:password@"
		}
		rest, ok := strings.CutPrefix(cluster.URL, shown)
		if want := strings.TrimPrefix(clusterURL(addrs), "redis://"); !ok || len(rest) != len(want) || strings.Count(rest, addrs[0])+strings.Count(rest, addrs[1]) != 2 {
			t.Errorf("%s, want a form of %s", cluster.URL, clusterURL(addrs))
		}
	}
	if err := Ping(soon(t), dial(t, clusterURL(addrs)), clusterURL(addrs)); err != nil {
		t.Error(err)
	}
	alone := "redis://" + startRedis(t, "--cluster-enabled", "yes", "--cluster-port", anyPort)
	c := dial(t, alone)
	if err := c.ClusterAddSlotsRange(soon(t), 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	if err := Ping(soon(t), c, alone); err != nil {
		t.Errorf("a node that has all keys: %v", err)
	}
}

// No text that comes out of here holds a password.
func TestPing_RefusedAndSilentAboutPasswords(t *testing.T) {
	t.Parallel()
	_, raw := serverstest.URLs(t)
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(serverstest.Namespace(t), "S3cr3t") // nobody is called that
	c := dial(t, u.String())
	err = Ping(soon(t), c, u.String())
	var unreachable *UnreachableError
	if !errors.As(err, &unreachable) || !unreachable.Refused() {
		t.Fatalf("want a refusal, got %v", err)
	}
	if want := "Redis at " + u.Host + " refuses: WRONGPASS "; !strings.HasPrefix(err.Error(), want) {
		t.Errorf("want %q…, got %q", want, err)
	}
	l := newLab(t)
	s := l.worker(c)
	for what, do := range s.calls() {
		if err := do(soon(t)); err == nil || strings.Contains(err.Error(), "S3cr3t") {
			t.Errorf("%s: want an error without the password, got %v", what, err)
		}
	}
}

// Whatever the URL asks for, a client has the same time-outs, one retry, and reads
// nothing from a replica.
func TestDial_the_same_for_each_kind(t *testing.T) {
	t.Parallel()
	const asked = "read_timeout=9s&dial_timeout=9s&write_timeout=9s&max_retries=9&pool_size=9&pool_timeout=9s"
	check := func(what string, times []time.Duration, counts []int, retries int, cut bool) {
		t.Helper()
		equal := slices.Equal(times, []time.Duration{Timeout, Timeout, Timeout, 2 * Timeout}) && slices.Equal(counts, []int{3, 1})
		if !equal || retries != 1 || !cut {
			t.Errorf("%s: time-outs %v, pool and dials %v, %d retries, deadlines cut: %v", what, times, counts, retries, cut)
		}
	}
	for _, form := range []string{"redis://h?" + asked, "redis://h?master_name=m&route_by_latency=true&" + asked} {
		o := dialURL(t, form, 3).(*redis.Client).Options()
		check(form, []time.Duration{o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout}, []int{o.PoolSize, o.DialerRetries}, o.MaxRetries, o.ContextTimeoutEnabled)
	}
	form := "redis://h?addr=h2:1&read_only=true&route_by_latency=true&route_randomly=true&max_redirects=9&dialer_retries=9&" + asked
	o := dialURL(t, form, 3).(*redis.ClusterClient).Options()
	check(form, []time.Duration{o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout}, []int{o.PoolSize, o.DialerRetries}, o.MaxRedirects, o.ContextTimeoutEnabled)
	if o.ReadOnly || o.RouteByLatency || o.RouteRandomly || o.MaxRetries != -1 {
		t.Errorf("replicas are read: %v %v %v, or a node's client retries: %d", o.ReadOnly, o.RouteByLatency, o.RouteRandomly, o.MaxRetries)
	}
}

// dialURL returns a client as the program has it.
func dialURL(t testing.TB, url string, pool int) Client {
	t.Helper()
	c, err := Dial(url, pool)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Sentinels say which server it is.
func TestDial_Sentinel(t *testing.T) {
	t.Parallel()
	master := startRedis(t)
	u := "redis://" + startSentinel(t, "records", master, "") + "?master_name=records"
	l := newLabAt(t, u)
	if err := Ping(soon(t), l.redis, u); err != nil {
		t.Fatal(err)
	}
	claim := l.worker(l.redis).Claim(hello, notify.Push, true)
	attempt(t, "try", claim.Try, Acquired)
	if got := dial(t, "redis://"+master).Get(soon(t), claim.Key()).Val(); got != claim.Mine().String() {
		t.Errorf("the master has %q", got)
	}
	settle(t, "complete", claim.Complete, true)
	if all, err := List(soon(t), l.redis, l.ns, ""); len(all) != 1 || err != nil {
		t.Errorf("listed %v, %v", all, err)
	}
	other := strings.Replace(u, "=records", "=nobody", 1)
	var unreachable *UnreachableError
	if err := Ping(soon(t), dialURL(t, other, 1), other); !errors.As(err, &unreachable) || !strings.Contains(err.Error(), strings.TrimPrefix(strings.Split(u, "?")[0], "redis://")) {
		t.Errorf("of a master that no Sentinel knows: %v", err)
	}
}

// When the Sentinels make the replica the master, the same client goes on with that, by
// the password that Redis wants, and knows what was done before.
func TestDial_SentinelFailover(t *testing.T) {
	t.Parallel()
	const secret = "S3cr3t"
	locked := []string{"--requirepass", secret, "--masterauth", secret}
	master := startRedis(t, locked...)
	host, port, _ := net.SplitHostPort(master)
	replica := startRedis(t, append(locked, "--replicaof", host, port)...)
	sentinel := startSentinel(t, "records", master, secret)
	at := func(addr string) Client { return dial(t, "redis://:"+secret+"@"+addr) }
	until(t, "the replica follows", func() bool {
		return strings.Contains(at(master).Info(soon(t), "replication").Val(), "state=online")
	})
	u := "redis://" + sentinel + "?master_name=records&password=" + secret
	l := newLabAt(t, u)
	done, pending := l.worker(l.redis).Claim(hello, notify.Push, true), l.worker(l.redis).Claim(hello, notify.Email, true)
	for _, claim := range []*Claim{done, pending} {
		attempt(t, "before", claim.Try, Acquired)
	}
	settle(t, "complete before", done.Complete, true)
	until(t, "it has both records", func() bool {
		return at(replica).Get(soon(t), pending.Key()).Val() != "" && strings.HasPrefix(at(replica).Get(soon(t), done.Key()).Val(), string(Done))
	})

	// The Sentinel has to find the replica first.
	until(t, "the Sentinel begins", func() bool {
		return dial(t, "redis://"+sentinel).Do(soon(t), "SENTINEL", "FAILOVER", "records").Err() == nil
	})
	tries := 0
	until(t, "the new master is asked", func() bool {
		tries++
		n := hello
		n.ID = fmt.Sprint("n-", tries)
		claim := l.worker(l.redis).Claim(n, notify.Push, true)
		_, _, err := claim.Try(soon(t))
		return err == nil && at(replica).Get(soon(t), claim.Key()).Val() == claim.Mine().String() && strings.Contains(at(replica).Info(soon(t), "replication").Val(), "role:master")
	})
	settle(t, "complete after", pending.Complete, true)
	attempt(t, "again", l.worker(l.redis).Claim(hello, notify.Push, true).Try, Duplicate)
}

// until asks until it is so.
func until(t *testing.T, what string, so func() bool) {
	t.Helper()
	for ctx := soon(t); !so(); {
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("not yet: %s", what)
		}
	}
}
