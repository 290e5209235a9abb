package metatool

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/internal/text/token"
)

func TestBrowse(t *testing.T) {
	h := newHarness(t, Options{})
	read, drop := h.ID(t, "files", "read_file"), h.ID(t, "files", "drop")
	for _, tt := range []struct{ arguments, want string }{
		{`{"query":"read a file"}`, read + " (path, limit?) — Read a file from disk. [read-only]"},
		{`{"query":"delete a file","top_k":1}`, drop + " (tool) — Delete a file. [destructive] side-effects"},
		{`{"path":"/files"}`, drop + " (tool) — Delete a file. [destructive] side-effects\n" + read + " (path, limit?) — Read a file from disk. [read-only]"},
		{`{"query":"delete a file","top_k":1.0}`, drop + " (tool) — Delete a file. [destructive] side-effects"},
		{`{"path":"/files","top_k":1}`, drop + " (tool) — Delete a file. [destructive] side-effects"},
		{`{"path":"/files/read_file"}`, read + " (path, limit?) — Read a file from disk. [read-only]"},
		{`{"query":null,"path":"/files/read_file"}`, read + " (path, limit?) — Read a file from disk. [read-only]"},
		{`{"query":"zzzzqqqq"}`, `No tool has "zzzzqqqq"; ask in English. Path "/" shows what there is.`},
	} {
		s := h.Tool(t, ToolBrowse, tt.arguments)
		got := s.Content[0].Text
		if strings.Contains(tt.arguments, `"query"`) && !strings.Contains(tt.arguments, "top_k") {
			got, _, _ = strings.Cut(got, "\n")
		}
		if s.IsError || got != tt.want {
			t.Errorf("%s:\n got %q\nwant %q", tt.arguments, got, tt.want)
		}
	}
	root := h.Tool(t, ToolBrowse, `{"path":"/"}`).Content[0].Text
	if lines := strings.Split(root, "\n"); len(lines) != 2 || !strings.HasPrefix(lines[0], "/files (internal)") || !strings.HasPrefix(lines[1], "/web ") {
		t.Errorf("/ is %q", root)
	}
}

// TestFarCards leaves out cards far behind the best, unless no match is close: then it says so.
func TestFarCards(t *testing.T) {
	h := newHarness(t, Options{})
	read, drop := h.ID(t, "files", "read_file"), h.ID(t, "files", "drop")
	text := func(h *harness, query string) string {
		return h.Tool(t, ToolBrowse, `{"query":"`+query+`"}`).Content[0].Text
	}
	if got := text(h, "read a file from disk"); !strings.Contains(got, read) || strings.Contains(got, drop) {
		t.Errorf("a close match is %q", got)
	}
	const weak = "order a spicy pizza for tonight, with olives, on file"
	if got := text(h, weak); !strings.HasPrefix(got, `No tool has "order", "spicy", "pizza"; nearest:`+"\n") || !strings.Contains(got, read) || !strings.Contains(got, drop) {
		t.Errorf("a weak match is %q", got)
	}
	stable := newHarness(t, Options{CacheStable: true})
	if got := text(stable, weak); strings.HasPrefix(got, "No tool") || !strings.HasSuffix(got, aboveAre) {
		t.Errorf("a weak match with stable cards is %q", got)
	}
	asJSON := newHarness(t, Options{Format: result.FormatJSON})
	s := asJSON.Tool(t, ToolBrowse, `{"query":"`+weak+`"}`)
	if !strings.HasSuffix(string(s.StructuredContent), `,"close_match":false,"hint":"No tool has \"order\", \"spicy\", \"pizza\""}`) || !json.Valid(s.StructuredContent) {
		t.Errorf("structuredContent %s", s.StructuredContent)
	}
}

func TestBrowseJSON(t *testing.T) {
	h := newHarness(t, Options{Format: result.FormatJSON})
	s := h.Tool(t, ToolBrowse, `{"query":"file"}`)
	var cards []struct {
		ID    string
		Score *float64
	}
	if err := json.Unmarshal([]byte(s.Content[0].Text), &cards); err != nil || len(cards) < 2 {
		t.Fatalf("%v in %s", err, s.Content[0].Text)
	}
	for i, c := range cards {
		if c.Score == nil || i > 0 && (*c.Score > *cards[i-1].Score || *c.Score == *cards[i-1].Score && c.ID < cards[i-1].ID) {
			t.Errorf("card %d is out of order: %s", i, s.Content[0].Text)
		}
	}
	if string(s.StructuredContent) != `{"cards":`+s.Content[0].Text+`}` {
		t.Errorf("structuredContent %s", s.StructuredContent)
	}
	if s = h.Raw(t, `{"name":"tool_browse","arguments":{"path":"/web"},"_meta":{"weir/format":"text"}}`); s.StructuredContent != nil || strings.HasPrefix(s.Content[0].Text, "[") {
		t.Errorf("%+v", s)
	}
	if s = h.Tool(t, ToolBrowse, `{"path":"/web"}`); strings.Contains(s.Content[0].Text, "score") {
		t.Errorf("a path has scores: %s", s.Content[0].Text)
	}
	if s = h.Tool(t, ToolBrowse, `{"query":"zzzzqqqq"}`); s.Content[0].Text != "[]" {
		t.Errorf("nothing is %s", s.Content[0].Text)
	}
}

func TestBrowseErrors(t *testing.T) {
	h := newHarness(t, Options{})
	for _, tt := range []struct{ arguments, code, message, path string }{
		{`{}`, "ARGS_INVALID", "tool_browse: pass query or path", ""},
		{`null`, "ARGS_INVALID", "tool_browse: pass query or path", ""},
		{`[]`, "ARGS_INVALID", "tool_browse: arguments must be an object, not an array", ""},
		{`{"query":"a","path":"/"}`, "ARGS_INVALID", "tool_browse: pass either query or path, not both", ""},
		{`{"query":" \n"}`, "ARGS_INVALID", "tool_browse: query is empty", ""},
		{`{"query":1}`, "ARGS_INVALID", "tool_browse: query must be a string, not 1", ""},
		{`{"path":{}}`, "ARGS_INVALID", "tool_browse: path must be a string, not an object", ""},
		{`{"query":"a","top_k":0}`, "ARGS_INVALID", "tool_browse: top_k must be a whole number from 1 to 50, not 0", ""},
		{`{"query":"a","top_k":51}`, "ARGS_INVALID", "tool_browse: top_k must be", ""},
		{`{"query":"a","top_k":2.5}`, "ARGS_INVALID", "tool_browse: top_k must be", ""},
		{`{"query":"a","top_k":"5"}`, "ARGS_INVALID", "tool_browse: top_k must be", ""},
		{`{"query":"a","k":5}`, "ARGS_INVALID", `tool_browse: unknown argument "k"; known are query, path, top_k`, ""},
		{`{"query":"a","query":"b"}`, "ARGS_INVALID", "tool_browse: query stands twice", ""},
		{`{"path":"files"}`, "PATH_INVALID", "", "files"},
		{`{"path":"/files/"}`, "PATH_INVALID", "", "/files/"},
		{`{"path":"//files"}`, "PATH_INVALID", "", "//files"},
		{`{"path":"/Files"}`, "PATH_INVALID", "", "/Files"},
		{`{"path":"/nowhere"}`, "PATH_NOT_FOUND", "", "/nowhere"},
	} {
		e := calltest.Failure(t, h.Tool(t, ToolBrowse, tt.arguments))
		if e.Error != tt.code || !strings.HasPrefix(e.Message, tt.message) || e.Path != tt.path || *e.Retryable {
			t.Errorf("%s: %+v", tt.arguments, e)
		}
		if tt.code == "ARGS_INVALID" && string(e.Details.Example) != `{"query":"read a text file"}` {
			t.Errorf("%s: no example in the details", tt.arguments)
		}
	}
}

func TestTenCardsFitTheirBudget(t *testing.T) {
	h := newHarness(t, Options{})
	var tools []string
	for i := range 40 {
		tools = append(tools, fmt.Sprintf(`{"name":"convert_currency_with_a_rather_long_name_%d","description":"Convert an amount of money from one currency to another, %s. Use it for money.","inputSchema":{"type":"object"}}`,
			i, strings.Repeat("at the rate of a given day and place ", i)))
	}
	h.Add("money", calltest.Echo, tools...)
	text := h.Tool(t, ToolBrowse, `{"query":"convert currency money"}`).Content[0].Text
	if n := strings.Count(text, "\n") + 1; n != 10 {
		t.Errorf("%d cards, want 10", n)
	}
	if n := token.Count(text); n > 832 {
		t.Errorf("%d tokens, at most 832 are allowed", n)
	}
}
