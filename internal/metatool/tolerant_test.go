package metatool

import (
	"fmt"
	"testing"
)

// Off, arguments reach validation as they came; on, the repaired ones reach the
// upstream and the repairs the envelope.
func TestTolerantArgs(t *testing.T) {
	for _, on := range []bool{false, true} {
		h := newHarness(t, Options{TolerantArgs: on})
		id := h.id(t, "files", "read_file")
		s := h.tool(t, ToolExecute, `{"tool_id":"`+id+`","args":"\ufeff {\"path\":\"a\",\"limit\":\"5\"} "}`)
		if !on {
			if e := failure(t, s); e.Error != "ARGS_INVALID" || len(h.called()) != 0 {
				t.Errorf("off: %+v", e)
			}
			continue
		}
		if s.IsError || s.Content[0].Text != `{"path":"a","limit":5}` {
			t.Errorf("on: %+v", s)
		}
		want := "[map[path:$ rule:parse_stringified_object] map[path:$.limit rule:str_to_integer]]"
		if got := fmt.Sprint(s.env.Provenance["arg_repairs"]); got != want {
			t.Errorf("repairs %s", got)
		}
		// What is not repaired fails as ever.
		if e := failure(t, h.tool(t, ToolExecute, `{"tool_id":"`+id+`","args":{"path":"a","limit":"five"}}`)); e.Error != "ARGS_INVALID" {
			t.Errorf("%+v", e)
		}
		s = h.tool(t, ToolExecute, `{"tool_id":"`+id+`","args":{"path":"7"}}`)
		if s.Content[0].Text != `{"path":"7"}` || s.env.Provenance["arg_repairs"] != nil {
			t.Errorf("nothing to repair: %+v", s)
		}
	}
}
