package dispatch_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/internal/testkit/metatooltest"
	"github.com/weir-mcp/weir/internal/text/redact"
	"github.com/weir-mcp/weir/mcp"
)

const (
	heldSecret = "hunter-22-and-more"
	ofVendor   = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
)

// TestLeaks: whatever leads to a server is refused with a secret in it, without asking a person, and
// the answer does not repeat it.
func TestLeaks(t *testing.T) {
	leaks := redact.NewFinder([]string{heldSecret}, nil)
	places := []metatool.Place{{Upstream: "docs", Namespace: "docs"}, {Upstream: "files", Namespace: "files"}}
	for _, o := range []metatool.Options{{Leaks: leaks}, {Leaks: leaks, Policy: &dispatch.Policy{Default: dispatch.RequireApproval}}} {
		for _, r := range reaching {
			if r.params == "" {
				continue
			}
			for _, secret := range []string{heldSecret, ofVendor, base64.StdEncoding.EncodeToString([]byte(heldSecret)), `h\u0075nter-22-and-more`} {
				h, up := metatooltest.Library(t, o)
				h.Session.SetClient(nil, json.RawMessage(`{"elicitation":{}}`))
				p := &calltest.Person{Answer: func(context.Context, json.RawMessage) (json.RawMessage, error) {
					return json.RawMessage(`{"action":"accept","content":{"approve":true}}`), nil
				}}
				params := strings.TrimSuffix(r.params, "}")
				if params != "{" {
					params += ","
				}
				params += `"_meta":{"note":"take ` + secret + `"}}`
				for _, id := range []struct{ upstream, name string }{{"files", "drop"}, {"docs", "README"}, {"docs", "rows"}, {"docs", "hello"}} {
					if strings.Contains(params, "%"+id.name) {
						params = strings.Replace(params, "%"+id.name, h.ID(t, id.upstream, id.name), 1)
					}
				}
				request := &mcp.Request{ID: "1", Method: r.method, Version: mcp.V20251125, Session: h.Session, Peer: p, Params: json.RawMessage(params)}
				var out json.RawMessage
				var err error
				if r.direct {
					_, err = h.Gateway.DirectCalls().Judge(t.Context(), places, request, "")
				} else {
					out, err = h.Gateway.Serve(t.Context(), request)
				}
				said := string(out) + calltest.ErrorText(err)
				if !strings.Contains(said, "guards.secrets.args") || !strings.Contains(said, "_meta.note") || strings.Contains(said, secret) || strings.Contains(said, heldSecret) {
					t.Errorf("%s, direct %v, with %s: %s", r.name, r.direct, secret, said)
				}
				if n := len(up.Calls) + len(up.Watched) + len(h.Called()); n > 0 || len(p.Asked) > 0 {
					t.Errorf("%s, direct %v: %d messages have reached a server, and a person was asked %q", r.name, r.direct, n, p.Asked)
				}
			}
		}
	}
}

// TestLeaksInArguments has secrets where tools, resources and prompts get their arguments.
func TestLeaksInArguments(t *testing.T) {
	h, _ := metatooltest.Library(t, metatool.Options{Leaks: redact.NewFinder([]string{heldSecret}, nil)})
	id := h.ID(t, "files", "drop")
	quote := func(v any) string {
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	for at, args := range map[string]string{
		"arguments.token":            `{"token":"` + heldSecret + `"}`,
		"arguments.a[1].b":           `{"a":[0,{"b":"Bearer ` + ofVendor + `"}]}`,
		"arguments (a name in it)":   `{"` + heldSecret + `":1}`,
		"arguments.body":             `{"body":` + quote(`{"auth":{"key":"`+ofVendor+`"}}`) + `}`,
		"arguments (in several text": `{"a":"hunter-22","b":"-and-more"}`,
	} {
		if s := h.Tool(t, metatool.ToolExecute, `{"tool_id":"`+id+`","args":`+args+`}`); !s.IsError || !strings.Contains(s.Content[0].Text, "PERMISSION_DENIED") || !strings.Contains(s.Content[0].Text, at) || strings.Contains(s.Content[0].Text, heldSecret) {
			t.Errorf("%s: %+v", args, s)
		}
	}
	for method, params := range map[string]string{
		"resources/read":      `{"uri":"file:///docs/readme.md?key=` + ofVendor + `"}`,
		"prompts/get":         `{"name":"hello","arguments":{"a":"` + heldSecret + `"}}`,
		"completion/complete": `{"ref":{"type":"ref/prompt","name":"hello"},"argument":{"name":"a","value":"` + heldSecret + `"}}`,
	} {
		if err := h.Directly(t, mcp.NoPeer, method, params, metatool.Place{Upstream: "docs", Namespace: "docs"}); calltest.KindOf(err) != mcp.KindPermissionDenied || strings.Contains(err.Error(), heldSecret) {
			t.Errorf("%s %s: %v", method, params, err)
		}
	}
	// The token of the caller itself is a secret, too; that of another caller is not known.
	const bearer = "opaque-token/of-the-caller"
	own := &identity.Identity{Principal: "ci", Bearer: bearer}
	call := `{"name":"tool_execute","arguments":{"tool_id":"` + id + `","args":{"t":"` + bearer + `"}}}`
	for _, form := range []string{
		quote(bearer), `"\u006fpaque-token/of-the-caller"`, `"opaque-token\/of-the-caller"`, quote("x" + url.QueryEscape(bearer)),
		quote(base64.StdEncoding.EncodeToString([]byte(bearer))), quote("Basic " + base64.StdEncoding.EncodeToString([]byte("ci:"+bearer))),
		quote(`{"a":"\u006fpaque-token/of-the-caller"}`), `{"` + bearer + `":1}`, `["opaque-token/","of-the-caller"]`,
	} {
		out, err := h.AskAs(t.Context(), own, "tools/call", `{"name":"tool_execute","arguments":{"tool_id":"`+id+`","args":{"t":`+form+`}}}`)
		if err != nil || !strings.Contains(string(out), "guards.secrets.args") || strings.Contains(string(out), bearer) {
			t.Errorf("the token of the caller as %s: %s, %v", form, out, err)
		}
	}
	if len(h.Called()) != 0 {
		t.Fatalf("a server was called: %q", h.Called())
	}
	// What a person has answered, and what a server has sealed, are no arguments of the model.
	for _, params := range []string{
		call,
		`{"name":"tool_execute","arguments":{"tool_id":"` + id + `","args":{"t":"usual"}},"inputResponses":{"k":{"content":{"password":"` + heldSecret + `"}}},"requestState":"` + ofVendor + `"}`,
	} {
		out, err := h.AskAs(t.Context(), &identity.Identity{Principal: "other"}, "tools/call", params)
		if err != nil || string(rawjson.Get(out, "isError")) == "true" {
			t.Errorf("%s: %s, %v", params, out, err)
		}
	}
}

// TestLeaksOff: without the guard, arguments pass as they are.
func TestLeaksOff(t *testing.T) {
	h, _ := metatooltest.Library(t, metatool.Options{})
	if s := h.Tool(t, metatool.ToolExecute, `{"tool_id":"`+h.ID(t, "files", "drop")+`","args":{"t":"`+ofVendor+`"}}`); s.IsError || len(h.Called()) != 1 || !strings.Contains(h.Called()[0], ofVendor) {
		t.Errorf("%+v, called %q", s, h.Called())
	}
}
