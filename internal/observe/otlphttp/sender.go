package otlphttp

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"syscall"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/net/address"
	"github.com/weir-mcp/weir/internal/text"
)

// maxAnswer is how many bytes of an answer are read.
const maxAnswer = 64 << 10

// Scope is the name of the instrumentation scope of all that weir sends.
const Scope = "github.com/weir-mcp/weir"

// Options are of the program that sends.
type Options struct {
	Version, Instance string
	// Transport carries the requests; nil means connections of the Sender's own.
	Transport http.RoundTripper
}

// An Endpoint takes requests.
type Endpoint struct {
	URL     string            // whole. An http URL works for addresses that are not public
	Headers map[string]string // of each request
	Service string            // the name of this service; "" is weir
	Timeout time.Duration     // bounds one request
}

// A Signal is a kind of data, with its names in answers and messages.
type Signal struct{ noun, rejected string }

// The signals that weir sends.
var (
	Spans   = Signal{"spans", "rejectedSpans"}
	Metrics = Signal{"data points", "rejectedDataPoints"}
)

// A Sender sends to one endpoint. Post may be called concurrently, Pack may not.
type Sender struct {
	to       *url.URL
	header   http.Header
	timeout  time.Duration
	resource []byte
	via      http.RoundTripper
	own      *http.Transport // nil if the caller's transport is in use
	packer   *gzip.Writer    // a new one costs a megabyte
}

// New returns a Sender. The caller must close it.
func New(o Options, e Endpoint) (*Sender, error) {
	to, err := url.Parse(e.URL)
	if err != nil {
		return nil, err
	}
	s := &Sender{to: to, timeout: e.Timeout, via: o.Transport, header: http.Header{"User-Agent": {"weir/" + o.Version}}}
	for name, value := range e.Headers {
		s.header.Set(name, value)
	}
	s.header["Content-Type"], s.header["Content-Encoding"] = []string{"application/json"}, []string{"gzip"}
	if s.via == nil {
		s.own = transportFor(to.Scheme)
		s.via = s.own
	}
	s.resource = append(s.resource, `{"attributes":[`...)
	for i, a := range [][2]string{
		{"service.name", cmp.Or(e.Service, "weir")}, {"service.version", cmp.Or(o.Version, "unknown")}, {"service.instance.id", cmp.Or(o.Instance, "unknown")},
		{"telemetry.sdk.name", "weir"}, {"telemetry.sdk.language", "go"},
	} {
		if i > 0 {
			s.resource = append(s.resource, ',')
		}
		s.resource = AppendAttribute(s.resource, a[0], a[1])
	}
	s.resource = append(s.resource, `]}`...)
	return s, nil
}

// AppendAttribute appends an attribute with a text.
func AppendAttribute(dst []byte, key, value string) []byte {
	dst = rawjson.AppendString(append(dst, `{"key":`...), key)
	return append(rawjson.AppendString(append(dst, `,"value":{"stringValue":`...), value), `}}`...)
}

// Resource returns the resource of all requests: this process.
func (s *Sender) Resource() []byte { return s.resource }

// Host returns the host of the endpoint.
func (s *Sender) Host() string { return s.to.Host }

// Close closes idle connections.
func (s *Sender) Close() {
	if s.own != nil {
		s.own.CloseIdleConnections()
	}
}

// Pack returns the body of a request.
func (s *Sender) Pack(raw []byte) []byte {
	var out bytes.Buffer
	if s.packer == nil {
		s.packer, _ = gzip.NewWriterLevel(&out, gzip.BestSpeed) // a level that exists
	} else {
		s.packer.Reset(&out)
	}
	_, _ = s.packer.Write(raw) // a Buffer takes everything
	_ = s.packer.Close()
	return out.Bytes()
}

// transportFor returns the connections of a Sender. Without TLS, data and the headers' keys go
// to addresses of private networks and of this machine only.
func transportFor(scheme string) *http.Transport {
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	out := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: 10 * time.Second, ForceAttemptHTTP2: true, MaxIdleConns: 1, IdleConnTimeout: 90 * time.Second,
		MaxResponseHeaderBytes: maxAnswer,
	}
	if scheme == "http" {
		out.Proxy = nil // it would resolve the name itself
		dialer.Control = func(_, at string, _ syscall.RawConn) error {
			host, _, err := net.SplitHostPort(at)
			if err != nil {
				return err
			}
			if ip, ok := address.ParseIP(host); !ok || !address.Private(ip) && !ip.IsLoopback() {
				return fmt.Errorf("%w: %s is a public address, to which otlp.url must lead with https", ErrPublic, host)
			}
			return nil
		}
	}
	out.DialContext = dialer.DialContext
	return out
}

// ErrPublic is the cause of a refusal to send without TLS.
var ErrPublic = errors.New("nothing is sent there without TLS")

// A Refusal is an answer of the endpoint other than success.
type Refusal struct {
	message  string
	Wait     time.Duration // the least wait before another attempt
	Final    bool          // another attempt makes no sense
	Rejected bool          // only Count of the data were refused
	Count    int64
}

// Error implements error.
func (r *Refusal) Error() string { return r.message }

// Post sends one request with n of a signal. Its error may be a *Refusal.
func (s *Sender) Post(ctx context.Context, body []byte, of Signal, n int) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	// RoundTrip follows no redirects: the headers are only for this endpoint.
	resp, err := s.via.RoundTrip((&http.Request{
		Method: http.MethodPost, URL: s.to, Host: s.to.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: s.header.Clone(),
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}).WithContext(ctx))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		return partly(answer, of, int64(n)) // data that were taken must not be sent again
	}
	if err != nil {
		answer = nil
	}
	out := &Refusal{message: resp.Status, Wait: retryAfter(resp.Header.Get("Retry-After"), time.Now())}
	if said := text.Line(rawjson.Text(rawjson.Get(answer, "message")), text.MaxMessageChars); said != "" {
		out.message += ": " + said
	}
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
	default:
		out.Final = true
	}
	return out
}

// partly returns the refusal of some data in an answer, nil if all n were taken. The count is a
// 64-bit number, which OTLP writes as a text; some receivers write a number.
func partly(answer []byte, of Signal, n int64) error {
	partial := rawjson.Get(answer, "partialSuccess")
	raw := rawjson.Get(partial, of.rejected)
	count, err := strconv.ParseInt(cmp.Or(rawjson.Text(raw), string(raw)), 10, 64)
	if err != nil || count <= 0 {
		return nil
	}
	said := text.Line(rawjson.Text(rawjson.Get(partial, "errorMessage")), text.MaxMessageChars)
	return &Refusal{message: fmt.Sprintf("%d of %d %s were rejected: %s", count, n, of.noun, said), Rejected: true, Count: min(count, n)}
}

// retryAfter reads a Retry-After header: seconds, or a date.
func retryAfter(value string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
