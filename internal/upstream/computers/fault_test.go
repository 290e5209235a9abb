package computers

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/office/a2c"
	"github.com/weir-mcp/weir/internal/office/member"
	"github.com/weir-mcp/weir/internal/upstream"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
	"github.com/weir-mcp/weir/smcp"
	"github.com/weir-mcp/weir/smcp/agent"
	"github.com/weir-mcp/weir/smcp/hub"
	"github.com/weir-mcp/weir/socketio"
)

// opened are Upstreams that hand on how to reach what is attached.
type opened chan upstream.Open

func (o opened) Attach(_ *config.Server, open upstream.Open) error { o <- open; return nil }

func (o opened) Detach(string) bool { return true }

func (o opened) Attached(string) bool { return true }

// What goes wrong with a call of another program's Computer reaches the gateway's
// client as a reason, not as "internal error".
func TestReasons(t *testing.T) {
	pub, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	_, other, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	const result = `{"content":[]}`
	sign := func(key ed25519.PrivateKey, reqID string) json.RawMessage {
		out, err := a2c.SignResult(key, "desk", "t", reqID, json.RawMessage(result))
		if err != nil {
			t.Error(err)
		}
		return out
	}
	failed := func(code int, message string) json.RawMessage {
		return json.RawMessage(fmt.Sprintf(`{"code":%d,"message":%q}`, code, message))
	}
	for _, test := range []struct {
		name   string
		answer func(reqID string) json.RawMessage
		kind   string // "" is a result
		text   string
	}{
		{"signed", func(id string) json.RawMessage { return sign(key, id) }, "", ""},
		{"unsigned", func(string) json.RawMessage { return json.RawMessage(result) }, "upstream_protocol", `the result of computer "desk" is not signed, and a key is known for it: start it with weir computer --key`},
		{"another key", func(id string) json.RawMessage { return sign(other, id) }, "upstream_protocol", `the result of computer "desk" is not signed with the key that is known for it`},
		{"another request", func(string) json.RawMessage { return sign(key, "x") }, "upstream_protocol", "changed on the way"},
		{"refused", func(string) json.RawMessage { return failed(403, "Not for you") }, "permission_denied", `computer "desk": Not for you`},
		{"invalid", func(string) json.RawMessage { return failed(400, "Invalid request payload") }, "invalid_params", "Invalid request payload"},
		{"busy", func(string) json.RawMessage { return failed(429, "Too many") }, "overloaded", "Too many"},
		{"late", func(string) json.RawMessage { return failed(4004, "Request timeout") }, "upstream_timeout", "Request timeout"},
		{"gone", func(string) json.RawMessage { return failed(404, "disconnected") }, "upstream_unavailable", "disconnected"},
		{"broken", func(string) json.RawMessage { return failed(500, "Internal error") }, "upstream_unavailable", "Internal error"},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := hub.New(hub.Options{})
			server := httptest.NewServer(h)
			defer server.Close()
			defer func() { _ = h.Shutdown(context.Background()) }()
			desk, err := member.New(member.Options{URL: server.URL, Role: smcp.RoleComputer, Name: "desk", Office: "o"})
			if err != nil {
				t.Fatal(err)
			}
			defer desk.Close()
			desk.OnConcurrent(smcp.EventGetTools, func(e *socketio.Event) {
				_ = e.Ack(json.RawMessage(`{"tools":[{"name":"t","params_schema":{}}],"req_id":"r"}`))
			})
			desk.OnConcurrent(smcp.EventToolCall, func(e *socketio.Event) {
				var call smcp.ToolCall
				if err := e.Decode(0, &call); err != nil {
					t.Error(err)
				}
				_ = e.Ack(test.answer(call.ReqID))
			})
			if err := desk.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			there := make(opened, 1)
			f, err := New(Options{Agent: agent.Options{URL: server.URL, Office: "o", Keys: map[string]ed25519.PublicKey{"desk": pub}}, Each: there})
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if err := f.Start(); err != nil {
				t.Fatal(err)
			}
			stream, err := (<-there)(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			conn := mcp.NewConn(stream, mcp.ConnOptions{Name: "desk", Drain: time.Millisecond})
			defer conn.Close()
			if _, err := conn.Call(t.Context(), "initialize", json.RawMessage(`{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`), nil); err != nil {
				t.Fatal(err)
			}
			_, err = conn.Call(t.Context(), "tools/call", json.RawMessage(`{"name":"t","arguments":{}}`), nil)
			if test.kind == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			var wire *jsonrpc.Error
			if !errors.As(err, &wire) || !strings.Contains(wire.Message, test.text) || string(wire.Data) != `{"kind":"`+test.kind+`"}` {
				t.Errorf("got %v", err)
			}
		})
	}
}
