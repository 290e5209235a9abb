package tables_test

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/tables"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/internal/testkit/metatooltest"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// TestExecuted: an error says so if the tool has run, whichever link made it, and only then.
func TestExecuted(t *testing.T) {
	const lost = "HAS run, but its answer cannot be used"
	overlong := mcp.Answered(mcp.Errorf(mcp.KindUpstreamProtocol, "server %q answered with more than 8 bytes; raise mcpServers.files.max_response", "files"))
	fails := func(err error) calltest.Peer {
		return func(context.Context, json.RawMessage, mcp.Handler) (json.RawMessage, error) { return nil, err }
	}
	hidden := strings.ReplaceAll("hidden", "d", "d\U000e0041\U000e0042")
	refuses := calltest.NewDetector(t, "secret", false, true)
	for name, c := range map[string]struct {
		opts metatool.Options
		peer calltest.Peer
		tool string
		args string // further arguments of tool_execute
		ran  bool
		says string
	}{
		"an answer beyond the bound":    {metatool.Options{}, fails(overlong), calltest.ReadTool, "", true, lost},
		"no tool result":                {metatool.Options{}, calltest.Say(`[1]`), calltest.ReadTool, "", true, "no tool result"},
		"a hook refuses the result":     {metatool.Options{Hooks: refuses.Set}, calltest.Say(calltest.Text("secret")), calltest.ReadTool, "", true, "not today"},
		"hidden text":                   {metatool.Options{Screen: result.ScreenRefuse}, calltest.Say(calltest.Text(hidden)), calltest.ReadTool, "", true, lost},
		"no table":                      {metatool.Options{}, calltest.Say(calltest.Text("prose")), calltest.ReadTool, `,"abstract_domains":"a","mode":"sync"`, true, "no table"},
		"the server refuses":            {metatool.Options{}, fails(&jsonrpc.Error{Code: -32602, Message: "bad"}), calltest.ReadTool, "", false, "bad"},
		"the connection breaks":         {metatool.Options{}, fails(io.ErrUnexpectedEOF), calltest.ReadTool, "", false, "closed the connection"},
		"arguments that do not fit":     {metatool.Options{}, calltest.Say(calltest.Text("x")), calltest.SumTool, "", false, "ARGS_INVALID"},
		"no address for rows":           {metatool.Options{}, calltest.Say(calltest.Text("x")), calltest.ReadTool, `,"abstract_domains":"a"`, false, "nothing was run"},
		"bodies that cannot be removed": {metatool.Options{}, calltest.Say(calltest.Text(`{"abstract":[],"body":[0x1],"total_rows":1}`)), calltest.ReadTool, "", true, "withheld"},
	} {
		h := metatooltest.New(t, c.opts)
		h.Add("files", c.peer, c.tool)
		tool := map[string]string{calltest.ReadTool: "read_file", calltest.SumTool: "sum"}[c.tool]
		s := h.Execute(t, "files", tool, `{"path":"a"}`, c.args)
		text := s.Content[0].Text
		if !s.IsError || !strings.Contains(text, c.says) {
			t.Errorf("%s: %s", name, text)
		}
		if got := string(rawjson.GetPath([]byte(text), "details", "executed")); (got == "true") != c.ran || !c.ran && got != "" {
			t.Errorf("%s: executed is %q in %s", name, got, text)
		}
	}
}

// A server on this machine whose rows do not fit in an answer can keep them.
func TestOverlongRowsCanStayAtTheServer(t *testing.T) {
	h := newServed(t, metatool.Options{Tables: tables.Options{Reach: func(string) tables.Reach { return tables.ReachKeep }}, Retry: dispatch.RetryPolicy{MaxAttempts: 3}})
	h.Add("pandas", func(context.Context, json.RawMessage, mcp.Handler) (json.RawMessage, error) {
		return nil, mcp.Answered(mcp.Errorf(mcp.KindUpstreamProtocol, "server %q answered with more than 8 bytes; raise mcpServers.pandas.max_response", "pandas"))
	}, nativeTool)
	e := calltest.Failure(t, h.Execute(t, "pandas", "alerts", "{}", `,"abstract_domains":"k"`))
	if !strings.Contains(e.Message, "raise mcpServers.pandas.max_response") || !strings.Contains(e.Message, "mcpServers.pandas.tables.relay: true") || len(h.Called()) != 1 {
		t.Errorf("%+v, %d calls", e, len(h.Called()))
	}
	if e := calltest.Failure(t, h.Execute(t, "pandas", "alerts", "{}", `,"abstract_domains":"k","mode":"sync"`)); strings.Contains(e.Message, "relay") {
		t.Errorf("mode sync: %+v", e)
	}
}
