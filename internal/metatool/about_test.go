package metatool

import (
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/internal/text"
)

// An error names what it is about in path (spec/gateway §3.4): the browse
// path, the id, or the handle, as the caller wrote it.
func TestErrorsNameWhatTheyAreAbout(t *testing.T) {
	h := newHarness(t, Options{ExposeHydrate: true})
	id := h.ID(t, "files", "read_file")
	for _, tt := range []struct{ tool, arguments, code, path string }{
		{ToolBrowse, `{"path":"/nowhere"}`, "PATH_NOT_FOUND", "/nowhere"},
		{ToolBrowse, `{"path":"nowhere"}`, "PATH_INVALID", "nowhere"},
		{ToolBrowse, `{}`, "ARGS_INVALID", ""},
		{ToolExecute, `{"tool_id":"files:nope","args":{}}`, "HYDRATE_FAILED", "files:nope"},
		{ToolExecute, `{"tool_id":"` + id + `","args":{}}`, "ARGS_INVALID", id},
		{ToolExecute, `{"tool_id":"` + id + `","dry_run":"yes"}`, "ARGS_INVALID", id},
		{ToolExecute, `{"tool_id":7}`, "ARGS_INVALID", ""},
		{ToolExecute, `{}`, "ARGS_INVALID", ""},
		{ToolHydrate, `{"tool_id":"files:nope"}`, "HYDRATE_FAILED", "files:nope"},
		{ToolView, `{"handle":"art_nope","selector":{}}`, "VIEW_FAILED", "art_nope"},
		{ToolView, `{"handle":"art_nope"}`, "ARGS_INVALID", "art_nope"},
	} {
		if e := calltest.Failure(t, h.Tool(t, tt.tool, tt.arguments)); e.Error != tt.code || e.Path != tt.path {
			t.Errorf("%s %s: %s, path %q, want %s, %q", tt.tool, tt.arguments, e.Error, e.Path, tt.code, tt.path)
		}
	}

	// What is there and cannot be read, too.
	h.Add("words", calltest.Say(calltest.Text(strings.Repeat("word ", 1000))), `{"name":"list","inputSchema":{"type":"object"}}`)
	s := h.Tool(t, ToolExecute, `{"tool_id":"`+h.ID(t, "words", "list")+`","args":{}}`)
	handle := s.Env.Artifacts[0].Handle
	if e := calltest.Failure(t, h.Tool(t, ToolView, `{"handle":`+string(rawjson.Quote(handle))+`,"selector":{"type":"json_path","path":"$.a"}}`)); e.Error != "VIEW_FAILED" || e.Path != handle {
		t.Errorf("%+v", e)
	}

	// It is one bounded line, as a message is.
	long := calltest.Failure(t, h.Tool(t, ToolExecute, `{"tool_id":"`+strings.Repeat("x\\n", 1000)+`"}`))
	if n := len([]rune(long.Path)); n > text.MaxMessageChars || strings.Contains(long.Path, "\n") {
		t.Errorf("a path of %d characters: %q", n, long.Path)
	}
}

func TestErrorsOfPrimitivesNameWhatTheyAreAbout(t *testing.T) {
	h, _ := library(t, Options{})
	for _, tt := range []struct{ tool, arguments, code, path string }{
		{ResourceRead, `{"resource_id":"resource::x:none"}`, "RESOURCE_NOT_FOUND", "resource::x:none"},
		{PromptGet, `{"prompt_id":"prompt::x:none"}`, "PROMPT_NOT_FOUND", "prompt::x:none"},
	} {
		if e := calltest.Failure(t, h.Tool(t, tt.tool, tt.arguments)); e.Error != tt.code || e.Path != tt.path {
			t.Errorf("%s %s: %s, path %q", tt.tool, tt.arguments, e.Error, e.Path)
		}
	}
}
