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
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/observe/telemetry"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/internal/testkit/metatooltest"
	"github.com/weir-mcp/weir/mcp"
)

func newCacheHarness(t testing.TB, opts metatool.Options, tools ...string) *metatooltest.Harness {
	h := metatooltest.New(t, opts)
	h.Add("db", calltest.Counted(), append([]string{calltest.GetTool}, tools...)...)
	return h
}

// get calls db:get with arguments and returns the answer.
func get(t testing.TB, h *metatooltest.Harness, args string) calltest.Answer {
	t.Helper()
	return h.Tool(t, metatool.ToolExecute, `{"tool_id":"db:get@1","args":`+args+`}`)
}

func TestCacheAnswersEqualCalls(t *testing.T) {
	h := newCacheHarness(t, metatool.Options{Cache: dispatch.CacheOptions{ReadOnly: true}})
	first := get(t, h, `{"a":1,"b":{"c":[1,2],"d":"é"}}`)
	if first.Env.Provenance["cache_hit"] != nil {
		t.Errorf("the first call: %+v", first.Env.Provenance)
	}
	for _, args := range []string{`{"a":1,"b":{"c":[1,2],"d":"é"}}`, ` { "b" : {"d":"\u00e9","c":[1, 2]}, "\u0061":1 } `} {
		if s := get(t, h, args); s.Content[0].Text != "answer 1" || s.Env.Provenance["cache_hit"] != true {
			t.Errorf("%s: %+v", args, s)
		}
	}
	if n := len(h.Called()); n != 1 {
		t.Errorf("%d calls reached the upstream", n)
	}
}

// TestCacheLeavesServersOut: a server that is never cached answers each call itself.
func TestCacheLeavesServersOut(t *testing.T) {
	h := newCacheHarness(t, metatool.Options{Cache: dispatch.CacheOptions{ReadOnly: true, Never: []string{"db"}}})
	for n := 1; n <= 2; n++ {
		if s := get(t, h, `{}`); s.Content[0].Text != fmt.Sprint("answer ", n) || s.Env.Provenance["cache_hit"] != nil {
			t.Errorf("call %d: %+v", n, s)
		}
	}
}

func TestCacheTellsDifferentCallsApart(t *testing.T) {
	h := newCacheHarness(t, metatool.Options{Cache: dispatch.CacheOptions{ReadOnly: true}})
	seen := map[string]string{}
	for _, args := range []string{`{}`, `{"a":1}`, `{"a":2}`, `{"a":"1"}`, `{"a":null}`, `{"b":1}`, `{"a":[1,2]}`, `{"a":[2,1]}`, `{"a":{"b":1}}`, `{"a.b":1}`,
		`{"a":12345678901234567890}`, `{"a":12345678901234567891}`, `{"a":0.1}`, `{"a":0.10000000000000001}`, `{"a":"\ud800"}`, `{"a":"\udbff"}`, `{"a":"\ufffd"}`} {
		s := get(t, h, args)
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
		{"not configured", "db:get@1", calltest.GetTool, dispatch.CacheOptions{}, 2},
		{"an allow list alone is not enough", "db:get@1", calltest.GetTool, dispatch.CacheOptions{Allow: []string{"db:get@1"}}, 2},
		{"allowed", "db:get@1", calltest.GetTool, dispatch.CacheOptions{ReadOnly: true, Allow: []string{"db:get@1"}}, 1},
		{"another is allowed", "db:get@1", calltest.GetTool, dispatch.CacheOptions{ReadOnly: true, Allow: []string{"db:got@1"}}, 2},
		{"a tool that changes things", "db:get@1", strings.Replace(calltest.GetTool, `"readOnlyHint":true`, `"readOnlyHint":false`, 1), dispatch.CacheOptions{ReadOnly: true, Allow: []string{"db:get@1"}}, 2},
		{"a tool that says nothing", "db:get@1", strings.Replace(calltest.GetTool, `"annotations":{"readOnlyHint":true},`, ``, 1), dispatch.CacheOptions{ReadOnly: true}, 2},
		{"a tool that claims both", "db:get@1", strings.Replace(calltest.GetTool, `"readOnlyHint":true`, `"readOnlyHint":true,"destructiveHint":true`, 1), dispatch.CacheOptions{ReadOnly: true}, 2},
	} {
		h := metatooltest.New(t, metatool.Options{Cache: tt.cache})
		h.Add("db", calltest.Counted(), tt.tools)
		for range 2 {
			h.Tool(t, metatool.ToolExecute, `{"tool_id":"`+tt.id+`","args":{}}`)
		}
		if got := len(h.Called()); got != tt.calls {
			t.Errorf("%s: %d calls reached the upstream, want %d", tt.name, got, tt.calls)
		}
	}
}

func TestCacheKeepsNoErrors(t *testing.T) {
	for name, peer := range map[string]calltest.Peer{
		"a tool's error": calltest.Say(`{"content":[],"isError":true}`),
		"an asked agent's": func(ctx context.Context, _ json.RawMessage, back mcp.Handler) (json.RawMessage, error) {
			_, _ = back.Serve(ctx, &mcp.Request{ID: "1", Method: "roots/list", Peer: mcp.NoPeer}) // refused is asked, too
			return json.RawMessage(calltest.Text("for your eyes only")), nil
		},
		"a failed call":    calltest.Fail(mcp.Errorf(mcp.KindUpstreamUnavailable, "gone")),
		"no result at all": calltest.Say(`7`),
	} {
		h := metatooltest.New(t, metatool.Options{Cache: dispatch.CacheOptions{ReadOnly: true}})
		h.Add("db", peer, calltest.GetTool)
		for range 2 {
			get(t, h, `{}`)
		}
		if got := len(h.Called()); got != 2 {
			t.Errorf("%s was kept: %d calls reached the upstream", name, got)
		}
	}
}

// A call that carries more than its arguments, such as the answer to a
// question, is no repetition.
func TestCacheLeavesRoundsAlone(t *testing.T) {
	h := newCacheHarness(t, metatool.Options{Cache: dispatch.CacheOptions{ReadOnly: true}})
	for range 2 {
		h.Raw(t, `{"name":"tool_execute","arguments":{"tool_id":"db:get@1","args":{}},"inputResponses":{"x":{}}}`)
	}
	if n := len(h.Called()); n != 2 {
		t.Errorf("%d calls reached the upstream", n)
	}
}

func TestCacheExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newCacheHarness(t, metatool.Options{Cache: dispatch.CacheOptions{ReadOnly: true, TTL: time.Minute}})
		get(t, h, `{}`)
		time.Sleep(time.Minute - time.Nanosecond)
		if s := get(t, h, `{}`); s.Content[0].Text != "answer 1" {
			t.Errorf("within its time: %+v", s)
		}
		time.Sleep(time.Nanosecond)
		if s := get(t, h, `{}`); s.Content[0].Text != "answer 2" {
			t.Errorf("after its time: %+v", s)
		}
	})
}

// What the cache keeps is counted with what the process holds otherwise, until the
// next gateway of the State takes over.
func TestCacheIsCounted(t *testing.T) {
	pool := memory.NewPool(memory.Options{Limit: 8 << 10})
	state := metatool.NewState()
	defer state.Close(context.Background())
	opts := metatool.Options{State: state, Cache: dispatch.CacheOptions{ReadOnly: true, Room: pool.Account("cache")}}
	h := newCacheHarness(t, opts)
	get(t, h, `{"a":1}`)
	one := pool.Usage().Kept
	if one < 200 {
		t.Fatalf("kept are %d bytes", one)
	}
	if !pool.Account("other").Keep(4<<10 - one - 10) { // all but little of what may be kept
		t.Fatal("there is no room")
	}
	if s := get(t, h, `{"a":2}`); s.Content[0].Text != "answer 2" {
		t.Errorf("%+v", s)
	}
	if s := get(t, h, `{"a":2}`); s.Content[0].Text != "answer 3" {
		t.Errorf("there was room: %+v", s)
	}
	opts.Upstreams, opts.Artifacts = h.Fleet, h.Options.Artifacts
	metatool.New(opts)
	if got, want := pool.Usage().Kept, int64(4<<10)-one-10; got != want {
		t.Errorf("kept are %d bytes, want %d", got, want)
	}
}

func TestCacheIsEmptiedByARefresh(t *testing.T) {
	h := newCacheHarness(t, metatool.Options{Cache: dispatch.CacheOptions{ReadOnly: true}})
	get(t, h, `{}`)
	h.Add("web", nil, `{"name":"other","description":"d"}`) // another upstream's refresh counts, too
	if s := get(t, h, `{}`); s.Content[0].Text != "answer 2" || s.Env.Provenance["cache_hit"] != nil {
		t.Errorf("%+v", s)
	}
	if s := get(t, h, `{}`); s.Content[0].Text != "answer 2" {
		t.Errorf("%+v", s)
	}
}

// A call that began before a refresh and ends after it leaves nothing behind.
func TestCacheKeepsNothingAcrossARefresh(t *testing.T) {
	h := metatooltest.New(t, metatool.Options{Cache: dispatch.CacheOptions{ReadOnly: true}})
	h.Add("db", func(context.Context, json.RawMessage, mcp.Handler) (json.RawMessage, error) {
		h.Add("web", nil, `{"name":"other","description":"d"}`)
		return json.RawMessage(calltest.Text("old")), nil
	}, calltest.GetTool)
	get(t, h, `{}`)
	get(t, h, `{}`)
	if n := len(h.Called()); n != 2 {
		t.Errorf("%d calls reached the upstream", n)
	}
}

func TestCacheIsPerPrincipal(t *testing.T) {
	h := newCacheHarness(t, metatool.Options{Cache: dispatch.CacheOptions{ReadOnly: true}})
	get(t, h, `{}`)
	h.Session = mcp.NewSession("s2", "bob")
	if s := get(t, h, `{}`); s.Content[0].Text != "answer 2" {
		t.Errorf("bob got ann's result: %+v", s)
	}
	h.Session = mcp.NewSession("s3", "ann")
	if s := get(t, h, `{}`); s.Content[0].Text != "answer 1" {
		t.Errorf("another session of ann: %+v", s)
	}
}

// The cache keeps what the upstream said; the firewall runs for each answer, so
// that each principal has handles of its own.
func TestCacheKeepsRawResults(t *testing.T) {
	h := metatooltest.New(t, metatool.Options{Cache: dispatch.CacheOptions{ReadOnly: true}})
	h.Add("db", calltest.Say(calltest.Text(strings.Repeat("A long line of text. ", 500))), calltest.GetTool)
	a, b := get(t, h, `{}`), get(t, h, `{}`)
	if b.Env.Provenance["cache_hit"] != true || len(b.Env.Artifacts) != 1 || a.Env.Artifacts[0].Handle != b.Env.Artifacts[0].Handle {
		t.Errorf("%+v", b.Env)
	}
}

func TestCacheHitConsumesQuotaAndIsAnEvent(t *testing.T) {
	var events []metatool.Event
	h := newCacheHarness(t, metatool.Options{Cache: dispatch.CacheOptions{ReadOnly: true}, OnEvent: func(e metatool.Event) { events = append(events, e) },
		RateLimits: dispatch.RateLimits{MetaTools: map[string]dispatch.RateLimit{metatool.ToolExecute: {PerSession: 2}}}})
	get(t, h, `{}`)
	get(t, h, `{}`)
	limited(t, get(t, h, `{}`))
	if len(events) != 3 || events[1].Name != telemetry.ExecuteCacheHit || events[1].Attempts != 0 || events[0].Name != telemetry.ExecuteCompleted || events[2].Name != telemetry.ExecuteFailed || events[2].Scope != "tool_execute/session" {
		t.Errorf("%+v", events)
	}
}

// Sessions of different principals call the same tools with the same arguments
// at once, while the catalog is refreshed: nobody sees another's result.
func TestCacheHammer(t *testing.T) {
	h := metatooltest.New(t, metatool.Options{Cache: dispatch.CacheOptions{ReadOnly: true, MaxEntries: 16}})
	h.Add("db", func(ctx context.Context, params json.RawMessage, _ mcp.Handler) (json.RawMessage, error) {
		return json.RawMessage(calltest.Text("for " + mcp.Caller(ctx).Principal() + " " + string(rawjson.GetPath(params, "arguments", "n")))), nil
	}, calltest.GetTool)
	var all sync.WaitGroup
	stop := make(chan struct{})
	var refreshing sync.WaitGroup
	refreshing.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				h.Add("web", nil, fmt.Sprintf(`{"name":"t%d","description":"d"}`, i))
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
				out, err := h.Gateway.Serve(t.Context(), &mcp.Request{ID: "1", Method: "tools/call", Version: mcp.V20251125, Session: session, Peer: mcp.NoPeer,
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
	h := newCacheHarness(t, metatool.Options{Cache: dispatch.CacheOptions{ReadOnly: true, MaxEntries: 2}})
	for _, args := range []string{`{"a":1}`, `{"a":2}`, `{"a":1}`, `{"a":3}`} {
		get(t, h, args) // 2 is the least recently used when 3 comes
	}
	if s := get(t, h, `{"a":1}`); s.Content[0].Text != "answer 1" {
		t.Errorf("the recently used one is gone: %+v", s)
	}
	if s := get(t, h, `{"a":2}`); s.Content[0].Text == "answer 2" {
		t.Error("the least recently used one is still there")
	}
}
