package usage_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/observe/telemetry"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/result/usage"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/internal/testkit/metatooltest"
	"github.com/weir-mcp/weir/internal/text/token"
	"github.com/weir-mcp/weir/mcp"
)

func usageOf(h *metatooltest.Harness) usage.Usage { return h.State.Stats("ann").Total }

func TestUsageCountsExactly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var events []metatool.Event
		h := metatooltest.New(t, metatool.Options{OnEvent: func(e metatool.Event) { mu.Lock(); defer mu.Unlock(); events = append(events, e) }})
		small, large := "a few words", strings.Repeat("Many words, again and again. ", 1000)
		h.Add("x", calltest.Say(calltest.Text(small)), `{"name":"small","description":"d"}`)
		h.Add("y", calltest.Say(calltest.Text(large)), `{"name":"large","description":"d"}`)

		list, err := h.Ask(t, "tools/list", `{}`)
		if err != nil {
			t.Fatal(err)
		}
		browsed := h.Tool(t, metatool.ToolBrowse, `{"path":"/"}`).Content[0].Text
		h.Tool(t, metatool.ToolExecute, `{"tool_id":"`+h.ID(t, "x", "small")+`","args":{}}`)
		held := h.Tool(t, metatool.ToolExecute, `{"tool_id":"`+h.ID(t, "y", "large")+`","args":{}}`)
		refused := h.Tool(t, metatool.ToolExecute, `{"tool_id":"nope","args":{}}`).Content[0].Text
		view := h.Tool(t, metatool.ToolView, `{"handle":"`+held.Env.Artifacts[0].Handle+`","selector":{"type":"head","chars":100}}`)
		synctest.Wait()

		native := []string{}
		for _, e := range h.Snapshot().Catalog.Entries() {
			native = append(native, string(e.Raw))
		}
		viewed := 0
		for _, c := range view.Content {
			viewed += token.Count(c.Text)
		}
		want := usage.Usage{Calls: 5, Failed: 1,
			Definitions: usage.Tokens{Read: int64(token.Count(string(list))), Raw: int64(token.Count(`{"tools":[` + strings.Join(native, ",") + `]}`))},
			Discovery:   usage.Tokens{Read: int64(token.Count(browsed))},
			Results: usage.Tokens{Read: int64(token.Count(small) + token.Count(held.Content[0].Text) + token.Count(refused)),
				Raw: int64(token.Count(small) + token.Count(large) + token.Count(refused))},
			Views: usage.Tokens{Read: int64(viewed)},
		}
		for _, p := range []usage.Tokens{want.Definitions, want.Discovery, want.Results, want.Views} {
			want.Tokens.Read += p.Read
			want.Tokens.Raw += p.Raw
		}
		if got := usageOf(h); got != want {
			t.Errorf("usage\n%+v, want\n%+v", got, want)
		}
		if got := h.State.Stats("").Total; got != want {
			t.Errorf("in all\n%+v, want\n%+v", got, want)
		}
		// The same list is not read again in a session.
		if _, err := h.Ask(t, "tools/list", `{}`); err != nil || usageOf(h).Definitions != want.Definitions {
			t.Errorf("%v, %+v", err, usageOf(h).Definitions)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, e := range events {
			if !e.Counted {
				t.Errorf("not counted: %+v", e)
			}
			if e.ToolID == h.ID(t, "y", "large") && (e.TokensRaw != token.Count(large) || e.TokensRead != token.Count(held.Content[0].Text)) {
				t.Errorf("%+v", e)
			}
		}
	})
}

// Who finds tools without a list is saved the definitions all the same, once.
func TestUsageOfDiscoveryWithoutAList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := metatooltest.New(t, metatool.Options{})
		native := []string{}
		for _, e := range h.Snapshot().Catalog.Entries() {
			native = append(native, string(e.Raw))
		}
		all := int64(token.Count(`{"tools":[` + strings.Join(native, ",") + `]}`))
		definitions := func() usage.Tokens {
			synctest.Wait()
			return usageOf(h).Definitions
		}
		h.Tool(t, metatool.ToolExecute, `{"tool_id":"`+h.ID(t, "files", "drop")+`","args":{}}`)
		if got := definitions(); got != (usage.Tokens{}) {
			t.Errorf("nothing was looked for: %+v", got)
		}
		for range 2 {
			h.Tool(t, metatool.ToolBrowse, `{"path":"/"}`)
			if got := definitions(); got != (usage.Tokens{Raw: all}) {
				t.Errorf("browsed: %+v, want %d raw", got, all)
			}
		}
		list, err := h.Ask(t, "tools/list", `{}`)
		if err != nil {
			t.Fatal(err)
		}
		want := usage.Tokens{Read: int64(token.Count(string(list))), Raw: all}
		if got := definitions(); got != want {
			t.Errorf("listed then: %+v, want %+v", got, want)
		}
		h.Tool(t, metatool.ToolBrowse, `{"path":"/"}`)
		if got := definitions(); got != want {
			t.Errorf("browsed again: %+v, want %+v", got, want)
		}
	})
}

func TestModelTokens(t *testing.T) {
	for _, tt := range []struct {
		result string
		want   int
	}{
		{`{"content":[{"type":"text","text":"hello world"},{"type":"text","text":"é\n"}],"structuredContent":{"a":1}}`, token.Count("hello world") + token.Count("é\n")},
		{`{"content":[{"type":"image","data":"QUJD","mimeType":"image/png"},{"type":"audio","data":"QUJD"}]}`, 0},
		{`{"content":[{"type":"resource_link","uri":"a:b"}]}`, token.Count(`{"type":"resource_link","uri":"a:b"}`)},
		{`{"content":[],"structuredContent":{"a":1}}`, token.Count(`{"a":1}`)},
		{`{"structuredContent":{"a":1}}`, token.Count(`{"a":1}`)},
		{`{}`, 0}, {`7`, 0}, {`{"content":7}`, 0},
	} {
		if got, exact := usage.TextsOf(json.RawMessage(tt.result)).Count(token.Count); got != tt.want || !exact {
			t.Errorf("%s: %d, want %d", tt.result, got, tt.want)
		}
	}
}

// What waits to be counted is bounded; what finds no room is told as such.
func TestCountingIsBounded(t *testing.T) {
	release := make(chan struct{})
	var once sync.Once
	slow := func(text string) int {
		if len(text) > 9000 {
			<-release
		}
		return 1
	}
	defer once.Do(func() { close(release) })
	var mu sync.Mutex
	uncounted := 0
	h := metatooltest.New(t, metatool.Options{Firewall: result.Firewall{CountTokens: slow}, OnEvent: func(e metatool.Event) {
		mu.Lock()
		defer mu.Unlock()
		if !e.Counted {
			uncounted++
		}
	}})
	h.Add("y", calltest.Say(calltest.Text(strings.Repeat("x", 10_000))), `{"name":"large","description":"d"}`)
	const calls = 256 + 50
	for range calls {
		h.Tool(t, metatool.ToolExecute, `{"tool_id":"`+h.ID(t, "y", "large")+`","args":{}}`)
	}
	u := usageOf(h)
	if u.Pending > 257 || u.Uncounted < 49 || u.Pending+u.Uncounted != calls {
		t.Errorf("%+v", u)
	}
	once.Do(func() { close(release) })
	h.State.Close(context.Background()) // waits
	mu.Lock()
	defer mu.Unlock()
	if int64(uncounted) != u.Uncounted {
		t.Errorf("%d events without tokens, %d results uncounted", uncounted, u.Uncounted)
	}
	if h.State.Stats("").Total.Pending != 0 {
		t.Error("Close did not wait")
	}
}

func TestStatsShowNoSecrets(t *testing.T) {
	h := metatooltest.New(t, metatool.Options{})
	h.Session = mcp.NewSession("the-very-secret-session-id", "ann")
	h.Tool(t, metatool.ToolBrowse, `{"path":"/"}`)
	bob := mcp.NewSession("bobs", "bob")
	_, _ = h.Gateway.Serve(t.Context(), &mcp.Request{ID: "1", Method: "tools/call", Version: mcp.V20251125, Session: bob, Peer: mcp.NoPeer, Params: json.RawMessage(`{"name":"tool_browse","arguments":{"path":"/"}}`)})
	doc, err := json.Marshal(h.State.Stats("ann"))
	if err != nil || strings.Contains(string(doc), "secret") || strings.Contains(string(doc), "bob") || !strings.Contains(string(doc), `"session":"`+telemetry.SessionTag("the-very-secret-session-id")+`","principal":"ann","calls":1`) {
		t.Errorf("%s, %v", doc, err)
	}
	if s := h.State.Stats(""); len(s.Sessions) != 2 || s.Sessions[0].Principal != "ann" || s.Total.Calls != 2 {
		t.Errorf("%+v", s)
	}
	h.Session.Close()
	if s := h.State.Stats(""); len(s.Sessions) != 1 || s.Total.Calls != 2 {
		t.Errorf("after its end: %+v", s)
	}
	h.State.Close(context.Background())
	h.State.Close(context.Background())
	if n := h.State.Sessions(); n != 0 {
		t.Errorf("%d sessions after Close", n)
	}
}

func TestEvents(t *testing.T) {
	var mu sync.Mutex
	var events []metatool.Event
	h := metatooltest.New(t, metatool.Options{ExposeHydrate: true, OnEvent: func(e metatool.Event) { mu.Lock(); defer mu.Unlock(); events = append(events, e) }})
	h.Add("slow", func(context.Context, json.RawMessage, mcp.Handler) (json.RawMessage, error) {
		time.Sleep(2 * time.Millisecond)
		return json.RawMessage(`{"content":[{"type":"text","text":"the secret answer"}],"isError":true}`), nil
	}, `{"name":"t","description":"d"}`)
	id := h.ID(t, "slow", "t")
	for _, tt := range []struct {
		tool, arguments string
		want            metatool.Event
	}{
		{metatool.ToolBrowse, `{"query":"my private query"}`, metatool.Event{Name: "browse.completed"}},
		{metatool.ToolBrowse, `{}`, metatool.Event{Name: "browse.failed", Code: "ARGS_INVALID"}},
		{metatool.ToolView, `{"handle":"art_private","selector":{"type":"head"}}`, metatool.Event{Name: "view.failed", Code: "VIEW_FAILED"}},
		{metatool.ToolHydrate, `{"tool_id":"` + id + `"}`, metatool.Event{Name: "hydrate.completed", ToolID: id, Upstream: "slow"}},
		{metatool.ToolHydrate, `{"tool_id":"a:private"}`, metatool.Event{Name: "hydrate.failed", Code: "HYDRATE_FAILED"}},
		{metatool.ToolExecute, `{"tool_id":"` + id + `","args":{"x":"my private argument"}}`, metatool.Event{Name: "execute.completed", ToolID: id, Upstream: "slow", Attempts: 1, IsError: true}},
		{metatool.ToolExecute, `{"tool_id":"` + id + `","args":{"x":1},"dry_run":true}`, metatool.Event{Name: "execute.dry_run", ToolID: id, Upstream: "slow", DryRun: true}},
		{metatool.ToolExecute, `{"tool_id":"` + h.ID(t, "files", "read_file") + `","args":{"path":7}}`, metatool.Event{Name: "execute.failed", Code: "ARGS_INVALID", ToolID: h.ID(t, "files", "read_file"), Upstream: "files"}},
	} {
		events = nil
		h.Tool(t, tt.tool, tt.arguments)
		if len(events) != 1 {
			t.Fatalf("%s %s: %d events", tt.tool, tt.arguments, len(events))
		}
		e := events[0]
		line := string(e.AppendJSON(nil))
		if strings.Contains(line, "private") || strings.Contains(line, "secret") {
			t.Errorf("an event tells too much: %s", line)
		}
		if e.Session != telemetry.SessionTag("s") || e.Principal != "ann" || e.MetaTool != tt.tool || e.Time.IsZero() || e.Duration <= 0 {
			t.Errorf("%s %s: %s", tt.tool, tt.arguments, line)
		}
		var sum time.Duration
		for _, took := range e.Steps {
			sum += took
		}
		if asked := e.Attempts > 0; sum <= 0 || sum > e.Duration+time.Millisecond || asked != (e.Steps[telemetry.StepServer] >= 2*time.Millisecond) || !strings.Contains(line, `"steps_ms":{"check":`) {
			t.Errorf("%s %s: the steps are %v of %v", tt.tool, tt.arguments, e.Steps, e.Duration)
		}
		e.Steps = telemetry.Steps{}
		e.Session, e.Principal, e.MetaTool, e.Time, e.Duration, e.TokensRead, e.TokensRaw, e.Counted = "", "", "", time.Time{}, 0, 0, 0, false
		if e != tt.want {
			t.Errorf("%s %s: %+v, want %+v", tt.tool, tt.arguments, e, tt.want)
		}
	}
}

// TestCapture: events have the arguments and the answer as the agent reads it, and the log has neither.
func TestCapture(t *testing.T) {
	var got metatool.Event
	h := metatooltest.New(t, metatool.Options{OnEvent: func(e metatool.Event) { got = e }, Capture: func(arguments, result json.RawMessage) *telemetry.Exchange {
		return &telemetry.Exchange{Arguments: slices.Clone(arguments), Result: slices.Clone(result)}
	}})
	answer := h.Tool(t, metatool.ToolBrowse, `{"query":"private words"}`)
	if got.Exchange == nil || string(got.Exchange.Arguments) != `{"query":"private words"}` || len(got.Exchange.Result) == 0 {
		t.Fatalf("the event has %+v of %v", got.Exchange, answer)
	}
	if line := string(got.AppendJSON(nil)); strings.Contains(line, "private") {
		t.Errorf("the log has the arguments: %s", line)
	}
}

// An agent that goes away is an event, too.
func TestEventOfACancelledCall(t *testing.T) {
	var events []metatool.Event
	h := metatooltest.New(t, metatool.Options{OnEvent: func(e metatool.Event) { events = append(events, e) }})
	ctx, cancel := context.WithCancel(t.Context())
	h.Add("x", func(context.Context, json.RawMessage, mcp.Handler) (json.RawMessage, error) {
		cancel()
		return nil, context.Canceled
	}, `{"name":"t","description":"d"}`)
	_, err := h.Gateway.Serve(ctx, &mcp.Request{ID: "1", Method: "tools/call", Version: mcp.V20251125, Session: h.Session, Peer: mcp.NoPeer,
		Params: json.RawMessage(`{"name":"tool_execute","arguments":{"tool_id":"` + h.ID(t, "x", "t") + `","args":{}}}`)})
	if err == nil || len(events) != 1 || events[0].Name != "execute.failed" || events[0].Code != "CANCELLED" {
		t.Errorf("%v, %+v", err, events)
	}
}

// A session never sees another principal's artifact.
func TestArtifactHammer(t *testing.T) {
	h := metatooltest.New(t, metatool.Options{})
	h.Add("y", func(ctx context.Context, _ json.RawMessage, _ mcp.Handler) (json.RawMessage, error) {
		return json.RawMessage(calltest.Text(strings.Repeat("Secrets of "+mcp.Caller(ctx).Principal()+". ", 400))), nil
	}, `{"name":"large","description":"d"}`)
	id := h.ID(t, "y", "large")
	serve := func(s *mcp.Session, params string) calltest.Answer {
		out, err := h.Gateway.Serve(t.Context(), &mcp.Request{ID: "1", Method: "tools/call", Version: mcp.V20251125, Session: s, Peer: mcp.NoPeer, Params: json.RawMessage(params)})
		var got calltest.Answer
		if err != nil || json.Unmarshal(out, &got) != nil {
			t.Errorf("%s, %v", out, err)
		}
		_ = json.Unmarshal(got.Meta[result.MetaEnvelope], &got.Env)
		return got
	}
	const n = 1000
	handles := make([]string, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			s := serve(mcp.NewSession("", fmt.Sprint("p", i)), `{"name":"tool_execute","arguments":{"tool_id":"`+id+`","args":{}}}`)
			handles[i] = s.Env.Artifacts[0].Handle
		})
	}
	all.Wait()
	for i := range n {
		all.Go(func() {
			view := func(principal int) calltest.Answer {
				return serve(mcp.NewSession("", fmt.Sprint("p", principal)), `{"name":"tool_view","arguments":{"handle":"`+handles[i]+`","selector":{"type":"head","chars":40}}}`)
			}
			if s := view(i); s.IsError || !strings.Contains(s.Content[0].Text, fmt.Sprintf("of p%d.", i)) {
				t.Errorf("its own: %+v", s)
			}
			if s := view((i + 1) % n); !s.IsError || strings.Contains(s.Content[0].Text, "Secrets") {
				t.Errorf("another's: %+v", s)
			}
		})
	}
	all.Wait()
}
