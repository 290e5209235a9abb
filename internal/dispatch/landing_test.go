package dispatch

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/limit/work"
	"github.com/weir-mcp/weir/mcp"
)

// Many principals at once, some of whom go away: everybody gets his own result
// or none, and no flight is left.
func TestFlightsLand(t *testing.T) {
	newest := sampleCatalog(t)
	k := NewCache(CacheOptions{ReadOnly: true, TTL: time.Nanosecond}, func() *catalog.Catalog { return newest })
	var calls atomic.Int64
	p := New(Sender{Send: func(_ context.Context, c *Call) (json.RawMessage, error) {
		calls.Add(1)
		return json.RawMessage(`{"content":[{"type":"text","text":"for ` + c.Request.Session.Principal() + `"}]}`), nil
	}}, k.Step())
	entry := entryNamed(t, newest, "files", "read_file")
	var all sync.WaitGroup
	for n := range 400 {
		all.Go(func() {
			session := mcp.NewSession("", string(rune('a'+n%5)))
			defer session.Close()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if n%7 == 0 {
				cancel()
			}
			c := &Call{Request: &mcp.Request{Session: session, Params: json.RawMessage(`{}`)}, Entry: entry, Args: json.RawMessage(`{}`), Catalog: newest}
			if out, err := p.Run(ctx, c); err == nil && !strings.Contains(string(out), `"for `+session.Principal()+`"`) {
				t.Errorf("%s got %s", session.Principal(), out)
			}
		})
	}
	all.Wait()
	if left := len(k.flights.flying); left != 0 || calls.Load() == 0 {
		t.Errorf("%d flights are left after %d calls", left, calls.Load())
	}
}

// Checking small arguments costs what it costs without turns and timeouts.
func BenchmarkCheck(b *testing.B) {
	c, _ := catalog.New(catalog.Limits{}).With(primitive.Listing{Upstream: "files", Namespace: "files", Tools: []json.RawMessage{json.RawMessage(sampleTool)}})
	e := c.Entries()[0]
	args := json.RawMessage(`{"path":"/some/where","limit":30}`)
	b.Run("checker", func(b *testing.B) {
		k := Checker{work.NewTurns(0), func(string) time.Duration { return time.Minute }}
		b.ReportAllocs()
		for b.Loop() {
			if err := k.Validate(b.Context(), e, args); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("baseline", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := e.Validate(args); err != nil {
				b.Fatal(err)
			}
		}
	})
}
