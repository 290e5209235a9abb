package metatool

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/tables"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// TestExecuted: an error says so if the tool has run, whichever link made it, and only then.
func TestExecuted(t *testing.T) {
	const lost = "HAS run, but its answer cannot be used"
	overlong := mcp.Answered(mcp.Errorf(mcp.KindUpstreamProtocol, "server %q answered with more than 8 bytes; raise mcpServers.files.max_response", "files"))
	fails := func(err error) peerFunc {
		return func(context.Context, json.RawMessage, mcp.Handler) (json.RawMessage, error) { return nil, err }
	}
	hidden := strings.ReplaceAll("hidden", "d", "d\U000e0041\U000e0042")
	refuses := newDetector(t, "secret", false, true)
	for name, c := range map[string]struct {
		opts Options
		peer peerFunc
		tool string
		args string // further arguments of tool_execute
		ran  bool
		says string
	}{
		"an answer beyond the bound":    {Options{}, fails(overlong), readTool, "", true, lost},
		"no tool result":                {Options{}, say(`[1]`), readTool, "", true, "no tool result"},
		"a hook refuses the result":     {Options{Hooks: refuses.Set}, say(textResult("secret")), readTool, "", true, "not today"},
		"hidden text":                   {Options{Screen: result.ScreenRefuse}, say(textResult(hidden)), readTool, "", true, lost},
		"no table":                      {Options{}, say(textResult("prose")), readTool, `,"abstract_domains":"a","mode":"sync"`, true, "no table"},
		"the server refuses":            {Options{}, fails(&jsonrpc.Error{Code: -32602, Message: "bad"}), readTool, "", false, "bad"},
		"the connection breaks":         {Options{}, fails(io.ErrUnexpectedEOF), readTool, "", false, "closed the connection"},
		"arguments that do not fit":     {Options{}, say(textResult("x")), sumTool, "", false, "ARGS_INVALID"},
		"no address for rows":           {Options{}, say(textResult("x")), readTool, `,"abstract_domains":"a"`, false, "nothing was run"},
		"bodies that cannot be removed": {Options{}, say(textResult(`{"abstract":[],"body":[0x1],"total_rows":1}`)), readTool, "", true, "withheld"},
	} {
		h := newHarness(t, c.opts)
		h.add("files", c.peer, c.tool)
		tool := map[string]string{readTool: "read_file", sumTool: "sum"}[c.tool]
		s := h.execute(t, "files", tool, `{"path":"a"}`, c.args)
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
	h := newServed(t, Options{Tables: tables.Options{Reach: func(string) tables.Reach { return tables.ReachKeep }}, Retry: dispatch.RetryPolicy{MaxAttempts: 3}})
	h.add("pandas", func(context.Context, json.RawMessage, mcp.Handler) (json.RawMessage, error) {
		return nil, mcp.Answered(mcp.Errorf(mcp.KindUpstreamProtocol, "server %q answered with more than 8 bytes; raise mcpServers.pandas.max_response", "pandas"))
	}, nativeTool)
	e := failure(t, h.execute(t, "pandas", "alerts", "{}", `,"abstract_domains":"k"`))
	if !strings.Contains(e.Message, "raise mcpServers.pandas.max_response") || !strings.Contains(e.Message, "mcpServers.pandas.tables.relay: true") || len(h.called()) != 1 {
		t.Errorf("%+v, %d calls", e, len(h.called()))
	}
	if e := failure(t, h.execute(t, "pandas", "alerts", "{}", `,"abstract_domains":"k","mode":"sync"`)); strings.Contains(e.Message, "relay") {
		t.Errorf("mode sync: %+v", e)
	}
}
