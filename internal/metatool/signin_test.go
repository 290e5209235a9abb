package metatool

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/mcp"
)

// closedServer wants a sign-in before it answers.
type closedServer struct {
	calls    atomic.Int32
	signedIn atomic.Bool
}

func (s *closedServer) Call(context.Context, string, json.RawMessage, mcp.Handler) (json.RawMessage, error) {
	s.calls.Add(1)
	if s.signedIn.Load() {
		return json.RawMessage(calltest.Text("welcome")), nil
	}
	return nil, &mcp.Error{Kind: mcp.KindUnauthorized, Message: "the server needs a sign-in", Data: json.RawMessage(`{"kind":"unauthorized","server":"notes","command":"weir login notes","connect_url":"https://weir.example.com/connect/notes"}`)}
}

func (s *closedServer) Notify(context.Context, string, json.RawMessage) error { return nil }

func (s *closedServer) SignedIn(context.Context) bool { return s.signedIn.Load() }

// TestSignInByElicitation calls a server that wants a sign-in, for clients that open URLs and others,
// and for persons who sign in after a while and others.
func TestSignInByElicitation(t *testing.T) {
	for name, c := range map[string]struct {
		capabilities, action string
		after                time.Duration // of the question; 0 never
		asked, welcome       bool
		took                 time.Duration
	}{
		"signs in":            {`{"elicitation":{"url":{}}}`, "accept", 40500 * time.Millisecond, true, true, 41 * time.Second},
		"never signs in":      {`{"elicitation":{"url":{}}}`, "accept", 0, true, false, 5 * time.Minute},
		"declines":            {`{"elicitation":{"url":{}}}`, "decline", time.Second, true, false, 0},
		"a client of forms":   {`{"elicitation":{"form":{}}}`, "accept", time.Second, false, false, 0},
		"an old client":       {`{"elicitation":{}}`, "accept", time.Second, false, false, 0},
		"a client of nothing": {`{}`, "accept", time.Second, false, false, 0},
		"2026-07-28":          {`{"elicitation":{"url":{}}}`, "accept", 40500 * time.Millisecond, true, true, 41 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			version := mcp.V20251125
			if name == mcp.V20260728 {
				version = name
			}
			synctest.Test(t, func(t *testing.T) {
				h := newHarness(t, Options{})
				server := &closedServer{}
				h.Add("notes", nil, `{"name":"hello","inputSchema":{"type":"object"}}`)
				h.Others = map[string]mcp.Peer{"notes": server}
				h.Session.SetClient(nil, json.RawMessage(c.capabilities))
				p := &calltest.Person{Answer: func(context.Context, json.RawMessage) (json.RawMessage, error) {
					if c.after > 0 {
						time.AfterFunc(c.after, func() { server.signedIn.Store(true) })
					}
					return json.RawMessage(`{"action":"` + c.action + `"}`), nil
				}}
				began := time.Now()
				out, err := h.g.Serve(t.Context(), &mcp.Request{ID: "1", Method: "tools/call", Version: version, Session: h.Session, Peer: p,
					Params: json.RawMessage(`{"name":"tool_execute","arguments":{"tool_id":"` + h.ID(t, "notes", "hello") + `","args":{}},"_meta":{"io.modelcontextprotocol/clientCapabilities":` + c.capabilities + `}}`)})
				if err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took != c.took {
					t.Errorf("it took %s", took)
				}
				if c.asked != (len(p.Asked) == 1) {
					t.Fatalf("asked %q", p.Asked)
				}
				if c.asked {
					method, params, _ := strings.Cut(p.Asked[0], " ")
					if method != "elicitation/create" || rawjson.Text(rawjson.Get([]byte(params), "mode")) != "url" || rawjson.Text(rawjson.Get([]byte(params), "url")) != "https://weir.example.com/connect/notes" || (rawjson.Text(rawjson.Get([]byte(params), "elicitationId")) == "") != mcp.IsModern(version) {
						t.Errorf("asked %q", p.Asked[0])
					}
				}
				text := string(out)
				if c.welcome != strings.Contains(text, "welcome") || !c.welcome && (!strings.Contains(text, "AUTH_FAILED") || !strings.Contains(text, `connect_url\":\"https://weir.example.com/connect/notes`) || !strings.Contains(text, `retryable\":true`)) {
					t.Errorf("the agent reads %s", text)
				}
				h.Session.Close()
			})
		})
	}
}
