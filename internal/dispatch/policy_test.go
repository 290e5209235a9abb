package dispatch_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/internal/testkit/metatooltest"
	"github.com/weir-mcp/weir/mcp"
)

// A rule names a tool as its server does, or by its id, whose hash no person writes.
func TestPolicyRefuses(t *testing.T) {
	for _, pattern := range []string{"drop", "files:drop", "files:drop#*", "files:d?op"} {
		t.Run(pattern, func(t *testing.T) { testPolicyRefuses(t, pattern) })
	}
}

func testPolicyRefuses(t *testing.T, pattern string) {
	h := metatooltest.New(t, metatool.Options{Policy: &dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, Tool: pattern, Reason: "nothing is dropped here"}}},
		RateLimits: dispatch.RateLimits{MetaTools: map[string]dispatch.RateLimit{metatool.ToolExecute: {PerSession: 1}}}})
	id := h.ID(t, "files", "drop")
	for _, dry := range []string{"", `,"dry_run":true`} {
		e := calltest.Failure(t, h.Tool(t, metatool.ToolExecute, `{"tool_id":"`+id+`","args":{}`+dry+`}`))
		if e.Error != "PERMISSION_DENIED" || *e.Retryable || !strings.Contains(e.Message, "nothing is dropped here") || !strings.Contains(e.Message, id) || e.Details.ToolID != id {
			t.Errorf("%+v", e)
		}
	}
	if len(h.Called()) != 0 {
		t.Error("the upstream was called")
	}
	// What the policy refuses consumes no quota, and other tools run.
	if s := h.Tool(t, metatool.ToolExecute, `{"tool_id":"`+h.ID(t, "web", "search")+`","args":{}}`); s.IsError {
		t.Errorf("%+v", s)
	}
}

// Under a default of deny an agent still sees what it may ask for; a rule that
// names a meta-tool refuses that, too.
func TestPolicyOfOtherMetaTools(t *testing.T) {
	h := metatooltest.New(t, metatool.Options{ExposeHydrate: true, Policy: &dispatch.Policy{Default: dispatch.Deny, Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, MetaTool: metatool.ToolView, Reason: "no"}, {Action: dispatch.Deny, MetaTool: metatool.ToolHydrate, Tool: "drop"}}}})
	if s := h.Tool(t, metatool.ToolBrowse, `{"path":"/"}`); s.IsError {
		t.Errorf("%+v", s)
	}
	if e := calltest.Failure(t, h.Tool(t, metatool.ToolView, `{"handle":"x","selector":{"type":"head"}}`)); e.Error != "PERMISSION_DENIED" {
		t.Errorf("%+v", e)
	}
	if e := calltest.Failure(t, h.Tool(t, metatool.ToolHydrate, `{"tool_id":"`+h.ID(t, "files", "drop")+`"}`)); e.Error != "PERMISSION_DENIED" {
		t.Errorf("%+v", e)
	}
	if s := h.Tool(t, metatool.ToolHydrate, `{"tool_id":"`+h.ID(t, "files", "read_file")+`"}`); s.IsError {
		t.Errorf("%+v", s)
	}
}

func TestPolicyAsksAPerson(t *testing.T) {
	for _, tt := range []struct {
		name, capabilities, answer string
		asked, run                 bool
	}{
		{"accept", `{"elicitation":{}}`, `{"action":"accept","content":{}}`, true, true},
		{"accept in a form client", `{"elicitation":{"form":{},"url":{}}}`, `{"action":"accept"}`, true, true},
		{"decline", `{"elicitation":{}}`, `{"action":"decline"}`, true, false},
		{"cancel", `{"elicitation":{}}`, `{"action":"cancel"}`, true, false},
		{"nonsense", `{"elicitation":{}}`, `{}`, true, false},
		{"no capability", `{}`, `{"action":"accept"}`, false, false},
		{"URLs only", `{"elicitation":{"url":{}}}`, `{"action":"accept"}`, false, false},
	} {
		h := metatooltest.New(t, metatool.Options{Redactor: result.NewRedactor([]string{"hunter22"}), Policy: &dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.RequireApproval, Tool: "drop", Reason: "it deletes"}}}})
		h.Session.SetClient(nil, json.RawMessage(tt.capabilities))
		p := &calltest.Person{Answer: func(context.Context, json.RawMessage) (json.RawMessage, error) {
			return json.RawMessage(tt.answer), nil
		}}
		id := h.ID(t, "files", "drop")
		out, err := h.Gateway.Serve(t.Context(), &mcp.Request{ID: "1", Method: "tools/call", Version: mcp.V20251125, Session: h.Session, Peer: p,
			Params: json.RawMessage(`{"name":"tool_execute","arguments":{"tool_id":"` + id + `","args":{"path":"/x","key":"hunter22"}}}`)})
		if err != nil {
			t.Fatal(err)
		}
		if ran := len(h.Called()) == 1; ran != tt.run || (len(p.Asked) == 1) != tt.asked {
			t.Errorf("%s: ran %v, asked %q: %s", tt.name, ran, p.Asked, out)
		}
		if !tt.run && !strings.Contains(string(out), "PERMISSION_DENIED") {
			t.Errorf("%s: %s", tt.name, out)
		}
		if tt.asked {
			params := json.RawMessage(strings.TrimPrefix(p.Asked[0], "elicitation/create "))
			message := rawjson.Text(rawjson.Get(params, "message"))
			for _, want := range []string{id, "it deletes", `"/x"`, "may destroy"} {
				if !strings.Contains(message, want) {
					t.Errorf("%s: the question lacks %s: %s", tt.name, want, message)
				}
			}
			if strings.Contains(message, "hunter22") || string(rawjson.GetPath(params, "requestedSchema", "type")) != `"object"` {
				t.Errorf("%s: %s", tt.name, params)
			}
		}
	}
}

func TestPolicyAskingFails(t *testing.T) {
	h := metatooltest.New(t, metatool.Options{Policy: &dispatch.Policy{Default: dispatch.RequireApproval}})
	h.Session.SetClient(nil, json.RawMessage(`{"elicitation":{}}`))
	e := calltest.Failure(t, h.Tool(t, metatool.ToolExecute, `{"tool_id":"`+h.ID(t, "files", "drop")+`","args":{}}`)) // over mcp.NoPeer
	if e.Error != "PERMISSION_DENIED" || !strings.Contains(e.Message, "no way to ask") || len(h.Called()) != 0 {
		t.Errorf("%+v", e)
	}
	// A dry run asks nobody and says what it would come to.
	s := h.Tool(t, metatool.ToolExecute, `{"tool_id":"`+h.ID(t, "files", "drop")+`","args":{},"dry_run":true}`)
	if !strings.Contains(s.Content[0].Text, `{"name":"policy","status":"approval_required"}`) {
		t.Errorf("%+v", s)
	}
}

func TestPolicyInTheModernEra(t *testing.T) {
	h := metatooltest.New(t, metatool.Options{Policy: &dispatch.Policy{Default: dispatch.RequireApproval}})
	out, err := h.Gateway.Serve(t.Context(), &mcp.Request{ID: "1", Method: "tools/call", Version: mcp.V20260728, Session: h.Session, Peer: mcp.NoPeer,
		Params: json.RawMessage(`{"name":"tool_execute","arguments":{"tool_id":"` + h.ID(t, "files", "drop") + `","args":{}},"_meta":{"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}`)})
	if err != nil || !strings.Contains(string(out), "PERMISSION_DENIED") || !strings.Contains(string(out), "no way to ask") {
		t.Errorf("%s, %v", out, err)
	}
}

// Who goes away while a person is asked gets no call.
func TestPolicyEndsWithTheAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := metatooltest.New(t, metatool.Options{Policy: &dispatch.Policy{Default: dispatch.RequireApproval}})
		h.Session.SetClient(nil, json.RawMessage(`{"elicitation":{}}`))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		p := &calltest.Person{Answer: func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		_, err := h.Gateway.Serve(ctx, &mcp.Request{ID: "1", Method: "tools/call", Version: mcp.V20251125, Session: h.Session, Peer: p,
			Params: json.RawMessage(`{"name":"tool_execute","arguments":{"tool_id":"` + h.ID(t, "files", "drop") + `","args":{}}}`)})
		if err != context.Canceled || len(h.Called()) != 0 {
			t.Errorf("%v", err)
		}
	})
}
