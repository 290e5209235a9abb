package dispatch_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/observe/telemetry"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/internal/testkit/metatooltest"
	"github.com/weir-mcp/weir/internal/text/token"
	"github.com/weir-mcp/weir/mcp"
)

func TestDryRunReport(t *testing.T) {
	var events []metatool.Event
	h := metatooltest.New(t, metatool.Options{OnEvent: func(e metatool.Event) { events = append(events, e) }})
	h.Add("bank", func(context.Context, json.RawMessage, mcp.Handler) (json.RawMessage, error) {
		t.Error("the upstream was called")
		return nil, nil
	}, `{"name":"refund","description":"d","_meta":{"version":"1"},"inputSchema":{"type":"object","properties":{"a":{"type":"integer"}}},"annotations":{"destructiveHint":true,"verified":true,"x":12345678901234567890}}`)
	id := h.ID(t, "bank", "refund")
	want := `{"dry_run":true,"tool_id":"` + id + `","upstream_name":"refund","args_valid":true,"annotations":{"destructiveHint":true,"x":12345678901234567890,"verified":false},"checks":[{"name":"schema_validation","status":"pass"},{"name":"rate_limit","status":"pass"}],"schema":{"type":"object","properties":{"a":{"type":"integer"}}}}`
	s := h.Tool(t, metatool.ToolExecute, `{"tool_id":"`+id+`","args":{"a":1},"dry_run":true}`)
	if s.IsError || len(s.Content) != 1 || s.Content[0].Text != want || s.Meta != nil || s.StructuredContent != nil {
		t.Errorf("%+v\nwant %s", s, want)
	}
	s = h.Raw(t, `{"name":"tool_execute","arguments":{"tool_id":"`+id+`","args":{"a":1},"dry_run":true},"_meta":{"weir/format":"json"}}`)
	if s.IsError || s.Content[0].Text != want || string(s.StructuredContent) != want {
		t.Errorf("as JSON: %+v", s)
	}
	if n := h.Options.Artifacts.(*artifact.Local).Usage("ann").Count; n != 0 {
		t.Errorf("a dry run wrote %d artifacts", n)
	}
	if len(events) != 2 || events[0].Name != telemetry.ExecuteDryRun || events[0].Attempts != 0 || events[0].ToolID != id || !events[0].DryRun {
		t.Errorf("events %+v", events)
	}
}

func TestDryRunWithoutAnnotations(t *testing.T) {
	h := metatooltest.New(t, metatool.Options{})
	s := h.Tool(t, metatool.ToolExecute, `{"tool_id":"`+h.ID(t, "web", "search")+`","args":{},"dry_run":true}`)
	if !strings.Contains(s.Content[0].Text, `"annotations":{"verified":false}`) {
		t.Errorf("%s", s.Content[0].Text)
	}
}

func TestDryRunRefusesWhatACallWouldRefuse(t *testing.T) {
	h := metatooltest.New(t, metatool.Options{})
	id := h.ID(t, "files", "read_file")
	call := func(dry string) string {
		return h.Tool(t, metatool.ToolExecute, `{"tool_id":"`+id+`","args":{"path":1}`+dry+`}`).Content[0].Text
	}
	if real, dry := call(""), call(`,"dry_run":true`); real != dry || !strings.Contains(dry, "ARGS_INVALID") {
		t.Errorf("a real call answers\n%s\na dry run\n%s", real, dry)
	}
	if e := calltest.Failure(t, h.Tool(t, metatool.ToolExecute, `{"tool_id":"files:nope@1","args":{},"dry_run":true}`)); e.Error != "HYDRATE_FAILED" {
		t.Errorf("%+v", e)
	}
	if e := calltest.Failure(t, h.Tool(t, metatool.ToolExecute, `{"tool_id":"`+id+`","args":{"path":"a"},"dry_run":"yes"}`)); e.Error != "ARGS_INVALID" || !strings.Contains(e.Message, "dry_run") {
		t.Errorf("%+v", e)
	}
	// false and null run it.
	for _, dry := range []string{"false", "null"} {
		if s := h.Tool(t, metatool.ToolExecute, `{"tool_id":"`+id+`","args":{"path":"a"},"dry_run":`+dry+`}`); s.Content[0].Text != `{"path":"a"}` {
			t.Errorf("dry_run %s: %+v", dry, s)
		}
	}
}

// A dry run with args {} is how an agent asks for a schema: what the tool needs is an answer, not an
// error.
func TestDryRunAnswersTheSchema(t *testing.T) {
	h := metatooltest.New(t, metatool.Options{})
	const schema = `"schema":{"type":"object","properties":{"path":{"type":"string"},"limit":{"type":"integer"}},"required":["path"]}}`
	dry := func(tool, args, meta string) calltest.Answer {
		t.Helper()
		return h.Raw(t, `{"name":"tool_execute","arguments":{"tool_id":"`+h.ID(t, "files", tool)+`","args":`+args+`,"dry_run":true}`+meta+`}`)
	}
	s := dry("read_file", `{}`, "")
	if want := `{"dry_run":true,"args_valid":false,"message":"args needs path; nothing ran",` + schema; s.IsError || s.Meta != nil || s.Content[0].Text != want {
		t.Errorf("%+v\nwant %s", s, want)
	}
	if n := token.Count(s.Content[0].Text); n > 80 {
		t.Errorf("%d tokens", n)
	}
	s = dry("read_file", `{}`, `,"_meta":{"weir/format":"json"}`)
	if s.IsError || string(s.StructuredContent) != s.Content[0].Text || !strings.Contains(s.Content[0].Text, `"problems":[{"path":"/path","keyword":"required"`) {
		t.Errorf("as JSON: %+v", s)
	}
	h.Add("bad", nil, `{"name":"broken","description":"d","inputSchema":{"type":7}}`)
	if e := calltest.Failure(t, h.Tool(t, metatool.ToolExecute, `{"tool_id":"`+h.ID(t, "bad", "broken")+`","args":{},"dry_run":true}`)); e.Error != "SCHEMA_INVALID" {
		t.Errorf("a broken schema: %+v", e)
	}
	if calls := h.Called(); len(calls) > 0 {
		t.Errorf("the upstream got %s", calls)
	}
}

func TestDryRunConsumesNoQuota(t *testing.T) {
	h := metatooltest.New(t, metatool.Options{RateLimits: dispatch.RateLimits{MetaTools: map[string]dispatch.RateLimit{metatool.ToolExecute: {PerSession: 1}}}})
	id := h.ID(t, "files", "drop")
	dry := `{"tool_id":"` + id + `","args":{},"dry_run":true}`
	for range 5 {
		if s := h.Tool(t, metatool.ToolExecute, dry); s.IsError {
			t.Fatalf("%+v", s)
		}
	}
	if s := h.Tool(t, metatool.ToolExecute, `{"tool_id":"`+id+`","args":{}}`); s.IsError {
		t.Fatalf("%+v", s)
	}
	if d := limited(t, h.Tool(t, metatool.ToolExecute, dry)); d.Scope != "tool_execute/session" {
		t.Errorf("%+v", d)
	}
}

func TestDryRunTellsRepairs(t *testing.T) {
	h := metatooltest.New(t, metatool.Options{TolerantArgs: true, Policy: &dispatch.Policy{}})
	s := h.Tool(t, metatool.ToolExecute, `{"tool_id":"`+h.ID(t, "files", "read_file")+`","args":{"path":"a","limit":"3"},"dry_run":true}`)
	var report struct {
		Repairs []map[string]string `json:"arg_repairs"`
		Checks  []map[string]string
	}
	if err := json.Unmarshal([]byte(s.Content[0].Text), &report); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(report.Repairs) != "[map[path:$.limit rule:str_to_integer]]" || fmt.Sprint(report.Checks[2]) != "map[name:policy status:pass]" {
		t.Errorf("%s", s.Content[0].Text)
	}
}
