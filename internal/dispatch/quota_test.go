package dispatch_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/internal/testkit/metatooltest"
	"github.com/weir-mcp/weir/mcp"
)

type quotaDetails struct {
	Scope      string
	RetryAfter *float64 `json:"retry_after"`
}

// limited is the breach that a result tells of.
func limited(t testing.TB, s calltest.Answer) quotaDetails {
	t.Helper()
	e := calltest.Failure(t, s)
	if e.Error != "RATE_LIMITED" || !*e.Retryable {
		t.Fatalf("no breach: %+v", e)
	}
	var raw struct{ Details quotaDetails }
	if err := json.Unmarshal([]byte(s.Content[0].Text), &raw); err != nil {
		t.Fatal(err)
	}
	return raw.Details
}

func TestQuotaPerMinuteSlides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := metatooltest.New(t, metatool.Options{RateLimits: dispatch.RateLimits{MetaTools: map[string]dispatch.RateLimit{metatool.ToolExecute: {PerMinute: 3}}}})
		call := `{"tool_id":"` + h.ID(t, "files", "drop") + `","args":{}}`
		run := func() calltest.Answer { return h.Tool(t, metatool.ToolExecute, call) }
		for range 3 { // at 0, 20 and 40 seconds
			if s := run(); s.IsError {
				t.Fatalf("%+v", s)
			}
			time.Sleep(20 * time.Second)
		}
		// 60 seconds after the first, that one has left the window.
		if s := run(); s.IsError {
			t.Fatalf("at 60 s: %+v", s)
		}
		d := limited(t, run())
		if d.Scope != "tool_execute/minute" || d.RetryAfter == nil || *d.RetryAfter != 20 {
			t.Errorf("%+v", d)
		}
		time.Sleep(20*time.Second - time.Millisecond)
		if d = limited(t, run()); *d.RetryAfter != .001 {
			t.Errorf("a millisecond before: %v", *d.RetryAfter)
		}
		time.Sleep(time.Duration(*d.RetryAfter * float64(time.Second)))
		if s := run(); s.IsError {
			t.Errorf("after waiting as told: %+v", s)
		}
		if got := len(h.Called()); got != 5 {
			t.Errorf("%d calls reached the upstream; what is refused must not", got)
		}
	})
}

// A reload may allow fewer calls than the window holds: waiting as told is enough
// all the same.
func TestQuotaThatIsLowered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := func(n int) dispatch.RateLimits {
			return dispatch.RateLimits{MetaTools: map[string]dispatch.RateLimit{metatool.ToolExecute: {PerMinute: n}}}
		}
		state := metatool.NewState()
		defer state.Close(context.Background())
		h := metatooltest.New(t, metatool.Options{State: state, RateLimits: limit(5)})
		call := `{"tool_id":"` + h.ID(t, "files", "drop") + `","args":{}}`
		for range 4 { // at 0, 10, 20 and 30 seconds
			h.Tool(t, metatool.ToolExecute, call)
			time.Sleep(10 * time.Second)
		}
		h.Change(func(o *metatool.Options) { o.RateLimits = limit(2) })
		d := limited(t, h.Tool(t, metatool.ToolExecute, call))
		if d.RetryAfter == nil || *d.RetryAfter != 40 { // the call at 20 seconds leaves at 80
			t.Fatalf("%+v", d)
		}
		time.Sleep(time.Duration(*d.RetryAfter * float64(time.Second)))
		if s := h.Tool(t, metatool.ToolExecute, call); s.IsError {
			t.Errorf("after waiting as told: %+v", s)
		}
	})
}

func TestQuotaPerSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := metatooltest.New(t, metatool.Options{RateLimits: dispatch.RateLimits{Tools: map[string]dispatch.RateLimit{}}})
		id := h.ID(t, "files", "drop")
		h.Options.RateLimits.Tools[id] = dispatch.RateLimit{PerSession: 2}
		for range 2 {
			h.Tool(t, metatool.ToolExecute, `{"tool_id":"`+id+`","args":{}}`)
		}
		time.Sleep(24 * time.Hour)
		d := limited(t, h.Tool(t, metatool.ToolExecute, `{"tool_id":"`+id+`","args":{}}`))
		if d.Scope != "tool:"+id+"/session" || d.RetryAfter != nil {
			t.Errorf("%+v", d)
		}
		// Other tools, and other sessions of the same principal, have their own.
		if s := h.Tool(t, metatool.ToolExecute, `{"tool_id":"`+h.ID(t, "web", "search")+`","args":{}}`); s.IsError {
			t.Errorf("%+v", s)
		}
		h.Session = mcp.NewSession("other", "ann")
		if s := h.Tool(t, metatool.ToolExecute, `{"tool_id":"`+id+`","args":{}}`); s.IsError {
			t.Errorf("%+v", s)
		}
	})
}

// A breach of one scope consumes nothing of the other.
func TestQuotaIsTakenWholeOrNotAtAll(t *testing.T) {
	h := metatooltest.New(t, metatool.Options{RateLimits: dispatch.RateLimits{MetaTools: map[string]dispatch.RateLimit{metatool.ToolExecute: {PerSession: 3}}, Tools: map[string]dispatch.RateLimit{"x": {}}}})
	drop, search := h.ID(t, "files", "drop"), h.ID(t, "web", "search")
	h.Options.RateLimits.Tools[drop] = dispatch.RateLimit{PerSession: 1}
	for i, want := range []bool{false, true, true, true} {
		if s := h.Tool(t, metatool.ToolExecute, `{"tool_id":"`+drop+`","args":{}}`); s.IsError != want {
			t.Fatalf("call %d: %+v", i, s)
		}
	}
	for i, want := range []bool{false, false, true} {
		if s := h.Tool(t, metatool.ToolExecute, `{"tool_id":"`+search+`","args":{}}`); s.IsError != want {
			t.Fatalf("call %d of the other: %+v", i, s)
		}
	}
}

// What is refused before the quota consumes none.
func TestQuotaCountsNoInvalidCalls(t *testing.T) {
	h := metatooltest.New(t, metatool.Options{RateLimits: dispatch.RateLimits{MetaTools: map[string]dispatch.RateLimit{metatool.ToolExecute: {PerSession: 1}}}})
	id := h.ID(t, "files", "read_file")
	for _, call := range []string{`{"tool_id":"nope","args":{}}`, `{"tool_id":"` + id + `","args":{}}`, `{}`} {
		if e := calltest.Failure(t, h.Tool(t, metatool.ToolExecute, call)); e.Error == "RATE_LIMITED" {
			t.Errorf("%s: %+v", call, e)
		}
	}
	if s := h.Tool(t, metatool.ToolExecute, `{"tool_id":"`+id+`","args":{"path":"a"}}`); s.IsError {
		t.Errorf("%+v", s)
	}
}

func TestQuotaOfOtherMetaTools(t *testing.T) {
	limits := map[string]dispatch.RateLimit{}
	for _, tool := range []string{metatool.ToolBrowse, metatool.ToolView, metatool.ToolHydrate} {
		limits[tool] = dispatch.RateLimit{PerMinute: 1}
	}
	h := metatooltest.New(t, metatool.Options{ExposeHydrate: true, RateLimits: dispatch.RateLimits{MetaTools: limits}})
	for tool, args := range map[string]string{metatool.ToolBrowse: `{"path":"/"}`, metatool.ToolView: `{"handle":"x","selector":{"type":"head"}}`, metatool.ToolHydrate: `{"tool_id":"` + h.ID(t, "files", "drop") + `"}`} {
		if s := h.Tool(t, tool, args); s.IsError && calltest.Failure(t, s).Error == "RATE_LIMITED" {
			t.Errorf("%s: %+v", tool, s)
		}
		if d := limited(t, h.Tool(t, tool, args)); d.Scope != tool+"/minute" {
			t.Errorf("%s: %+v", tool, d)
		}
	}
	for range 3 {
		if s := h.Tool(t, metatool.ToolExecute, `{"tool_id":"`+h.ID(t, "files", "drop")+`","args":{}}`); s.IsError {
			t.Errorf("execute has no limit: %+v", s)
		}
	}
}

// A reload makes another gateway, which goes on with the same state.
func TestQuotaSurvivesAReload(t *testing.T) {
	state := metatool.NewState()
	defer state.Close(context.Background())
	limits := dispatch.RateLimits{MetaTools: map[string]dispatch.RateLimit{metatool.ToolBrowse: {PerSession: 1}}}
	h := metatooltest.New(t, metatool.Options{State: state, RateLimits: limits})
	h.Tool(t, metatool.ToolBrowse, `{"path":"/"}`)
	again := metatooltest.New(t, metatool.Options{State: state, RateLimits: limits})
	again.Session = h.Session
	limited(t, again.Tool(t, metatool.ToolBrowse, `{"path":"/"}`))
}

// Many sessions hit their quotas at once; each has exactly its own.
func TestQuotaHammer(t *testing.T) {
	const sessions, calls, allowed = 1000, 6, 4
	h := metatooltest.New(t, metatool.Options{RateLimits: dispatch.RateLimits{MetaTools: map[string]dispatch.RateLimit{metatool.ToolExecute: {PerMinute: allowed}}}})
	id := h.ID(t, "files", "drop")
	params := json.RawMessage(`{"name":"tool_execute","arguments":{"tool_id":"` + id + `","args":{}}}`)
	var wrong atomic.Int64
	var all sync.WaitGroup
	for n := range sessions {
		session := mcp.NewSession(fmt.Sprint("s", n), fmt.Sprint("p", n%10))
		var passed atomic.Int64
		var one sync.WaitGroup
		for range calls {
			one.Go(func() {
				out, err := h.Gateway.Serve(t.Context(), &mcp.Request{ID: "1", Method: "tools/call", Params: params, Version: mcp.V20251125, Session: session, Peer: mcp.NoPeer})
				if err == nil && !strings.Contains(string(out), "RATE_LIMITED") {
					passed.Add(1)
				}
			})
		}
		all.Go(func() {
			one.Wait()
			if passed.Load() != allowed {
				wrong.Add(1)
			}
			session.Close()
		})
	}
	all.Wait()
	if wrong.Load() > 0 || len(h.Called()) != sessions*allowed {
		t.Errorf("%d sessions had more or less than their quota; %d calls reached the upstream", wrong.Load(), len(h.Called()))
	}
	if n := h.State.Sessions(); n != 0 {
		t.Errorf("%d sessions are remembered after their end", n)
	}
}
