package trace

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/observe/otlphttp"
)

// Bounds of the export.
const (
	maxQueue   = 2048             // spans that wait
	maxBatch   = 512              // spans of one request
	sendAfter  = 5 * time.Second  // how long the first span of a batch waits for others
	firstRetry = time.Second      // doubled after each failure
	lastRetry  = 30 * time.Second // the longest wait between two attempts
	giveUp     = time.Minute      // how long one batch is tried
)

// counters count the fates of spans.
type counters struct{ sent, dropped, failed, rejected atomic.Int64 }

// An exporter sends spans to one endpoint. Its goroutine ends with close.
type exporter struct {
	to     *otlphttp.Sender
	sample float64
	head   []byte // the text before the spans in each request
	by     *Tracer

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
}

func newExporter(t *Tracer, s Settings) (*exporter, error) {
	to, err := otlphttp.New(otlphttp.Options{Version: t.o.Version, Instance: t.o.Instance, Transport: t.o.Transport},
		otlphttp.Endpoint{URL: s.URL, Headers: s.Headers, Service: s.Service, Timeout: s.Timeout})
	if err != nil {
		return nil, err
	}
	e := &exporter{
		to: to, sample: s.Sample, by: t, wake: make(chan struct{}, 1), full: make(chan struct{}, 1),
		closing: make(chan struct{}), ended: make(chan struct{}),
	}
	e.head = fmt.Appendf(nil, `{"resourceSpans":[{"resource":%s,"scopeSpans":[{"scope":{"name":"%s"},"spans":[`, to.Resource(), otlphttp.Scope)
	e.ctx, e.cancel = context.WithCancel(context.Background())
	go e.run()
	return e, nil
}

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
	e.to.Close()
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
		err := e.to.Post(e.ctx, body, otlphttp.Spans, len(batch))
		var failure *otlphttp.Refusal
		switch {
		case err == nil:
			e.by.counts.sent.Add(int64(len(batch)))
			if e.broken {
				e.broken = false
				e.by.o.Logger.Info("spans are sent again", "endpoint", e.to.Host())
			}
			return
		case errors.As(err, &failure) && failure.Rejected:
			e.by.counts.sent.Add(int64(len(batch)) - failure.Count)
			e.by.counts.rejected.Add(failure.Count)
			e.complain(err)
			return
		}
		// A random part keeps gateways that lost the same endpoint from returning together.
		wait := backoff/2 + rand.N(backoff/2)
		if failure != nil {
			wait = max(wait, failure.Wait)
		}
		if last || failure != nil && failure.Final || errors.Is(err, otlphttp.ErrPublic) || time.Since(began)+wait > giveUp {
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
	e.by.o.Logger.Warn("spans are lost: the endpoint of otlp.url does not take them", "endpoint", e.to.Host(), "err", e.by.o.Redact(err.Error()))
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
	return e.to.Pack(e.raw)
}
