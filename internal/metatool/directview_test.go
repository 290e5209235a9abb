package metatool

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/access/authz"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/mcp"
)

// A direct call of a hidden name is answered as one of a name that the server does not have, and its
// lists lack it.
func TestHiddenFromDirectCalls(t *testing.T) {
	h := newHarness(t, Options{Policy: &dispatch.Policy{Hide: true, Rules: []dispatch.PolicyRule{
		{Action: dispatch.Deny, Tool: "*secret*", If: &authz.Condition{Groups: []string{"dev"}}, Reason: "a reason that tells"},
	}}})
	h.List(secretListing())
	l := secretListing()
	l.Tools = append(l.Tools, json.RawMessage(`{"name":"open","description":"Open.","inputSchema":{"type":"object"}}`))
	l.Prompts = append(l.Prompts, json.RawMessage(`{"name":"hello"}`))
	h.List(l)
	d, places := h.g.DirectCalls(), []Place{{Upstream: "vault", Namespace: "vault"}}
	judge := func(by *identity.Identity, method, params string) error {
		ctx := identity.With(t.Context(), by)
		_, err := d.Judge(ctx, places, &mcp.Request{ID: "1", Method: method, Params: json.RawMessage(params), Version: mcp.V20251125, Session: h.Session, Peer: mcp.NoPeer}, "")
		return err
	}
	for _, tt := range [][3]string{ // with NAME for the name
		{"tools/call", `{"name":"NAME","arguments":{}}`, "secret_read"},
		{"prompts/get", `{"name":"NAME"}`, "secret_prompt"},
		{"completion/complete", `{"ref":{"type":"ref/prompt","name":"NAME"},"argument":{"name":"a","value":""}}`, "secret_prompt"},
	} {
		absent := "x" + tt[2][1:]
		hidden := calltest.ErrorText(judge(calltest.Dev, tt[0], strings.ReplaceAll(tt[1], "NAME", tt[2])))
		unknown := calltest.ErrorText(judge(calltest.Dev, tt[0], strings.ReplaceAll(tt[1], "NAME", absent)))
		if hidden != strings.ReplaceAll(unknown, absent, tt[2]) || hidden == "<nil>" {
			t.Errorf("%s: hidden: %s, unknown: %s", tt[0], hidden, unknown)
		}
		if err := judge(calltest.SRE, tt[0], strings.ReplaceAll(tt[1], "NAME", tt[2])); err != nil {
			t.Errorf("%s: sre: %v", tt[0], err)
		}
	}
	if got := calltest.ErrorText(judge(calltest.Dev, "resources/read", `{"uri":"secret://one"}`)); got != calltest.ErrorText(noResource("secret://one")) {
		t.Error(got)
	}
	if err := judge(calltest.Dev, "tools/call", `{"name":"open","arguments":{}}`); err != nil {
		t.Error(err)
	}
	for method, tt := range map[string][2]string{
		"tools/list":               {`{"tools":[{"name":"secret_read"},{"name":"open"},{"name":"unlisted"}],"nextCursor":"c"}`, `{"tools":[{"name":"open"}],"nextCursor":"c"}`},
		"prompts/list":             {`{"prompts":[{"name":"secret_prompt"},{"name":"hello"}]}`, `{"prompts":[{"name":"hello"}]}`},
		"resources/list":           {`{"resources":[{"uri":"secret://one"},{"uri":"file:///x"}]}`, `{"resources":[{"uri":"file:///x"}]}`},
		"resources/templates/list": {`{"resourceTemplates":[{"uriTemplate":"secret://of/{name}"}]}`, `{"resourceTemplates":[]}`},
		"tools/call":               {`{"tools":[{"name":"secret_read"}]}`, `{"tools":[{"name":"secret_read"}]}`},
	} {
		got, err := d.Shown(identity.With(t.Context(), calltest.Dev), places, &mcp.Request{Method: method}, json.RawMessage(tt[0]))
		if err != nil || string(got) != tt[1] {
			t.Errorf("%s: %s %v, want %s", method, got, err, tt[1])
		}
	}
	if _, err := d.Shown(identity.With(t.Context(), calltest.Dev), places, &mcp.Request{Method: "tools/list"}, json.RawMessage(`{"tools":[],"tools":[{"name":"secret_read"}]}`)); err == nil {
		t.Error("a list that two readers read differently is shown")
	}
	raw := json.RawMessage(`{"tools":[{"name":"secret_read"},{"name":"open"}]}`)
	if got, err := d.Shown(identity.With(t.Context(), calltest.SRE), places, &mcp.Request{Method: "tools/list"}, raw); err != nil || &got[0] != &raw[0] {
		t.Errorf("%s %v", got, err)
	}
}
