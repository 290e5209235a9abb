package upstream

import (
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/protocol/mcptask"
	"github.com/weir-mcp/weir/mcp"
)

func TestStripModern(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"nothing", ``, ``},
		{"no meta", `{"name":"a", "n":12345678901234567890}`, `{"name":"a", "n":12345678901234567890}`},
		{"a mention elsewhere", `{"x":"io.modelcontextprotocol/protocolVersion"}`, `{"x":"io.modelcontextprotocol/protocolVersion"}`},
		{"only marks", `{"b":1,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}},"a":1.50}`, `{"b":1,"a":1.50}`},
		{
			"marks and more", `{"_meta":{"progressToken":7,"io.modelcontextprotocol/clientInfo":{"name":"x"},"io.modelcontextprotocol/related":1,"z":null}}`,
			`{"_meta":{"progressToken":7,"io.modelcontextprotocol/related":1,"z":null}}`,
		},
		{"with an escape", `{"_meta":{"io.modelcontextprotocol\/protocolVersion":"2026-07-28"}}`, `{}`},
		{"no object", `{"_meta":"io.modelcontextprotocol/"}`, `{"_meta":"io.modelcontextprotocol/"}`},
	} {
		got, err := stripModern([]byte(c.in))
		if err != nil || string(got) != c.want {
			t.Errorf("%s: got %s, %v, want %s", c.name, got, err, c.want)
		}
	}
	if _, err := stripModern([]byte(`{"_meta":{"io.modelcontextprotocol/logLevel":1,"io.modelcontextprotocol/logLevel":2}}`)); err == nil {
		t.Error("a key that stands twice is taken off")
	}
}

func TestAddModern(t *testing.T) {
	const marks = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"w"},"io.modelcontextprotocol/clientCapabilities":{}`
	for _, c := range []struct{ name, in, level, want string }{
		{"nothing", ``, "", `{"_meta":{` + marks + `}}`},
		{"params", `{"n":12345678901234567890}`, "", `{"n":12345678901234567890,"_meta":{` + marks + `}}`},
		{"a token", `{"_meta":{"progressToken":"t"},"z":1}`, "", `{"_meta":{"progressToken":"t",` + marks + `},"z":1}`},
		{"a level", `{}`, "debug", `{"_meta":{` + marks + `,"io.modelcontextprotocol/logLevel":"debug"}}`},
	} {
		got, err := addModern([]byte(c.in), "2026-07-28", []byte(`{"name":"w"}`), []byte("{}"), c.level)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: got %s, %v, want %s", c.name, got, err, c.want)
		}
	}
	for in, want := range map[string]bool{`{"_meta":{` + marks + `}}`: true, `{"a":1}`: false, ``: false, `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2025-11-25"}}`: false} {
		if got := saysModern([]byte(in)); got != want {
			t.Errorf("%s is modern: %v", in, got)
		}
	}
}

func TestBackoffIsBounded(t *testing.T) {
	for _, failures := range []int{-1, 0, 1, 5, 9, 10, 63, 64, 1 << 40} {
		if d := backoff(failures); d < firstBackoff*3/4 || d > maxBackoff*5/4 {
			t.Errorf("%d failures: %s", failures, d)
		}
	}
	if d := backoff(3); d < 300*time.Millisecond || d > 500*time.Millisecond {
		t.Errorf("3 failures: %s", d)
	}
}

// TestAdaptOffersTasks: a server is told that it may answer with a task only if the caller
// understands tasks and the server has them, in the form of the server's era.
func TestAdaptOffersTasks(t *testing.T) {
	const legacy, modern = `{"tasks":{"requests":{"tools":{"call":{}}}}}`, `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	const ofModern = `{"name":"x","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"roots":{}}}}`
	optional := &mcptask.Offer{Tool: "optional", TTL: time.Second}
	for _, c := range []struct {
		name, capabilities string
		modern             bool
		offer              *mcptask.Offer
		method, params     string
		task, declared     bool
	}{
		{"2025-11-25", legacy, false, optional, "tools/call", `{"name":"x"}`, true, false},
		{"a modern agent at a server of 2025-11-25", legacy, false, optional, "tools/call", ofModern, true, false},
		{"another method", legacy, false, optional, "tasks/get", `{"taskId":"x"}`, false, false},
		{"a server of 2025-11-25 without tasks", `{}`, false, optional, "tools/call", `{"name":"x"}`, false, false},
		{"a caller of 2025-11-25 that knows no tasks", legacy, false, nil, "tools/call", `{"name":"x"}`, false, false},
		{"2026-07-28", modern, true, optional, "tools/call", `{"name":"x"}`, false, true},
		{"2026-07-28, about a task", modern, true, &mcptask.Offer{}, "tasks/get", `{"taskId":"x"}`, false, true},
		{"a modern agent at a modern server", modern, true, optional, "tools/call", ofModern, false, true},
		{"a modern server without tasks", `{}`, true, optional, "tools/call", ofModern, false, false},
		{"a modern caller that knows no tasks", modern, true, nil, "tools/call", ofModern, false, false},
	} {
		u := &Upstream{}
		u.opts.ClientInfo = json.RawMessage(`{"name":"w"}`)
		l := &link{slot: &slot{srv: &u.server}, hello: mcp.Hello{Version: mcp.V20260728, Modern: c.modern, Capabilities: json.RawMessage(c.capabilities)}}
		ctx := t.Context()
		if c.offer != nil {
			ctx = mcptask.WithOffer(ctx, *c.offer)
		}
		got, err := l.adapt(ctx, c.method, json.RawMessage(c.params))
		task := rawjson.IsObject(rawjson.Get(got, "task"))
		can := rawjson.GetPath(got, "_meta", mcp.MetaClientCapabilities)
		if err != nil || task != c.task || mcptask.Declares(can) != c.declared || c.modern != (can != nil) {
			t.Errorf("%s: %s, %v", c.name, got, err)
		}
		if c.params == ofModern && c.modern && rawjson.Get(can, "roots") == nil {
			t.Errorf("%s: a capability of the agent is lost: %s", c.name, got)
		}
		u.server.greeted(&slot{key: slotKey{session: mcp.NewSession("s", "p")}}, l)
		if u.OffersTasks() {
			t.Errorf("%s: the connection of one session speaks for the server", c.name)
		}
		u.log, u.cfg = slog.New(slog.DiscardHandler), &mcpserver.Server{}
		u.server.greeted(&slot{srv: &u.server}, l)
		if u.OffersTasks() != (c.capabilities != `{}`) {
			t.Errorf("%s: of %s it says that it offers tasks: %t", c.name, c.capabilities, u.OffersTasks())
		}
	}
}
