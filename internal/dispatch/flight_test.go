package dispatch_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/internal/testkit/metatooltest"
	"github.com/weir-mcp/weir/mcp"
)

// asking makes one call of db:get in the background, for a principal, and hands
// over its answer.
func asking(ctx context.Context, h *metatooltest.Harness, principal string) <-chan json.RawMessage {
	answer := make(chan json.RawMessage, 1)
	session := mcp.NewSession("", principal)
	go func() {
		defer session.Close()
		out, _ := h.Gateway.Serve(ctx, &mcp.Request{ID: "1", Method: "tools/call", Version: mcp.V20251125, Session: session, Peer: mcp.NoPeer,
			Params: json.RawMessage(`{"name":"tool_execute","arguments":{"tool_id":"db:get@1","args":{}}}`)})
		answer <- out
	}()
	return answer
}

func TestEqualCallsAtOnceAreMadeOnce(t *testing.T) {
	for name, cache := range map[string]dispatch.CacheOptions{
		"kept":              {ReadOnly: true},
		"too large to keep": {ReadOnly: true, MaxBytes: 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := metatooltest.New(t, metatool.Options{Cache: cache})
			h.Add("db", func(ctx context.Context, _ json.RawMessage, _ mcp.Handler) (json.RawMessage, error) {
				time.Sleep(time.Second)
				return json.RawMessage(calltest.Text("for " + mcp.Caller(ctx).Principal())), nil
			}, calltest.GetTool)
			var answers []<-chan json.RawMessage
			for range 20 {
				answers = append(answers, asking(t.Context(), h, "ann"))
			}
			bob := asking(t.Context(), h, "bob")
			hits := 0
			for _, a := range answers {
				out := string(<-a)
				if !strings.Contains(out, `"text":"for ann"`) {
					t.Errorf("%s: %s", name, out)
				}
				if strings.Contains(out, `"cache_hit":true`) {
					hits++
				}
			}
			if out := string(<-bob); !strings.Contains(out, `"text":"for bob"`) {
				t.Errorf("%s: bob got %s", name, out)
			}
			if n := len(h.Called()); n != 2 || hits != 19 {
				t.Errorf("%s: %d calls reached the upstream, want one for ann and one for bob; %d were answered with another's result", name, n, hits)
			}
		})
	}
}

// Where the agent of the first call goes away, one of the others is the first.
func TestWaitingOutlivesTheFirstCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := metatooltest.New(t, metatool.Options{Cache: dispatch.CacheOptions{ReadOnly: true}})
		h.Add("db", func(ctx context.Context, _ json.RawMessage, _ mcp.Handler) (json.RawMessage, error) {
			select {
			case <-time.After(time.Second):
				return json.RawMessage(calltest.Text("done")), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}, calltest.GetTool)
		ctx, cancel := context.WithCancel(t.Context())
		first := asking(ctx, h, "ann")
		synctest.Wait()
		impatient, leave := context.WithCancel(t.Context())
		others := []<-chan json.RawMessage{asking(t.Context(), h, "ann"), asking(t.Context(), h, "ann"), asking(t.Context(), h, "ann")}
		gone := asking(impatient, h, "ann")
		synctest.Wait()
		leave()
		if out := <-gone; out != nil {
			t.Errorf("the one who left got %s", out)
		}
		cancel()
		if out := <-first; out != nil {
			t.Errorf("the first got %s", out)
		}
		for _, a := range others {
			if out := string(<-a); !strings.Contains(out, `"text":"done"`) {
				t.Errorf("got %s", out)
			}
		}
		if n := len(h.Called()); n != 2 {
			t.Errorf("%d calls reached the upstream, want that of the first and one for the others", n)
		}
	})
}

// What is nobody else's is not waited for any longer than it takes to know it.
func TestCallsThatShareNothingAreMadeEach(t *testing.T) {
	for name, answer := range map[string]calltest.Peer{
		"an error": calltest.Fail(mcp.Errorf(mcp.KindUpstreamUnavailable, "gone")),
		"an asked agent's": func(ctx context.Context, _ json.RawMessage, back mcp.Handler) (json.RawMessage, error) {
			_, _ = back.Serve(ctx, &mcp.Request{ID: "1", Method: "roots/list", Peer: mcp.NoPeer})
			time.Sleep(time.Hour) // a person thinks
			return json.RawMessage(calltest.Text("for your eyes only")), nil
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := metatooltest.New(t, metatool.Options{Cache: dispatch.CacheOptions{ReadOnly: true}})
			h.Add("db", func(ctx context.Context, params json.RawMessage, back mcp.Handler) (json.RawMessage, error) {
				time.Sleep(time.Second)
				return answer(ctx, params, back)
			}, calltest.GetTool)
			start := time.Now()
			var answers []<-chan json.RawMessage
			for range 5 {
				answers = append(answers, asking(t.Context(), h, "ann"))
			}
			for _, a := range answers {
				if out := string(<-a); strings.Contains(out, "cache_hit") {
					t.Errorf("%s was shared: %s", name, out)
				}
			}
			if n, took := len(h.Called()), time.Since(start); n != 5 || took > time.Hour+3*time.Second {
				t.Errorf("%s: %d calls reached the upstream, in %s", name, n, took)
			}
		})
	}
}
