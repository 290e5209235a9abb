package metatool

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/testkit/calltest"
)

func TestOtherFormsOfArguments(t *testing.T) {
	for _, tt := range []struct {
		understood func(json.RawMessage) json.RawMessage
		in, want   string
	}{
		{understoodView, `{"handle":"h","type":"lines","start":2}`, `{"handle":"h","selector":{"type":"lines","start":2}}`},
		{understoodView, `{"type":"head","handle":"h"}`, `{"handle":"h","selector":{"type":"head"}}`},
		{understoodView, `{"handle":"h","selector":"{\"type\":\"head\"}"}`, `{"handle":"h","selector":{"type":"head"}}`},
		{understoodView, `{"handle":"h","selector":"head"}`, `{"handle":"h","selector":"head"}`},
		{understoodView, `{"handle":"h","selector":"{"}`, `{"handle":"h","selector":"{"}`},
		{understoodView, `{"handle":"h","selector":{"type":"head"},"type":"lines"}`, `{"handle":"h","selector":{"type":"head"},"type":"lines"}`},
		{understoodView, `{"type":"head"}`, `{"type":"head"}`},
		{understoodView, `{"handle":"h"}`, `{"handle":"h"}`},
		{understoodView, `[]`, `[]`},
		{understoodView, ``, ``},
		{understoodExecute, `{"tool_id":"t","arguments":{"a":1}}`, `{"tool_id":"t","args":{"a":1}}`},
		{understoodExecute, `{"tool_id":"t","args":{"a":1},"arguments":{}}`, `{"tool_id":"t","args":{"a":1},"arguments":{}}`},
		{understoodExecute, `{"tool_id":"t"}`, `{"tool_id":"t"}`},
		{understoodExecute, `null`, `null`},
	} {
		if got := tt.understood(json.RawMessage(tt.in)); string(got) != tt.want {
			t.Errorf("%s is understood as %s, want %s", tt.in, got, tt.want)
		}
	}
}

// A call in another form does what the usual form does, and a mistake in it is told.
func TestCallsInOtherForms(t *testing.T) {
	h := newHarness(t, Options{})
	h.Add("files", calltest.Say(calltest.Text("ok")), calltest.ReadTool)
	raw, err := h.Ask(t, "tools/call", `{"name":"tool_execute","arguments":{"tool_id":"`+h.ID(t, "files", "read_file")+`","arguments":{"path":"a"}}}`)
	if err != nil || !strings.Contains(string(raw), `"text":"ok"`) {
		t.Errorf("%s, %v", raw, err)
	}
	for _, arguments := range []string{`{"handle":"art_none","type":"head"}`, `{"handle":"art_none","selector":"{\"type\":\"head\"}"}`} {
		raw, err := h.Ask(t, "tools/call", `{"name":"tool_view","arguments":`+arguments+`}`)
		if err != nil || !strings.Contains(string(raw), "VIEW_FAILED") || !strings.Contains(string(raw), "art_none") {
			t.Errorf("%s: %s, %v", arguments, raw, err)
		}
	}
}
