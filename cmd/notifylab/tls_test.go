package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// selfSigned makes a certificate for 127.0.0.1 that nobody else has signed, and
// writes it to a file for those who are to trust it.
func selfSigned(t *testing.T, dir string) (cert tls.Certificate, file string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	do(t, "key", err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "a test's own"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	do(t, "certificate", err)
	file = filepath.Join(dir, "ca.pem")
	do(t, "write", os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, file
}

// overTLS offers the server at rawURL over TLS, with that certificate, and returns
// the URL for it.
func overTLS(t *testing.T, cert tls.Certificate, rawURL string) string {
	t.Helper()
	u, err := url.Parse(rawURL)
	do(t, "parse", err)
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}})
	do(t, "listen", err)
	relay(t, ln, u.Host, func(client, server net.Conn) { _, _ = io.Copy(client, server) })
	u.Scheme, u.Host = u.Scheme+"s", ln.Addr().String()
	return u.String()
}

// A certificate that nobody trusts is refused at once, with the reason, and is not
// waited for as if nobody had answered; one that is trusted is taken.
// (rabbitmq/rabbitmq-dotnet-client#339, sensu/sensu#1745)
func TestTLS_is_verified(t *testing.T) {
	t.Parallel()
	shared := newCorner(t)
	cert, trusted := selfSigned(t, shared.dir)
	amqps, rediss := overTLS(t, cert, shared.amqp), overTLS(t, cert, shared.redis)
	withSecret := func(rawURL string) string { return strings.Replace(rawURL, "guest:guest", "guest:"+secret, 1) }
	host := func(rawURL string) string {
		u, err := url.Parse(rawURL)
		do(t, "parse", err)
		return u.Host
	}
	for _, tt := range []struct{ name, amqp, redis, want, args string }{
		{"amqps", withSecret(amqps), shared.redis, "RabbitMQ at " + host(amqps), "produce|worker push|supervise|scenario crash|dlq list push|api --listen 127.0.0.1:0"},
		{"rediss", shared.amqp, rediss, "Redis at " + host(rediss), "records|worker push|supervise|scenario crash|settings|api --listen 127.0.0.1:0"},
		{"amqps on a port without TLS", strings.Replace(withSecret(shared.amqp), "amqp:", "amqps:", 1), shared.redis, "RabbitMQ at " + host(shared.amqp), "produce|worker push"},
	} {
		for args := range strings.SplitSeq(tt.args, "|") {
			t.Run(tt.name+" "+args, func(t *testing.T) { // one at a time
				c := cornerAt(t, tt.amqp, tt.redis)
				eventually(t, "nobody answers", func() string {
					r := c.run(strings.Fields(args)...)
					lines := r.complaints()
					if len(having(lines, "context deadline exceeded")) > 0 {
						return r.all() // the machine is too busy for Redis's one second
					}
					r.wantStatus(exitUnavailable)
					if len(lines) != 3 || !strings.HasPrefix(lines[0], "notifylab: "+tt.want+": no trusted TLS connection: ") || !strings.Contains(lines[1], "SSL_CERT_FILE") ||
						r.text() != "" || strings.Contains(r.all(), secret) {
						t.Error(r.all())
					}
					return ""
				})
			})
		}
	}
	t.Run("trusted", func(t *testing.T) {
		t.Parallel()
		c := cornerAt(t, amqps, rediss).with("SSL_CERT_FILE=" + trusted)
		w := c.start("worker", "push", "--idempotency", "on", "--claim-lease", "on")
		w.awaitLine("READY")
		c.run("produce", "--channel", "push", "--id", "n").wantStatus(exitOK)
		w.awaitLine("DONE push notif:n")
		w.stop()
		eventually(t, "nobody answers", func() string {
			r := c.run("reset", "--yes")
			if len(having(r.errors(), "context deadline exceeded")) > 0 {
				return r.all() // as above
			}
			r.wantStatus(exitOK)
			return ""
		})
	})

	// One node's certificate is not trusted: the next is asked, and if that does not
	// answer, both are told of.
	t.Run("another node", func(t *testing.T) {
		t.Parallel()
		c := cornerAt(t, withSecret(amqps)+","+shared.amqp, shared.redis)
		c.run("produce", "--channel", "push").wantStatus(exitOK)
		c.run("reset", "--yes").wantStatus(exitOK)
		c = cornerAt(t, withSecret(amqps)+",amqp://guest:"+secret+"@"+nowhere, shared.redis)
		eventually(t, "both are told of", func() string { // on a busy machine a handshake can take too long
			r := c.run("queues")
			r.wantStatus(exitUnavailable)
			switch {
			case strings.Contains(r.all(), secret):
				t.Error(r.all())
			case len(having(r.errors(), "RabbitMQ at "+host(amqps)+": no trusted TLS connection: ", "; RabbitMQ does not answer at "+nowhere+": connection refused")) != 1:
				return r.all()
			}
			return ""
		})
	})
}
