package dispatch_test

import (
	"fmt"
	"testing"

	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/internal/testkit/metatooltest"
)

// Off, arguments reach validation as they came; on, the repaired ones reach the
// upstream and the repairs the envelope.
func TestTolerantArgs(t *testing.T) {
	for _, on := range []bool{false, true} {
		h := metatooltest.New(t, metatool.Options{TolerantArgs: on})
		id := h.ID(t, "files", "read_file")
		s := h.Tool(t, metatool.ToolExecute, `{"tool_id":"`+id+`","args":"\ufeff {\"path\":\"a\",\"limit\":\"5\"} "}`)
		if !on {
			if e := calltest.Failure(t, s); e.Error != "ARGS_INVALID" || len(h.Called()) != 0 {
				t.Errorf("off: %+v", e)
			}
			continue
		}
		if s.IsError || s.Content[0].Text != `{"path":"a","limit":5}` {
			t.Errorf("on: %+v", s)
		}
		want := "[map[path:$ rule:parse_stringified_object] map[path:$.limit rule:str_to_integer]]"
		if got := fmt.Sprint(s.Env.Provenance["arg_repairs"]); got != want {
			t.Errorf("repairs %s", got)
		}
		// What is not repaired fails as ever.
		if e := calltest.Failure(t, h.Tool(t, metatool.ToolExecute, `{"tool_id":"`+id+`","args":{"path":"a","limit":"five"}}`)); e.Error != "ARGS_INVALID" {
			t.Errorf("%+v", e)
		}
		s = h.Tool(t, metatool.ToolExecute, `{"tool_id":"`+id+`","args":{"path":"7"}}`)
		if s.Content[0].Text != `{"path":"7"}` || s.Env.Provenance["arg_repairs"] != nil {
			t.Errorf("nothing to repair: %+v", s)
		}
	}
}
