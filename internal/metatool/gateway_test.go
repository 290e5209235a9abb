package metatool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/internal/text/token"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

func TestListTools(t *testing.T) {
	list := func(opts Options) []string {
		h := newHarness(t, opts)
		out, err := h.Ask(t, "tools/list", `{}`)
		if err != nil {
			t.Fatal(err)
		}
		var l struct {
			Tools []struct {
				Name, Description string
				InputSchema       map[string]any
			}
		}
		if err := json.Unmarshal(out, &l); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, tool := range l.Tools {
			if tool.Description == "" || tool.InputSchema["type"] != "object" {
				t.Errorf("%+v", tool)
			}
			names = append(names, tool.Name)
		}
		return names
	}
	for _, tt := range []struct {
		opts Options
		want string
	}{
		{Options{}, "tool_browse tool_execute tool_view"},
		{Options{ExposeHydrate: true}, "tool_browse tool_execute tool_view tool_hydrate"},
	} {
		if got := strings.Join(list(tt.opts), " "); got != tt.want {
			t.Errorf("%+v lists %s", tt.opts, got)
		}
	}
}

func TestDefinitionsFitTheirBudget(t *testing.T) {
	h := newHarness(t, Options{})
	for i := range 300 { // the names of servers count as well, however many there are
		h.Add(fmt.Sprintf("company%d-server", i%30*i), calltest.Echo, `{"name":"read","description":"Read."}`)
	}
	three := string(rawjson.Get(h.g.faces.of[ModeGateway].lists.gateway().result, "tools"))
	n := token.Count(three)
	if n > 680 {
		t.Errorf("the three definitions have %d tokens, at most 680 are allowed", n)
	}
	t.Logf("%d tokens", n)
	var compacted bytes.Buffer
	if err := json.Compact(&compacted, []byte(three)); err != nil || compacted.String() != three {
		t.Error("the definitions are not compact JSON")
	}
}

func TestListToolsInTheModernEra(t *testing.T) {
	for mode, want := range map[Mode]string{ModeGateway: `{"ttlMs":300000,"cacheScope":"private","tools":[`, ModeProxy: `{"ttlMs":0,"cacheScope":"private","tools":[`} {
		h := newHarness(t, Options{Mode: mode})
		out, err := h.g.Serve(t.Context(), &mcp.Request{ID: "1", Method: "tools/list", Version: mcp.V20260728, Session: h.Session, Peer: mcp.NoPeer})
		if err != nil || !strings.HasPrefix(string(out), want) {
			t.Errorf("%.100s, %v", out, err)
		}
	}
}

func TestProtocolErrors(t *testing.T) {
	h := newHarness(t, Options{})
	for _, tt := range []struct{ method, params, want string }{
		{"tools/list", `{"cursor":"x"}`, "unknown cursor"},
		{"tools/call", `{}`, "name must be a string"},
		{"tools/call", `{"name":"a","name":"b"}`, "duplicate"},
		{"tools/call", `{"name":"nope"}`, `unknown tool "nope": the tools here are tool_browse, tool_execute, tool_view`},
		{"tools/call", `{"name":"` + h.ID(t, "files", "drop") + `"}`, `call tool_execute with {"tool_id":"` + h.ID(t, "files", "drop") + `","args":{…}}`},
		{"tools/call", `{"name":"tool_hydrate"}`, "unknown tool"},
		{"tools/call", `{"name":"tool_browse","_meta":{"weir/format":"xml"}}`, "weir/format"},
	} {
		_, err := h.Ask(t, tt.method, tt.params)
		if w := mcp.WireError(err, mcp.V20251125); err == nil || w.Code != jsonrpc.CodeInvalidParams || !strings.Contains(w.Message, tt.want) {
			t.Errorf("%s %s: %v", tt.method, tt.params, err)
		}
	}
	if _, err := h.Ask(t, "resources/list", `{}`); mcp.WireError(err, "").Code != jsonrpc.CodeMethodNotFound {
		t.Errorf("resources/list: %v", err)
	}
	if out, err := h.g.Serve(t.Context(), &mcp.Request{Method: "notifications/roots/list_changed", Session: h.Session, Peer: mcp.NoPeer}); out != nil || err != nil {
		t.Errorf("a notification: %s, %v", out, err)
	}
}

func TestSnapshotFollowsConflicts(t *testing.T) {
	tool := json.RawMessage(`{"name":"search","description":"Search things.","_meta":{"version":"1"}}`)
	s := NewSnapshot(catalog.Limits{})
	s, _ = s.With(primitive.Listing{Upstream: "a", Namespace: "ns", Tools: []json.RawMessage{tool}})
	s, report := s.With(primitive.Listing{Upstream: "b", Namespace: "ns", Tools: []json.RawMessage{tool}, Resources: []json.RawMessage{json.RawMessage(`{"uri":"x:search","name":"search"}`)}})
	if !report.Has(catalog.FoundConflict) || s.Index.Len() != 1 {
		t.Fatalf("%d documents, report %+v", s.Index.Len(), report)
	}
	s = s.Without("a")
	if e, ok := s.Catalog.Lookup("ns:search@1"); !ok || e.Upstream != "b" || s.Index.Len() != 1 || len(s.Index.Search("search", 5)) != 1 {
		t.Errorf("what a hid of b did not come back: %d documents", s.Index.Len())
	}
	if s.Without("nobody") != s {
		t.Error("nothing was taken out and the snapshot changed")
	}
	if s = s.Without("b"); s.Index.Len() != 0 || s.Catalog.Len() != 0 {
		t.Error("something is left")
	}
}
