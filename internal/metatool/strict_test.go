package metatool

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/mcp"
)

// TestStrictDirectCalls: a stripped entry is for discovery only: tool_execute calls it, and its name does not:
// spec/gateway §7, the second row 4.1.
func TestStrictDirectCalls(t *testing.T) {
	for _, strict := range []bool{false, true} {
		h := newHarness(t, Options{Mode: ModeProxy, Names: NameCanonical, Strict: strict})
		id := h.ID(t, "files", "read_file")
		_, err := h.call(t, id, `{"path":"a"}`)
		if strict != (err != nil) || strict != (len(h.Called()) == 0) {
			t.Fatalf("strict %t: %v, the server got %q", strict, err, h.Called())
		}
		if kind, _ := mcp.KindOf(err); strict && (kind != mcp.KindInvalidParams || !strings.Contains(err.Error(), `call tool_execute with {"tool_id":"`+id+`"`)) {
			t.Errorf("%v", err)
		}
		if s := h.Tool(t, ToolExecute, `{"tool_id":"`+id+`","args":{"path":"a"}}`); s.IsError {
			t.Errorf("%+v", s)
		}
	}
}

// TestStrictErrorPath: the path of an error is the id as it was sent, and not the id that the message proposes:
// spec/gateway §7, the second row 3.4.
func TestStrictErrorPath(t *testing.T) {
	for _, strict := range []bool{false, true} {
		h := newHarness(t, Options{Strict: strict})
		id := h.ID(t, "files", "read_file")
		bare, _, _ := strings.Cut(id, "#")
		for _, sent := range []string{bare, bare + "#00000000", strings.ToUpper(bare)} {
			e := calltest.Failure(t, h.Tool(t, ToolExecute, `{"tool_id":"`+sent+`","args":{"path":"a"}}`))
			if e.Error != "HYDRATE_FAILED" || e.Path != sent || !strings.Contains(e.Message, id) {
				t.Errorf("strict %t, %s: %+v", strict, sent, e)
			}
		}
	}
}

// TestStrictReadsAreKept: every part of a resource or prompt is kept, and its artifact is in the
// envelope and can be viewed: spec/gateway §7, row 9.4.
func TestStrictReadsAreKept(t *testing.T) {
	for _, strict := range []bool{false, true} {
		h, _ := library(t, Options{Strict: strict})
		for _, c := range []struct{ verb, arguments, kept string }{
			{ResourceRead, `{"resource_id":"file:///docs/readme.md"}`, "text/plain 15"},
			{PromptGet, `{"prompt_id":"` + h.ID(t, "docs", "summarize_pr") + `","args":{"repo":"r"}}`, "text/plain 9, text/plain 20, text/plain 11, image/png 2"},
		} {
			for _, s := range []calltest.Answer{h.Tool(t, c.verb, c.arguments), h.AsJSON(t, c.verb, c.arguments)} {
				var kept []string
				for _, a := range s.Env.Artifacts {
					kept = append(kept, fmt.Sprint(a.MediaType, " ", a.SizeBytes))
					if view := h.Tool(t, ToolView, `{"handle":"`+a.Handle+`","selector":{"type":"head"}}`); a.MediaType == "text/plain" && (view.IsError || len(view.Content[0].Text) != int(a.SizeBytes)) {
						t.Errorf("%s: %+v", a.Handle, view)
					}
				}
				if got := strings.Join(kept, ", "); s.IsError || s.Env.Status != "ok" || strict && got != c.kept || !strict && got != "" {
					t.Errorf("strict %t, %s keeps %q, status %q, error %t", strict, c.verb, got, s.Env.Status, s.IsError)
				}
			}
		}
		// Results of tools are kept where they are held back alone.
		if s := h.Tool(t, ToolExecute, `{"tool_id":"`+h.ID(t, "files", "read_file")+`","args":{"path":"a"}}`); len(s.Env.Artifacts) != 0 {
			t.Errorf("%+v", s.Env.Artifacts)
		}
	}
}
