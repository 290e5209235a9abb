package metatool

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/observe/trace"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/mcp"
)

// followed is a Peer whose requests a Tracer follows, as those of an upstream.
type followed struct {
	mcp.Peer
	by *trace.Tracer
	to trace.Server
}

// Call implements mcp.Peer.
func (p *followed) Call(ctx context.Context, method string, params json.RawMessage, back mcp.Handler) (json.RawMessage, error) {
	call, params := p.by.Begin(ctx, &p.to, method, params)
	result, err := p.Peer.Call(ctx, method, params, back)
	call.End(result, err)
	return result, err
}

// takesAll is a collector that takes everything at once.
type takesAll struct{}

// RoundTrip implements http.RoundTripper.
func (takesAll) RoundTrip(r *http.Request) (*http.Response, error) {
	_, err := io.Copy(io.Discard, r.Body)
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Header: http.Header{}}, err
}

// BenchmarkTraced measures tool_execute with a Tracer, against the same gateway without one: off, as
// it is without otlp, and with a span for each request and each request to the server.
func BenchmarkTraced(b *testing.B) {
	snapshot := manyTools(500)
	id := snapshot.Catalog.Entries()[7].ID
	params := json.RawMessage(`{"name":"tool_execute","arguments":{"tool_id":"` + id + `","args":{"id":"12345","project":"the quick brown fox"}}}`)
	peer := fixed(calltest.Text(strings.Repeat("some words. ", 80)))
	session := mcp.NewSession("s", "ann")
	calls := func(b *testing.B, t *trace.Tracer) func() {
		store := artifact.NewMemory(artifact.Options{})
		b.Cleanup(func() { store.Close() })
		u := &still{snapshot: snapshot, peer: peer}
		if t != nil {
			u.peer = &followed{Peer: peer, by: t, to: trace.Server{Name: "up"}}
		}
		g := New(Options{Upstreams: u, Artifacts: store})
		return func() {
			r := mcp.Request{ID: "1", Method: "tools/call", Version: mcp.V20251125, Session: session, Peer: mcp.NoPeer, Params: params}
			ctx, op := t.Receive(b.Context(), "", &r)
			out, err := g.Serve(ctx, &r)
			if op.End(out, err); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("before", func(b *testing.B) { perCall(b, calls(b, nil), calls(b, nil)) })
	for name, sample := range map[string]float64{"off": -1, "on": 1} {
		b.Run(name, func(b *testing.B) {
			t := trace.New(trace.Options{Transport: takesAll{}})
			defer t.Close(context.WithoutCancel(b.Context()))
			if sample >= 0 {
				if err := t.Configure(trace.Settings{URL: "https://collector.example.com/v1/traces", Sample: sample, Timeout: time.Second}); err != nil {
					b.Fatal(err)
				}
			}
			perCall(b, calls(b, t), calls(b, nil))
		})
	}
}
