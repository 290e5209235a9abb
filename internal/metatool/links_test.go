package metatool

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/mcp"
)

// linker is a server with a tool whose result is answer, and with resources that it does not list.
type linker struct {
	*calltest.Shelf
	answer string
}

func (l *linker) Call(ctx context.Context, method string, params json.RawMessage, back mcp.Handler) (json.RawMessage, error) {
	if method == methodCall {
		return json.RawMessage(l.answer), nil
	}
	return l.Shelf.Call(ctx, method, params, back)
}

const linkTool = `{"name":"find","description":"Find a report.","inputSchema":{"type":"object"}}`

// linkers is a library with servers whose tool "find" links to resources.
func linkers(t testing.TB, opts Options, answers map[string]string) (*harness, map[string]*linker) {
	h, _ := library(t, opts)
	of := map[string]*linker{}
	for name, answer := range answers {
		l := &linker{Shelf: &calltest.Shelf{Answers: map[string]string{}}, answer: answer}
		of[name] = l
		h.Mu.Lock()
		h.Others[name] = l
		h.Listed, _ = h.Listed.With(primitive.Listing{Upstream: name, Namespace: name, Found: strings.HasPrefix(name, "found"), Tools: calltest.Raws(linkTool)})
		h.Mu.Unlock()
	}
	return h, of
}

func (l *linker) has(uri, text string) {
	l.Answers["resources/read "+uri] = fmt.Sprintf(`{"contents":[{"uri":%q,"text":%q}]}`, uri, text)
}

func linkTo(uri string) string {
	return fmt.Sprintf(`{"content":[{"type":"text","text":"see"},{"type":"resource_link","uri":%q,"name":"r"}]}`, uri)
}

func (h *harness) find(t testing.TB, server string) {
	t.Helper()
	if s := h.Tool(t, ToolExecute, `{"tool_id":"`+h.ID(t, server, "find")+`","args":{}}`); s.IsError {
		t.Fatalf("%+v", s)
	}
}

func (h *harness) readURI(t testing.TB, uri string) calltest.Answer {
	t.Helper()
	return h.Tool(t, ResourceRead, fmt.Sprintf(`{"resource_id":%q}`, uri))
}

// A URI that is listed, or that a template makes, reads as its id does.
func TestResourceReadByURI(t *testing.T) {
	h, up := library(t, Options{})
	for _, args := range []string{
		`{"resource_id":"file:///docs/readme.md"}`,
		`{"uri":"file:///docs/readme.md"}`,
		`{"uri":"file:///docs/readme.md","args":{}}`,
	} {
		s := h.Tool(t, ResourceRead, args)
		if s.IsError || s.Content[0].Text != "# Read me\ncaf\u00e9" || s.Env.Provenance["resource_id"] != h.ID(t, "docs", "README") {
			t.Errorf("%s: %+v", args, s)
		}
	}
	for _, args := range []string{
		`{"resource_id":"db://users/7?limit=2"}`,
		`{"resource_id":"db://{table}/{id}{?limit}","args":{"table":"users","id":7,"limit":2}}`,
	} {
		if s := h.Tool(t, ResourceRead, args); s.IsError || s.Content[0].Text != `{"id":7}` || s.Env.Provenance["resource_id"] != h.ID(t, "docs", "rows") {
			t.Errorf("%s: %+v", args, s)
		}
	}
	if up.Last() != `resources/read {"uri":"db://users/7?limit=2"}` {
		t.Errorf("the upstream got %s", up.Last())
	}
	e := calltest.Failure(t, h.readURI(t, "memo://unknown/1"))
	if e.Error != "RESOURCE_NOT_FOUND" || !strings.Contains(e.Message, ResourceBrowse) || !strings.Contains(e.Message, "memo://unknown/1") {
		t.Errorf("an unknown URI: %+v", e)
	}
	if e := calltest.Failure(t, h.Tool(t, ResourceRead, `{"uri":"db://users/7","args":{"id":8}}`)); e.Error != "ARGS_INVALID" {
		t.Errorf("a whole URI with args: %+v", e)
	}
}

// A URI in a link, an embedded resource, a read resource or a prompt is read from the server that
// sent it.
func TestResourceReadFollowsLinks(t *testing.T) {
	for name, answer := range map[string]string{
		"link":     linkTo("memo://r/1"),
		"embedded": `{"content":[{"type":"resource","resource":{"uri":"memo://r/1","text":"short"}}]}`,
		"large":    `{"content":[{"type":"text","text":"` + strings.Repeat("long ", 2000) + `"},{"type":"resource_link","uri":"memo://r/1","name":"r"}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			h, of := linkers(t, Options{}, map[string]string{"a": answer, "b": linkTo("memo://r/2")})
			of["a"].has("memo://r/1", "from a")
			of["b"].has("memo://r/1", "from b")
			if e := calltest.Failure(t, h.readURI(t, "memo://r/1")); e.Error != "RESOURCE_NOT_FOUND" {
				t.Errorf("before the link: %+v", e)
			}
			h.find(t, "a")
			if s := h.readURI(t, "memo://r/1"); s.IsError || s.Content[0].Text != "from a" {
				t.Errorf("%+v", s)
			}
			if out, err := h.Ask(t, "resources/read", `{"uri":"memo://r/1"}`); err != nil || !strings.Contains(string(out), "from a") {
				t.Errorf("resources/read: %s, %v", out, err)
			}
			bob := *h
			bob.Session = mcp.NewSession("s2", "bob")
			defer bob.Session.Close()
			if e := calltest.Failure(t, bob.readURI(t, "memo://r/1")); e.Error != "RESOURCE_NOT_FOUND" {
				t.Errorf("another principal: %+v", e)
			}
			again := *h
			again.Session = mcp.NewSession("s3", "ann")
			defer again.Session.Close()
			if s := again.readURI(t, "memo://r/1"); s.IsError {
				t.Errorf("another session of the principal: %+v", s)
			}
		})
	}

	h, of := linkers(t, Options{}, map[string]string{"a": linkTo("memo://index")})
	of["a"].Answers["resources/read memo://index"] = `{"contents":[{"uri":"memo://page/1","text":"one"}]}`
	of["a"].has("memo://page/1", "one")
	h.find(t, "a")
	h.readURI(t, "memo://index")
	if s := h.readURI(t, "memo://page/1"); s.IsError {
		t.Errorf("a part of a resource: %+v", s)
	}
}

// The server that linked to a URI is asked, also where another one lists it; but a server outside
// of the configuration takes no URI from one inside.
func TestLinkedURIOfAnotherServer(t *testing.T) {
	const uri = "file:///docs/readme.md"
	h, of := linkers(t, Options{}, map[string]string{"a": linkTo(uri), "found": linkTo(uri)})
	of["a"].has(uri, "from a")
	of["found"].has(uri, "from found")
	h.find(t, "found")
	if s := h.readURI(t, uri); s.IsError || !strings.HasPrefix(s.Content[0].Text, "# Read me") {
		t.Errorf("linked by a discovered server: %+v", s)
	}
	h.find(t, "a")
	if s := h.readURI(t, uri); s.IsError || s.Content[0].Text != "from a" {
		t.Errorf("linked by a configured server: %+v", s)
	}
	// A client picks from the list, so links do not change what its URIs reach.
	other := *h
	other.Session = mcp.NewSession("s2", "ann")
	defer other.Session.Close()
	if out, err := other.Ask(t, "resources/read", `{"uri":"`+uri+`"}`); err != nil || !strings.Contains(string(out), "# Read me") {
		t.Errorf("resources/read: %s, %v", out, err)
	}
}

// The controls decide about a linked URI as about an unlisted resource of its server.
func TestPolicyOfLinkedURIs(t *testing.T) {
	for name, tt := range map[string]struct {
		policy dispatch.Policy
		want   string
	}{
		"allowed":          {dispatch.Policy{}, ""},
		"server denied":    {dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, MetaTool: ResourceRead, Namespace: "a"}}}, "PERMISSION_DENIED"},
		"URI denied":       {dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, Tool: "memo://r/*"}}}, "PERMISSION_DENIED"},
		"default denied":   {dispatch.Policy{Default: dispatch.Deny, Rules: []dispatch.PolicyRule{{Action: dispatch.Allow, MetaTool: ToolExecute}}}, "PERMISSION_DENIED"},
		"URI allowed":      {dispatch.Policy{Default: dispatch.Deny, Rules: []dispatch.PolicyRule{{Action: dispatch.Allow, MetaTool: ToolExecute}, {Action: dispatch.Allow, Tool: "memo://r/*"}}}, ""},
		"others allowed":   {dispatch.Policy{Default: dispatch.Deny, Rules: []dispatch.PolicyRule{{Action: dispatch.Allow, MetaTool: ToolExecute}, {Action: dispatch.Allow, Tool: "memo://s/*"}}}, "PERMISSION_DENIED"},
		"other spelling":   {dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, Tool: "MEMO://r/%31"}}}, "PERMISSION_DENIED"},
		"by tags, perhaps": {dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, MetaTool: ResourceRead, Tags: []string{"secret"}}}}, "PERMISSION_DENIED"},
	} {
		t.Run(name, func(t *testing.T) {
			h, of := linkers(t, Options{Policy: &tt.policy}, map[string]string{"a": linkTo("memo://r/1")})
			of["a"].has("memo://r/1", "from a")
			h.find(t, "a")
			s := h.readURI(t, "memo://r/1")
			if tt.want == "" {
				if s.IsError {
					t.Errorf("%+v", s)
				}
				return
			}
			if e := calltest.Failure(t, s); e.Error != tt.want {
				t.Errorf("%+v", e)
			}
			if of["a"].Last() != "" {
				t.Errorf("the server got %s", of["a"].Last())
			}
		})
	}
}

// Links expire, and have bounds.
func TestLinksAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLinks()
		s := NewSnapshot(catalog.Limits{})
		from := Place{Upstream: "a", Namespace: "a"}
		l.remember("ann", from, json.RawMessage(linkTo("memo://r/0")))
		time.Sleep(linkTTL - time.Second)
		if l.entry(s, "ann", "memo://r/0") == nil {
			t.Error("forgotten too early")
		}
		time.Sleep(time.Second)
		if l.entry(s, "ann", "memo://r/0") != nil {
			t.Error("not forgotten")
		}
		for i := range 2 * maxLinked {
			l.remember("ann", from, json.RawMessage(linkTo(fmt.Sprint("memo://r/", i))))
		}
		l.remember("ann", from, json.RawMessage(linkTo("memo://"+strings.Repeat("r", maxLinkURI))))
		if own, _ := l.of.Get("ann"); own.Len() != maxLinked {
			t.Errorf("%d links", own.Len())
		}
		for i := range 2 * maxLinkers {
			l.remember(fmt.Sprint("p", i), from, json.RawMessage(linkTo("memo://r/1")))
		}
		if l.of.Len() != maxLinkers {
			t.Errorf("links of %d principals", l.of.Len())
		}
	})
}
