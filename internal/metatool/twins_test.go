package metatool

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
)

// TestTwins: the same tool of several servers has one card, which says where they differ. Each of them is offered.
func TestTwins(t *testing.T) {
	const read = `{"name":"read_page","description":"Read a page of the wiki.","inputSchema":{"type":"object","properties":{"page":{"type":"string"}},"required":["page"]}}`
	const other = `{"name":"read_page","description":"Read a page of a book.","inputSchema":{"type":"object","properties":{"page":{"type":"string"}},"required":["page"]}}`
	h := newHarness(t, Options{})
	for _, l := range []primitive.Listing{
		{Upstream: "wiki-a", Namespace: "wiki-a", Folders: []string{"/opt/wiki.js", "/srv/a"}, Tools: []json.RawMessage{json.RawMessage(read)}},
		{Upstream: "wiki-b", Namespace: "wiki-b", Folders: []string{"/opt/wiki.js", "/srv/b"}, Tags: []string{"team"}, Tools: []json.RawMessage{json.RawMessage(read)}},
		{Upstream: "book", Namespace: "book", Tools: []json.RawMessage{json.RawMessage(other)}},
	} {
		h.Add(l.Upstream, calltest.Echo)
		h.List(l)
	}
	a, b, book := h.ID(t, "wiki-a", "read_page"), h.ID(t, "wiki-b", "read_page"), h.ID(t, "book", "read_page")
	text := h.Tool(t, ToolBrowse, `{"query":"read a page of the wiki"}`).Content[0].Text
	want := a + " (page) — Read a page of the wiki. undeclared — this one: /srv/a; same tool: " + b + " (team, /srv/b)"
	if lines := strings.Split(text, "\n"); lines[0] != want || strings.Count(text, b) != 1 || !strings.Contains(text, "\n"+book+" (page) — Read a page of a book.") {
		t.Errorf("got  %s\nwant %s", text, want)
	}
	if s := h.Tool(t, ToolExecute, `{"tool_id":"wiki-b:read_page","args":{"page":"x"}}`); s.IsError || s.Env.Provenance["tool_id"] != b {
		t.Errorf("the twin was not offered: %+v", s)
	}
	// Programs get each card by itself, and so do prompt caches and paths.
	for _, o := range []Options{{Format: result.FormatJSON}, {CacheStable: true}} {
		one := newHarness(t, o)
		one.Add("wiki-a", calltest.Echo, read)
		one.Add("wiki-b", calltest.Echo, read)
		if text := one.Tool(t, ToolBrowse, `{"query":"read a page of the wiki"}`).Content[0].Text; strings.Contains(text, "same tool") {
			t.Errorf("%+v: %s", o, text)
		}
	}
}
