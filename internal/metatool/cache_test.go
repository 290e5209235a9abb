package metatool

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
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/observe/telemetry"
	"github.com/weir-mcp/weir/mcp"
)

const getTool = `{"name":"get","description":"Get a thing.","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true},"_meta":{"version":"1"}}`

// counted answers each call with its number.
func counted() peerFunc {
	var n atomic.Int64
	return func(_ context.Context, params json.RawMessage, _ mcp.Handler) (json.RawMessage, error) {
		return json.RawMessage(textResult(fmt.Sprint("answer ", n.Add(1)))), nil
	}
}

func newCacheHarness(t testing.TB, opts Options, tools ...string) *harness {
	h := newHarness(t, opts)
	h.add("db", counted(), append([]string{getTool}, tools...)...)
	return h
}

// get calls db:get with arguments and returns the answer.
func (h *harness) get(t testing.TB, args string) shaped {
	t.Helper()
	return h.tool(t, ToolExecute, `{"tool_id":"db:get@1","args":`+args+`}`)
}

func TestCacheAnswersEqualCalls(t *testing.T) {
	h := newCacheHarness(t, Options{Cache: dispatch.CacheOptions{ReadOnly: true}})
	first := h.get(t, `{"a":1,"b":{"c":[1,2],"d":"é"}}`)
	if first.env.Provenance["cache_hit"] != nil {
		t.Errorf("the first call: %+v", first.env.Provenance)
	}
	for _, args := range []string{`{"a":1,"b":{"c":[1,2],"d":"é"}}`, ` { "b" : {"d":"\u00e9","c":[1, 2]}, "\u0061":1 } `} {
		if s := h.get(t, args); s.Content[0].Text != "answer 1" || s.env.Provenance["cache_hit"] != true {
			t.Errorf("%s: %+v", args, s)
		}
	}
	if n := len(h.called()); n != 1 {
		t.Errorf("%d calls reached the upstream", n)
	}
}

// TestCacheLeavesServersOut: a server that is never cached answers each call itself.
func TestCacheLeavesServersOut(t *testing.T) {
	h := newCacheHarness(t, Options{Cache: dispatch.CacheOptions{ReadOnly: true, Never: []string{"db"}}})
	for n := 1; n <= 2; n++ {
		if s := h.get(t, `{}`); s.Content[0].Text != fmt.Sprint("answer ", n) || s.env.Provenance["cache_hit"] != nil {
			t.Errorf("call %d: %+v", n, s)
		}
	}
}

func TestCacheTellsDifferentCallsApart(t *testing.T) {
	h := newCacheHarness(t, Options{Cache: dispatch.CacheOptions{ReadOnly: true}})
	seen := map[string]string{}
	for _, args := range []string{`{}`, `{"a":1}`, `{"a":2}`, `{"a":"1"}`, `{"a":null}`, `{"b":1}`, `{"a":[1,2]}`, `{"a":[2,1]}`, `{"a":{"b":1}}`, `{"a.b":1}`,
		`{"a":12345678901234567890}`, `{"a":12345678901234567891}`, `{"a":0.1}`, `{"a":0.10000000000000001}`, `{"a":"\ud800"}`, `{"a":"\udbff"}`, `{"a":"\ufffd"}`} {
		s := h.get(t, args)
		if other := seen[s.Content[0].Text]; other != "" {
			t.Errorf("%s was answered with the result of %s", args, other)
		}
		seen[s.Content[0].Text] = args
	}
}

func TestCacheIsOptIn(t *testing.T) {
	for _, tt := range []struct {
		name, id, tools string
		cache           dispatch.CacheOptions
		calls           int
	}{
		{"not configured", "db:get@1", getTool, dispatch.CacheOptions{}, 2},
		{"an allow list alone is not enough", "db:get@1", getTool, dispatch.CacheOptions{Allow: []string{"db:get@1"}}, 2},
		{"allowed", "db:get@1", getTool, dispatch.CacheOptions{ReadOnly: true, Allow: []string{"db:get@1"}}, 1},
		{"another is allowed", "db:get@1", getTool, dispatch.CacheOptions{ReadOnly: true, Allow: []string{"db:got@1"}}, 2},
		{"a tool that changes things", "db:get@1", strings.Replace(getTool, `"readOnlyHint":true`, `"readOnlyHint":false`, 1), dispatch.CacheOptions{ReadOnly: true, Allow: []string{"db:get@1"}}, 2},
		{"a tool that says nothing", "db:get@1", strings.Replace(getTool, `"annotations":{"readOnlyHint":true},`, ``, 1), dispatch.CacheOptions{ReadOnly: true}, 2},
		{"a tool that claims both", "db:get@1", strings.Replace(getTool, `"readOnlyHint":true`, `"readOnlyHint":true,"destructiveHint":true`, 1), dispatch.CacheOptions{ReadOnly: true}, 2},
	} {
		h := newHarness(t, Options{Cache: tt.cache})
		h.add("db", counted(), tt.tools)
		for range 2 {
			h.tool(t, ToolExecute, `{"tool_id":"`+tt.id+`","args":{}}`)
		}
		if got := len(h.called()); got != tt.calls {
			t.Errorf("%s: %d calls reached the upstream, want %d", tt.name, got, tt.calls)
		}
	}
}

func TestCacheKeepsNoErrors(t *testing.T) {
	for name, peer := range map[string]peerFunc{
		"a tool's error": say(`{"content":[],"isError":true}`),
		"an asked agent's": func(ctx context.Context, _ json.RawMessage, back mcp.Handler) (json.RawMessage, error) {
			_, _ = back.Serve(ctx, &mcp.Request{ID: "1", Method: "roots/list", Peer: mcp.NoPeer}) // refused is asked, too
			return json.RawMessage(textResult("for your eyes only")), nil
		},
		"a failed call":    fail(mcp.Errorf(mcp.KindUpstreamUnavailable, "gone")),
		"no result at all": say(`7`),
	} {
		h := newHarness(t, Options{Cache: dispatch.CacheOptions{ReadOnly: true}})
		h.add("db", peer, getTool)
		for range 2 {
			h.get(t, `{}`)
		}
		if got := len(h.called()); got != 2 {
			t.Errorf("%s was kept: %d calls reached the upstream", name, got)
		}
	}
}

// A call that carries more than its arguments, such as the answer to a
// question, is no repetition.
func TestCacheLeavesRoundsAlone(t *testing.T) {
	h := newCacheHarness(t, Options{Cache: dispatch.CacheOptions{ReadOnly: true}})
	for range 2 {
		h.raw(t, `{"name":"tool_execute","arguments":{"tool_id":"db:get@1","args":{}},"inputResponses":{"x":{}}}`)
	}
	if n := len(h.called()); n != 2 {
		t.Errorf("%d calls reached the upstream", n)
	}
}

func TestCacheExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newCacheHarness(t, Options{Cache: dispatch.CacheOptions{ReadOnly: true, TTL: time.Minute}})
		h.get(t, `{}`)
		time.Sleep(time.Minute - time.Nanosecond)
		if s := h.get(t, `{}`); s.Content[0].Text != "answer 1" {
			t.Errorf("within its time: %+v", s)
		}
		time.Sleep(time.Nanosecond)
		if s := h.get(t, `{}`); s.Content[0].Text != "answer 2" {
			t.Errorf("after its time: %+v", s)
		}
	})
}

// What the cache keeps is counted with what the process holds otherwise, until the
// next gateway of the State takes over.
func TestCacheIsCounted(t *testing.T) {
	pool := memory.NewPool(memory.Options{Limit: 8 << 10})
	state := NewState()
	defer state.Close(context.Background())
	opts := Options{State: state, Cache: dispatch.CacheOptions{ReadOnly: true, Room: pool.Account("cache")}}
	h := newCacheHarness(t, opts)
	h.get(t, `{"a":1}`)
	one := pool.Usage().Kept
	if one < 200 {
		t.Fatalf("kept are %d bytes", one)
	}
	if !pool.Account("other").Keep(4<<10 - one - 10) { // all but little of what may be kept
		t.Fatal("there is no room")
	}
	if s := h.get(t, `{"a":2}`); s.Content[0].Text != "answer 2" {
		t.Errorf("%+v", s)
	}
	if s := h.get(t, `{"a":2}`); s.Content[0].Text != "answer 3" {
		t.Errorf("there was room: %+v", s)
	}
	opts.Upstreams, opts.Artifacts = h.fleet, h.g.opts.Artifacts
	New(opts)
	if got, want := pool.Usage().Kept, int64(4<<10)-one-10; got != want {
		t.Errorf("kept are %d bytes, want %d", got, want)
	}
}

func TestCacheIsEmptiedByARefresh(t *testing.T) {
	h := newCacheHarness(t, Options{Cache: dispatch.CacheOptions{ReadOnly: true}})
	h.get(t, `{}`)
	h.add("web", nil, `{"name":"other","description":"d"}`) // another upstream's refresh counts, too
	if s := h.get(t, `{}`); s.Content[0].Text != "answer 2" || s.env.Provenance["cache_hit"] != nil {
		t.Errorf("%+v", s)
	}
	if s := h.get(t, `{}`); s.Content[0].Text != "answer 2" {
		t.Errorf("%+v", s)
	}
}

// A call that began before a refresh and ends after it leaves nothing behind.
func TestCacheKeepsNothingAcrossARefresh(t *testing.T) {
	h := newHarness(t, Options{Cache: dispatch.CacheOptions{ReadOnly: true}})
	h.add("db", func(context.Context, json.RawMessage, mcp.Handler) (json.RawMessage, error) {
		h.add("web", nil, `{"name":"other","description":"d"}`)
		return json.RawMessage(textResult("old")), nil
	}, getTool)
	h.get(t, `{}`)
	h.get(t, `{}`)
	if n := len(h.called()); n != 2 {
		t.Errorf("%d calls reached the upstream", n)
	}
}

func TestCacheIsPerPrincipal(t *testing.T) {
	h := newCacheHarness(t, Options{Cache: dispatch.CacheOptions{ReadOnly: true}})
	h.get(t, `{}`)
	h.session = mcp.NewSession("s2", "bob")
	if s := h.get(t, `{}`); s.Content[0].Text != "answer 2" {
		t.Errorf("bob got ann's result: %+v", s)
	}
	h.session = mcp.NewSession("s3", "ann")
	if s := h.get(t, `{}`); s.Content[0].Text != "answer 1" {
		t.Errorf("another session of ann: %+v", s)
	}
}

// The cache keeps what the upstream said; the firewall runs for each answer, so
// that each principal has handles of its own.
func TestCacheKeepsRawResults(t *testing.T) {
	h := newHarness(t, Options{Cache: dispatch.CacheOptions{ReadOnly: true}})
	h.add("db", say(textResult(strings.Repeat("A long line of text. ", 500))), getTool)
	a, b := h.get(t, `{}`), h.get(t, `{}`)
	if b.env.Provenance["cache_hit"] != true || len(b.env.Artifacts) != 1 || a.env.Artifacts[0].Handle != b.env.Artifacts[0].Handle {
		t.Errorf("%+v", b.env)
	}
}

func TestCacheHitConsumesQuotaAndIsAnEvent(t *testing.T) {
	var events []Event
	h := newCacheHarness(t, Options{Cache: dispatch.CacheOptions{ReadOnly: true}, OnEvent: func(e Event) { events = append(events, e) },
		RateLimits: dispatch.RateLimits{MetaTools: map[string]dispatch.RateLimit{ToolExecute: {PerSession: 2}}}})
	h.get(t, `{}`)
	h.get(t, `{}`)
	limited(t, h.get(t, `{}`))
	if len(events) != 3 || events[1].Name != telemetry.ExecuteCacheHit || events[1].Attempts != 0 || events[0].Name != telemetry.ExecuteCompleted || events[2].Name != telemetry.ExecuteFailed || events[2].Scope != "tool_execute/session" {
		t.Errorf("%+v", events)
	}
}

// Sessions of different principals call the same tools with the same arguments
// at once, while the catalog is refreshed: nobody sees another's result.
func TestCacheHammer(t *testing.T) {
	h := newHarness(t, Options{Cache: dispatch.CacheOptions{ReadOnly: true, MaxEntries: 16}})
	h.add("db", func(ctx context.Context, params json.RawMessage, _ mcp.Handler) (json.RawMessage, error) {
		return json.RawMessage(textResult("for " + mcp.Caller(ctx).Principal() + " " + string(rawjson.GetPath(params, "arguments", "n")))), nil
	}, getTool)
	var all sync.WaitGroup
	stop := make(chan struct{})
	var refreshing sync.WaitGroup
	refreshing.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				h.add("web", nil, fmt.Sprintf(`{"name":"t%d","description":"d"}`, i))
				time.Sleep(time.Millisecond)
			}
		}
	})
	var wrong atomic.Int64
	for n := range 1000 {
		all.Go(func() {
			who := fmt.Sprint("p", n%50)
			session := mcp.NewSession("", who)
			defer session.Close()
			for i := range 4 {
				out, err := h.g.Serve(t.Context(), &mcp.Request{ID: "1", Method: "tools/call", Version: mcp.V20251125, Session: session, Peer: mcp.NoPeer,
					Params: fmt.Appendf(nil, `{"name":"tool_execute","arguments":{"tool_id":"db:get@1","args":{"n":%d}}}`, i)})
				if err != nil || !strings.Contains(string(out), fmt.Sprintf(`"text":"for %s %d"`, who, i)) {
					wrong.Add(1)
				}
			}
		})
	}
	all.Wait()
	close(stop)
	refreshing.Wait()
	if wrong.Load() > 0 {
		t.Errorf("%d wrong answers", wrong.Load())
	}
}

func FuzzCanonical(f *testing.F) {
	f.Add(`{"b":[1,2.50,"x\u00e9"],"a":{"d":null,"c":true}}`, `{"a":{"c":true,"d":null},"b":[1,2.50,"xé"]}`)
	f.Fuzz(func(t *testing.T, a, b string) {
		left, ok := rawjson.AppendCanonical(nil, []byte(a))
		right, ok2 := rawjson.AppendCanonical(nil, []byte(b))
		if !ok || !ok2 {
			return
		}
		var x, y any
		if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
			return // numbers that do not fit a float
		}
		if string(left) == string(right) && fmt.Sprint(x) != fmt.Sprint(y) {
			t.Errorf("%s and %s are the same: %s", a, b, left)
		}
	})
}

func TestCacheKeepsTheRecentlyUsed(t *testing.T) {
	h := newCacheHarness(t, Options{Cache: dispatch.CacheOptions{ReadOnly: true, MaxEntries: 2}})
	for _, args := range []string{`{"a":1}`, `{"a":2}`, `{"a":1}`, `{"a":3}`} {
		h.get(t, args) // 2 is the least recently used when 3 comes
	}
	if s := h.get(t, `{"a":1}`); s.Content[0].Text != "answer 1" {
		t.Errorf("the recently used one is gone: %+v", s)
	}
	if s := h.get(t, `{"a":2}`); s.Content[0].Text == "answer 2" {
		t.Error("the least recently used one is still there")
	}
}
