package metatool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/weir-mcp/weir/internal/bridge"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/internal/text/token"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// TestPrimitiveVerbs: the four verbs are there exactly while an upstream offers
// the primitive (spec/gateway §6.4).
func TestPrimitiveVerbs(t *testing.T) {
	const three = "tool_browse tool_execute tool_view"
	h := newHarness(t, Options{})
	step := func(want string, l primitive.Listing) {
		t.Helper()
		h.Mu.Lock()
		h.Listed, _ = h.Listed.With(l)
		h.Mu.Unlock()
		if got := strings.Join(h.names(t), " "); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		for _, name := range []string{ResourceBrowse, ResourceRead, PromptBrowse, PromptGet} {
			_, err := h.Ask(t, "tools/call", `{"name":"`+name+`","arguments":{}}`)
			if listed := strings.Contains(want, name); listed != (err == nil) {
				t.Errorf("%s of %s: %v", name, want, err)
			}
		}
		for _, method := range []string{"resources/list", "resources/templates/list", "resources/read", "resources/subscribe", "resources/unsubscribe"} {
			_, err := h.Ask(t, method, `{"uri":"a:b"}`)
			absent := err != nil && mcp.WireError(err, "").Code == jsonrpc.CodeMethodNotFound
			if strings.Contains(want, ResourceRead) == absent {
				t.Errorf("%s where there is %s: %v", method, want, err)
			}
		}
		caps := h.g.Capabilities(t.Context())
		if (rawjson.Get(caps, "resources") != nil) != strings.Contains(want, ResourceRead) || (rawjson.Get(caps, "completions") != nil) != (want != three) {
			t.Errorf("capabilities %s where there is %s", caps, want)
		}
	}
	step(three, primitive.Listing{Upstream: "docs"})
	step(three+" resource_browse resource_read", primitive.Listing{Upstream: "docs", Resources: calltest.Raws(`{"uri":"a:b","name":"b"}`)})
	step(three+" prompt_browse prompt_get", primitive.Listing{Upstream: "docs", Prompts: calltest.Raws(`{"name":"p"}`)})
	step(three+" resource_browse resource_read prompt_browse prompt_get", primitive.Listing{Upstream: "docs", ResourceTemplates: calltest.Raws(`{"uriTemplate":"a:{b}","name":"b"}`), Prompts: calltest.Raws(`{"name":"p"}`)})
	step(three, primitive.Listing{Upstream: "docs"})

	h, _ = library(t, Options{Mode: ModeProxy})
	if got := strings.Join(h.names(t), " "); !strings.HasPrefix(got, "tool_execute tool_hydrate files:") || strings.Contains(got, "resource") {
		t.Errorf("proxy mode: %s", got)
	}
	h, _ = library(t, Options{})
	four := token.Count(string(h.g.faces.of[ModeGateway].meta.definitions(true, true, ""))) - token.Count(string(h.g.faces.of[ModeGateway].meta.definitions(false, false, "")))
	if four > 520 {
		t.Errorf("the definitions of four verbs cost %d tokens", four)
	}
}

func TestResourceBrowse(t *testing.T) {
	h, _ := library(t, Options{})
	id := h.ID(t, "docs", "README")
	s := h.Tool(t, ResourceBrowse, `{"query":"install the program"}`)
	first, _, _ := strings.Cut(s.Content[0].Text, "\n")
	if !strings.HasPrefix(first, id+" (resource) — How to install") || !strings.HasPrefix(id, "resource::docs:") || strings.Contains(first, "side-effects") {
		t.Errorf("%s, want first %s", s.Content[0].Text, id)
	}
	for _, c := range []struct{ tool, args, has, lacks string }{
		{ResourceBrowse, `{"query":"read a file from disk"}`, "", "docs:summarize"},       // no tools, no prompts
		{ToolBrowse, `{"query":"install the program readme"}`, "", "resource::"},          // no resources
		{PromptBrowse, `{"query":"summarize a pull request"}`, "prompt::docs:", "README"}, //
		{ResourceBrowse, `{"path":"/"}`, "/docs (internal)", "/files"},                    // only who has some
		{ResourceBrowse, `{"path":"/docs"}`, "docs:rows", "summarize"},                    // templates are among them
		{PromptBrowse, `{"path":"/docs"}`, "prompt::docs:hello", "README"},                //
		{ResourceBrowse, `{"path":"/docs","top_k":1}`, "resource::", "\n"},                // at most top_k
	} {
		text := h.Tool(t, c.tool, c.args).Content[0].Text
		if !strings.Contains(text, c.has) || c.lacks != "" && strings.Contains(text, c.lacks) {
			t.Errorf("%s %s: %s", c.tool, c.args, text)
		}
	}
	for _, args := range []string{`{}`, `{"query":"a","path":"/"}`, `{"query":" "}`, `{"query":"a","top_k":51}`, `{"quarry":"a"}`} {
		for _, tool := range []string{ResourceBrowse, PromptBrowse} {
			if e := calltest.Failure(t, h.Tool(t, tool, args)); e.Error != "ARGS_INVALID" || len(e.Details.Example) == 0 {
				t.Errorf("%s %s: %+v", tool, args, e)
			}
		}
	}
	if e := calltest.Failure(t, h.Tool(t, ResourceBrowse, `{"path":"/files"}`)); e.Error != "PATH_NOT_FOUND" {
		t.Errorf("a server without resources: %+v", e)
	}
}

// TestTemplateLists: a variable with the modifier * takes a list, or an associative
// array (RFC 6570 §3.2.1).
func TestTemplateLists(t *testing.T) {
	h, up := library(t, Options{})
	h.Mu.Lock()
	l := calltest.Docs()
	l.ResourceTemplates = calltest.Raws(`{"uriTemplate":"q://x{?tag*}","name":"tagged","description":"Everything with some tags"}`)
	h.Listed, _ = h.Listed.With(l)
	h.Mu.Unlock()
	id := h.ID(t, "docs", "tagged")
	for args, uri := range map[string]string{
		`{"tag":["a b",7,true]}`:           "q://x?tag=a%20b&tag=7&tag=true",
		`{"tag":{"since":2020,"by":"me"}}`: "q://x?since=2020&by=me",
		`{"tag":"one"}`:                    "q://x?tag=one",
		`{}`:                               "q://x",
	} {
		h.Tool(t, ResourceRead, `{"resource_id":"`+id+`","args":`+args+`}`)
		if want := `resources/read {"uri":"` + uri + `"}`; up.Last() != want {
			t.Errorf("%s: the upstream got %s, want %s", args, up.Last(), want)
		}
	}
	if e := calltest.Failure(t, h.Tool(t, ResourceRead, `{"resource_id":"`+id+`","args":{"tag":[["a"]]}}`)); e.Error != "ARGS_INVALID" {
		t.Errorf("a list of lists: %+v", e)
	}
	if e := calltest.Failure(t, h.Tool(t, ResourceRead, `{"resource_id":"`+id+`","args":{"tag":"`+strings.Repeat("x", 64<<10)+`"}}`)); e.Error != "ARGS_INVALID" || !strings.Contains(e.Message, "may have 65536") {
		t.Errorf("a URI that is too long: %+v", e)
	}
}

func TestResourceRead(t *testing.T) {
	h, up := library(t, Options{})
	read := func(name, more string) calltest.Answer {
		t.Helper()
		return h.Tool(t, ResourceRead, `{"resource_id":"`+h.ID(t, "docs", name)+`"`+more+`}`)
	}
	s := read("README", "")
	if s.IsError || s.Content[0].Text != "# Read me\ncafé" || s.Env.Status != "ok" || string(s.Meta["k"]) != "12345678901234567890" {
		t.Errorf("%+v", s)
	}
	want := fmt.Sprint(map[string]any{"protocol": "mcp", "resource_id": h.ID(t, "docs", "README"), "primitive": "resource"})
	if got := fmt.Sprint(s.Env.Provenance); got != want {
		t.Errorf("provenance %s, want %s", got, want)
	}
	if up.Last() != `resources/read {"uri":"file:///docs/readme.md"}` {
		t.Errorf("the upstream got %s", up.Last())
	}
	if s := read("logo", ""); s.Content[0].Type != "image" {
		t.Errorf("a picture: %+v", s)
	}
	// Other bytes are kept and addressable (spec/gateway §6.4: every part on the shared store).
	s = read("archive", "")
	if !strings.Contains(s.Content[0].Text, "application/octet-stream") || len(s.Env.Artifacts) != 1 || s.Env.Artifacts[0].SizeBytes != 9 {
		t.Errorf("a blob: %+v", s)
	}
	// A template takes args.
	if s := read("rows", `,"args":{"table":"users","id":7,"limit":"2"}`); s.IsError || s.Content[0].Text != `{"id":7}` {
		t.Errorf("a template: %+v", s)
	}
	e := calltest.Failure(t, read("rows", `,"args":{"table":"users","idd":7}`))
	if e.Error != "ARGS_INVALID" || !strings.Contains(string(e.Details.Schema), `"table"`) {
		t.Errorf("wrong variables: %+v", e)
	}
	if e := calltest.Failure(t, read("README", `,"args":{"a":"b"}`)); e.Error != "ARGS_INVALID" {
		t.Errorf("args without a template: %+v", e)
	}
	if e := calltest.Failure(t, read("rows", `,"args":{"table":"none","id":1}`)); e.Error != "RESOURCE_NOT_FOUND" {
		t.Errorf("the server does not have it: %+v", e)
	}
	for _, id := range []string{"resource::docs:nope#00000000", "file:///docs/none.md", h.ID(t, "docs", "hello"), h.ID(t, "files", "drop"), strings.ToUpper(h.ID(t, "docs", "README"))} {
		if e := calltest.Failure(t, h.Tool(t, ResourceRead, `{"resource_id":"`+id+`"}`)); e.Error != "RESOURCE_NOT_FOUND" || *e.Retryable {
			t.Errorf("%s: %+v", id, e)
		}
	}
	for _, args := range []string{`{}`, `{"resource_id":7}`, `{"resource_id":"a","x":1}`} {
		if e := calltest.Failure(t, h.Tool(t, ResourceRead, args)); e.Error != "ARGS_INVALID" {
			t.Errorf("%s: %+v", args, e)
		}
	}
	if e := calltest.Failure(t, h.Tool(t, ToolExecute, `{"tool_id":"`+h.ID(t, "docs", "README")+`","args":{}}`)); e.Error != "HYDRATE_FAILED" {
		t.Errorf("a resource is no tool: %+v", e)
	}
	// The error says which verb the id is for, and what is near is of the kind that was asked for.
	for _, tt := range []struct{ verb, key, id, says string }{
		{ToolExecute, "tool_id", h.ID(t, "docs", "README"), "is a resource: read it with resource_read"},
		{ToolExecute, "tool_id", h.ID(t, "docs", "rows"), "is a resource: read it with resource_read"},
		{ToolExecute, "tool_id", h.ID(t, "docs", "hello"), "is a prompt: render it with prompt_get"},
		{ResourceRead, "resource_id", h.ID(t, "docs", "hello"), "is a prompt: render it with prompt_get"},
		{PromptGet, "prompt_id", h.ID(t, "files", "drop"), "is a tool: run it with tool_execute"},
		{ToolExecute, "tool_id", "resource::files:dorp#00000000", h.ID(t, "files", "drop")},
	} {
		e := calltest.Failure(t, h.Tool(t, tt.verb, `{"`+tt.key+`":"`+tt.id+`","args":{}}`))
		if !strings.Contains(e.Message, tt.says) {
			t.Errorf("%s of %s: %s", tt.verb, tt.id, e.Message)
		}
		for _, near := range e.Details.Nearest {
			if strings.Contains(near, "::") {
				t.Errorf("%s of %s: %s is no tool", tt.verb, tt.id, near)
			}
		}
	}
	up.Err = mcp.Errorf(mcp.KindUpstreamTimeout, "slow")
	if e := calltest.Failure(t, read("README", "")); e.Error != "UPSTREAM_TIMEOUT" || !*e.Retryable {
		t.Errorf("a transport failure: %+v", e)
	}
}

// A long read is held back and can be viewed.
func TestResourceReadIsFirewalled(t *testing.T) {
	h, up := library(t, Options{})
	long := strings.Repeat("A line of the manual: something.\n", 400)
	up.Answers["resources/read file:///docs/readme.md"] = `{"contents":[{"uri":"file:///docs/readme.md","text":` + string(rawjson.Quote(long)) + `}]}`
	s := h.Tool(t, ResourceRead, `{"resource_id":"`+h.ID(t, "docs", "README")+`"}`)
	if len(s.Content[0].Text) > 2500 || len(s.Env.Artifacts) != 1 || !s.Env.Stats.Triggered {
		t.Fatalf("%d characters, %+v", len(s.Content[0].Text), s.Env)
	}
	v := h.Tool(t, ToolView, `{"handle":"`+s.Env.Artifacts[0].Handle+`","selector":{"type":"lines","start":399,"end":400}}`)
	if v.Content[0].Text != "A line of the manual: something." && v.Content[0].Text != "A line of the manual: something.\n" {
		t.Errorf("%q", v.Content[0].Text)
	}
}

func TestPromptGet(t *testing.T) {
	h, up := library(t, Options{})
	get := func(name, args string) calltest.Answer {
		t.Helper()
		return h.Tool(t, PromptGet, `{"prompt_id":"`+h.ID(t, "docs", name)+`"`+args+`}`)
	}
	s := get("summarize_pr", `,"args":{"repo":"weir","pr":"7"}`)
	var texts []string
	for _, c := range s.Content {
		texts = append(texts, c.Type+":"+c.Text)
	}
	if got := fmt.Sprint(texts); got != "[text:A summary text:[user] Summarize it. text:[assistant] image:]" {
		t.Errorf("%s", got)
	}
	if up.Last() != `prompts/get {"name":"summarize_pr","arguments":{"repo":"weir","pr":"7"}}` {
		t.Errorf("the upstream got %s", up.Last())
	}
	if want := fmt.Sprint(map[string]any{"protocol": "mcp", "prompt_id": h.ID(t, "docs", "summarize_pr"), "primitive": "prompt"}); fmt.Sprint(s.Env.Provenance) != want {
		t.Errorf("%s, want %s", s.Env.Provenance, want)
	}
	for name, args := range map[string]string{"required is missing": `,"args":{}`, "a number": `,"args":{"repo":7}`, "unknown": `,"args":{"repo":"a","owner":"b"}`, "no object": `,"args":[]`, "left out": ``} {
		e := calltest.Failure(t, get("summarize_pr", args))
		if e.Error != "ARGS_INVALID" || !strings.Contains(string(e.Details.Schema), `"repo"`) {
			t.Errorf("%s: %+v", name, e)
		}
	}
	if e := calltest.Failure(t, get("hello", `,"args":{"x":"y"}`)); e.Error != "ARGS_INVALID" {
		t.Errorf("a prompt without arguments: %+v", e)
	}
	if s := get("hello", ""); len(s.Env.Artifacts) != 1 || !s.Env.Stats.Triggered {
		t.Errorf("a long prompt is not held back: %+v", s.Env)
	}
	for _, id := range []string{"prompt::docs:nope#00000000", h.ID(t, "docs", "README"), h.ID(t, "files", "drop"), "hello"} {
		if e := calltest.Failure(t, h.Tool(t, PromptGet, `{"prompt_id":"`+id+`"}`)); e.Error != "PROMPT_NOT_FOUND" {
			t.Errorf("%s: %+v", id, e)
		}
	}
	up.Answers["prompts/get hello"] = `{"messages":{}}`
	if e := calltest.Failure(t, get("hello", "")); e.Error != "UPSTREAM_ERROR" {
		t.Errorf("no result of prompts/get: %+v", e)
	}
}

// Same names in three kinds are three things (spec/gateway §6.1).
func TestPrimitivesOfOneName(t *testing.T) {
	h := newHarness(t, Options{})
	up := &calltest.Shelf{Answers: map[string]string{"prompts/get search": `{"messages":[]}`, "resources/read x:search": `{"contents":[]}`, "tools/call search": calltest.Text("tool")}}
	h.Mu.Lock()
	h.Others = map[string]mcp.Peer{"web": up}
	h.Listed, _ = h.Listed.With(primitive.Listing{Upstream: "web", Namespace: "web", Tools: calltest.Raws(`{"name":"search"}`), Prompts: calltest.Raws(`{"name":"search"}`), Resources: calltest.Raws(`{"uri":"x:search","name":"search"}`)})
	h.Mu.Unlock()
	ids := map[string]bool{}
	for _, e := range h.Snapshot().Catalog.Of("web") {
		ids[e.ID] = true
		verb := map[primitive.Kind]string{primitive.KindTool: ToolExecute, primitive.KindPrompt: PromptGet, primitive.KindResource: ResourceRead}[e.Kind]
		args := `{"` + dispatch.IdKey(e.Kind) + `":"` + e.ID + `"`
		if e.Kind == primitive.KindTool {
			args += `,"args":{}`
		}
		if s := h.Tool(t, verb, args+`}`); s.IsError {
			t.Errorf("%s: %+v", e.ID, s)
		}
	}
	if len(ids) != 3 {
		t.Errorf("%v", ids)
	}
}

// Policy, quotas and retries hold for reads, too; what is refused is not counted.
func TestPrimitiveControls(t *testing.T) {
	h, up := library(t, Options{
		Policy:     &dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, MetaTool: PromptGet, Tool: "hello", Reason: "rude"}}},
		RateLimits: dispatch.RateLimits{MetaTools: map[string]dispatch.RateLimit{ResourceRead: {PerSession: 2}}},
		Retry:      dispatch.RetryPolicy{MaxAttempts: 3, BaseDelay: 1, MaxDelay: 1},
	})
	if e := calltest.Failure(t, h.Tool(t, PromptGet, `{"prompt_id":"`+h.ID(t, "docs", "hello")+`"}`)); e.Error != "PERMISSION_DENIED" || !strings.Contains(e.Message, "rude") {
		t.Errorf("%+v", e)
	}
	read := `{"resource_id":"` + h.ID(t, "docs", "README") + `"}`
	h.Tool(t, ResourceRead, `{"resource_id":"nope"}`)
	h.Tool(t, ResourceRead, read)
	up.Err = mcp.Errorf(mcp.KindUpstreamUnavailable, "down")
	before := len(up.Calls)
	h.Tool(t, ResourceRead, read)
	if n := len(up.Calls) - before; n != 3 {
		t.Errorf("%d attempts", n)
	}
	if e := calltest.Failure(t, h.Tool(t, ResourceRead, read)); e.Error != "RATE_LIMITED" {
		t.Errorf("%+v", e)
	}
	up.Err = nil
	if _, err := h.Ask(t, "resources/read", `{"uri":"file:///docs/readme.md"}`); err == nil || mcp.WireError(err, "").Code != -32005 {
		t.Errorf("resources/read goes round the quota: %v", err)
	}
}

// Clients have resources as of any server, too.
func TestNativeResources(t *testing.T) {
	h, up := library(t, Options{})
	other := calltest.NewShelf()
	h.Mu.Lock()
	h.Others["more"] = other
	h.Listed, _ = h.Listed.With(primitive.Listing{Upstream: "more", Namespace: "more", Resources: calltest.Raws(`{"uri":"file:///docs/readme.md","name":"Other"}`)})
	h.Mu.Unlock()
	get := func(method, params string) string {
		t.Helper()
		out, err := h.Ask(t, method, params)
		if err != nil {
			t.Fatalf("%s %s: %v", method, params, err)
		}
		return string(out)
	}
	list := get("resources/list", `{}`)
	if strings.Count(list, `"uri"`) != 3 || !strings.Contains(list, `{"uri":"file:///docs/logo.png","name":"logo","description":"The logo as a picture"}`) {
		t.Errorf("%s", list)
	}
	if got := get("resources/templates/list", ``); got != `{"resourceTemplates":[{"uriTemplate":"db://{table}/{id}{?limit}","name":"rows","description":"A row of a table"}]}` {
		t.Errorf("%s", got)
	}
	if got := get("resources/read", `{"uri":"file:///docs/readme.md","_meta":{"x":1}}`); !strings.Contains(got, `"k":12345678901234567890`) {
		t.Errorf("%s", got)
	}
	if want := `resources/read {"uri":"file:///docs/readme.md","_meta":{"x":1}}`; up.Last() != want {
		t.Errorf("%s, want %s", up.Last(), want)
	}
	get("resources/read", `{"uri":"`+h.ID(t, "more", "Other")+`"}`)
	if !strings.HasPrefix(other.Last(), "resources/read") {
		t.Error("by its id, the second server's resource is reached")
	}
	get("resources/read", `{"uri":"db://users/7?limit=2"}`)
	for _, c := range []struct {
		method, params string
		code           int
	}{{"resources/read", `{"uri":"nope"}`, -32002}, {"resources/read", `{}`, -32602}, {"resources/list", `{"cursor":"x"}`, -32602}, {"resources/frobnicate", `{}`, -32601}} {
		if _, err := h.Ask(t, c.method, c.params); mcp.WireError(err, mcp.V20251125).Code != c.code {
			t.Errorf("%s %s: %v", c.method, c.params, err)
		}
	}
}

func TestNativePrompts(t *testing.T) {
	for _, mode := range []Mode{ModeGateway, ModeProxy} {
		h, up := library(t, Options{Mode: mode})
		other := calltest.NewShelf()
		h.Mu.Lock()
		h.Others["zoo"] = other
		h.Listed, _ = h.Listed.With(primitive.Listing{Upstream: "zoo", Namespace: "zoo", Prompts: calltest.Raws(`{"name":"hello","x":12345678901234567890}`)})
		h.Mu.Unlock()
		out, err := h.Ask(t, "prompts/list", `{}`)
		second := h.ID(t, "zoo", "hello")
		if err != nil || strings.Count(string(out), `"name":"hello"`) != 1 || !strings.Contains(string(out), `{"name":"`+second+`","x":12345678901234567890}`) {
			t.Errorf("%s %v", out, err)
		}
		if out, err = h.Ask(t, "prompts/get", `{"name":"summarize_pr","arguments":{"repo":"a"},"_meta":{"k":1}}`); err != nil || !strings.HasPrefix(string(out), `{"description":"A summary","messages":[`) {
			t.Errorf("%s %v", out, err)
		}
		if up.Last() != `prompts/get {"name":"summarize_pr","arguments":{"repo":"a"},"_meta":{"k":1}}` {
			t.Errorf("the upstream got %s", up.Last())
		}
		if _, err = h.Ask(t, "prompts/get", `{"name":"`+second+`"}`); err != nil || other.Last() != `prompts/get {"name":"hello","arguments":{}}` {
			t.Errorf("by its id: %v, %s", err, other.Last())
		}
		for _, params := range []string{`{}`, `{"name":"nope"}`, `{"name":"` + h.ID(t, "docs", "README") + `"}`} {
			if _, err := h.Ask(t, "prompts/get", params); mcp.WireError(err, "").Code != jsonrpc.CodeInvalidParams {
				t.Errorf("%s: %v", params, err)
			}
		}
	}
}

func TestNativeListIsPaged(t *testing.T) {
	h, _ := library(t, Options{})
	l := primitive.Listing{Upstream: "many", Namespace: "many"}
	for i := range 2*resourcePage + 7 {
		l.Resources = append(l.Resources, json.RawMessage(fmt.Sprintf(`{"uri":"m:%d","name":"r%d"}`, i, i)))
	}
	h.Mu.Lock()
	h.Listed, _ = h.Listed.With(l)
	h.Mu.Unlock()
	seen, pages := map[string]bool{}, 0
	for params := `{}`; params != ""; pages++ {
		out, err := h.Ask(t, "resources/list", params)
		if err != nil {
			t.Fatal(err)
		}
		_ = rawjson.EachElement(rawjson.Get(out, "resources"), func(v []byte) bool {
			seen[rawjson.Text(rawjson.Get(v, "uri"))] = true
			return true
		})
		params = ""
		if next := rawjson.Get(out, "nextCursor"); next != nil {
			params = `{"cursor":` + string(next) + `}`
		}
	}
	if len(seen) != len(l.Resources)+3 || pages != 3 {
		t.Errorf("%d resources on %d pages", len(seen), pages)
	}
}

func TestCompletion(t *testing.T) {
	h, up := library(t, Options{})
	for ref, want := range map[string]string{
		`{"type":"ref/prompt","name":"summarize_pr"}`:                       `{"type":"ref/prompt","name":"summarize_pr"}`,
		`{"type":"ref/prompt","name":"` + h.ID(t, "docs", "hello") + `"}`:   `{"type":"ref/prompt","name":"hello"}`,
		`{"type":"ref/resource","uri":"db://{table}/{id}{?limit}"}`:         `{"type":"ref/resource","uri":"db://{table}/{id}{?limit}"}`,
		`{"uri":"` + h.ID(t, "docs", "rows") + `","type":"ref/resource"}`:   `{"uri":"db://{table}/{id}{?limit}","type":"ref/resource"}`,
		`{"type":"ref/prompt","name":"nope"}`:                               "",
		`{"type":"ref/prompt","name":"` + h.ID(t, "docs", "README") + `"}`:  "",
		`{"type":"ref/resource","uri":"` + h.ID(t, "docs", "README") + `"}`: "",
		`{"type":"ref/tool","name":"x"}`:                                    "",
	} {
		up.Answers["completion/complete "] = `{"completion":{"values":["weir"]}}`
		out, err := h.Ask(t, "completion/complete", `{"ref":`+ref+`,"argument":{"name":"repo","value":"w"}}`)
		if want == "" {
			if mcp.WireError(err, "").Code != jsonrpc.CodeInvalidParams {
				t.Errorf("%s: %s %v", ref, out, err)
			}
			continue
		}
		if err != nil || string(out) != `{"completion":{"values":["weir"]}}` || up.Last() != `completion/complete {"ref":`+want+`,"argument":{"name":"repo","value":"w"}}` {
			t.Errorf("%s: %s %v, upstream got %s", ref, out, err, up.Last())
		}
	}
	h.Mu.Lock()
	h.Others["more"] = calltest.NewShelf()
	h.Listed, _ = h.Listed.With(primitive.Listing{Upstream: "more", Namespace: "more", Prompts: calltest.Raws(`{"name":"hello"}`)})
	h.Mu.Unlock()
	before := up.Last()
	if _, err := h.Ask(t, "completion/complete", `{"ref":{"type":"ref/prompt","name":"hello"},"argument":{"name":"x","value":""}}`); err != nil || up.Last() == before {
		t.Errorf("of two servers of the configuration, the first one does not answer: %v", err)
	}
}

func TestPin(t *testing.T) {
	h, up := library(t, Options{})
	hash := h.Snapshot().Catalog.Hash()
	calls := []func(*harness) calltest.Answer{
		func(h *harness) calltest.Answer {
			return h.Tool(t, ToolExecute, `{"tool_id":"`+h.ID(t, "web", "search")+`","args":{}}`)
		},
		func(h *harness) calltest.Answer {
			return h.Tool(t, ToolExecute, `{"tool_id":"`+h.ID(t, "web", "search")+`","args":{},"dry_run":true}`)
		},
		func(h *harness) calltest.Answer {
			return h.Tool(t, ResourceRead, `{"resource_id":"`+h.ID(t, "docs", "README")+`"}`)
		},
		func(h *harness) calltest.Answer {
			return h.Tool(t, PromptGet, `{"prompt_id":"`+h.ID(t, "docs", "hello")+`"}`)
		},
	}
	for _, c := range []struct {
		name string
		pin  dispatch.Pin
		runs bool
	}{
		{"none", dispatch.Pin{}, true}, {"the same", dispatch.Pin{Hash: hash, Strict: true}, true},
		{"another, warn", dispatch.Pin{Hash: strings.Repeat("0", 64)}, true}, {"another, strict", dispatch.Pin{Hash: strings.Repeat("0", 64), Strict: true}, false},
	} {
		h.change(func(o *Options) { o.Pin = c.pin })
		for i, call := range calls {
			before := len(h.Called()) + len(up.Calls)
			s := call(h)
			if c.runs {
				if s.IsError {
					t.Errorf("%s, call %d: %+v", c.name, i, s)
				}
				continue
			}
			e := calltest.Failure(t, s)
			// The hash to pin is for the operator: an agent could ask to have it set.
			if e.Error != "PERMISSION_DENIED" || strings.Contains(s.Content[0].Text, hash) || !strings.Contains(e.Message, "pin.expected_hash") || len(h.Called())+len(up.Calls) != before {
				t.Errorf("%s, call %d: %+v", c.name, i, e)
			}
		}
		if _, err := h.Ask(t, "resources/read", `{"uri":"file:///docs/readme.md"}`); (err == nil) != c.runs {
			t.Errorf("%s: resources/read: %v", c.name, err)
		}
		if s := h.Tool(t, ToolBrowse, `{"path":"/"}`); s.IsError {
			t.Errorf("%s: browsing is possible: %+v", c.name, s)
		}
	}
	h.Mu.Lock()
	h.Listed, _ = h.Listed.With(primitive.Listing{Upstream: "web", Namespace: "web", Tools: calltest.Raws(`{"name":"search","description":"Search the web for pages. "}`)})
	h.Mu.Unlock()
	if h.Snapshot().Catalog.Hash() == hash {
		t.Error("another description has the same hash")
	}
}

// The session's log level reaches upstreams, once.
func TestLogLevelOfUpstreams(t *testing.T) {
	h, up := library(t, Options{})
	read := `{"resource_id":"` + h.ID(t, "docs", "README") + `"}`
	h.Tool(t, ResourceRead, read)
	h.Session.SetLogLevel("warning")
	h.Tool(t, ResourceRead, read)
	h.Tool(t, ResourceRead, read)
	h.Session.SetLogLevel("debug")
	h.Tool(t, ResourceRead, read)
	if fmt.Sprint(up.Levels) != "[warning debug]" {
		t.Errorf("%v", up.Levels)
	}
	if got := h.g.state.levels("docs").Of(mcp.NewSession("", "bob")); got != "info" {
		t.Errorf("a session without a wish gets %q", got)
	}
}

var errGone = errors.New("gone")

// telling is the Peer of an agent that hears notifications.
type telling struct {
	mu    sync.Mutex // guards below
	heard []string
}

func newTelling() *telling { return &telling{} }

func (p *telling) Call(context.Context, string, json.RawMessage, mcp.Handler) (json.RawMessage, error) {
	return nil, errGone
}

func (p *telling) Notify(_ context.Context, method string, params json.RawMessage) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heard = append(p.heard, strings.TrimSpace(method+" "+string(params)))
	return nil
}

func (p *telling) take() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	heard := p.heard
	p.heard = nil
	return heard
}

var _ bridge.Leveler = (*calltest.Shelf)(nil)
