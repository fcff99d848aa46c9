package serverstest_test

import (
	"net"
	"net/url"
	"os"
	"regexp"
	"testing"

	"notifylab/internal/servers/serverstest"
)

func TestMain(m *testing.M) { os.Exit(serverstest.Main(m)) }

func TestURLs_AreThoseOfTheEnvironmentIfBothAreSet(t *testing.T) {
	t.Setenv("AMQP_URL", "amqp://there")
	t.Setenv("REDIS_URL", "redis://there")
	if a, r := serverstest.URLs(t); a != "amqp://there" || r != "redis://there" {
		t.Errorf("got %s, %s", a, r)
	}
}

func TestURLs_AreOneSharedPairOtherwise(t *testing.T) {
	t.Setenv("AMQP_URL", "")
	a, r := serverstest.URLs(t)
	for _, text := range []string{a, r} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := net.Dial("tcp", u.Host)
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
	}
	if again, _ := serverstest.URLs(t); again != a {
		t.Errorf("want %s again, got %s", a, again)
	}
}

func TestNamespace_IsShortAndNew(t *testing.T) {
	one, other := serverstest.Namespace(t), serverstest.Namespace(t)
	if !regexp.MustCompile(`^[a-z][a-z0-9]{1,11}$`).MatchString(one) || one == other {
		t.Errorf("got %q and %q", one, other)
	}
}
