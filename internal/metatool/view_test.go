package metatool

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/mcp"
)

func TestExecuteThenView(t *testing.T) {
	h := newHarness(t, Options{})
	var lines []string
	for i := range 1000 {
		lines = append(lines, fmt.Sprintf("line %d of a long text.", i))
	}
	text := strings.Join(lines, "\n")
	h.Add("x", calltest.Say(calltest.Text(text)), `{"name":"t","description":"d"}`)
	s := h.Tool(t, ToolExecute, `{"tool_id":"`+h.ID(t, "x", "t")+`","args":{}}`)
	if len(s.Env.Artifacts) != 1 || s.Env.Artifacts[0].Label != h.ID(t, "x", "t") {
		t.Fatalf("%+v", s.Env)
	}
	handle := s.Env.Artifacts[0].Handle
	v := h.Tool(t, ToolView, `{"handle":"`+handle+`","selector":{"type":"lines","start":998}}`)
	if len(v.Content) != 2 || v.Content[0].Text != "line 998 of a long text.\nline 999 of a long text." || v.Content[1].Text != "[lines 998 to 1000 of 1000]" {
		t.Errorf("%+v", v)
	}
	v = h.Raw(t, `{"name":"tool_view","arguments":{"handle":"`+handle+`","selector":{"chars":4}},"_meta":{"weir/format":"json"}}`)
	var doc struct {
		Artifact     artifact.Artifact
		Text, Notice string
		Next         json.RawMessage
	}
	if err := json.Unmarshal(v.StructuredContent, &doc); err != nil || doc.Text != "line" || doc.Artifact.Handle != handle || string(doc.Next) != `{"type":"head","start":4,"chars":4}` {
		t.Errorf("%s, %v", v.StructuredContent, err)
	}
	// The same bytes have the same handle for this principal and none for another.
	again := h.Tool(t, ToolExecute, `{"tool_id":"`+h.ID(t, "x", "t")+`","args":{}}`)
	if again.Env.Artifacts[0].Handle != handle {
		t.Errorf("handle %s, then %s", handle, again.Env.Artifacts[0].Handle)
	}
	h.Session = mcp.NewSession("s2", "bob")
	if e := calltest.Failure(t, h.Tool(t, ToolView, `{"handle":"`+handle+`","selector":{}}`)); e.Error != "VIEW_FAILED" {
		t.Errorf("%+v", e)
	}
}

func TestViewErrors(t *testing.T) {
	h := newHarness(t, Options{})
	for _, tt := range []struct{ arguments, code, message string }{
		{`{"handle":"x"}`, "ARGS_INVALID", `tool_view: selector is missing, such as {"type":"head"}`},
		{`{"selector":{}}`, "ARGS_INVALID", "tool_view: handle and selector are needed"},
		{`{"handle":3,"selector":{}}`, "ARGS_INVALID", "tool_view: handle must be a string, not 3"},
		{`{"handle":"art_nope","selector":{}}`, "VIEW_FAILED", `handle: no artifact has the handle "art_nope" here; a handle works only for the principal whose call made it; run the tool again`},
	} {
		if e := calltest.Failure(t, h.Tool(t, ToolView, tt.arguments)); e.Error != tt.code || !strings.HasPrefix(e.Message, tt.message) || *e.Retryable {
			t.Errorf("%s: %+v", tt.arguments, e)
		}
	}
}

func TestErrorsInJSON(t *testing.T) {
	h := newHarness(t, Options{})
	s := h.Raw(t, `{"name":"tool_browse","arguments":{},"_meta":{"weir/format":"json"}}`)
	if calltest.Failure(t, s).Error != "ARGS_INVALID" || string(s.StructuredContent) != s.Content[0].Text {
		t.Errorf("%+v", s)
	}
}

func TestHydrate(t *testing.T) {
	h := newHarness(t, Options{ExposeHydrate: true})
	id := h.ID(t, "files", "read_file")
	s := h.Tool(t, ToolHydrate, `{"tool_id":"`+id+`"}`)
	want := `{"tool_id":"` + id + `","name":"read_file","title":"Read","description":"Read a file from disk.","inputSchema":{"type":"object","properties":{"path":{"type":"string"},"limit":{"type":"integer"}},"required":["path"]},"annotations":{"readOnlyHint":true}}`
	if s.IsError || s.Content[0].Text != want {
		t.Errorf("%+v", s)
	}
	if e := calltest.Failure(t, h.Tool(t, ToolHydrate, `{"tool_id":"files:nope"}`)); e.Error != "HYDRATE_FAILED" {
		t.Errorf("%+v", e)
	}
	if e := calltest.Failure(t, h.Tool(t, ToolHydrate, `{}`)); e.Error != "ARGS_INVALID" {
		t.Errorf("%+v", e)
	}
}

// TestHandlesOfProfiles: a profile opens the handles of its own calls alone, and /mcp those of all.
func TestHandlesOfProfiles(t *testing.T) {
	h := newHarness(t, Options{Profiles: []Profile{{Name: "all"}, {Name: "few", Exclude: []string{"x:*"}}}})
	h.Add("x", calltest.Say(calltest.Text(`[`+strings.Repeat(`{"event":"Wind","wind":88},`, 200)+`{"event":"Flood","wind":1}]`)), `{"name":"t","description":"d"}`)
	h.Add("math", calltest.Echo, calltest.SumTool)
	at := func(profile, tool, arguments string) calltest.Answer {
		t.Helper()
		r := &mcp.Request{ID: "1", Method: "tools/call", Params: json.RawMessage(fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, arguments)), Version: mcp.V20251125, Session: h.Session, Peer: mcp.NoPeer}
		out, err := h.g.Serve(identity.WithRoute(t.Context(), identity.Route{Profile: profile}), r)
		if err != nil {
			t.Fatal(err)
		}
		var s calltest.Answer
		if err := json.Unmarshal(out, &s); err != nil {
			t.Fatal(err)
		}
		if raw := s.Meta[result.MetaEnvelope]; raw != nil {
			if err := json.Unmarshal(raw, &s.Env); err != nil {
				t.Fatal(err)
			}
		}
		return s
	}
	for _, own := range []string{"", "all"} {
		s := at(own, ToolExecute, `{"tool_id":"`+h.ID(t, "x", "t")+`","args":{}}`)
		if len(s.Env.Artifacts) != 1 {
			t.Fatalf("%+v", s)
		}
		handle := s.Env.Artifacts[0].Handle
		for _, profile := range []string{"", "all", "few"} {
			opens := profile == "" || profile == own
			v := at(profile, ToolView, `{"handle":"`+handle+`","selector":{"type":"table","where":[{"column":"wind","op":"lt","value":2}]}}`)
			if opens && (v.IsError || !strings.Contains(v.Content[0].Text, "Flood")) {
				t.Errorf("of %q at %q: %+v", own, profile, v)
			}
			if !opens && !strings.Contains(calltest.Failure(t, v).Message, "no artifact has the handle") {
				t.Errorf("of %q at %q: %+v", own, profile, v)
			}
			sum := at(profile, ToolExecute, `{"tool_id":"`+h.ID(t, "math", "sum")+`","args":{"rows":{"$table":"`+handle+`","row_ids":[0,1]}}}`)
			if sum.IsError == opens {
				t.Errorf("a reference of %q at %q: %+v", own, profile, sum)
			}
		}
	}
}
