package hub_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/office/a2c"
	"github.com/weir-mcp/weir/internal/testkit/leak"
	"github.com/weir-mcp/weir/smcp/hub"
	"github.com/weir-mcp/weir/socketio"
	"github.com/weir-mcp/weir/socketio/engineio"
)

func TestMain(m *testing.M) { leak.Main(m) }

func start(t testing.TB, o hub.Options) (*hub.Hub, string) {
	t.Helper()
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	h := hub.New(o)
	server := httptest.NewServer(h)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := h.Shutdown(ctx); err != nil {
			t.Errorf("the hub did not end: %v", err)
		}
		server.Close()
	})
	return h, server.URL
}

// peer is a raw client: what it hears is kept in order.
type peer struct {
	t      testing.TB
	client *socketio.Client

	mu    sync.Mutex
	heard []string
}

type peerOptions struct {
	version, token string
	key            string // in a header
	auth           string
	answer         map[string]socketio.Handler
	local          *socketio.Local // in place of the URL
}

func newPeer(t testing.TB, url string, o peerOptions) (*peer, error) {
	p := &peer{t: t}
	config := socketio.ClientConfig{Local: o.local, Namespace: "/smcp", Engine: engineio.ClientConfig{Transports: []engineio.Transport{engineio.WebSocket}},
		Retry: func(int, error) (time.Duration, bool) { return 0, false }}
	if o.token != "" {
		config.Engine.Header = http.Header{"X-Api-Key": {o.token}}
	}
	if o.key != "" {
		config.Engine.Header.Set(a2c.HeaderKey, o.key)
	}
	if o.auth != "" {
		config.Auth = func(context.Context) (json.RawMessage, error) { return json.RawMessage(o.auth), nil }
	}
	url += "/socket.io/"
	if o.version != "" {
		url += "?a2c_version=" + o.version
	}
	p.client = socketio.NewClient(url, config)
	for name, h := range o.answer {
		p.client.OnConcurrent(name, h)
	}
	p.client.OnOther(func(e *socketio.Event) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.heard = append(p.heard, e.Name+" "+string(e.Arg(0)))
	})
	t.Cleanup(func() { _ = p.client.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	return p, p.client.Connect(ctx)
}

func join(t testing.TB, url string, o peerOptions, role, name, office string) *peer {
	t.Helper()
	p, err := newPeer(t, url, o)
	if err != nil {
		t.Fatal(err)
	}
	ack := p.call("server:join_office", fmt.Sprintf(`{"role":%q,"name":%q,"office_id":%q}`, role, name, office))
	if ack != "true null" && ack != "" {
		t.Fatalf("join: %s", ack)
	}
	return p
}

// call returns the values of the ack with spaces between them.
func (p *peer) call(event, payload string) string {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 30*time.Second)
	defer cancel()
	ack, err := p.client.EmitWithAck(ctx, event, json.RawMessage(payload))
	if err != nil {
		return "no ack: " + err.Error()
	}
	var out []string
	for _, arg := range ack.Args {
		out = append(out, string(arg))
	}
	return strings.Join(out, " ")
}

func (p *peer) code(event, payload string) string {
	return string(rawjson.Get(json.RawMessage(p.call(event, payload)), "code"))
}

func (p *peer) hears(want string) {
	p.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		p.mu.Lock()
		for i, got := range p.heard {
			if got == want {
				p.heard = p.heard[i+1:]
				p.mu.Unlock()
				return
			}
		}
		p.mu.Unlock()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.t.Errorf("never heard %s; heard %q", want, p.heard)
}

func (p *peer) silent() {
	p.t.Helper()
	time.Sleep(50 * time.Millisecond)
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.heard) > 0 {
		p.t.Errorf("heard %q", p.heard)
	}
}

func reply(text string) socketio.Handler {
	return func(e *socketio.Event) { _ = e.Ack(json.RawMessage(text)) }
}

// Rooms: who may join, and what the others hear.
func TestRooms(t *testing.T) {
	_, url := start(t, hub.Options{})
	agent := join(t, url, peerOptions{}, "agent", "o", "o")
	c1 := join(t, url, peerOptions{}, "computer", "c1", "o")
	agent.hears(`notify:enter_office {"office_id":"o","computer":"c1"}`)
	modern := join(t, url, peerOptions{version: "0.4.0"}, "computer", "c2", "o")
	c1.hears(`notify:enter_office {"office_id":"o","computer":"c2"}`)
	stranger, err := newPeer(t, url, peerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		who           *peer
		event, in, ok string
	}{
		{stranger, "server:join_office", `{"role":"agent","name":"x","office_id":"o"}`, `false "Internal server error: Agent already in room"`},
		{stranger, "server:join_office", `{"role":"computer","name":"c1","office_id":"o"}`, `false "Internal server error: Computer with name 'c1' already exists in room 'o'"`},
		{stranger, "server:join_office", `{"role":"boss","name":"c1","office_id":"o"}`, `false "Invalid request payload"`},
		{stranger, "server:join_office", `[]`, `false "Invalid request payload"`},
		{stranger, "server:join_office", `{"role":"agent","robot_id":"x","office_id":"o"}`, `false "Agent sid should equal office_id"`},
		{agent, "server:join_office", `{"role":"agent","name":"o","office_id":"p"}`, `false "Internal server error: Agent sid already in room"`},
		{agent, "server:join_office", `{"role":"agent","name":"o","office_id":"o"}`, `true null`},
		{agent, "server:join_office", `{"role":"computer","name":"o","office_id":"o"}`, `false "Role mismatch, expected computer, but agent use this sid exists"`},
		{c1, "server:join_office", `{"role":"computer","name":"c1","office_id":"o"}`, `true null`},
		{c1, "server:leave_office", `{"office_id":"p"}`, `false "Cross-room access denied"`},
		{stranger, "server:leave_office", `{"office_id":"o"}`, `false "Not in any room"`},
	} {
		if got := test.who.call(test.event, test.in); got != test.ok {
			t.Errorf("%s %s: %s, want %s", test.event, test.in, got, test.ok)
		}
	}
	// A Computer changes rooms by joining; the others hear of it, it does not.
	if got := modern.call("server:join_office", `{"role":"computer","name":"c2","office_id":"p"}`); got != "true null" {
		t.Error(got)
	}
	agent.hears(`notify:leave_office {"office_id":"o","computer":"c2"}`)
	modern.silent()
	room := agent.call("server:list_room", `{"agent":"o","req_id":"1","office_id":"o"}`)
	if strings.Count(room, `"sid"`) != 2 || !strings.Contains(room, `"name":"c1","role":"computer","office_id":"o"}`) || !strings.HasSuffix(room, `"req_id":"1"}`) {
		t.Errorf("room: %s", room)
	}
	// Both spellings and both names to who says no version; one to who does.
	if got := c1.call("server:update_mcp_config", `{"computer":"other"}`); got != "" {
		t.Error(got)
	}
	agent.hears(`notify:update_config {"computer":"other"}`)
	agent.hears(`notify:update_mcp_config {"computer":"other"}`)
	if got := agent.call("server:tool_call_cancel", `{"agent":"o","req_id":"9"}`); got != "" {
		t.Error(got)
	}
	c1.hears(`notify:tool_call_cancel {"agent":"o","req_id":"9","robot_id":"o"}`)
	_ = c1.client.Close()
	agent.hears(`notify:leave_office {"office_id":"o","computer":"c1"}`)
}

// The dialect of 0.5: one Computer, other acks.
func TestDialect05(t *testing.T) {
	_, url := start(t, hub.Options{})
	agent := join(t, url, peerOptions{version: "0.5.0"}, "agent", "o", "o")
	join(t, url, peerOptions{version: "0.5.0"}, "computer", "c1", "o")
	agent.hears(`notify:enter_office {"office_id":"o","computer":"c1"}`)
	second, err := newPeer(t, url, peerOptions{version: "0.5.0"})
	if err != nil {
		t.Fatal(err)
	}
	if got := second.code("server:join_office", `{"role":"computer","name":"c2","office_id":"o"}`); got != "4101" {
		t.Errorf("a second Computer: %s", got)
	}
	if got := second.call("server:join_office", `{"role":"agent","name":"x","office_id":"o"}`); got != `{"code":4101,"message":"Agent already in room","details":{}}` {
		t.Errorf("a second agent: %s", got)
	}
	if got := agent.code("server:join_office", `{"role":"agent","name":"o","office_id":"p"}`); got != "4106" {
		t.Errorf("another room: %s", got)
	}
	if got := agent.code("server:join_office", `{"role":"agent","name":"other","office_id":"o"}`); got != "403" {
		t.Errorf("another name: %s", got)
	}
	if got := agent.call("server:leave_office", `{"office_id":"o"}`); got != "" {
		t.Errorf("leave: %s", got)
	}
}

// Calls reach their Computer in its words, and the answer comes back unread.
func TestRouting(t *testing.T) {
	_, url := start(t, hub.Options{})
	got := make(chan string, 8)
	echo := func(e *socketio.Event) {
		got <- e.Name + " " + string(e.Arg(0))
		_ = e.Ack(json.RawMessage(`{"content":[],"n":12345678901234567890,"x":{"b":1,"a":2}}`))
	}
	agent := join(t, url, peerOptions{}, "agent", "o", "o")
	join(t, url, peerOptions{answer: map[string]socketio.Handler{"client:tool_call": echo, "client:get_mcp_config": reply(`{"servers":{}}`), "client:get_tools": reply(`{"Ok":{"tools":[]}}`), "client:get_skills": reply(`{"Err":"broken"}`), "client:odd": echo}}, "computer", "c", "o")
	join(t, url, peerOptions{version: "0.4.0", answer: map[string]socketio.Handler{"client:tool_call": echo}}, "computer", "m", "o")
	const result = `{"content":[],"n":12345678901234567890,"x":{"b":1,"a":2}}`
	for _, test := range []struct{ event, in, seen, want string }{
		{"client:tool_call", `{"robot_id":"o","req_id":"1","computer":"c","tool_name":"t","params":{"z":1.50},"timeout":5}`,
			`client:tool_call {"agent":"o","robot_id":"o","req_id":"1","computer":"c","tool_name":"t","params":{"z":1.50},"timeout":5}`, result},
		{"client:tool_call", `{"agent":"o","req_id":"1","computer":"m","tool_name":"t","params":{},"timeout":5}`,
			`client:tool_call {"agent":"o","req_id":"1","computer":"m","tool_name":"t","params":{},"timeout":5}`, result},
		{"client:tool_call", `{"robot_id":"x","req_id":"1","computer":"m","tool_name":"t","params":{},"timeout":5}`,
			`client:tool_call {"req_id":"1","computer":"m","tool_name":"t","params":{},"timeout":5,"agent":"o"}`, result},
		{"client:tool_call", `{"agent":"y","robot_id":"x","req_id":"1","computer":"c","tool_name":"t","params":{},"timeout":5}`,
			`client:tool_call {"agent":"o","robot_id":"o","req_id":"1","computer":"c","tool_name":"t","params":{},"timeout":5}`, result},
		{"client:odd", `{"agent":"o","computer":"c"}`, `client:odd {"robot_id":"o","agent":"o","computer":"c"}`, result},
		{"client:get_config", `{"agent":"o","req_id":"1","computer":"c"}`, "", `{"servers":{}}`},
		{"client:get_tools", `{"agent":"o","req_id":"1","computer":"c"}`, "", `{"tools":[]}`},
		{"client:get_skills", `{"agent":"o","req_id":"1","computer":"c"}`, "", `{"code":500,"message":"broken","details":{},"error":{"code":500,"message":"broken","details":{}}}`},
	} {
		if out := agent.call(test.event, test.in); out != test.want {
			t.Errorf("%s: %s, want %s", test.event, out, test.want)
		}
		if test.seen != "" {
			if seen := <-got; seen != test.seen {
				t.Errorf("the Computer got %s, want %s", seen, test.seen)
			}
		}
	}
	for _, test := range []struct{ event, in, code string }{
		{"client:tool_call", `{"req_id":"1","computer":"c","tool_name":"t","timeout":"x"}`, "400"},
		{"client:tool_call", `{"computer":"c","tool_name":"t"}`, "400"},
		{"client:tool_call", `"text"`, "400"},
		{"client:tool_call", `{"req_id":"1","computer":"c","computer":"m","tool_name":"t"}`, "400"},
		{"client:get_tools", `{"req_id":"1","computer":"none"}`, "404"},
		{"client:mcp", `{"req_id":"1","computer":"c","op":"open"}`, "4015"},
		{"server:nonsense", `{}`, "400"},
		{"server:update_config", `{"computer":"c"}`, "403"},
	} {
		if got := agent.code(test.event, test.in); got != test.code {
			t.Errorf("%s %s: %s, want %s", test.event, test.in, got, test.code)
		}
	}
}

// A request that a Computer does not answer ends with the hub's bound.
func TestCallTimeout(t *testing.T) {
	_, url := start(t, hub.Options{CallTimeout: 100 * time.Millisecond})
	agent := join(t, url, peerOptions{}, "agent", "o", "o")
	join(t, url, peerOptions{answer: map[string]socketio.Handler{"client:get_desktop": func(*socketio.Event) {}}}, "computer", "c", "o")
	if got := agent.code("client:get_desktop", `{"req_id":"1","computer":"c"}`); got != "408" {
		t.Errorf("got %s", got)
	}
}

// A Computer may change offices while it is called.
func TestChangingOffices(t *testing.T) {
	_, url := start(t, hub.Options{})
	answer := map[string]socketio.Handler{"client:get_config": func(e *socketio.Event) { _ = e.Ack(json.RawMessage(`{"servers":{}}`)) }}
	agent := join(t, url, peerOptions{}, "agent", "a", "one")
	desk := join(t, url, peerOptions{answer: answer}, "computer", "desk", "one")
	var calls sync.WaitGroup
	for range 4 {
		calls.Go(func() {
			for range 100 {
				if got := agent.call("client:get_config", `{"computer":"desk","req_id":"r"}`); !strings.Contains(got, `"servers":{}`) && !strings.Contains(got, "Cross-room") {
					t.Errorf("got %s", got)
				}
			}
		})
	}
	for i := range 100 {
		if ack := desk.call("server:join_office", fmt.Sprintf(`{"role":"computer","name":"desk","office_id":%q}`, []string{"two", "one"}[i%2])); ack != "true null" {
			t.Errorf("join: %s", ack)
		}
	}
	calls.Wait()
}

// What one office cannot do to another.
func TestIsolation(t *testing.T) {
	_, url := start(t, hub.Options{})
	called := make(chan string, 8)
	note := func(e *socketio.Event) { called <- e.Name; _ = e.Ack(json.RawMessage(`{}`)) }
	mine := join(t, url, peerOptions{}, "agent", "mine", "mine")
	yours := join(t, url, peerOptions{}, "agent", "yours", "yours")
	computer := join(t, url, peerOptions{answer: map[string]socketio.Handler{"client:tool_call": note}}, "computer", "c", "mine")
	mine.hears(`notify:enter_office {"office_id":"mine","computer":"c"}`)
	sid := computer.client.Socket().ID()
	for _, test := range []struct {
		name, event, in, code string
		who                   *peer
	}{
		{"a call across rooms", "client:tool_call", `{"agent":"mine","req_id":"1","computer":"c","tool_name":"t","params":{},"timeout":1}`, "4104", yours},
		{"a call by sid", "client:tool_call", `{"agent":"yours","req_id":"1","computer":"` + sid + `","tool_name":"t","params":{},"timeout":1}`, "404", yours},
		{"a forged office", "client:tool_call", `{"agent":"mine","office_id":"mine","req_id":"1","computer":"c","tool_name":"t","params":{},"timeout":1}`, "4104", yours},
		{"another room's list", "server:list_room", `{"agent":"mine","req_id":"1","office_id":"mine"}`, "4104", yours},
		{"another agent's cancel", "server:tool_call_cancel", `{"agent":"mine","req_id":"1"}`, "403", yours},
		{"a Computer that calls", "client:tool_call", `{"agent":"mine","req_id":"1","computer":"c","tool_name":"t","params":{},"timeout":1}`, "403", computer},
		{"a Computer that cancels", "server:tool_call_cancel", `{"agent":"mine","req_id":"1"}`, "403", computer},
		{"an agent that sends as a server", "server:mcp", `{"channel":"x","message":{}}`, "403", yours},
	} {
		if got := test.who.code(test.event, test.in); got != test.code {
			t.Errorf("%s: %s, want %s", test.name, got, test.code)
		}
	}
	// A peer's private id, and the names of internal rooms, are offices like any other.
	thief, err := newPeer(t, url, peerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, office := range []string{sid, "office:mine/0", "mine/0", "office:mine"} {
		if got := thief.call("server:join_office", fmt.Sprintf(`{"role":"computer","name":"thief","office_id":%q}`, office)); got != "true null" {
			t.Errorf("%s: %s", office, got)
		}
		_ = computer.client.Emit("server:update_config", json.RawMessage(`{"computer":"c"}`))
		_ = computer.call("server:leave_office", `{"office_id":"nowhere"}`)
		thief.silent()
	}
	// An ack that was used up is good for nothing.
	if got := mine.call("client:tool_call", `{"agent":"mine","req_id":"1","computer":"c","tool_name":"t","params":{},"timeout":1}`); got != "{}" {
		t.Errorf("the own call: %s", got)
	}
	yours.silent()
	if got := <-called; got != "client:tool_call" || len(called) != 0 {
		t.Errorf("the Computer was called %d times too often", len(called))
	}
}

// A call whose Computer goes away is answered at once, and a call whose time is
// over is cancelled.
func TestFaults(t *testing.T) {
	h, url := start(t, hub.Options{MaxCalls: 4})
	called := make(chan struct{}, 16)
	hang := map[string]socketio.Handler{"client:tool_call": func(*socketio.Event) { called <- struct{}{} }}
	agent := join(t, url, peerOptions{}, "agent", "o", "o")
	dying := join(t, url, peerOptions{answer: hang}, "computer", "dying", "o")
	slow := join(t, url, peerOptions{answer: hang}, "computer", "slow", "o")
	done := make(chan string, 8)
	go func() {
		done <- agent.call("client:tool_call", `{"agent":"o","req_id":"1","computer":"dying","tool_name":"t","params":{},"timeout":60}`)
	}()
	<-called
	begun := time.Now()
	dying.client.Socket().Close()
	if got := <-done; !strings.Contains(got, `"code":404`) || !strings.Contains(got, "disconnected") || time.Since(begun) > 20*time.Second {
		t.Errorf("after %s: %s", time.Since(begun), got)
	}
	begun = time.Now()
	if got := agent.code("client:tool_call", `{"agent":"o","req_id":"2","computer":"slow","tool_name":"t","params":{},"timeout":0.2}`); got != "408" || time.Since(begun) > 20*time.Second {
		t.Errorf("after %s: %s", time.Since(begun), got)
	}
	slow.hears(`notify:tool_call_cancel {"agent":"o","req_id":"2","robot_id":"o"}`)
	// The bound of calls in flight.
	for i := range 6 {
		go func() {
			done <- agent.code("client:tool_call", fmt.Sprintf(`{"agent":"o","req_id":"b%d","computer":"slow","tool_name":"t","params":{},"timeout":60}`, i))
		}()
	}
	for range 2 {
		if got := <-done; got != "429" {
			t.Errorf("over the bound: %s", got)
		}
	}
	// An agent that goes away cancels what it had begun.
	agent.client.Socket().Close()
	slow.hears(`notify:leave_office {"office_id":"o","agent":"o","robot_id":"o"}`)
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		slow.mu.Lock()
		cancels := strings.Count(strings.Join(slow.heard, "\n"), "notify:tool_call_cancel")
		slow.mu.Unlock()
		if cancels == 4 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of 4 calls were cancelled", cancels)
		}
	}
	if m := h.Members(); len(m) != 1 || m[0].Name != "slow" || m[0].InFlight == 0 {
		t.Errorf("members: %+v", m)
	}
	for range 4 {
		<-done
	}
}

// The version is refused before Socket.IO, on both transports alike.
func TestVersionHandshake(t *testing.T) {
	h, url := start(t, hub.Options{StrictVersion: true})
	// A peer of the hub's own process needs no version.
	if p, err := newPeer(t, "", peerOptions{local: h.Attach()}); err != nil {
		t.Errorf("this process: %v", err)
	} else if got := p.call("server:join_office", `{"role":"agent","name":"a","office_id":"a"}`); got != "true null" {
		t.Errorf("this process joins: %s", got)
	}
	for _, test := range []struct{ query, code string }{
		{"", "400"}, {"&a2c_version=x", "400"}, {"&a2c_version=2.0.0", "4008"}, {"&a2c_version=0.4.2", ""},
	} {
		for _, transport := range []string{"polling", "websocket"} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/smcp/?EIO=4&transport="+transport+test.query, nil)
			if err != nil {
				t.Fatal(err)
			}
			if transport == "websocket" {
				for k, v := range map[string]string{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="} {
					r.Header.Set(k, v)
				}
			}
			res, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			if test.code == "" {
				if want := map[string]int{"polling": 200, "websocket": 101}[transport]; res.StatusCode != want {
					t.Errorf("%s %s: %d", transport, test.query, res.StatusCode)
				}
				_ = res.Body.Close()
				continue
			}
			body, err := io.ReadAll(res.Body)
			_ = res.Body.Close()
			header := ""
			if test.code == "4008" {
				header = "4008"
			}
			if err != nil || res.StatusCode != 400 || string(rawjson.Get(body, "code")) != test.code || res.Header.Get("X-A2C-Error-Code") != header || res.ContentLength != int64(len(body)) {
				t.Errorf("%s %s: %d %s %v length %d, %v", transport, test.query, res.StatusCode, body, res.Header, res.ContentLength, err)
			}
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

// A hundred Computers come, are listed and go.
func TestMany(t *testing.T) {
	h, url := start(t, hub.Options{})
	agent := join(t, url, peerOptions{}, "agent", "o", "o")
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			p, err := newPeer(t, url, peerOptions{})
			if err != nil {
				t.Error(err)
				return
			}
			// Two of each name want in; one gets in.
			p.call("server:join_office", fmt.Sprintf(`{"role":"computer","name":"c%d","office_id":"o"}`, i/2))
		})
	}
	wg.Wait()
	if n := len(h.Members()); n != 51 {
		t.Errorf("%d members, want 51", n)
	}
	if got := strings.Count(agent.call("server:list_room", `{"req_id":"1","office_id":"o"}`), `"sid"`); got != 51 {
		t.Errorf("%d listed", got)
	}
}

// Ten thousand events that make no sense change nothing and leave nothing.
func TestMalformed(t *testing.T) {
	h, url := start(t, hub.Options{})
	agent := join(t, url, peerOptions{}, "agent", "o", "o")
	join(t, url, peerOptions{}, "computer", "c", "o")
	p, err := newPeer(t, url, peerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	events := []string{"server:join_office", "server:leave_office", "server:list_room", "server:tool_call_cancel", "server:update_config", "server:challenge", "server:mcp", "client:tool_call", "client:mcp", "client:get_config", "client:", "server:", "notify:enter_office", "x"}
	payloads := []string{`null`, `1`, `"x"`, `[]`, `{}`, `{"role":"agent"}`, `{"role":"computer","name":"","office_id":"o"}`, `{"role":["agent"],"name":{},"office_id":1}`, `{"computer":"c","req_id":1e999}`,
		`{"computer":"c","computer":"c"}`, `{"computer":"c","req_id":"` + strings.Repeat("x", 1000) + `","tool_name":"t"}`, `{"name":"` + strings.Repeat("n", 5000) + `","role":"agent","office_id":"o"}`, `{"a":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`}
	for i := range 10_000 {
		for {
			err := p.client.Emit(events[i%len(events)], json.RawMessage(payloads[(i/len(events))%len(payloads)]))
			if err == nil {
				break
			}
			t.Fatalf("after %d: %v", i, err)
		}
		if i%500 == 499 {
			_ = p.call("server:challenge", "{}") // keep pace
		}
	}
	if got := p.call("server:leave_office", `{"office_id":"o"}`); got != `false "Not in any room"` {
		t.Errorf("afterwards: %s", got)
	}
	if m := h.Members(); len(m) != 2 {
		t.Errorf("members: %+v", m)
	}
	agent.hears(`notify:enter_office {"office_id":"o","computer":"c"}`)
	agent.silent()
}

func ExampleHub() {
	h := hub.New(hub.Options{})
	server := httptest.NewServer(h) // at /socket.io/ or /smcp/ of any HTTP server
	defer server.Close()
	fmt.Println(len(h.Members()), "members")
	_ = h.Shutdown(context.Background())
	// Output: 0 members
}
