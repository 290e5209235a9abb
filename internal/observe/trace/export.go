package trace

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/net/address"
	"github.com/weir-mcp/weir/internal/text"
)

// Bounds of the export.
const (
	maxQueue   = 2048             // spans that wait
	maxBatch   = 512              // spans of one request
	maxAnswer  = 64 << 10         // bytes of an answer that are read
	sendAfter  = 5 * time.Second  // how long the first span of a batch waits for others
	firstRetry = time.Second      // doubled after each failure
	lastRetry  = 30 * time.Second // the longest wait between two attempts
	giveUp     = time.Minute      // how long one batch is tried
)

// counters count the fates of spans.
type counters struct{ sent, dropped, failed, rejected atomic.Int64 }

// An exporter sends spans to one endpoint. Its goroutine ends with close.
type exporter struct {
	to      *url.URL
	header  http.Header
	sample  float64
	timeout time.Duration
	head    []byte // the text before the spans in each request
	by      *Tracer
	own     *http.Transport // nil if the caller's transport is in use

	mu     sync.Mutex // guards below
	queue  []*span
	closed bool

	wake    chan struct{} // capacity 1; the queue is no longer empty
	full    chan struct{} // capacity 1; the queue holds a batch
	closing chan struct{}
	ended   chan struct{}
	ctx     context.Context // of requests; ends when close stops waiting
	cancel  context.CancelFunc

	// Only run uses the fields below.
	broken bool // the last batch was lost, and the log says so
	raw    []byte
	packer *gzip.Writer // a new one costs a megabyte
}

func newExporter(t *Tracer, s Settings) (*exporter, error) {
	to, err := url.Parse(s.URL)
	if err != nil {
		return nil, err
	}
	e := &exporter{
		to: to, sample: s.Sample, timeout: s.Timeout, by: t, wake: make(chan struct{}, 1), full: make(chan struct{}, 1),
		closing: make(chan struct{}), ended: make(chan struct{}),
	}
	e.header = http.Header{"User-Agent": {"weir/" + t.o.Version}}
	for name, value := range s.Headers {
		e.header.Set(name, value)
	}
	e.header["Content-Type"], e.header["Content-Encoding"] = []string{"application/json"}, []string{"gzip"}
	if t.o.Transport == nil {
		e.own = transportFor(to.Scheme)
	}
	e.head = append(e.head, `{"resourceSpans":[{"resource":{"attributes":`...)
	e.head = appendAttributes(e.head, []attribute{
		{key: "service.name", text: cmp.Or(s.Service, "weir")}, {key: "service.version", text: cmp.Or(t.o.Version, "unknown")},
		{key: "service.instance.id", text: cmp.Or(t.o.Instance, "unknown")},
		{key: "telemetry.sdk.name", text: "weir"}, {key: "telemetry.sdk.language", text: "go"},
	})
	e.head = append(e.head, `},"scopeSpans":[{"scope":{"name":"github.com/weir-mcp/weir"},"spans":[`...)
	e.ctx, e.cancel = context.WithCancel(context.Background())
	go e.run()
	return e, nil
}

// transportFor returns the connections of an exporter. Without TLS, spans and the headers' keys go
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
				return fmt.Errorf("%w: %s is a public address, to which otlp.url must lead with https", errPublic, host)
			}
			return nil
		}
	}
	out.DialContext = dialer.DialContext
	return out
}

// errPublic is the cause of a refusal to send spans without TLS.
var errPublic = errors.New("spans are not sent without TLS")

// add queues a span. It never waits.
func (e *exporter) add(s *span) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || len(e.queue) >= maxQueue {
		e.by.counts.dropped.Add(1)
		return
	}
	e.queue = append(e.queue, s)
	switch len(e.queue) {
	case 1:
		signal(e.wake)
	case maxBatch:
		signal(e.full)
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// take removes a batch from the queue.
func (e *exporter) take() []*span {
	e.mu.Lock()
	defer e.mu.Unlock()
	batch := e.queue[:min(len(e.queue), maxBatch)]
	if e.queue = e.queue[len(batch):]; len(e.queue) == 0 {
		e.queue = nil
	}
	return batch
}

// close sends the waiting spans, until ctx ends. It waits for the goroutine.
func (e *exporter) close(ctx context.Context) {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	close(e.closing)
	stop := context.AfterFunc(ctx, e.cancel)
	defer stop()
	<-e.ended
	e.cancel()
	if e.own != nil {
		e.own.CloseIdleConnections()
	}
}

// run sends batches until close.
func (e *exporter) run() {
	defer close(e.ended)
	for {
		select {
		case <-e.wake:
		case <-e.closing:
		}
		e.pause(sendAfter, e.full)
		for batch := e.take(); len(batch) > 0; batch = e.take() {
			e.send(batch)
		}
		if e.isClosing() {
			return
		}
	}
}

func (e *exporter) isClosing() bool {
	select {
	case <-e.closing:
		return true
	default:
		return false
	}
}

// pause waits for a time, for early, or for close.
func (e *exporter) pause(d time.Duration, early <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-early:
	case <-e.closing:
	}
}

// send sends a batch, several times if the endpoint cannot take it now. During close it is sent
// once.
func (e *exporter) send(batch []*span) {
	body := e.packed(batch)
	began := time.Now()
	for backoff := firstRetry; ; backoff = min(2*backoff, lastRetry) {
		last := e.isClosing()
		err := e.post(body, len(batch))
		var failure *refusal
		switch {
		case err == nil:
			e.by.counts.sent.Add(int64(len(batch)))
			if e.broken {
				e.broken = false
				e.by.o.Logger.Info("spans are sent again", "endpoint", e.to.Host)
			}
			return
		case errors.As(err, &failure) && failure.rejected:
			e.by.counts.sent.Add(int64(len(batch)) - failure.count)
			e.by.counts.rejected.Add(failure.count)
			e.complain(err)
			return
		}
		// A random part keeps gateways that lost the same endpoint from returning together.
		wait := backoff/2 + rand.N(backoff/2)
		if failure != nil {
			wait = max(wait, failure.wait)
		}
		if last || failure != nil && failure.final || errors.Is(err, errPublic) || time.Since(began)+wait > giveUp {
			e.by.counts.failed.Add(int64(len(batch)))
			e.complain(err)
			return
		}
		e.pause(wait, nil)
	}
}

// complain logs why spans are lost, once until spans are sent again.
func (e *exporter) complain(err error) {
	if e.broken {
		return
	}
	e.broken = true
	e.by.o.Logger.Warn("spans are lost: the endpoint of otlp.url does not take them", "endpoint", e.to.Host, "err", e.by.o.Redact(err.Error()))
}

// packed returns the request for a batch.
func (e *exporter) packed(batch []*span) []byte {
	e.raw = append(e.raw[:0], e.head...)
	for i, s := range batch {
		if i > 0 {
			e.raw = append(e.raw, ',')
		}
		e.raw = s.appendJSON(e.raw)
	}
	e.raw = append(e.raw, `]}]}]}`...)
	var out bytes.Buffer
	if e.packer == nil {
		e.packer, _ = gzip.NewWriterLevel(&out, gzip.BestSpeed) // a level that exists
	} else {
		e.packer.Reset(&out)
	}
	_, _ = e.packer.Write(e.raw) // a Buffer takes everything
	_ = e.packer.Close()
	return out.Bytes()
}

// A refusal is an answer of the endpoint other than success.
type refusal struct {
	message  string
	wait     time.Duration // the least wait before another attempt
	final    bool          // another attempt makes no sense
	rejected bool          // only count spans of the batch were refused
	count    int64
}

// Error implements error.
func (r *refusal) Error() string { return r.message }

// post sends one request with n spans.
func (e *exporter) post(body []byte, n int) error {
	ctx, cancel := context.WithTimeout(e.ctx, e.timeout)
	defer cancel()
	transport := e.by.o.Transport
	if transport == nil {
		transport = e.own
	}
	// RoundTrip follows no redirects: the headers are only for this endpoint.
	resp, err := transport.RoundTrip((&http.Request{
		Method: http.MethodPost, URL: e.to, Host: e.to.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: e.header.Clone(),
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}).WithContext(ctx))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		return partly(answer, int64(n)) // spans that were taken must not be sent again
	}
	if err != nil {
		answer = nil
	}
	out := &refusal{message: resp.Status, wait: retryAfter(resp.Header.Get("Retry-After"), time.Now())}
	if said := text.Line(rawjson.Text(rawjson.Get(answer, "message")), text.MaxMessageChars); said != "" {
		out.message += ": " + said
	}
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
	default:
		out.final = true
	}
	return out
}

// partly returns the refusal of some spans in an answer, nil if all n were taken. The count is a
// 64-bit number, which OTLP writes as a text; some receivers write a number.
func partly(answer []byte, n int64) error {
	partial := rawjson.Get(answer, "partialSuccess")
	raw := rawjson.Get(partial, "rejectedSpans")
	count, err := strconv.ParseInt(cmp.Or(rawjson.Text(raw), string(raw)), 10, 64)
	if err != nil || count <= 0 {
		return nil
	}
	said := text.Line(rawjson.Text(rawjson.Get(partial, "errorMessage")), text.MaxMessageChars)
	return &refusal{message: fmt.Sprintf("%d of %d spans were rejected: %s", count, n, said), rejected: true, count: min(count, n)}
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
