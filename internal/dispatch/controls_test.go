package dispatch_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/internal/testkit/metatooltest"
	"github.com/weir-mcp/weir/mcp"
)

// reaching are requests that lead to an upstream, as the gateway's own methods and
// as direct calls of the server "docs" or "files".
var reaching = []struct {
	name, method, params string
	direct               bool
}{
	{"tool_execute", "tools/call", `{"name":"tool_execute","arguments":{"tool_id":"%drop","args":{}}}`, false},
	{"resource_read", "tools/call", `{"name":"resource_read","arguments":{"resource_id":"%README"}}`, false},
	{"resource_read of a template", "tools/call", `{"name":"resource_read","arguments":{"resource_id":"%rows","args":{"table":"users","id":"7","limit":"2"}}}`, false},
	{"prompt_get", "tools/call", `{"name":"prompt_get","arguments":{"prompt_id":"%hello"}}`, false},
	{"resources/read", "resources/read", `{"uri":"file:///docs/readme.md"}`, false},
	{"resources/subscribe", "resources/subscribe", `{"uri":"file:///docs/readme.md"}`, false},
	{"prompts/get", "prompts/get", `{"name":"hello"}`, false},
	{"completion of a prompt", "completion/complete", `{"ref":{"type":"ref/prompt","name":"hello"},"argument":{"name":"a","value":""}}`, false},
	{"completion of a template", "completion/complete", `{"ref":{"type":"ref/resource","uri":"db://{table}/{id}{?limit}"},"argument":{"name":"table","value":""}}`, false},

	{"tools/call", "tools/call", `{"name":"drop"}`, true},
	{"an unlisted tool", "tools/call", `{"name":"hidden"}`, true},
	{"resources/read", "resources/read", `{"uri":"file:///docs/readme.md"}`, true},
	{"resources/subscribe", "resources/subscribe", `{"uri":"file:///docs/readme.md"}`, true},
	{"prompts/get", "prompts/get", `{"name":"hello"}`, true},
	{"completion of a prompt", "completion/complete", `{"ref":{"type":"ref/prompt","name":"hello"},"argument":{"name":"a","value":""}}`, true},
	{"completion of a template", "completion/complete", `{"ref":{"type":"ref/resource","uri":"db://{table}/{id}{?limit}"},"argument":{"name":"table","value":""}}`, true},
	{"completion of a URI", "completion/complete", `{"ref":{"type":"ref/resource","uri":"db://users/7"},"argument":{"name":"table","value":""}}`, true},
	{"tasks/get", "tasks/get", `{"taskId":"t"}`, true},
	{"tasks/result", "tasks/result", `{"taskId":"t"}`, true},
	{"tasks/cancel", "tasks/cancel", `{"taskId":"t"}`, true},
	{"tasks/update", "tasks/update", `{"taskId":"t"}`, true},
	{"a method that weir does not know", "evil/custom", `{"x":1}`, true},
	{"one without params", "evil/custom", ``, true},
	{"a notification that weir does not know", "notifications/evil", `{}`, true},
}

// door is a harness in which everything that reaches an upstream is noted.
func door(t *testing.T, o metatool.Options) (h *metatooltest.Harness, send func(i int) error, reached func() int) {
	h, up := metatooltest.Library(t, o)
	send = func(i int) error {
		r := reaching[i]
		params := r.params
		for _, id := range []struct{ upstream, name string }{{"files", "drop"}, {"docs", "README"}, {"docs", "rows"}, {"docs", "hello"}} {
			if strings.Contains(params, "%"+id.name) {
				params = strings.Replace(params, "%"+id.name, h.ID(t, id.upstream, id.name), 1)
			}
		}
		if r.direct {
			return h.Directly(t, mcp.NoPeer, r.method, params, metatool.Place{Upstream: "docs", Namespace: "docs"}, metatool.Place{Upstream: "files", Namespace: "files"})
		}
		out, err := h.Ask(t, r.method, params)
		if err == nil && string(rawjson.Get(out, "isError")) == "true" {
			err = errors.New(string(out))
		}
		return err
	}
	return h, send, func() int {
		up.Mu.Lock()
		defer up.Mu.Unlock()
		return len(up.Calls) + len(up.Watched) + len(h.Called())
	}
}

// TestNothingReachesAnUpstreamPastTheControls: whatever leads to a server is kept
// back by a policy that denies, by a strict pin, by a quota that is used up and by
// a person who cannot be asked, and passes without them.
func TestNothingReachesAnUpstreamPastTheControls(t *testing.T) {
	nothing := func(names ...string) dispatch.RateLimits {
		l := dispatch.RateLimits{MetaTools: map[string]dispatch.RateLimit{}}
		for _, name := range names {
			l.MetaTools[name] = dispatch.RateLimit{PerSession: 1}
		}
		return l
	}
	for _, c := range []struct {
		name    string
		o       metatool.Options
		refused string
		skip    func(i int) bool
	}{
		{"none", metatool.Options{}, "", nil},
		{"allow", metatool.Options{Policy: &dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Allow}}, Default: dispatch.Deny}}, "", nil},
		{"default: deny", metatool.Options{Policy: &dispatch.Policy{Default: dispatch.Deny}}, "the policy of this gateway refuses it", nil},
		{"a rule about all", metatool.Options{Policy: &dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny}}}}, "the policy of this gateway refuses it", nil},
		{"require_approval", metatool.Options{Policy: &dispatch.Policy{Default: dispatch.RequireApproval}}, "a person has to approve it", nil},
		{"a strict pin", metatool.Options{Pin: dispatch.Pin{Hash: "other", Strict: true}}, "the catalog is not the one that is pinned", nil},
		{"quotas", metatool.Options{RateLimits: nothing(metatool.ToolExecute, metatool.ResourceRead, metatool.PromptGet)}, "quota", func(i int) bool { return reaching[i].direct }},
	} {
		t.Run(c.name, func(t *testing.T) {
			for i, r := range reaching {
				if c.skip != nil && c.skip(i) {
					continue
				}
				_, send, reached := door(t, c.o)
				before := 0
				if c.name == "quotas" { // the one call that they leave
					for j, first := range reaching {
						if _, ok := c.o.RateLimits.MetaTools[first.name]; !ok {
							continue
						}
						if err := send(j); err != nil {
							t.Fatalf("%s, its first call: %v", first.name, err)
						}
					}
					before = reached()
				}
				err := send(i)
				if c.refused == "" && err != nil || c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)) {
					t.Errorf("%s, direct %v: %v", r.name, r.direct, err)
				}
				if n := reached() - before; n > 0 != (c.refused == "" && !r.direct) {
					t.Errorf("%s, direct %v: %d messages have reached a server", r.name, r.direct, n)
				}
			}
		})
	}
}

// TestLookingIsFree: what runs and reads nothing passes under `default: deny`.
func TestLookingIsFree(t *testing.T) {
	h, _ := metatooltest.Library(t, metatool.Options{Policy: &dispatch.Policy{Default: dispatch.Deny}})
	for _, method := range []string{"tools/list", "resources/list", "resources/templates/list", "prompts/list", "tasks/list", "ping", "logging/setLevel", "resources/unsubscribe", "notifications/cancelled", "notifications/roots/list_changed"} {
		if err := h.Directly(t, mcp.NoPeer, method, `{}`); err != nil {
			t.Errorf("%s: %v", method, err)
		}
	}
}

// TestTasksAreJudgedByTheirTools: what is about a task is decided as its tool is,
// without counting, or by the place where the tool is not known.
func TestTasksAreJudgedByTheirTools(t *testing.T) {
	h := metatooltest.New(t, metatool.Options{})
	id := h.ID(t, "files", "drop")
	for _, c := range []struct {
		name, tool string
		policy     *dispatch.Policy
		limits     dispatch.RateLimits
		want       string
	}{
		{"a tool that is denied", "drop", &dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, Tool: "drop"}}}, dispatch.RateLimits{}, `tasks/result of a task of "drop" at server "files": the policy of this gateway refuses it, by policy.rules[0]`},
		{"another tool", "read_file", &dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, Tool: "drop"}}}, dispatch.RateLimits{}, ""},
		{"a tool that a person has approved", "drop", &dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.RequireApproval, Tool: "drop"}}}, dispatch.RateLimits{}, ""},
		{"a tool whose quota is used up", "drop", nil, dispatch.RateLimits{Tools: map[string]dispatch.RateLimit{id: {PerSession: 1}}}, ""},
		{"an unknown tool", "", &dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, Tool: "drop"}}}, dispatch.RateLimits{}, "policy.rules[0]"},
		{"an unknown tool elsewhere", "", &dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, Namespace: "web"}}}, dispatch.RateLimits{}, ""},
		{"an unknown tool to approve", "", &dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.RequireApproval, Tool: "drop"}}}, dispatch.RateLimits{}, "a person has to approve it"},
		{"an unlisted tool", "hidden", &dispatch.Policy{Default: dispatch.Deny, Rules: []dispatch.PolicyRule{{Action: dispatch.Allow, Tool: "hidden"}}}, dispatch.RateLimits{}, ""},
	} {
		h := metatooltest.New(t, metatool.Options{Policy: c.policy, RateLimits: c.limits})
		for range 3 {
			_, err := h.Gateway.DirectCalls().Judge(t.Context(), []metatool.Place{{Upstream: "files", Namespace: "files"}},
				&mcp.Request{ID: "1", Method: "tasks/result", Session: h.Session, Peer: mcp.NoPeer, Params: json.RawMessage(`{"taskId":"t"}`)}, c.tool)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%s: %v", c.name, err)
			}
		}
	}
}

// TestWhatIsJudgedIsWhatRuns: a message in which two readers could find two things
// is refused, and what passes has one reading.
func TestWhatIsJudgedIsWhatRuns(t *testing.T) {
	for _, o := range []metatool.Options{
		{Policy: &dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, Tool: "other"}}}}, {RateLimits: dispatch.RateLimits{Tools: map[string]dispatch.RateLimit{"files:x#1": {PerMinute: 1}}}},
	} {
		h, up := metatooltest.Library(t, o)
		id := h.ID(t, "files", "drop")
		for _, params := range []string{
			`{"name":"drop","arguments":{"amount":1},"arguments":{"amount":1000000}}`,
			`{"name":"drop","arguments":{"amount":1},"Arguments":{"amount":1000000}}`,
			`{"name":"drop","ARGUMENTS":{"amount":1000000}}`,
			`{"name":"drop","argument\u017f":{"amount":1000000}}`,
			`{"name":"drop","arguments":{"amount":1,"amount":1000000}}`,
			`{"name":"drop","arguments":{"deep":[{"amount":1,"a\u006dount":1000000}]}}`,
			`{"name":"drop","Name":"x"}`,
			`{"name":"drop","_meta":{},"_Meta":{"progressToken":1}}`,
			`{"name":"drop","_meta":{"a":1,"a":2}}`,
			`{"name":"drop","Task":{"ttl":1}}`,
			`{"name":"drop","other":1,"other":2}`,
		} {
			if err := h.Directly(t, mcp.NoPeer, "tools/call", params); calltest.KindOf(err) != mcp.KindInvalidParams {
				t.Errorf("tools/call %s: %v", params, err)
			}
		}
		for method, params := range map[string][]string{
			"resources/read":      {`{"uri":"file:///docs/readme.md","URI":"file:///etc/passwd"}`, `{"uri":"file:///docs/readme.md","uri":"file:///etc/passwd"}`, `{"uri":"file:///docs/readme.md","x":{"y":1,"y":2}}`},
			"prompts/get":         {`{"name":"hello","arguments":{"a":"1","a":"2"}}`, `{"name":"hello","Arguments":{}}`},
			"completion/complete": {`{"ref":{"type":"ref/prompt","name":"hello","Name":"x"}}`, `{"ref":{"type":"ref/prompt","name":"hello"},"Ref":{}}`, `{"ref":{"type":"ref/prompt","name":"hello","name":"x"}}`},
			"tasks/result":        {`{"taskId":"a","TaskId":"b"}`, `{"taskId":"a","taskId":"b"}`},
			"evil/custom":         {`{"x":1,"x":2}`, `["x"]`},
			"tools/list":          {`{"cursor":"a","Cursor":"b"}`},
		} {
			for _, p := range params {
				if err := h.Directly(t, mcp.NoPeer, method, p, metatool.Place{Upstream: "docs", Namespace: "docs"}, metatool.Place{Upstream: "files", Namespace: "files"}); calltest.KindOf(err) != mcp.KindInvalidParams {
					t.Errorf("%s %s: %v", method, p, err)
				}
				if method == "resources/read" || method == "prompts/get" || method == "completion/complete" {
					if out, err := h.Ask(t, method, p); err == nil {
						t.Errorf("at the gateway, %s %s: %s", method, p, out)
					}
				}
			}
		}
		// The gateway's own methods write the names themselves; the rest of a message passes.
		for _, params := range []string{
			`{"name":"tool_execute","arguments":{"tool_id":"` + id + `","args":{"deep":{"a":1,"a":2}}}}`,
			`{"name":"tool_execute","arguments":{"tool_id":"` + id + `","args":{}},"Task":{"ttl":1}}`,
			`{"name":"tool_execute","arguments":{"tool_id":"` + id + `","args":{}},"_Meta":{}}`,
			`{"name":"tool_execute","arguments":{"tool_id":"` + id + `","args":{}},"x":{"y":1,"y":2}}`,
		} {
			out, err := h.Ask(t, "tools/call", params)
			if err == nil && !strings.Contains(string(out), "ARGS_INVALID") || err != nil && calltest.KindOf(err) != mcp.KindInvalidParams {
				t.Errorf("%s: %s %v", params, out, err)
			}
		}
		if len(h.Called()) != 0 || up.Last() != "" {
			t.Errorf("a server was called: %q %s", h.Called(), up.Last())
		}

		r := &mcp.Request{ID: "1", Method: "tools/call", Session: h.Session, Peer: mcp.NoPeer,
			Params: json.RawMessage(` { "n\u0061me" : "dr\u006fp" , "arguments" : { "b" : [ 1.50 , "\ud800" ] , "a" : 12345678901234567890 } , "_meta":{"progressToken":7} } `)}
		params, err := h.Gateway.DirectCalls().Judge(t.Context(), []metatool.Place{{Upstream: "files", Namespace: "files"}}, r, "")
		if want := `{"name":"drop","arguments":{"b":[1.50,"` + "\uFFFD" + `"],"a":12345678901234567890},"_meta":{"progressToken":7}}`; err != nil || string(params) != want {
			t.Errorf("%s, %v", params, err)
		}
		if s := h.Tool(t, metatool.ToolExecute, `{"tool_id":"`+id+`","args": { "b" : "\u0061" , "a":1.0 }}`); s.IsError {
			t.Errorf("%+v", s)
		}
		if called := h.Called(); len(called) != 1 || called[0] != `files {"name":"drop","arguments":{"b":"a","a":1.0}}` {
			t.Errorf("%q", called)
		}
	}
}

// TestSpellingsOfURIs: a rule about a URI holds for every way to write it, at both
// faces, and so does one about what is listed under it.
func TestSpellingsOfURIs(t *testing.T) {
	listing := primitive.Listing{Upstream: "disk", Namespace: "disk",
		Resources:         calltest.Raws(`{"uri":"file:///secret/a.txt","name":"listed"}`, `{"uri":"FILE:///Odd/%7eb.txt","name":"odd"}`, `{"uri":"file:///public/ok.txt","name":"ok"}`),
		ResourceTemplates: calltest.Raws(`{"uriTemplate":"file:///{+path}","name":"files"}`, `{"uriTemplate":"DB://{table}/{id}","name":"rows"}`)}
	same := func(path string) []string {
		return []string{"file:///" + path, "FILE:///" + path, "file:///public/../" + path, "file://localhost/" + path, "file:/" + path, "file:///./" + path,
			"file:///" + strings.Replace(path, "s", "%73", 1), "file:///public/%2e%2e/" + path, "file:////" + path, "file:///" + path + "#x", "file://LocalHost:/" + path}
	}
	for _, c := range []struct {
		name    string
		rules   []dispatch.PolicyRule
		deny    dispatch.Action
		uris    []string
		allowed bool
	}{
		{"by URI", []dispatch.PolicyRule{{Action: dispatch.Deny, Tool: "file:///secret/*"}}, "", same("secret/b.txt"), false},
		{"by URI, listed", []dispatch.PolicyRule{{Action: dispatch.Deny, Tool: "file:///secret/*"}}, "", same("secret/a.txt"), false},
		{"by an odd URI", []dispatch.PolicyRule{{Action: dispatch.Deny, Tool: "FILE://localhost/%73ecret/*"}}, "", same("secret/b.txt"), false},
		{"by name", []dispatch.PolicyRule{{Action: dispatch.Deny, Tool: "listed"}}, "", same("secret/a.txt"), false},
		{"by name, another", []dispatch.PolicyRule{{Action: dispatch.Deny, Tool: "listed"}}, "", same("secret/b.txt"), true},
		{"allowed by URI", []dispatch.PolicyRule{{Action: dispatch.Allow, Tool: "file:///public/*"}}, dispatch.Deny, []string{"file:///public/ok.txt", "file:///public/new/x.txt"}, true},
		{"allowed by URI, out of there", []dispatch.PolicyRule{{Action: dispatch.Allow, Tool: "file:///public/*"}}, dispatch.Deny, same("secret/b.txt"), false},
		{"allowed by name", []dispatch.PolicyRule{{Action: dispatch.Allow, Tool: "odd"}}, dispatch.Deny, []string{"FILE:///Odd/%7eb.txt"}, true},
		{"an odd one by its normal form", []dispatch.PolicyRule{{Action: dispatch.Deny, Tool: "odd"}}, "", []string{"file:///Odd/~b.txt", "FILE:///Odd/%7eb.txt", "file:///Odd/./~b.txt"}, false},
		{"a template in capitals", []dispatch.PolicyRule{{Action: dispatch.Allow, Tool: "rows"}}, dispatch.Deny, []string{"DB://users/7"}, true},
		{"a template by its normal form", []dispatch.PolicyRule{{Action: dispatch.Deny, Tool: "rows"}}, "", []string{"db://users/7", "DB://users/7"}, false},
	} {
		h := metatooltest.New(t, metatool.Options{Policy: &dispatch.Policy{Rules: c.rules, Default: c.deny}})
		h.Mu.Lock()
		h.Others = map[string]mcp.Peer{"disk": &calltest.Shelf{Watched: map[string]func(json.RawMessage){}, Answers: map[string]string{}}}
		h.Listed, _ = h.Listed.With(listing)
		h.Mu.Unlock()
		for _, uri := range c.uris {
			for _, method := range []string{"resources/read", "resources/subscribe", "completion/complete"} {
				params := `{"uri":` + string(rawjson.Quote(uri)) + `}`
				if method == "completion/complete" {
					params = `{"ref":{"type":"ref/resource","uri":` + string(rawjson.Quote(uri)) + `}}`
				}
				if err := h.Directly(t, mcp.NoPeer, method, params, metatool.Place{Upstream: "disk", Namespace: "disk"}); (err == nil) != c.allowed {
					t.Errorf("%s: %s of %s: %v", c.name, method, uri, err)
				}
				if method == "completion/complete" {
					continue
				}
				_, err := h.Ask(t, method, params)
				if denied := calltest.KindOf(err) == mcp.KindPermissionDenied; denied == c.allowed && calltest.KindOf(err) != mcp.KindResourceNotFound {
					t.Errorf("%s: %s of %s at the gateway: %v", c.name, method, uri, err)
				}
			}
			if got := h.Gateway.DirectCalls().Refuses(t.Context(), []metatool.Place{{Upstream: "disk", Namespace: "disk"}}, "resources/read", uri); got == c.allowed {
				t.Errorf("%s: %s is told of: %v", c.name, uri, !got)
			}
		}
		if s := h.Tool(t, metatool.ResourceRead, `{"resource_id":"`+h.ID(t, "disk", "files")+`","args":{"path":"public/../secret/b.txt"}}`); c.name == "by URI" && calltest.Failure(t, s).Error != "PERMISSION_DENIED" {
			t.Errorf("a template filled with dots: %+v", s)
		}
	}
}

// TestURIsThatServersReadDifferently: no way to write a URI that some server takes for a file of
// another folder evades a rule, at both faces. A URI that a list has is read as it is written there.
func TestURIsThatServersReadDifferently(t *testing.T) {
	listing := primitive.Listing{Upstream: "disk", Namespace: "disk", Resources: calltest.Raws(`{"uri":"file:///public/b#/../c","name":"odd"}`),
		ResourceTemplates: calltest.Raws(`{"uriTemplate":"file:///{+path}","name":"files"}`)}
	allow, deny := dispatch.PolicyRule{Action: dispatch.Allow, Tool: "file:///public/*"}, dispatch.PolicyRule{Action: dispatch.Deny, Tool: "file:///secret/*"}
	byFolder := dispatch.PolicyRule{Action: dispatch.Allow, If: calltest.When(t, `has(args.uri) && args.uri.startsWith("file:///public/")`)}
	outside := dispatch.PolicyRule{Action: dispatch.Deny, If: calltest.When(t, `args.uri.startsWith("file:///secret/")`)}
	for name, policy := range map[string]dispatch.Policy{
		"allow by pattern":   {Default: dispatch.Deny, Rules: []dispatch.PolicyRule{allow}},
		"allow by condition": {Default: dispatch.Deny, Rules: []dispatch.PolicyRule{byFolder}},
		"deny by pattern":    {Rules: []dispatch.PolicyRule{deny}},
		"deny by condition":  {Rules: []dispatch.PolicyRule{outside}},
	} {
		h := metatooltest.New(t, metatool.Options{Policy: &policy})
		h.Mu.Lock()
		h.Others = map[string]mcp.Peer{"disk": &calltest.Shelf{Watched: map[string]func(json.RawMessage){}, Answers: map[string]string{}}}
		h.Listed, _ = h.Listed.With(listing)
		h.Mu.Unlock()
		read := func(uri string, allowed bool) {
			params := `{"uri":` + string(rawjson.Quote(uri)) + `}`
			if err := h.Directly(t, mcp.NoPeer, "resources/read", params, metatool.Place{Upstream: "disk", Namespace: "disk"}); (err == nil) != allowed {
				t.Errorf("%s: %s: %v", name, uri, err)
			}
			if _, err := h.Ask(t, "resources/read", params); (calltest.KindOf(err) != mcp.KindPermissionDenied) != allowed {
				t.Errorf("%s: %s at the gateway: %v", name, uri, err)
			}
		}
		for _, path := range []string{
			"a#/../../secret/b.txt", "a?/../../secret/b.txt", "#/../../secret/b.txt", "x#/../../secret/b.txt", "%252e%252e/secret/b.txt", "..;/secret/b.txt", "．．/secret/b.txt",
			"..%c0%afsecret/b.txt", "%c0%ae%c0%ae/secret/b.txt", ".%00./secret/b.txt", "a%2fb%2fc?/../../secret/b.txt",
		} {
			read("file:///public/"+path, false)
			s := h.Tool(t, metatool.ResourceRead, `{"resource_id":"`+h.ID(t, "disk", "files")+`","args":{"path":`+string(rawjson.Quote("public/"+path))+`}}`)
			if calltest.Failure(t, s).Error != "PERMISSION_DENIED" {
				t.Errorf("%s: a template filled with %s: %+v", name, path, s)
			}
		}
		for _, uri := range []string{"file:///s%2565cret/b", "file:///secret%c0%afb", "file:///ｓecret/b", "file:///secret;x/b"} {
			read(uri, false)
		}
		for _, uri := range []string{"file:///public/a.txt", "file:///public/a#b", "file:///public/a;v=1?c=d", "file:///public/100%2525", "file:///public/b#/../c", "file:///public/ü"} {
			read(uri, true)
		}
	}
}

// TestNamesThatReadLikeOthers: a name that is listed nowhere and reads like one
// that is, or like one that a rule keeps back, is refused; one that is listed is
// not.
func TestNamesThatReadLikeOthers(t *testing.T) {
	for _, c := range []struct {
		name    string
		policy  *dispatch.Policy
		tool    string
		refused string
	}{
		{"listed", &dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, Tool: "x"}}}, "drop", ""},
		{"listed, in capitals", &dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, Tool: "x"}}}, "Twin", ""},
		{"like a listed one", &dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, Tool: "x"}}}, "drop ", `it reads like "drop": call that one`},
		{"like one that is denied", &dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, Tool: "drop"}}}, "DROP", `"drop"`},
		{"with a zero width space", &dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, Tool: "drop"}}}, "dr\u200bop", `"drop"`},
		{"in full width", &dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, Tool: "drop"}}}, "ｄｒｏｐ", `"drop"`},
		{"under a prefix", &dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, Tool: "drop"}}}, "F__Drop", `"drop"`},
		{"like a rule's, unlisted", &dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, Tool: "hidden"}}}, "Hidden\u00a0", "policy.rules[0]"},
		{"like a rule's in capitals", &dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, Tool: "HID*"}}}, "hidden", ""},
		{"like a rule's with a pattern", &dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, Tool: "hid*"}}}, "HIDDEN", "policy.rules[0]"},
		{"allowed as it reads", &dispatch.Policy{Default: dispatch.Deny, Rules: []dispatch.PolicyRule{{Action: dispatch.Allow, Tool: "hidden"}}}, "HIDDEN", "policy.default"},
		{"with a control character", &dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, Tool: "x"}}}, "hidden\x00", "control characters"},
		{"like nothing", &dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, Tool: "drop"}}}, "dr op", ""},
	} {
		h := metatooltest.New(t, metatool.Options{Policy: c.policy})
		h.Add("files", calltest.Echo, calltest.ReadTool, `{"name":"drop","description":"d"}`, `{"name":"Twin","description":"d"}`, `{"name":"twin","description":"d"}`)
		h.Mu.Lock()
		h.Listed, _ = h.Listed.With(primitive.Listing{Upstream: "talk", Namespace: "talk", Prompts: calltest.Raws(`{"name":"drop"}`, `{"name":"Twin"}`, `{"name":"twin"}`)})
		h.Mu.Unlock()
		for _, at := range []struct{ method, upstream string }{{"tools/call", "files"}, {"prompts/get", "talk"}} {
			err := h.Directly(t, mcp.NoPeer, at.method, `{"name":`+string(rawjson.Quote(c.tool))+`}`, metatool.Place{Upstream: at.upstream, Namespace: at.upstream, Prefix: "f__"})
			if c.refused == "" && err != nil || c.refused != "" && (calltest.KindOf(err) != mcp.KindPermissionDenied || !strings.Contains(err.Error(), c.refused)) {
				t.Errorf("%s, %s: %v", c.name, at.method, err)
			}
		}
	}
}

// TestQuotasCountEverySpelling: a resource with a quota has it under every URI.
func TestQuotasCountEverySpelling(t *testing.T) {
	h, _ := metatooltest.Library(t, metatool.Options{})
	id := h.ID(t, "docs", "README")
	h, _ = metatooltest.Library(t, metatool.Options{RateLimits: dispatch.RateLimits{Tools: map[string]dispatch.RateLimit{id: {PerSession: 2}}}})
	if !h.Gateway.DirectCalls().Judges([]metatool.Place{{Upstream: "docs", Namespace: "docs"}}) {
		t.Fatal("direct reads are not judged")
	}
	for i, uri := range []string{"file:///docs/readme.md", "FILE:///docs/./readme.md", "file:/docs/readme.md"} {
		err := h.Directly(t, mcp.NoPeer, "resources/read", `{"uri":"`+uri+`"}`, metatool.Place{Upstream: "docs", Namespace: "docs"})
		if limited := calltest.KindOf(err) == mcp.KindRateLimited; limited != (i == 2) {
			t.Errorf("%d: %v", i, err)
		}
	}
}

// TestSubscriptionsOfAnotherEra: the modern era subscribes by subscriptions/listen alone. A request of the
// legacy form is refused, also where no mcp.Lifecycle stands before the gateway.
func TestSubscriptionsOfAnotherEra(t *testing.T) {
	h, _ := metatooltest.Library(t, metatool.Options{})
	for _, method := range []string{"resources/subscribe", "resources/unsubscribe"} {
		_, err := h.Gateway.Serve(t.Context(), &mcp.Request{ID: "1", Method: method, Version: mcp.V20260728, Session: mcp.NewSession("", "ann"), Peer: mcp.NoPeer, Params: json.RawMessage(`{"uri":"file:///docs/readme.md"}`)})
		if calltest.KindOf(err) != mcp.KindMethodNotFound {
			t.Errorf("%s: %v", method, err)
		}
	}
}

// TestSubscriptionsAreReads: what may not be read is not listened to, in both
// eras, and what changes below an allowed resource is told of only where that may
// be read.
func TestSubscriptionsAreReads(t *testing.T) {
	h, up := metatooltest.Library(t, metatool.Options{Policy: &dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, Tool: "logo"}, {Action: dispatch.Deny, Tool: "file:///docs/readme.md/secret*"}}}})
	if _, err := h.Ask(t, "resources/subscribe", `{"uri":"file:///docs/logo.png"}`); calltest.KindOf(err) != mcp.KindPermissionDenied {
		t.Errorf("%v", err)
	}
	if _, err := h.Ask(t, "resources/subscribe", `{"uri":"file:///docs/readme.md"}`); err != nil {
		t.Fatal(err)
	}
	p := &calltest.Person{}
	told := make(chan string, 8)
	h.Session.SetPeer(notifyPeer{p, told})
	up.Mu.Lock()
	fn := up.Watched["file:///docs/readme.md"]
	up.Mu.Unlock()
	fn(json.RawMessage(`{"uri":"file:///docs/readme.md/secret/1"}`))
	fn(json.RawMessage(`{"uri":"file:///docs/readme.md/part"}`))
	if got := <-told; got != `notifications/resources/updated {"uri":"file:///docs/readme.md/part"}` {
		t.Errorf("told of %s", got)
	}

	// Modern clients get what they may, and are told which that is.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := h.Gateway.Serve(ctx, &mcp.Request{ID: "1", Method: "subscriptions/listen", Version: mcp.V20260728, Session: mcp.NewSession("", "ann"), Peer: notifyPeer{p, told},
			Params: json.RawMessage(`{"notifications":{"resourceSubscriptions":["file:///docs/readme.md","file:///docs/logo.png"]}}`)})
		done <- err
	}()
	if got := <-told; !strings.Contains(got, `"resourceSubscriptions":["file:///docs/readme.md"]`) {
		t.Errorf("granted: %s", got)
	}
	cancel()
	<-done

	params, err := h.Gateway.DirectCalls().Judge(t.Context(), []metatool.Place{{Upstream: "docs", Namespace: "docs"}}, &mcp.Request{ID: "1", Method: "subscriptions/listen", Version: mcp.V20260728, Session: h.Session, Peer: mcp.NoPeer,
		Params: json.RawMessage(`{"notifications":{"resourceSubscriptions":["file:///docs/readme.md","file:///docs/logo.png","FILE:///docs/logo.png"],"toolsListChanged":true}}`)}, "")
	if want := `{"notifications":{"resourceSubscriptions":["file:///docs/readme.md"],"toolsListChanged":true}}`; err != nil || string(params) != want {
		t.Errorf("%s, %v", params, err)
	}
	for _, bad := range []string{`{"notifications":{"resourceSubscriptions":"file:///docs/logo.png"}}`, `{"notifications":{"ResourceSubscriptions":["file:///docs/logo.png"]}}`, `{"Notifications":{}}`,
		`{"notifications":{"resourceSubscriptions":[` + strings.Repeat(`"x:y",`, 1024) + `"x:y"]}}`} {
		if err := h.Directly(t, mcp.NoPeer, "subscriptions/listen", bad); calltest.KindOf(err) != mcp.KindInvalidParams {
			t.Errorf("%.60s: %v", bad, err)
		}
	}
}

// notifyPeer hears notifications.
type notifyPeer struct {
	*calltest.Person
	told chan string
}

func (p notifyPeer) Notify(_ context.Context, method string, params json.RawMessage) error {
	p.told <- method + " " + string(params)
	return nil
}

// TestCompletionIsRedacted: what completes an argument is a result like others.
func TestCompletionIsRedacted(t *testing.T) {
	h, up := metatooltest.Library(t, metatool.Options{RedactResults: true, Redactor: result.NewRedactor([]string{"hunter22"})})
	up.Answers["completion/complete "] = `{"completion":{"values":["hunter22","x"]}}`
	out, err := h.Ask(t, "completion/complete", `{"ref":{"type":"ref/prompt","name":"hello"},"argument":{"name":"a","value":""}}`)
	if err != nil || strings.Contains(string(out), "hunter22") || !strings.Contains(string(out), `"x"`) {
		t.Errorf("%s %v", out, err)
	}
}

// TestRefusalsAreEvents: operators hear of what the controls keep back.
func TestRefusalsAreEvents(t *testing.T) {
	for i, r := range reaching {
		var events []metatool.Event
		_, send, _ := door(t, metatool.Options{Policy: &dispatch.Policy{Default: dispatch.Deny}, OnEvent: func(e metatool.Event) { events = append(events, e) }})
		if err := send(i); err == nil {
			t.Errorf("%s passes", r.name)
		}
		if len(events) != 1 || !strings.HasSuffix(events[0].Name, ".failed") || events[0].Code != "PERMISSION_DENIED" || events[0].Principal != "ann" {
			t.Errorf("%s, direct %v: %+v", r.name, r.direct, events)
		}
		if e := events[0]; e.Decision != "deny" || e.Rule != "policy.default" {
			t.Errorf("%s, direct %v: %q by %q", r.name, r.direct, e.Decision, e.Rule)
		}
	}
}

// TestEventsNameRuleAndClient: an event says which rule admitted a call, and which client called.
func TestEventsNameRuleAndClient(t *testing.T) {
	var events []metatool.Event
	h := metatooltest.New(t, metatool.Options{
		Policy:  &dispatch.Policy{Default: dispatch.Deny, Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, Tool: "none:*"}, {Action: dispatch.Allow, Tool: "files:*"}}},
		OnEvent: func(e metatool.Event) { events = append(events, e) },
	})
	h.Session.SetClient(json.RawMessage(`{"name":"an \u202e\nagent `+strings.Repeat("x", 500)+`","version":"1"}`), nil)
	h.Tool(t, metatool.ToolExecute, `{"tool_id":"`+h.ID(t, "files", "read_file")+`","args":{"path":"a"}}`)
	if len(events) != 1 || events[0].Decision != "allow" || events[0].Rule != "policy.rules[1]" {
		t.Fatalf("%+v", events)
	}
	if got := events[0].Client; !strings.HasPrefix(got, "an agent xx") || utf8.RuneCountInString(got) > 100 {
		t.Errorf("the client is %q", got)
	}
	if _, err := h.Gateway.Serve(t.Context(), &mcp.Request{ID: "2", Session: h.Session, Peer: mcp.NoPeer, Version: mcp.V20260728, Method: "tools/call", Params: json.RawMessage(`{"name":"tool_browse","arguments":{"query":"read"},"_meta":{"io.modelcontextprotocol/clientInfo":{"name":"modern"}}}`)}); err != nil || events[1].Client != "modern" {
		t.Errorf("a request that names its client: %q, %v", events[1].Client, err)
	}
	h.Session.SetClient(nil, nil)
	h.Tool(t, metatool.ToolBrowse, `{"query":"read"}`)
	if e := events[2]; e.Client != "" || e.Rule != "" {
		t.Errorf("without a client and a call: %q, %q", e.Client, e.Rule)
	}
}
