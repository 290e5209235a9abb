package metatool

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/internal/text/token"
)

// A wrong call of a meta-tool costs little: the agent has the schema, so the error names what is
// wrong and shows one correct call.
func TestWrongCallOfAMetaTool(t *testing.T) {
	h := newRunHarness(t, Options{ExposeHydrate: true})
	h.Library()
	long := strings.Repeat("k", 500)
	for _, tt := range []struct{ tool, arguments, says string }{
		{ToolBrowse, `{}`, "pass query or path"},
		{ToolBrowse, `{"search":"a","limit":3}`, `unknown arguments "search", "limit"; known are query, path, top_k`},
		{ToolExecute, `{}`, "tool_id is missing"},
		{ToolExecute, `{"tool_id":"a","path":"b","limit":3}`, `unknown arguments "path", "limit"; known are tool_id, args, dry_run, abstract_domains, mode; others go into args`},
		{ToolExecute, `{"tool_id":"a","` + long + `1":1,"` + long + `2":1,"` + long + `3":1,"` + long + `4":1}`, "go into args"},
		{ToolView, `{}`, "handle and selector are needed"},
		{ToolView, `{"handle":"a","from":1,"to":2}`, `unknown arguments "from", "to"; known are handle, selector`},
		{ToolRun, `{"code":"a"}`, `unknown argument "code"; known are program, input, resume, timeout`},
		{ToolHydrate, `{"id":"a"}`, `unknown argument "id"; known are tool_id`},
		{ResourceBrowse, `{"q":"a"}`, `unknown argument "q"; known are query, path, top_k`},
		{ResourceRead, `{"name":"a"}`, `unknown argument "name"; known are resource_id, args`},
		{PromptBrowse, `{"path":1}`, "path must be a string"},
		{PromptGet, `{"name":"a","arguments":{}}`, `unknown arguments "name", "arguments"; known are prompt_id, args`},
	} {
		s := h.Tool(t, tt.tool, tt.arguments)
		e := calltest.Failure(t, s)
		if e.Error != "ARGS_INVALID" || !strings.HasPrefix(e.Message, tt.tool+": ") || !strings.Contains(e.Message, tt.says) {
			t.Errorf("%s %s: %s", tt.tool, tt.arguments, e.Message)
		}
		if n := token.Count(s.Content[0].Text); n > 110 {
			t.Errorf("%s %.80s: %d tokens: %s", tt.tool, tt.arguments, n, s.Content[0].Text)
		}
	}
	// The examples are calls that are understood.
	for _, m := range metaTools {
		if e := calltest.Failure(t, h.Tool(t, m.name, `{"wrong":1}`)); string(e.Details.Example) != m.example {
			t.Errorf("%s: example %s", m.name, e.Details.Example)
		}
		if err := rawjson.Valid([]byte(m.example)); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
		if s := h.Tool(t, m.name, m.example); s.IsError && calltest.Failure(t, s).Error == "ARGS_INVALID" {
			t.Errorf("%s %s: %+v", m.name, m.example, s)
		}
	}
}

// Arguments that are for no server have a bound, in each meta-tool. Arguments for a server have none here.
func TestMetaToolsBoundTheirOwnArguments(t *testing.T) {
	h := newRunHarness(t, Options{ExposeHydrate: true})
	h.Library()
	long := strings.Repeat("x", maxOwnArguments)
	for _, m := range metaTools {
		for _, arguments := range []string{
			`{"path":"/` + long + `"}`,
			m.example[:len(m.example)-1] + `,"more":"` + long + `"}`,
			`{"selector":{"type":"search","pattern":"` + long + `"},"args":{"a":"` + long + `"}}`,
			`{"tool_id":"` + long + `","arguments":{}}`,
		} {
			e := calltest.Failure(t, h.Tool(t, m.name, arguments))
			if e.Error != "ARGS_INVALID" || !strings.HasPrefix(e.Message, m.name+": arguments of ") || !strings.HasSuffix(e.Message, "the most are 262144") {
				t.Errorf("%s %.40s: %s", m.name, arguments, e.Message)
			}
		}
		if e := calltest.Failure(t, h.Tool(t, m.name, `{"wrong":"`+long[:maxOwnArguments-12]+`"}`)); !strings.Contains(e.Message, "unknown argument") {
			t.Errorf("%s: %s", m.name, e.Message)
		}
	}
	for _, key := range []string{"args", "arguments"} {
		s := h.Tool(t, ToolExecute, fmt.Sprintf(`{"tool_id":%q,%q:{"path":"/%s"}}`, h.ID(t, "files", "read_file"), key, long))
		if s.IsError {
			t.Errorf("%s: %.300s", key, s.Content[0].Text)
		}
	}
}
