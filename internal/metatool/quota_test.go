package metatool

import (
	"reflect"
	"testing"

	"github.com/weir-mcp/weir/mcp"
)

func TestQuotaUnconfigured(t *testing.T) {
	h := newHarness(t, Options{})
	for range 200 {
		if s := h.Tool(t, ToolExecute, `{"tool_id":"`+h.ID(t, "files", "drop")+`","args":{}}`); s.IsError {
			t.Fatalf("%+v", s)
		}
	}
	if st := h.g.state.session(&mcp.Request{Session: h.Session}); !reflect.ValueOf(st.ledger).Elem().FieldByName("buckets").IsNil() {
		t.Error("calls are remembered without a limit")
	}
}
