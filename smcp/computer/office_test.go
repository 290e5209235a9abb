package computer_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/office/member"
	"github.com/weir-mcp/weir/internal/testkit/tracetest"
	"github.com/weir-mcp/weir/internal/upstream"
	"github.com/weir-mcp/weir/internal/upstream/computers"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/smcp"
	"github.com/weir-mcp/weir/smcp/agent"
	"github.com/weir-mcp/weir/smcp/computer"
	"github.com/weir-mcp/weir/smcp/hub"
)

func names(tools []smcp.Tool) []string {
	var out []string
	for _, t := range tools {
		out = append(out, t.Name)
	}
	return out
}

// The protocol's flows: join, notices, get_tools, tool_call, get_config, update,
// cancel, list_room, leave.
func TestFlows(t *testing.T) {
	_, url := startHub(t, hub.Options{Logger: logger(t, "hub")})
	var mu sync.Mutex
	var seen []string
	note := func(text string) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, text)
	}
	has := func(text string) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			return slices.Contains(seen, text)
		}
	}
	a := startAgent(t, agent.Options{
		URL: url, Office: "o1",
		OnEnter: func(c string) { note("enter " + c) }, OnLeave: func(c string) { note("leave " + c) },
		OnConfig: func(c string) { note("config " + c) }, OnDesktop: func(c string) { note("desktop " + c) },
		OnTools: func(c string, tools []smcp.Tool) {
			if slices.Contains(names(tools), "echo") {
				note("tools " + c)
			}
		},
	})
	events := filepath.Join(t.TempDir(), "events")
	c := startComputer(t, computer.Options{Name: "desk"}, `{"servers":[`+fakeTelling("fake", events, autoApply+`,"forbidden_tools":["fail"],"tool_meta":{"counter":{"alias":"count","tags":["n"]}}`)+`],
		"inputs":[{"id":"pw","type":"promptString","description":"d","password":true,"default":"hunter2-secret"}]}`)
	connect(t, c, computer.Hub{URL: url, Office: "o1"})
	eventually(t, "the agent hears of the Computer", has("enter desk"))
	eventually(t, "its tools are discovered", has("tools desk"))

	tools, err := a.GetTools(t.Context(), "desk")
	if err != nil {
		t.Fatal(err)
	}
	got := names(tools)
	if !slices.Contains(got, "echo") || !slices.Contains(got, "count") || slices.Contains(got, "counter") || slices.Contains(got, "fail") {
		t.Errorf("tools: %v", got)
	}
	for _, tool := range tools {
		if tool.Name == "count" && !strings.Contains(string(tool.Meta), `"a2c_tool_meta":"{\"auto_apply\":true,\"alias\":\"count\",\"tags\":[\"n\"]}"`) {
			t.Errorf("meta: %s", tool.Meta)
		}
	}
	result, err := a.CallTool(t.Context(), agent.ToolCall{Computer: "desk", Tool: "echo", Arguments: json.RawMessage(`{"text":"hello"}`)})
	if err != nil || text(result) != "hello" {
		t.Errorf("echo: %s, %v", result, err)
	}
	if result, err = a.CallTool(t.Context(), agent.ToolCall{Computer: "desk", Tool: "odd"}); err != nil || !strings.Contains(string(result), `[12345678901234567890,1.50,1e2]`) {
		t.Errorf("odd: %s, %v", result, err)
	}
	if result, err = a.CallTool(t.Context(), agent.ToolCall{Computer: "desk", Tool: "fail"}); err != nil || !isError(result) || !strings.Contains(text(result), "servers.fake.forbidden_tools") {
		t.Errorf("a forbidden tool: %s, %v", result, err)
	}
	if result, err = a.CallTool(t.Context(), agent.ToolCall{Computer: "desk", Tool: "fake__count"}); err != nil || text(result) != "1" {
		t.Errorf("by its full name: %s, %v", result, err)
	}

	// Cancel: the original call is answered.
	done := make(chan json.RawMessage, 1)
	go func() {
		r, err := a.CallTool(t.Context(), agent.ToolCall{Computer: "desk", Tool: "sleep", Arguments: json.RawMessage(`{"sleep_ms":20000}`), ReqID: "r1"})
		if err != nil {
			r = json.RawMessage(err.Error())
		}
		done <- r
	}()
	sleeps(t, events)
	if err := a.Cancel(t.Context(), "r1"); err != nil {
		t.Error(err)
	}
	select {
	case r := <-done:
		if !agent.Cancelled(r) || !isError(r) || !strings.Contains(string(r), `"a2c_cancel_reason":"agent_requested"`) {
			t.Errorf("cancelled: %s", r)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("a cancelled call was not answered")
	}
	// Its time is over.
	result, err = a.CallTool(t.Context(), agent.ToolCall{Computer: "desk", Tool: "sleep", Arguments: json.RawMessage(`{"sleep_ms":20000}`), Timeout: time.Second})
	if err != nil || !agent.TimedOut(result) {
		t.Errorf("timeout: %s, %v", result, err)
	}

	config, err := a.GetConfig(t.Context(), "desk")
	if err != nil {
		t.Fatal(err)
	}
	all, _ := json.Marshal(config)
	if strings.Contains(string(all), "hunter2") || !strings.Contains(string(all), `"id":"pw"`) || config.Servers["fake"] == nil {
		t.Errorf("config: %s", all)
	}
	room, err := a.ListRoom(t.Context())
	if err != nil || len(room) != 2 || room[0].Role != smcp.RoleAgent || room[1].Name != "desk" || room[1].OfficeID != "o1" {
		t.Errorf("room: %v, %v", room, err)
	}
	// Hot plug.
	f, err := computer.Parse("more", []byte(fake("second", autoApply)))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Put(t.Context(), f.Servers[0]); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the room hears of the new server", has("config desk"))
	eventually(t, "equal names are told", func() bool { return len(c.Problems()) > 0 && strings.Contains(c.Problems()[0], "alias") })
	if result, err = a.CallTool(t.Context(), agent.ToolCall{Computer: "desk", Tool: "echo"}); err != nil || !isError(result) || !strings.Contains(text(result), "two servers offer the tool") {
		t.Errorf("an ambiguous name: %s, %v", result, err)
	}
	if err := c.Remove(t.Context(), "second"); err != nil {
		t.Fatal(err)
	}
	if result, err = a.CallTool(t.Context(), agent.ToolCall{Computer: "desk", Tool: "echo", Arguments: json.RawMessage(`{"text":"again"}`)}); err != nil || text(result) != "again" {
		t.Errorf("after the removal: %s, %v", result, err)
	}
	history := c.History()
	if len(history) < 6 || history[0].Tool != "echo" || !history[0].Success {
		t.Errorf("history: %+v", history)
	}
	if err := c.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the agent hears that it leaves", has("leave desk"))
	var refused *smcp.Error
	if _, err = a.GetTools(t.Context(), "desk"); !errors.As(err, &refused) || refused.Code != smcp.CodeNotFound {
		t.Errorf("a Computer that has left: %v", err)
	}
}

// A Computer without a confirmation refuses; with one it asks.
// A request that the Computer does not know, or that lacks its server, is
// answered and not left to time out.
func TestBadRequests(t *testing.T) {
	_, url := startHub(t, hub.Options{})
	connect(t, startComputer(t, computer.Options{Name: "desk"}, `{"servers":[]}`), computer.Hub{URL: url, Office: "o"})
	m, err := member.New(member.Options{URL: url, Role: smcp.RoleAgent, Name: "o", Office: "o", Logger: logger(t, "agent")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	if err := m.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for event, details := range map[string]string{"client:get_weather": `{"event":"client:get_weather"}`, smcp.EventGetResources: `{"expected":"mcp_server"}`} {
		_, err := m.Call(t.Context(), event, map[string]string{"agent": "o", "req_id": "r", "computer": "desk"})
		var refused *smcp.Error
		if !errors.As(err, &refused) || refused.Code != smcp.CodeInvalid || string(refused.Details) != details {
			t.Errorf("%s: %v", event, err)
		}
	}
}

func TestConfirm(t *testing.T) {
	for _, test := range []struct {
		name    string
		confirm func(context.Context, computer.Confirmation) (bool, error)
		want    string
		isError bool
	}{
		{"nobody to ask", nil, "needs a confirmation", true},
		{"refused", func(context.Context, computer.Confirmation) (bool, error) { return false, nil }, "refused the call", true},
		{"agreed", func(_ context.Context, c computer.Confirmation) (bool, error) {
			return c.Tool == "echo" && c.Server == "fake", nil
		}, "yes", false},
		{"no time", func(context.Context, computer.Confirmation) (bool, error) { return false, context.DeadlineExceeded }, "failed: the time was over", true},
		{"failed", func(context.Context, computer.Confirmation) (bool, error) { return false, errors.New("no screen") }, "no screen", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := startComputer(t, computer.Options{Name: "d", Confirm: test.confirm}, fake("fake", ""))
			if err := c.Ready(t.Context()); err != nil {
				t.Fatal(err)
			}
			r := c.Call(t.Context(), smcp.ToolCall{Call: smcp.Call{ReqID: "1"}, ToolName: "echo", Params: json.RawMessage(`{"text":"yes"}`)})
			if isError(r) != test.isError || !strings.Contains(text(r), test.want) {
				t.Errorf("got %s", r)
			}
		})
	}
}

// With read_only, tools are called without asking whose server says that they only
// read: over both ways, and as agents are told.
func TestReadOnly(t *testing.T) {
	server := mcpServer(t, `{"tools":{}}`, map[string]mcp.Handler{
		"tools/list": fixed(`{"tools":[{"name":"look","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}},
			{"name":"never","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}},
			{"name":"write","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":false}},{"name":"plain","inputSchema":{"type":"object"}},
			{"name":"always","inputSchema":{"type":"object"}}]}`),
		"tools/call": fixed(`{"content":[{"type":"text","text":"done"}]}`),
	})
	const tools = `"tool_meta":{"never":{"auto_apply":false},"always":{"auto_apply":true}}`
	for name, test := range map[string]struct {
		config string
		apply  computer.Apply
		told   string // of look
	}{
		"as the configuration says": {`"default_tool_meta":{"auto_apply":"read_only"},` + tools, "", `{"auto_apply":true}`},
		"as the command says":       {tools, computer.ApplyReadOnly, ``},
	} {
		t.Run(name, func(t *testing.T) {
			_, url := startHub(t, hub.Options{})
			c := startComputer(t, computer.Options{Name: "desk", AutoApply: test.apply}, `{"mcpServers":{"made":{"url":"`+server+`",`+test.config+`}}}`)
			_ = c.Ready(t.Context())
			connect(t, c, computer.Hub{URL: url, Office: "o"})
			a := startAgent(t, agent.Options{URL: url, Office: "o"})
			stream, err := a.OpenMCP(t.Context(), "desk", "made")
			if err != nil {
				t.Fatal(err)
			}
			conn := mcp.NewConn(stream, mcp.ConnOptions{Name: "desk", Drain: time.Millisecond})
			defer conn.Close()
			if _, err := conn.Call(t.Context(), "initialize", json.RawMessage(`{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`), nil); err != nil {
				t.Fatal(err)
			}
			for tool, free := range map[string]bool{"look": true, "never": false, "write": false, "plain": false, "always": true, "unlisted": false} {
				over, err := conn.Call(t.Context(), "tools/call", json.RawMessage(`{"name":"`+tool+`","arguments":{}}`), nil)
				if err != nil || isError(over) == free || !free && !strings.Contains(text(over), "read_only") {
					t.Errorf("%s over a channel: %s, %v", tool, over, err)
				}
				if tool == "unlisted" {
					continue
				}
				if by, err := a.CallTool(t.Context(), agent.ToolCall{Computer: "desk", Tool: tool}); err != nil || isError(by) == free {
					t.Errorf("%s by its event: %s, %v", tool, by, err)
				}
			}
			tools, err := a.GetTools(t.Context(), "desk")
			if err != nil {
				t.Fatal(err)
			}
			for _, tool := range tools {
				if told := rawjson.Text(rawjson.Get(tool.Meta, smcp.MetaTool)); tool.Name == "look" && told != test.told {
					t.Errorf("agents are told %q", told)
				}
			}
			config, err := a.GetConfig(t.Context(), "desk")
			if err != nil || strings.Contains(string(config.Servers["made"]), "read_only") {
				t.Errorf("the configuration has what other programs cannot read: %s, %v", config.Servers["made"], err)
			}
		})
	}
}

// Over the general channel everything of MCP goes, under the same rules.
func TestChannel(t *testing.T) {
	pub, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	_, url := startHub(t, hub.Options{Logger: logger(t, "hub")})
	events := filepath.Join(t.TempDir(), "events")
	c := startComputer(t, computer.Options{Name: "desk", Key: key}, fakeTelling("fake", events, autoApply+`,"forbidden_tools":["fail"]`))
	connect(t, c, computer.Hub{URL: url, Office: "o"})
	a := startAgent(t, agent.Options{URL: url, Office: "o", Keys: map[string]ed25519.PublicKey{"desk": pub}})
	stream, err := a.OpenMCP(t.Context(), "desk", "fake")
	if err != nil {
		t.Fatal(err)
	}
	conn := mcp.NewConn(stream, mcp.ConnOptions{Client: true, Name: "desk", Logger: logger(t, "conn")})
	defer conn.Close()
	hello, err := mcp.Handshake(t.Context(), conn, json.RawMessage(`{"name":"t","version":"1"}`), nil, "")
	if err != nil || rawjson.Text(rawjson.Get(hello.ServerInfo, "name")) != "fakemcp" {
		t.Fatalf("hello: %+v, %v", hello, err)
	}
	list, err := conn.Call(t.Context(), "tools/list", nil, nil)
	if err != nil || !strings.Contains(string(list), `"echo"`) || strings.Contains(string(list), `"name":"fail"`) {
		t.Errorf("tools: %s, %v", list, err)
	}
	progress := 0
	back := mcp.HandlerFunc(func(_ context.Context, r *mcp.Request) (json.RawMessage, error) {
		if r.Method == "notifications/progress" {
			progress++
		}
		return nil, nil
	})
	result, err := conn.Call(t.Context(), "tools/call", json.RawMessage(`{"name":"progress","arguments":{"n":20,"burst":true},"_meta":{"progressToken":"p"}}`), back)
	if err != nil || progress != 20 {
		t.Errorf("progress before the result: %d, %s, %v", progress, result, err)
	}
	if rawjson.GetPath(result, "_meta", smcp.MetaSignature) == nil {
		t.Errorf("not signed: %s", result)
	}
	asked := mcp.HandlerFunc(func(_ context.Context, r *mcp.Request) (json.RawMessage, error) {
		if r.Method == "sampling/createMessage" {
			return json.RawMessage(`{"role":"assistant","content":{"type":"text","text":"weir"},"model":"m"}`), nil
		}
		return nil, mcp.MethodNotFound(r.Method)
	})
	if result, err = conn.Call(t.Context(), "tools/call", json.RawMessage(`{"name":"sample","arguments":{}}`), asked); err != nil || !strings.Contains(string(result), "weir") {
		t.Errorf("sampling: %s, %v", result, err)
	}
	if _, err = conn.Call(t.Context(), "tools/call", json.RawMessage(`{"name":"fail","arguments":{}}`), nil); err == nil || !strings.Contains(err.Error(), "forbidden") {
		t.Errorf("a forbidden tool: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cancelled := make(chan error, 1)
	go func() {
		_, err := conn.Call(ctx, "tools/call", json.RawMessage(`{"name":"sleep","arguments":{"sleep_ms":20000}}`), nil)
		cancelled <- err
	}()
	sleeps(t, events)
	cancel()
	if err := <-cancelled; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	eventually(t, "the cancelled call ends on the Computer", func() bool {
		h := c.History()
		return h[len(h)-1].Tool == "sleep" && !h[len(h)-1].Success
	})
	if err := c.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-conn.Done():
	case <-time.After(30 * time.Second):
		t.Error("the channel outlived its Computer's leave")
	}
}

// sink keeps what a Fleet's upstreams list.
type sink struct {
	mu    sync.Mutex
	tools map[string][]string
}

func (s *sink) Update(l primitive.Listing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, raw := range l.Tools {
		out = append(out, rawjson.Text(rawjson.Get(raw, "name")))
	}
	s.tools[l.Upstream] = out
}

func (s *sink) Remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.tools, name)
}

func (s *sink) has(name, tool string) func() bool {
	return func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return slices.Contains(s.tools[name], tool)
	}
}

func (s *sink) lacks(name string) func() bool {
	return func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.tools[name] == nil
	}
}

// The servers of an office's Computers become upstreams and vanish again.
func TestFleet(t *testing.T) {
	_, url := startHub(t, hub.Options{Logger: logger(t, "hub")})
	s := &sink{tools: map[string][]string{}}
	each := upstream.New(upstream.Options{Sink: s, Logger: logger(t, "each")})
	whole := upstream.New(upstream.Options{Logger: logger(t, "whole")})
	t.Cleanup(func() { _, _ = each.Close(context.Background()), whole.Close(context.Background()) })
	f, err := computers.New(computers.Options{Agent: agent.Options{URL: url, Office: "o"}, Each: each, Whole: whole, Logger: logger(t, "fleet")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if err := f.Start(); err != nil {
		t.Fatal(err)
	}
	c := startComputer(t, computer.Options{Name: "my desk"}, `[`+fake("one", autoApply)+`,`+fake("two", autoApply+`,"tool_meta":{"echo":{"alias":"echo2"}}`)+`]`)
	connect(t, c, computer.Hub{URL: url, Office: "o"})
	eventually(t, "the first server is listed", s.has("my_desk-one", "echo"))
	eventually(t, "the second server is listed", s.has("my_desk-two", "echo"))
	name, isWhole, ok := f.Resolve("my desk.one")
	if !ok || isWhole || name != "my_desk-one" {
		t.Errorf("resolve: %q %v %v", name, isWhole, ok)
	}
	up, ok := each.Upstream(name)
	if !ok {
		t.Fatal("no upstream")
	}
	result, err := up.Call(t.Context(), "tools/call", json.RawMessage(`{"name":"echo","arguments":{"text":"through"}}`), nil)
	if err != nil || text(result) != "through" {
		t.Errorf("call: %s, %v", result, err)
	}
	name, isWhole, ok = f.Resolve("my desk")
	if !ok || !isWhole {
		t.Fatalf("the whole: %q %v %v", name, isWhole, ok)
	}
	up, _ = whole.Upstream(name)
	result, err = up.Call(t.Context(), "tools/call", json.RawMessage(`{"name":"echo2","arguments":{"text":"whole"}}`), nil)
	if err != nil || text(result) != "whole" {
		t.Errorf("call of the whole: %s, %v", result, err)
	}
	if err := c.SetDisabled(t.Context(), "two", true); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a server that is switched off vanishes", s.lacks("my_desk-two"))
	if err := c.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all vanish with their Computer", s.lacks("my_desk-one"))
	eventually(t, "no route is left", func() bool { return len(f.Names()) == 0 })
}

// Trace context and baggage reach the MCP server's _meta, over both ways.
func TestTrace(t *testing.T) {
	metas := make(chan string, 4)
	server := mcpServer(t, `{"tools":{}}`, map[string]mcp.Handler{
		"tools/list": fixed(`{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}`),
		"tools/call": mcp.HandlerFunc(func(_ context.Context, r *mcp.Request) (json.RawMessage, error) {
			metas <- string(rawjson.Get(r.Params, "_meta"))
			return json.RawMessage(`{"content":[]}`), nil
		}),
	})
	_, url := startHub(t, hub.Options{})
	c := startComputer(t, computer.Options{Name: "desk"}, `{"mcpServers":{"made":{"url":"`+server+`",`+autoApply+`}}}`)
	connect(t, c, computer.Hub{URL: url, Office: "o"})
	a := startAgent(t, agent.Options{URL: url, Office: "o"})
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for _, test := range []struct {
		call agent.ToolCall
		want string
	}{
		{agent.ToolCall{Traceparent: trace}, `{"traceparent":"` + trace + `"}`},
		{agent.ToolCall{Traceparent: trace, Tracestate: "v=1", Baggage: "user=alice"}, `{"traceparent":"` + trace + `","tracestate":"v=1","baggage":"user=alice"}`},
		{agent.ToolCall{Baggage: "user=alice"}, `{"baggage":"user=alice"}`},
		{agent.ToolCall{Baggage: strings.Repeat("k=v,", 2100)}, ``},
	} {
		test.call.Computer, test.call.Tool = "desk", "t"
		if _, err := a.CallTool(t.Context(), test.call); err != nil {
			t.Fatal(err)
		}
		if got := <-metas; got != test.want {
			t.Errorf("got %s, want %s", got, test.want)
		}
	}
	stream, err := a.OpenMCP(t.Context(), "desk", "made")
	if err != nil {
		t.Fatal(err)
	}
	conn := mcp.NewConn(stream, mcp.ConnOptions{Name: "desk", Drain: time.Millisecond})
	defer conn.Close()
	if _, err := conn.Call(t.Context(), "initialize", json.RawMessage(`{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`), nil); err != nil {
		t.Fatal(err)
	}
	const both = `{"traceparent":"` + trace + `","baggage":"user=alice"}`
	if _, err := conn.Call(t.Context(), "tools/call", json.RawMessage(`{"name":"t","arguments":{},"_meta":`+both+`}`), nil); err != nil {
		t.Fatal(err)
	}
	if got := <-metas; got != both {
		t.Errorf("over a channel: %s", got)
	}
}

// Large binary contents become blobs; uploads land where they may.
// A call has a span in the hub and in the Computer, and one below for the request to the server.
func TestSpans(t *testing.T) {
	metas := make(chan string, 4)
	server := mcpServer(t, `{"tools":{}}`, map[string]mcp.Handler{
		"tools/list": fixed(`{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}`),
		"tools/call": mcp.HandlerFunc(func(_ context.Context, r *mcp.Request) (json.RawMessage, error) {
			metas <- rawjson.Text(rawjson.GetPath(r.Params, "_meta", "traceparent"))
			return json.RawMessage(`{"content":[]}`), nil
		}),
	})
	collector := tracetest.New(t)
	ends := make(chan string, 8)
	const sent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	const ofHub = "00-0af7651916cd43dd8448eb211c80319c-00000000000000aa-01"
	_, url := startHub(t, hub.Options{Trace: func(computer, tool string, payload json.RawMessage) (json.RawMessage, func(json.RawMessage, string)) {
		if rawjson.Text(rawjson.Get(payload, "traceparent")) != sent {
			return payload, nil
		}
		payload, err := rawjson.Set(payload, "traceparent", rawjson.Quote(ofHub))
		if err != nil {
			t.Error(err)
		}
		return payload, func(_ json.RawMessage, failure string) { ends <- computer + " " + tool + " " + failure }
	}})
	c := startComputer(t, computer.Options{Name: "desk", LookupEnv: func(name string) (string, bool) { return "k1", name == "KEY" }},
		`{"mcpServers":{"made":{"url":"`+server+`",`+autoApply+`}},"otlp":{"url":"`+collector.URL+`","service_name":"desk","headers":{"x-key":"${KEY}"}}}`)
	connect(t, c, computer.Hub{URL: url, Office: "o"})
	a := startAgent(t, agent.Options{URL: url, Office: "o"})
	got := map[string]string{} // the parents that the server got, by the name of the call
	for _, call := range []agent.ToolCall{
		{Computer: "desk", Tool: "t", Traceparent: sent},
		{Computer: "desk", Tool: "none", Traceparent: sent},
		{Computer: "desk", Tool: "t", Traceparent: strings.TrimSuffix(sent, "1") + "0"}, // not sampled
	} {
		if _, err := a.CallTool(t.Context(), call); err != nil {
			t.Fatal(err)
		}
	}
	got["event"] = <-metas
	if kept := <-metas; kept != strings.TrimSuffix(sent, "1")+"0" {
		t.Errorf("without a span the server got %q", kept)
	}
	if _, err := a.CallTool(t.Context(), agent.ToolCall{Computer: "away", Tool: "t", Traceparent: sent}); err == nil {
		t.Error("a Computer that is not there has answered")
	}
	for _, want := range []string{"desk t ", "desk none ", "away t 404"} {
		if end := <-ends; end != want {
			t.Errorf("the hub's span ended with %q, want %q", end, want)
		}
	}
	stream, err := a.OpenMCP(t.Context(), "desk", "made")
	if err != nil {
		t.Fatal(err)
	}
	conn := mcp.NewConn(stream, mcp.ConnOptions{Name: "desk", Drain: time.Millisecond})
	defer conn.Close()
	if _, err := conn.Call(t.Context(), "tools/call", json.RawMessage(`{"name":"t","arguments":{},"_meta":{"traceparent":"`+sent+`"}}`), nil); err != nil {
		t.Fatal(err)
	}
	got["channel"] = <-metas
	if err := c.Close(t.Context()); err != nil { // sends the spans
		t.Fatal(err)
	}
	spans := map[string]tracetest.Span{}
	for _, s := range collector.Spans() {
		spans[s.Kind+" "+s.Name+" "+s.Parent] = s
	}
	for name, parent := range map[string]string{"event": "00000000000000aa", "channel": "b7ad6b7169203331"} {
		up := spans["server tools/call t "+parent]
		below := spans["client tools/call t "+up.ID]
		if up.Service != "desk" || below.Attributes["weir.server"] != "made" || got[name] != "00-0af7651916cd43dd8448eb211c80319c-"+below.ID+"-01" {
			t.Errorf("%s: %+v above %+v, the server got %q", name, up, below, got[name])
		}
	}
	if s := spans["server tools/call none 00000000000000aa"]; s.Attributes["error.type"] != "404" {
		t.Errorf("an unknown tool: %+v", s)
	}
	if collector.Header().Get("x-key") != "k1" {
		t.Errorf("headers: %v", collector.Header())
	}
}

// Resources and prompts of a Computer's server are an upstream's, listed and read.
func TestFleetPrimitives(t *testing.T) {
	server := mcpServer(t, `{"tools":{},"resources":{},"prompts":{}}`, map[string]mcp.Handler{
		"tools/list":     fixed(`{"tools":[]}`),
		"resources/list": fixed(`{"resources":[{"uri":"memo://1","name":"memo"}]}`),
		"resources/read": fixed(`{"contents":[{"uri":"memo://1","text":"a memo"}]}`),
		"prompts/list":   fixed(`{"prompts":[{"name":"greet"}]}`),
		"prompts/get":    fixed(`{"messages":[{"role":"user","content":{"type":"text","text":"a greeting"}}]}`),
	})
	_, url := startHub(t, hub.Options{Logger: logger(t, "hub")})
	listed := make(primitives, 8)
	each := upstream.New(upstream.Options{Sink: listed, Logger: logger(t, "each")})
	whole := upstream.New(upstream.Options{Logger: logger(t, "whole")})
	t.Cleanup(func() { _, _ = each.Close(context.Background()), whole.Close(context.Background()) })
	f, err := computers.New(computers.Options{Agent: agent.Options{URL: url, Office: "o"}, Each: each, Whole: whole, Logger: logger(t, "fleet")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if err := f.Start(); err != nil {
		t.Fatal(err)
	}
	c := startComputer(t, computer.Options{Name: "desk"}, `{"mcpServers":{"made":{"url":"`+server+`"}}}`)
	connect(t, c, computer.Hub{URL: url, Office: "o"})
	if got, want := <-listed, `[{"uri":"memo://1","name":"memo"}] [{"name":"greet"}]`; got != want {
		t.Errorf("listed %s, want %s", got, want)
	}
	up, ok := each.Upstream("desk-made")
	if !ok {
		t.Fatal("no upstream")
	}
	for method, test := range map[string][2]string{"resources/read": {`{"uri":"memo://1"}`, "a memo"}, "prompts/get": {`{"name":"greet"}`, "a greeting"}} {
		if result, err := up.Call(t.Context(), method, json.RawMessage(test[0]), nil); err != nil || !strings.Contains(string(result), test[1]) {
			t.Errorf("%s: %s, %v", method, result, err)
		}
	}
}

// primitives receives the resources and prompts of each listing.
type primitives chan string

func (p primitives) Update(l primitive.Listing) {
	p <- fmt.Sprintf("%s %s", l.Resources, l.Prompts)
}

func (primitives) Remove(string) {}

// A wrong otlp is an error of Load, and the servers run.
func TestSpansRefused(t *testing.T) {
	c := startComputer(t, computer.Options{Name: "desk"}, `{"mcpServers":{}}`)
	for otlp, want := range map[string]string{`{"url":"ftp://example.com"}`: "otlp.url", `{"sample":2,"url":"http://127.0.0.1:1"}`: "otlp.sample", `7`: "otlp"} {
		file, err := computer.Parse("desk.json", []byte(`{"servers":[`+fake("fake", "")+`],"otlp":`+otlp+`}`))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Load(t.Context(), file); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "spans are not sent") {
			t.Errorf("%s: %v, want %q", otlp, err, want)
		}
		if len(c.Servers()) != 1 {
			t.Errorf("%s: %d servers", otlp, len(c.Servers()))
		}
	}
}

func TestBlobs(t *testing.T) {
	big := bytes.Repeat([]byte{1, 2, 3, 250}, 200_000)
	server := mcpServer(t, `{"tools":{}}`, map[string]mcp.Handler{
		"tools/list": fixed(`{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}`),
		"tools/call": fixed(`{"content":[{"type":"text","text":"see"},{"type":"image","mimeType":"image/png","data":"` + base64.StdEncoding.EncodeToString(big) + `"}]}`),
	})
	_, url := startHub(t, hub.Options{})
	c := startComputer(t, computer.Options{Name: "desk", Landing: t.TempDir()}, `{"made":{"type":"http","url":"`+server+`",`+autoApply+`}}`)
	connect(t, c, computer.Hub{URL: url, Office: "o"})
	a := startAgent(t, agent.Options{URL: url, Office: "o"})
	result, err := a.CallTool(t.Context(), agent.ToolCall{Computer: "desk", Tool: "t"})
	if err != nil || len(result) > 10_000 {
		t.Fatalf("%d bytes, %v", len(result), err)
	}
	var r struct {
		Content []struct {
			Data string         `json:"data"`
			Meta map[string]any `json:"_meta"`
		} `json:"content"`
	}
	if err := json.Unmarshal(result, &r); err != nil {
		t.Fatal(err)
	}
	handle, _ := r.Content[1].Meta[smcp.MetaBlob].(string)
	data, mimeType, err := a.ReadBlob(t.Context(), "desk", handle)
	if err != nil || !bytes.Equal(data, big) || mimeType != "image/png" {
		t.Errorf("blob: %d bytes, %q, %v", len(data), mimeType, err)
	}
	landed, err := a.WriteBlob(t.Context(), "desk", "../../etc/pass wd", big)
	if err != nil || !strings.HasSuffix(landed, "-etc_pass_wd") {
		t.Errorf("landed at %q, %v", landed, err)
	}
	if _, _, err = a.ReadBlob(t.Context(), "desk", "forged"); err == nil {
		t.Error("a forged handle was read")
	}
}
