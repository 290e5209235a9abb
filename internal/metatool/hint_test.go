package metatool

import (
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/internal/text/token"
)

// TestHints: a query that nothing fits is answered with the words that are wrong with it, in one short line.
func TestHints(t *testing.T) {
	h := newHarness(t, Options{})
	h.Add("memory", calltest.Echo,
		`{"name":"delete_entities","description":"Delete entities of the knowledge graph.","inputSchema":{"type":"object"}}`,
		`{"name":"delete_relations","description":"Delete relations of the knowledge graph.","inputSchema":{"type":"object"}}`,
		`{"name":"search_nodes","description":"Search the knowledge graph.","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`)
	h.Add("mail", calltest.Echo,
		`{"name":"send_message","description":"Send a message.","inputSchema":{"type":"object"}}`)
	for _, c := range []struct{ query, line string }{
		{"lösche bitte Rechnungen von gestern", `No tool has "losche", "bitte", "rechnungen"; ask in English`},
		{"отправь сообщение", `No tool has "отправь", "сообщение"; ask in English`},
		{"order the pizza", `No tool has "order", "pizza"`},
		{"delete a calendar", `No tool has "calendar"`},
		{"delete a message", `No tool has "delete" as well`},
		{"delete relations of the graph", ""},
		{"send a message", ""},
		{"search the knowledge graph", ""},
	} {
		text := h.Tool(t, ToolBrowse, `{"query":"`+c.query+`"}`).Content[0].Text
		first, rest, _ := strings.Cut(text, "\n")
		switch {
		case c.line == "" && !strings.Contains(first, " (tool) "):
			t.Errorf("%q is answered with the hint %q", c.query, first)
		case c.line != "" && first != c.line+nearest && first != c.line+`. Path "/" shows what there is.`:
			t.Errorf("%q: the first line is %q, want %q", c.query, first, c.line)
		case c.line != "" && strings.HasSuffix(first, ":") == (rest == ""):
			t.Errorf("%q: the cards below %q are %q", c.query, first, rest)
		}
		if n := token.Count(first); c.line != "" && n > browseOverhead {
			t.Errorf("%q: the hint has %d tokens", c.query, n)
		}
	}
}
