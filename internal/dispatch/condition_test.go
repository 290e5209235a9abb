package dispatch_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/access/authz"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/internal/testkit/metatooltest"
	"github.com/weir-mcp/weir/mcp"
)

// executeAs calls a tool as a caller and returns the code of its error, "" if it ran.
func executeAs(t testing.TB, h *metatooltest.Harness, id *identity.Identity, tool, args string) string {
	t.Helper()
	raw, err := h.AskAs(t.Context(), id, "tools/call", `{"name":"tool_execute","arguments":{"tool_id":"`+tool+`","args":`+args+`}}`)
	if err != nil {
		kind, _ := mcp.KindOf(err)
		return kind.String()
	}
	if !bytes.Contains(raw, []byte(`"isError":true`)) {
		return ""
	}
	for _, code := range []string{"PERMISSION_DENIED", "HYDRATE_FAILED", "ARGS_INVALID"} {
		if bytes.Contains(raw, []byte(code)) {
			return code
		}
	}
	t.Fatalf("%s", raw)
	return ""
}

func TestPolicyOfCallers(t *testing.T) {
	const denied = "PERMISSION_DENIED"
	for _, tt := range []struct {
		name  string
		rules []dispatch.PolicyRule
		by    *identity.Identity
		args  string
		want  string
	}{
		{"an allow below a number", []dispatch.PolicyRule{{Action: dispatch.Allow, If: calltest.When(t, "args.n < 4")}}, calltest.CI, `{"q":"a","n":3}`, ""},
		{"an allow below a number that is missing", []dispatch.PolicyRule{{Action: dispatch.Allow, If: calltest.When(t, "args.n < 4")}}, calltest.CI, `{"q":"a"}`, denied},
		{"a deny below a number", []dispatch.PolicyRule{{Action: dispatch.Deny, If: calltest.When(t, "args.n < 4")}, {Action: dispatch.Allow}}, calltest.CI, `{"q":"a","n":4}`, ""},
		{"a deny below a number that is missing", []dispatch.PolicyRule{{Action: dispatch.Deny, If: calltest.When(t, "args.n < 4")}, {Action: dispatch.Allow}}, calltest.CI, `{"q":"a"}`, denied},
		{"a group", []dispatch.PolicyRule{{Action: dispatch.Allow, If: &authz.Condition{Groups: []string{"sre"}}}}, calltest.SRE, `{}`, ""},
		{"another group", []dispatch.PolicyRule{{Action: dispatch.Allow, If: &authz.Condition{Groups: []string{"sre"}}}}, calltest.Dev, `{}`, denied},
		{"fields and conditions are joined", []dispatch.PolicyRule{{Action: dispatch.Allow, Namespace: "files", If: &authz.Condition{Groups: []string{"sre"}}}}, calltest.SRE, `{}`, denied},
		{"a rule that is observed", []dispatch.PolicyRule{{Action: dispatch.Deny, Observe: true}, {Action: dispatch.Allow}}, calltest.CI, `{}`, ""},
		{"session.calls", []dispatch.PolicyRule{{Action: dispatch.Allow, If: calltest.When(t, "session.calls == 0 && session.age < duration('1h')")}}, calltest.CI, `{}`, ""},
		{"a table that is filled in later", []dispatch.PolicyRule{{Action: dispatch.Allow, If: calltest.When(t, "!has(args.q.x)")}}, calltest.CI, `{"q":{"$table":"art_0123456789ab"}}`, "ARGS_INVALID"},
		{"method and server", []dispatch.PolicyRule{{Action: dispatch.Allow, If: calltest.When(t, `method == "tools/call" && server == "web" && tool.name == "search"`)}}, calltest.CI, `{}`, ""},
	} {
		h := metatooltest.New(t, metatool.Options{Policy: &dispatch.Policy{Default: dispatch.Deny, Rules: tt.rules}})
		if got := executeAs(t, h, tt.by, h.ID(t, "web", "search"), tt.args); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// What a token with more scopes may do is refused with all scopes that the call needs; who has no
// issuer cannot get any.
func TestPolicyStepsUp(t *testing.T) {
	h := metatooltest.New(t, metatool.Options{Policy: &dispatch.Policy{Default: dispatch.Deny, Rules: []dispatch.PolicyRule{
		{Action: dispatch.Deny, If: &authz.Condition{Principals: []string{"corp:u2"}}},
		{Action: dispatch.Allow, Namespace: "web", If: &authz.Condition{Scopes: []string{"web:read", "offline_access", "repo:read"}}},
		{Action: dispatch.Allow, Namespace: "files", If: &authz.Condition{Groups: []string{"ops"}, Scopes: []string{"files"}}},
	}}})
	_, err := h.AskAs(t.Context(), calltest.SRE, "tools/call", `{"name":"tool_execute","arguments":{"tool_id":"`+h.ID(t, "web", "search")+`","args":{}}}`)
	var e *mcp.Error
	if !errors.As(err, &e) || e.Kind != mcp.KindInsufficientScope || string(e.Data) != `{"kind":"insufficient_scope","scopes":["mcp","repo:read","web:read"]}` {
		t.Fatalf("%v %s", err, e.Data)
	}
	for name, tt := range map[string]struct {
		by   *identity.Identity
		tool string
	}{"no scope helps": {calltest.SRE, h.ID(t, "files", "drop")}, "a rule before denies": {calltest.Dev, h.ID(t, "web", "search")}, "without an issuer": {calltest.CI, h.ID(t, "web", "search")}} {
		if got := executeAs(t, h, tt.by, tt.tool, `{}`); got != "PERMISSION_DENIED" {
			t.Errorf("%s: %q", name, got)
		}
	}
	all := *calltest.SRE
	all.Scopes = []string{"mcp", "offline_access", "repo:read", "web:read"}
	if got := executeAs(t, h, &all, h.ID(t, "web", "search"), `{}`); got != "" {
		t.Errorf("with the scopes: %q", got)
	}
	if len(h.Called()) != 1 {
		t.Errorf("%q", h.Called())
	}
}

func TestPolicyObserves(t *testing.T) {
	var log bytes.Buffer
	h := metatooltest.New(t, metatool.Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), Policy: &dispatch.Policy{Rules: []dispatch.PolicyRule{
		{Action: dispatch.Deny, Namespace: "web", Observe: true, If: calltest.When(t, `args.q == "hunter22"`)},
		{Action: dispatch.Allow, Namespace: "web"},
		{Action: dispatch.Deny, Observe: true},
	}}})
	for _, args := range []string{`{"q":"hunter22"}`, `{"q":"other"}`} {
		if got := executeAs(t, h, calltest.CI, h.ID(t, "web", "search"), args); got != "" {
			t.Fatal(got)
		}
	}
	text := log.String()
	if strings.Count(text, "only observed") != 1 || !strings.Contains(text, "rule=policy.rules[0]") || !strings.Contains(text, "action=deny") || !strings.Contains(text, "decided=allow") || !strings.Contains(text, "principal=ci") || strings.Contains(text, "hunter22") {
		t.Errorf("%s", text)
	}
}

// At /mcps the policy knows who calls, as at /mcp.
func TestJudgeKnowsTheCaller(t *testing.T) {
	h := metatooltest.New(t, metatool.Options{Policy: &dispatch.Policy{Default: dispatch.Deny, Rules: []dispatch.PolicyRule{
		{Action: dispatch.Deny, If: calltest.When(t, `tool.destructive && "dev" in groups`)},
		{Action: dispatch.Allow, If: calltest.When(t, `("sre" in groups || "dev" in groups) && (!has(args.n) || args.n < 4)`)},
	}}})
	places := []metatool.Place{{Upstream: "files", Namespace: "files"}}
	judge := func(id *identity.Identity, params string) error {
		_, err := h.Gateway.DirectCalls().Judge(identity.With(t.Context(), id), places, &mcp.Request{ID: "1", Method: "tools/call", Params: json.RawMessage(params), Version: mcp.V20251125, Session: h.Session, Peer: mcp.NoPeer}, "")
		return err
	}
	for _, tt := range []struct {
		by   *identity.Identity
		call string
		runs bool
	}{
		{calltest.SRE, `{"name":"drop"}`, true}, {calltest.Dev, `{"name":"drop"}`, false}, {calltest.CI, `{"name":"drop"}`, false}, {calltest.Dev, `{"name":"read_file","arguments":{"path":"a"}}`, true},
		{calltest.SRE, `{"name":"drop","arguments":{"n":4}}`, false},
		{calltest.Dev, `{"name":"unlisted"}`, false}, // it may be destructive
		{calltest.SRE, `{"name":"unlisted"}`, true},
	} {
		if err := judge(tt.by, tt.call); (err == nil) != tt.runs {
			t.Errorf("%s: %s: %v", tt.by.Principal, tt.call, err)
		}
	}
	for id, want := range map[*identity.Identity]bool{calltest.SRE: false, calltest.Dev: true, calltest.CI: true} {
		if got := h.Gateway.DirectCalls().Refuses(identity.With(t.Context(), id), places, "tools/call", "drop"); got != want {
			t.Errorf("%s: refused for sure: %v", id.Principal, got)
		}
	}
}

// A server that ignores case would run the other of two members that differ in case alone, so rules
// take the value for unknown, at both faces.
func TestConditionsOnMembersThatDifferInCase(t *testing.T) {
	for name, policy := range map[string]dispatch.Policy{
		"allow": {Default: dispatch.Deny, Rules: []dispatch.PolicyRule{{Action: dispatch.Allow, If: calltest.When(t, `args.n < 4`)}}},
		"deny":  {Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, If: calltest.When(t, `has(args.n) && args.n >= 100`)}}},
	} {
		h := metatooltest.New(t, metatool.Options{Policy: &policy})
		for args, runs := range map[string]bool{`{"n":3}`: true, `{"n":3,"m":500}`: true, `{"N":500,"n":3}`: false, `{"n":3,"N":500}`: false, `{"N":500}`: false} {
			before := len(h.Called())
			s := h.Tool(t, metatool.ToolExecute, `{"tool_id":"`+h.ID(t, "files", "drop")+`","args":`+args+`}`)
			if s.IsError == runs || (len(h.Called()) > before) != runs {
				t.Errorf("%s: %s: %+v", name, args, s)
			}
			if err := h.Directly(t, mcp.NoPeer, "tools/call", `{"name":"drop","arguments":`+args+`}`, metatool.Place{Upstream: "files", Namespace: "files"}); (err == nil) != runs {
				t.Errorf("%s: %s directly: %v", name, args, err)
			}
		}
	}
}

// A URI that a condition looks at is that of the read, in each of its spellings.
func TestConditionsOnURIs(t *testing.T) {
	h := metatooltest.New(t, metatool.Options{Policy: &dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, If: calltest.When(t, `method.startsWith("resources/") && args.uri.startsWith("file:///secret")`)}}}})
	places := []metatool.Place{{Upstream: "files", Namespace: "files"}}
	for uri, want := range map[string]bool{"file:///secret/a": true, "file:///open/a": false, "file:///s%65cret/a": true, "FILE:///secret/a": true, "file:///open/../secret/a": true} {
		_, err := h.Gateway.DirectCalls().Judge(t.Context(), places, &mcp.Request{ID: "1", Method: "resources/read", Params: json.RawMessage(`{"uri":"` + uri + `"}`), Version: mcp.V20251125, Session: h.Session, Peer: mcp.NoPeer}, "")
		if (err != nil) != want {
			t.Errorf("%s: %v", uri, err)
		}
	}
}

// rulesFor returns n rules that do not match, the last of which have conditions.
func rulesFor(b testing.TB, n, conditions int) []dispatch.PolicyRule {
	var rules []dispatch.PolicyRule
	for i := range n {
		r := dispatch.PolicyRule{Action: dispatch.Deny, Namespace: "web", Tool: fmt.Sprintf("web:other_%d_*", i)}
		if i >= n-conditions {
			r = dispatch.PolicyRule{Action: dispatch.Deny, Namespace: "web", If: calltest.When(b, fmt.Sprintf(`tool.destructive && args.q.startsWith("acme%d/") || "g%d" in groups`, i, i))}
		}
		rules = append(rules, r)
	}
	return rules
}

// BenchmarkPolicy admits a call by a policy of 50 rules, 5 of them with expressions, and prints the
// ratio of a whole call to one without a policy.
func BenchmarkPolicy(b *testing.B) {
	call := func(b *testing.B, policy *dispatch.Policy) {
		h := metatooltest.New(b, metatool.Options{Policy: policy})
		ctx := identity.With(b.Context(), calltest.SRE)
		params := `{"name":"tool_execute","arguments":{"tool_id":"` + h.ID(b, "web", "search") + `","args":{"q":"weir"}}}`
		for b.Loop() {
			if raw, err := h.AskAs(ctx, calltest.SRE, "tools/call", params); err != nil || bytes.Contains(raw, []byte(`"isError":true`)) {
				b.Fatalf("%s %v", raw, err)
			}
		}
	}
	var without, with float64
	b.Run("none", func(b *testing.B) {
		call(b, nil)
		without = float64(b.Elapsed().Nanoseconds()) / float64(b.N)
	})
	b.Run("50 rules", func(b *testing.B) {
		call(b, &dispatch.Policy{Rules: rulesFor(b, 50, 5)})
		with = float64(b.Elapsed().Nanoseconds()) / float64(b.N)
		if without > 0 {
			b.ReportMetric(with/without, "x")
			b.ReportMetric((with-without)/1000, "µs-policy")
		}
	})
}
