package metrics

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/observe/otlphttp"
)

// ExportOptions configure an Exporter.
type ExportOptions struct {
	// Version and Instance belong to the program.
	Version, Instance string
	// Redact removes secrets from texts of the log; nil removes nothing.
	Redact func(string) string
	// Logger gets failures of the export; nil discards them.
	Logger *slog.Logger
	// Transport carries the export; nil means connections of the Exporter's own.
	Transport http.RoundTripper
}

// An Exporter sends the figures of a Metrics as OTLP, each time all of them: what is lost is made good by the next
// export, so none is tried twice and none waits. It is safe for concurrent use.
type Exporter struct {
	o ExportOptions
	m *Metrics

	mu      sync.Mutex // guards below
	to      otlphttp.Endpoint
	every   time.Duration
	running *export // nil: nothing is sent
	closed  bool
}

// NewExporter returns an Exporter that sends nothing yet. The caller must close it.
func (m *Metrics) NewExporter(o ExportOptions) *Exporter {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Redact == nil {
		o.Redact = func(s string) string { return s }
	}
	return &Exporter{o: o, m: m}
}

// Configure makes later exports go to an endpoint at intervals; every 0 sends none. It waits for the end of an export that is on its way, which it
// cuts off.
func (x *Exporter) Configure(to otlphttp.Endpoint, every time.Duration) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed || every == x.every && reflect.DeepEqual(to, x.to) {
		return nil
	}
	var next *export
	if every > 0 {
		sender, err := otlphttp.New(otlphttp.Options{Version: x.o.Version, Instance: x.o.Instance, Transport: x.o.Transport}, to)
		if err != nil {
			return err
		}
		next = &export{x: x, to: sender, every: every, last: make(chan struct{}), ended: make(chan struct{})}
		next.ctx, next.cancel = context.WithCancel(context.Background())
	}
	if x.running != nil {
		x.running.cancel()
		<-x.running.ended
	}
	if x.to, x.every, x.running = to, every, next; next != nil {
		go next.run()
	}
	return nil
}

// Close sends the figures a last time, until ctx ends.
func (x *Exporter) Close(ctx context.Context) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.running != nil && !x.closed {
		stop := context.AfterFunc(ctx, x.running.cancel)
		defer stop()
		close(x.running.last)
		<-x.running.ended
		x.running.cancel()
	}
	x.closed = true
}

// export sends to one endpoint. Its goroutine ends when ctx does, or after the last export.
type export struct {
	x     *Exporter
	to    *otlphttp.Sender
	every time.Duration
	last  chan struct{} // closed: send once more and end
	ended chan struct{}

	ctx    context.Context
	cancel context.CancelFunc

	// Only run uses the fields below.
	raw    []byte
	broken bool      // the last export was lost, and the log says so
	quiet  time.Time // the endpoint wants none before
}

func (e *export) run() {
	defer close(e.ended)
	defer e.to.Close()
	tick := time.NewTicker(e.every)
	defer tick.Stop()
	for {
		select {
		case <-e.ctx.Done():
			return
		case <-e.last:
			e.send()
			return
		case now := <-tick.C:
			if now.After(e.quiet) {
				e.send()
			}
		}
	}
}

// send sends all figures once.
func (e *export) send() {
	families, err := e.x.m.registry.Gather() // with an error it has the families that are well
	now := time.Now()                        // after them: a series that has just come would begin after its own figure
	if err != nil {
		e.x.o.Logger.Debug("some metrics are not sent", "err", err)
	}
	enc := encoder{out: e.raw[:0], began: e.x.m.began, now: nano(now)}
	enc.out = fmt.Appendf(enc.out, `{"resourceMetrics":[{"resource":%s,"scopeMetrics":[{"scope":{"name":"%s"},"metrics":[`, e.to.Resource(), otlphttp.Scope)
	for i, f := range families {
		if i > 0 {
			enc.out = append(enc.out, ',')
		}
		enc.family(f)
	}
	e.raw = append(enc.out, `]}]}]}`...)
	err = e.to.Post(e.ctx, e.to.Pack(e.raw), otlphttp.Metrics, enc.points)
	var refused *otlphttp.Refusal
	if errors.As(err, &refused) {
		e.quiet = now.Add(refused.Wait)
	}
	switch {
	case err == nil && e.broken:
		e.x.o.Logger.Info("metrics are sent again", "endpoint", e.to.Host())
	case err != nil && !e.broken && e.ctx.Err() == nil:
		e.x.o.Logger.Warn("metrics are lost: the endpoint of otlp.url does not take them", "endpoint", e.to.Host(), "err", e.x.o.Redact(err.Error()))
	}
	e.broken = err != nil
}
