package metatool_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/internal/testkit/metatooltest"
	"github.com/weir-mcp/weir/mcp"
)

// TestJudge: the verdicts on direct calls are those on the meta-tool's, and what
// is not in the catalog is judged by its name.
func TestJudge(t *testing.T) {
	readOnly, writes := true, false
	const allowed = ""
	for _, tt := range []struct {
		name           string
		policy         dispatch.Policy
		method, params string
		want           string // in the message; "" is allowed
	}{
		{"default", dispatch.Policy{Default: dispatch.Deny}, "tools/call", `{"name":"drop"}`, `tools/call of "drop" at server "files": the policy of this gateway refuses it, by policy.default`},
		{"rule", dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Allow, Tool: "x"}, {Action: dispatch.Deny, Tool: "drop", Reason: "not here"}}}, "tools/call", `{"name":"drop"}`, "by policy.rules[1] (not here)"},
		{"an escaped name", dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, Tool: "drop"}}}, "tools/call", `{"n\u0061me":"dr\u006fp"}`, "rules[0]"},
		{"another tool", dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, Tool: "drop"}}}, "tools/call", `{"name":"read_file"}`, allowed},
		{"tool_id", dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, Tool: "files:drop#*"}}}, "tools/call", `{"name":"drop"}`, "rules[0]"},
		{"another namespace", dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, Namespace: "web"}}}, "tools/call", `{"name":"drop"}`, allowed},
		{"tags", dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, Tags: []string{"destructive"}}}}, "tools/call", `{"name":"drop"}`, "rules[0]"},
		{"other tags", dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, Tags: []string{"destructive"}}}}, "tools/call", `{"name":"read_file"}`, allowed},
		{"read-only", dispatch.Policy{Default: dispatch.Deny, Rules: []dispatch.PolicyRule{{Action: dispatch.Allow, ReadOnly: &readOnly}}}, "tools/call", `{"name":"read_file"}`, allowed},
		{"writes", dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, ReadOnly: &writes}}}, "tools/call", `{"name":"drop"}`, "rules[0]"},
		{"meta-tool", dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, MetaTool: metatool.ToolExecute}}}, "tools/call", `{"name":"drop"}`, "rules[0]"},
		{"another meta-tool", dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, MetaTool: metatool.ToolBrowse}}}, "tools/call", `{"name":"drop"}`, allowed},
		{"another verb", dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, MetaTool: metatool.PromptGet}}}, "tools/call", `{"name":"drop"}`, allowed},
		{"a list", dispatch.Policy{Default: dispatch.Deny}, "tools/list", `{}`, allowed},
		{"a task", dispatch.Policy{Default: dispatch.Deny}, "tasks/get", `{"taskId":"1"}`, `tasks/get at server "files"`},

		{"unlisted, by name", dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, Tool: "hid*"}}}, "tools/call", `{"name":"hidden"}`, `"hidden"`},
		{"unlisted, by id", dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, Tool: "files:hidden@*"}}}, "tools/call", `{"name":"hidden"}`, "rules[0]"},
		{"unlisted, by exact id", dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, Tool: "files:hidden#85b56782"}}}, "tools/call", `{"name":"hidden"}`, "rules[0]"},
		{"unlisted, by namespace", dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, Namespace: "files"}}}, "tools/call", `{"name":"hidden"}`, "rules[0]"},
		{"unlisted, another name", dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, Tool: "drop"}}}, "tools/call", `{"name":"hidden"}`, allowed},
		{"unlisted, tags speak against it", dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, Tags: []string{"destructive"}}}}, "tools/call", `{"name":"hidden"}`, "rules[0]"},
		{"unlisted, tags do not speak for it", dispatch.Policy{Default: dispatch.Deny, Rules: []dispatch.PolicyRule{{Action: dispatch.Allow, Tags: []string{"safe"}}}}, "tools/call", `{"name":"hidden"}`, "policy.default"},
		{"unlisted, hints do not speak for it", dispatch.Policy{Default: dispatch.Deny, Rules: []dispatch.PolicyRule{{Action: dispatch.Allow, ReadOnly: &readOnly}}}, "tools/call", `{"name":"hidden"}`, "policy.default"},
		{"unlisted, allowed by name", dispatch.Policy{Default: dispatch.Deny, Rules: []dispatch.PolicyRule{{Action: dispatch.Allow, Tool: "hidden"}}}, "tools/call", `{"name":"hidden"}`, allowed},

		{"resource", dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, Tool: "secrets"}}}, "resources/read", `{"uri":"file:///secrets"}`, `resources/read of "file:///secrets" at server "files"`},
		{"another resource", dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, Tool: "secrets"}}}, "resources/read", `{"uri":"file:///other"}`, allowed},
		{"template", dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, Tool: "rows"}}}, "resources/read", `{"uri":"db://t/1"}`, "rules[0]"},
		{"unlisted resource", dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, Tool: "file:///hid*"}}}, "resources/read", `{"uri":"file:///hidden"}`, "rules[0]"},
		{"prompt", dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, Tool: "greet"}}}, "prompts/get", `{"name":"greet"}`, `prompts/get of "greet"`},
		{"a prompt is no tool", dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, MetaTool: metatool.ToolExecute}}}, "prompts/get", `{"name":"greet"}`, allowed},

		{"no name", dispatch.Policy{Default: dispatch.Deny}, "tools/call", `{}`, `params need "name"`},
		{"no params", dispatch.Policy{Default: dispatch.Deny}, "tools/call", ``, `"name"`},
		{"no object", dispatch.Policy{Default: dispatch.Deny}, "tools/call", `["drop"]`, "cannot be read"},
		{"no string", dispatch.Policy{Default: dispatch.Deny}, "tools/call", `{"name":["drop"]}`, "must be a string"},
		{"two names", dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, Tool: "drop"}}}, "tools/call", `{"name":"read_file","name":"drop"}`, "duplicate key \"name\""},
		{"a name in another case", dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, Tool: "drop"}}}, "tools/call", `{"name":"read_file","Name":"drop"}`, `"Name", which some readers take`},
		{"a uri in another case", dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, Tool: "secrets"}}}, "resources/read", `{"URI":"file:///secrets","uri":"file:///other"}`, `"URI"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := metatooltest.New(t, metatool.Options{Policy: &tt.policy})
			h.Listed, _ = h.Listed.With(primitive.Listing{
				Upstream: "files", Namespace: "files",
				Tools:             []json.RawMessage{json.RawMessage(calltest.ReadTool), json.RawMessage(`{"name":"drop","description":"d","inputSchema":{"type":"object"},"annotations":{"destructiveHint":true}}`)},
				Resources:         []json.RawMessage{json.RawMessage(`{"uri":"file:///secrets","name":"secrets"}`), json.RawMessage(`{"uri":"file:///other","name":"other"}`)},
				ResourceTemplates: []json.RawMessage{json.RawMessage(`{"uriTemplate":"db://{table}/{id}","name":"rows"}`)},
				Prompts:           []json.RawMessage{json.RawMessage(`{"name":"greet"}`)},
			})
			err := h.Directly(t, mcp.NoPeer, tt.method, tt.params)
			if tt.want == allowed {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			var e *mcp.Error
			if !errors.As(err, &e) || !strings.Contains(e.Message, tt.want) {
				t.Fatalf("%v, want %s", err, tt.want)
			}
			if e.Kind == mcp.KindPermissionDenied {
				if rawjson.Text(rawjson.Get(e.Data, "kind")) != "permission_denied" || rawjson.Text(rawjson.Get(e.Data, "action")) != "deny" || rawjson.Text(rawjson.Get(e.Data, "rule")) == "" ||
					rawjson.Text(rawjson.Get(e.Data, "tool_id")) == "" {
					t.Errorf("data: %s", e.Data)
				}
			} else if e.Kind != mcp.KindInvalidParams {
				t.Errorf("kind %s", e.Kind)
			}
			if len(h.Called()) != 0 {
				t.Errorf("something was called: %q", h.Called())
			}
		})
	}
}

// TestJudgeAsksAPerson: require_approval asks whoever can be asked, in the words
// of the meta-tool.
func TestJudgeAsksAPerson(t *testing.T) {
	for _, tt := range []struct {
		capabilities, answer string
		asked                bool
		want                 string
	}{
		{`{"elicitation":{}}`, `{"action":"accept"}`, true, ""},
		{`{"elicitation":{}}`, `{"action":"decline"}`, true, "did not approve"},
		{``, `{"action":"accept"}`, false, "here or at /mcp"},
	} {
		h := metatooltest.New(t, metatool.Options{Redactor: result.NewRedactor([]string{"hunter22"}), Policy: &dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.RequireApproval, Tool: "drop", Reason: "it deletes"}}}})
		h.Session.SetClient(nil, json.RawMessage(tt.capabilities))
		p := &calltest.Person{Answer: func(context.Context, json.RawMessage) (json.RawMessage, error) {
			return json.RawMessage(tt.answer), nil
		}}
		err := h.Directly(t, p, "tools/call", `{"name":"drop","arguments":{"path":"/x","key":"hunter22"}}`)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "by policy.rules[0]")) || (len(p.Asked) == 1) != tt.asked {
			t.Errorf("%s: %v, asked %q", tt.capabilities+tt.answer, err, p.Asked)
		}
		for _, asked := range p.Asked {
			message := rawjson.Text(rawjson.Get([]byte(strings.TrimPrefix(asked, "elicitation/create ")), "message"))
			for _, want := range []string{`tools/call of "drop"`, "Server: files", "it deletes", `"/x"`, "may destroy"} {
				if !strings.Contains(message, want) {
					t.Errorf("the question lacks %s: %s", want, message)
				}
			}
			if strings.Contains(message, "hunter22") {
				t.Errorf("a secret is shown: %s", message)
			}
		}
	}
}

// TestJudgeOfSeveralPlaces: where a server shows the tools of several as its own,
// the strictest verdict counts, and another name is no way around.
func TestJudgeOfSeveralPlaces(t *testing.T) {
	h := metatooltest.New(t, metatool.Options{Policy: &dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.RequireApproval, Tool: "read_file"}, {Action: dispatch.Deny, Namespace: "web", Tool: "search"}}}})
	h.Add("web", calltest.Echo, `{"name":"search"}`, `{"name":"read_file"}`)
	places := []metatool.Place{{"files", "files", "f__", true}, {"web", "web", "w__", true}}
	for name, want := range map[string]string{
		"drop": "", "f__drop": "", "search": "rules[1]", "w__search": "rules[1]", "read_file": "rules[0]", "f__read_file": "rules[0]", "alias": "rules[1]",
	} {
		err := h.Directly(t, mcp.NoPeer, "tools/call", `{"name":"`+name+`"}`, places...)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
}

// TestJudges: only what could be kept back is looked at.
func TestJudges(t *testing.T) {
	for _, tt := range []struct {
		name string
		o    metatool.Options
		want bool
	}{
		{"nothing", metatool.Options{}, false},
		{"an empty policy", metatool.Options{Policy: &dispatch.Policy{}}, false},
		{"allow", metatool.Options{Policy: &dispatch.Policy{Default: dispatch.Allow, Rules: []dispatch.PolicyRule{{Action: dispatch.Allow}}}}, false},
		{"a default", metatool.Options{Policy: &dispatch.Policy{Default: dispatch.Deny}}, true},
		{"a rule", metatool.Options{Policy: &dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, Tool: "x"}}}}, true},
		{"a rule for its namespace", metatool.Options{Policy: &dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.RequireApproval, Namespace: "files"}}}}, true},
		{"a rule for another", metatool.Options{Policy: &dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, Namespace: "web"}}}}, false},
		{"a rule about browsing", metatool.Options{Policy: &dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, MetaTool: metatool.ToolBrowse}}}}, false},
		{"a quota of a meta-tool", metatool.Options{RateLimits: dispatch.RateLimits{MetaTools: map[string]dispatch.RateLimit{metatool.ToolExecute: {PerMinute: 1}}}}, false},
		{"a quota of its tool", metatool.Options{RateLimits: dispatch.RateLimits{Tools: map[string]dispatch.RateLimit{"files:drop#1": {PerMinute: 1}}}}, true},
		{"a quota of another's", metatool.Options{RateLimits: dispatch.RateLimits{Tools: map[string]dispatch.RateLimit{"web:drop#1": {PerMinute: 1}}}}, false},
		{"a pin", metatool.Options{Pin: dispatch.Pin{Hash: "x"}}, false},
		{"a strict pin", metatool.Options{Pin: dispatch.Pin{Hash: "x", Strict: true}}, true},
	} {
		h := metatooltest.New(t, tt.o)
		if got := h.Gateway.DirectCalls().Judges([]metatool.Place{{Upstream: "files", Namespace: "files"}}); got != tt.want || got && !h.Gateway.DirectCalls().HasControls() {
			t.Errorf("%s: %v, controls %v", tt.name, got, h.Gateway.DirectCalls().HasControls())
		}
	}
}

// TestJudgeCounts: quotas of single tools and a strict pin hold for direct calls,
// and what was refused is told to operators.
func TestJudgeCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events []metatool.Event
		o := metatool.Options{OnEvent: func(e metatool.Event) { events = append(events, e) }}
		h := metatooltest.New(t, o)
		id := h.ID(t, "files", "drop")
		o.RateLimits = dispatch.RateLimits{Tools: map[string]dispatch.RateLimit{id: {PerMinute: 2}}, MetaTools: map[string]dispatch.RateLimit{metatool.ToolExecute: {PerSession: 1}}}
		h = metatooltest.New(t, o)
		call := func() error { return h.Directly(t, mcp.NoPeer, "tools/call", `{"name":"drop"}`) }
		for range 2 {
			if err := call(); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(20 * time.Second)
		err := call()
		var e *mcp.Error
		if !errors.As(err, &e) || e.Kind != mcp.KindRateLimited || string(rawjson.Get(e.Data, "retry_after")) != "40" || rawjson.Text(rawjson.Get(e.Data, "scope")) != "tool:"+id+"/minute" {
			t.Errorf("%v %+v", err, e)
		}
		if len(events) != 1 || events[0].Name != "execute.failed" || events[0].Code != "RATE_LIMITED" || events[0].ToolID != id || events[0].Principal != "ann" {
			t.Errorf("events: %+v", events)
		}
		other := mcp.NewSession("t", "ann")
		if _, err := h.Gateway.DirectCalls().Judge(mcp.WithCaller(t.Context(), other), []metatool.Place{{Upstream: "files", Namespace: "files"}}, &mcp.Request{
			ID: "1", Method: "tools/call", Session: h.Session, Peer: mcp.NoPeer, Params: json.RawMessage(`{"name":"drop"}`),
		}, ""); err != nil {
			t.Errorf("another session: %v", err)
		}
		time.Sleep(40 * time.Second)
		if err := call(); err != nil {
			t.Errorf("a minute later: %v", err)
		}
		if n := h.State.Sessions(); n != 0 {
			t.Errorf("%d sessions of the router count as the gateway's", n)
		}
	})
	h := metatooltest.New(t, metatool.Options{Pin: dispatch.Pin{Hash: "other", Strict: true}})
	if err := h.Directly(t, mcp.NoPeer, "tools/call", `{"name":"drop"}`); err == nil || !strings.Contains(err.Error(), "not the one that is pinned") {
		t.Errorf("under another catalog than the pinned one: %v", err)
	}
}

// TestOneNameOnly: a member that a careless server takes for the tool's name does
// not reach it through tool_execute.
func TestOneNameOnly(t *testing.T) {
	h := metatooltest.New(t, metatool.Options{})
	_, err := h.Ask(t, "tools/call", `{"name":"tool_execute","Name":"drop","ARGUMENTS":{},"arguments":{"tool_id":"`+h.ID(t, "files", "read_file")+`","args":{"path":"/x"}},"later":1}`)
	if called := h.Called(); err != nil || len(called) != 1 || called[0] != `files {"name":"read_file","arguments":{"path":"/x"},"later":1}` {
		t.Errorf("%v, the server got %q", err, called)
	}
}
