package provider

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"strconv"
	"time"

	"notifylab/internal/notify"
)

// DefaultMaxConns is how many connections to a provider there are at most if
// nothing else is said.
const DefaultMaxConns = 64

const (
	// dialTime bounds a dial and its TLS handshake. They outlive the attempt
	// that asked for them, since another can use the connection, so the
	// attempt's own deadline does not end them.
	dialTime = 10 * time.Second
	// keptTime is how long a connection is kept unused. Common servers close
	// theirs after five seconds or more, and a request that meets the closing
	// of its connection ends unknown. So the client is first.
	keptTime = 4 * time.Second
	// maxDrain and drainTime bound what is read of an answer's body, in bytes
	// and after the status: reading to the end keeps the connection.
	maxDrain  = 64 << 10
	drainTime = time.Second
)

// ClientOptions are the choices that a [Client] has.
type ClientOptions struct {
	// MaxConns bounds the connections to the provider. Further attempts wait
	// for one, until their contexts end (and are not sent then). 0 is
	// [DefaultMaxConns].
	MaxConns int
	// TLS, if not nil, is used for https. It is not changed.
	TLS *tls.Config
	// SayPid has each call say our pid, in [CallerHeader]. No provider needs it but the
	// lab's, when it is to tell who of several called.
	SayPid bool
}

// A Client sends notifications to an HTTP provider. It is safe for concurrent
// use and implements [notify.Sender].
type Client struct {
	base      *url.URL
	user      *url.Userinfo
	caller    string // our pid, if it is to be said
	transport *http.Transport
}

// NewClient returns a client of the provider at baseURL, http or https. Name
// and password in it are sent as basic authentication. No error repeats the
// URL, which may hold a password.
func NewClient(baseURL string, o ClientOptions) (*Client, error) {
	base, err := url.Parse(baseURL)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Hostname() == "" {
		return nil, errors.New("parse provider URL: want http://HOST[:PORT][/PATH] or https://…")
	}
	user := base.User
	base.User = nil
	if base.Path == "" {
		base.Path = "/" // JoinPath makes a relative path out of none
	}
	if o.MaxConns <= 0 {
		o.MaxConns = DefaultMaxConns
	}
	config := &tls.Config{}
	if o.TLS != nil {
		config = o.TLS.Clone()
	}
	config.NextProtos = []string{"http/1.1"}

	dialer := &net.Dialer{Timeout: dialTime}
	var protocols http.Protocols
	// Not HTTP/2: requests would share a connection, so that what was written
	// to it says nothing about one of them, and it resends by rules of its own.
	protocols.SetHTTP1(true)
	caller := ""
	if o.SayPid {
		caller = strconv.Itoa(os.Getpid())
	}
	return &Client{base: base, user: user, caller: caller, transport: &http.Transport{
		Proxy:       http.ProxyFromEnvironment,
		DialContext: counted(dialer.DialContext),
		// Counting above TLS, where only requests are written: neither the
		// handshake nor the good-bye is mistaken for one.
		DialTLSContext:         counted((&tls.Dialer{NetDialer: dialer, Config: config}).DialContext),
		TLSClientConfig:        config, // through a proxy
		TLSHandshakeTimeout:    dialTime,
		Protocols:              &protocols,
		MaxConnsPerHost:        o.MaxConns,
		MaxIdleConnsPerHost:    o.MaxConns,
		IdleConnTimeout:        keptTime,
		MaxResponseHeaderBytes: maxDrain,
		DisableCompression:     true,
	}}, nil
}

type dial = func(ctx context.Context, network, addr string) (net.Conn, error)

func counted(d dial) dial {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := d(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &countedConn{Conn: conn}, nil
	}
}

// Close closes the connections that are not in use. Those in use are closed or
// kept as ever; call it when no attempt is under way.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// Send makes one attempt. ctx is its only deadline, but for the body of an
// answer: a second after its status that is left alone. An
// [httptrace.ClientTrace] in ctx is called, too.
func (c *Client) Send(ctx context.Context, a notify.Attempt) notify.Result {
	start := time.Now()
	var t track
	ctx, cancel := context.WithCancel(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(i httptrace.GotConnInfo) { t.begin(i.Conn) },
	}))
	defer cancel() // after the body was closed: it would cut it off

	// The transport itself, and no http.Client: that follows redirects, and
	// makes an error out of an answer whose Location it can't read.
	res, err := c.transport.RoundTrip(c.request(ctx, a))
	if err != nil {
		return failed(err, t.untouched(), time.Since(start))
	}
	defer res.Body.Close()
	var body []byte
	// After 101 the body is the connection itself, and no context ends that.
	if res.StatusCode != http.StatusSwitchingProtocols {
		late := time.AfterFunc(drainTime, cancel)
		defer late.Stop()
		body, _ = io.ReadAll(io.LimitReader(res.Body, maxDrain)) // the status has said it all
	}
	return answered(res.StatusCode, body)
}

// request returns a request that is sent at most once. Without a GetBody its
// body can't be had again, and it is by that alone that net/http decides
// whether to resend a POST with an Idempotency-Key (or X-Idempotency-Key).
func (c *Client) request(ctx context.Context, a notify.Attempt) *http.Request {
	body := notify.Encode(a.Notification)
	r := (&http.Request{
		Method:        http.MethodPost,
		URL:           c.base.JoinPath(string(a.Channel)),
		Host:          c.base.Host,
		Header:        http.Header{"Content-Type": {"application/json"}, "User-Agent": {"notifylab"}},
		Body:          io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)),
		GetBody:       nil,
	}).WithContext(ctx)
	if a.Key != "" {
		r.Header[KeyHeader] = []string{a.Key}
	}
	if c.caller != "" {
		r.Header[CallerHeader] = []string{c.caller}
	}
	if c.user != nil {
		password, _ := c.user.Password()
		r.SetBasicAuth(c.user.Username(), password)
	}
	return r
}
