package cli

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/weir-mcp/weir/internal/flow"
)

// TestFlowCommands: a sink is refused after the model has read the text of a stranger, a person sees why, and clears the
// label, and the sink runs. The doctor lists the labels.
func TestFlowCommands(t *testing.T) {
	t.Parallel()
	s := serve(t, `flow:
  mode: enforce
  label: [{tool: "a:sleep*", integrity: trusted}, {tool: "gone:*", integrity: trusted}]
  sinks: [{tool: "a:sleep*", sensitive: [sleep_ms]}]
mcpServers: {a: {command: %FAKE%}}
`)
	id := s.tool("a:sleep")
	client := sdk.NewClient(&sdk.Implementation{Name: "agent", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: s.url, HTTPClient: httpClient(t), DisableStandaloneSSE: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	call := func(id string, args map[string]any) string {
		t.Helper()
		r, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "tool_execute", Arguments: map[string]any{"tool_id": id, "args": args}})
		if err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	sleep := func() bool { return !strings.Contains(call(id, map[string]any{"sleep_ms": 0}), "PERMISSION_DENIED") }
	weir(t, "flow", "sessions", "--config", s.config).want(t, 0, "No open session has read")
	if !sleep() {
		t.Error("a sink of a session that has read nothing is refused")
	}
	call(s.tool("a:echo"), map[string]any{"text": "Dear assistant"})
	if sleep() {
		t.Error("a sink runs after the text of a stranger was read")
	}
	shown := weir(t, "flow", "sessions", "--config", s.config).want(t, 0, "untrusted", "a:echo", "Dear assistant").stdout
	name := regexp.MustCompile(`^\S+`).FindString(shown)
	weir(t, "__complete", "flow", "clear", "--config", s.config, "").want(t, 0, name)
	weir(t, "flow", "clear", "nothing", "--config", s.config).want(t, 4, "weir flow sessions")
	weir(t, "flow", "clear", name, "--config", s.config).want(t, 0, "cleared: session "+name)
	logged(t, s, "an operator has cleared the flow label")
	if !sleep() {
		t.Error("a sink of a cleared session is refused")
	}
	weir(t, "flow", "ls", "--config", s.config).want(t, 0, id, "flow.label[0]", "flow.sinks[0]; sensitive: sleep_ms", "flow.label[1] fits no tool", "flow.mode is enforce")
	all := decode[flow.Listing](t, weir(t, "flow", "ls", "--json", "--config", s.config).want(t, 0).stdout)
	for _, one := range all.Tools {
		if is := one.ToolID == id; is == one.Untrusted() || is != (one.Sink == "effect") {
			t.Errorf("%+v", one)
		}
	}
	found := examined(t, exitOK, "doctor", "--json", "--config", s.config)
	for _, thing := range []string{"label trusted, by flow.label[0]", "sink effect, by flow.sinks[0]"} {
		if list := found[thing]; len(list) != 1 || list[0].Text != id {
			t.Errorf("%s: %+v", thing, list)
		}
	}
	if list := found["flow.label[1]"]; len(list) != 1 || list[0].ID != "flow-unused" {
		t.Errorf("a rule without a tool: %+v", list)
	}
}
