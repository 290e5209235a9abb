package metatool

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/audit"
	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/tables"
	"github.com/weir-mcp/weir/mcp"
)

// stepNames are the names of steps by their functions.
var stepNames = map[string]string{
	"(*accounts).link": "account", "(*Gateway).answer": "answer", "(*Gateway).forClient": "client errors", "fitting": "size",
	"(*taskCalls).handles": "handle", "(*finder).execute": "find", "(*finder).direct": "find", "(*finder).resource": "find", "(*finder).prompt": "find",
	"(*Gateway).headers": "headers", "promised": "promise", "(*shaping).tools": "shape", "(*shaping).reads": "shape",
	"(*Tables).Columns": "columns", "(*Tables).Preview": "preview", "(*Tables).Fill": "fill", "(*Tables).Bodies": "bodies", "(*Tables).Carry": "carry", "(*Tables).Reasons": "reasons",
	"Normalise": "normalise", "Validate": "validate", "Admission": "admit", "DryRun": "dry run", "(*Cache).Link": "cache",
	"auditing.begin": "audit", "Results": "hooks", "(*Client).Link": "task", "Retry": "retry", "(*caller).call": "send",
}

// stepOf returns the step of a function, "" if it is of none. A function that the compiler has moved into
// another one has the names of both.
func stepOf(function string) (step string) {
	if !strings.Contains(function, "weir/internal/metatool") {
		return ""
	}
	for name, s := range stepNames {
		if strings.Contains(function, "."+name+".func") || strings.HasSuffix(function, "."+name) {
			step = s
		}
	}
	return step
}

// stackPeer notes the steps that a request has gone through.
type stackPeer struct{ steps string }

func (p *stackPeer) Call(_ context.Context, method string, _ json.RawMessage, _ mcp.Handler) (json.RawMessage, error) {
	pcs := make([]uintptr, 200)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs)])
	p.steps = ""
	for {
		f, more := frames.Next()
		if step := stepOf(f.Function); step != "" {
			p.steps = strings.TrimSuffix(step+", "+p.steps, ", ")
		}
		if !more {
			break
		}
	}
	if method == "resources/read" {
		return json.RawMessage(`{"contents":[{"uri":"file:///a","text":"a"}]}`), nil
	}
	if method == "prompts/get" {
		return json.RawMessage(`{"messages":[]}`), nil
	}
	return json.RawMessage(textResult("done")), nil
}

func (p *stackPeer) Notify(context.Context, string, json.RawMessage) error { return nil }

// TestSteps: the order of the steps of a call, with everything configured, is that of testdata/steps.txt.
func TestSteps(t *testing.T) {
	var got strings.Builder
	for _, mode := range []Mode{ModeGateway, ModeProxy, ModePlain} {
		_, log, _ := testAudit(t, audit.FormFull, false)
		h := newHarness(t, Options{
			Mode: mode, TolerantArgs: true, Cache: dispatch.CacheOptions{ReadOnly: true}, Retry: dispatch.RetryPolicy{MaxAttempts: 2}, Audit: log, Hooks: newDetector(t, "never", true, true).Set,
			Tables:       tables.Options{BaseURL: func() (string, error) { return "http://127.0.0.1:1", nil }, Fetches: func(string) bool { return true }, Refusals: new(tables.Refusals)},
			CheckHeaders: func(context.Context, json.RawMessage, json.RawMessage) error { return nil },
		})
		peer := &stackPeer{}
		h.snapshot, _ = h.snapshot.With(catalog.Listing{
			Upstream: "db", Namespace: "db", Tools: []json.RawMessage{json.RawMessage(getTool)},
			Resources: []json.RawMessage{json.RawMessage(`{"uri":"file:///a","name":"a"}`)}, Prompts: []json.RawMessage{json.RawMessage(`{"name":"p"}`)},
		})
		h.others = map[string]mcp.Peer{"db": peer}
		const url = `http://127.0.0.1:1/s2sp/data/x`
		calls := [][2]string{{ToolExecute, `{"tool_id":"db:get@1","args":{"resource_url":"` + url + `"}}`}}
		switch mode {
		case ModeGateway:
			calls = append(calls, [2]string{ResourceRead, `{"resource_id":"file:///a"}`})
			for _, e := range h.snapshot.Catalog.Of("db") {
				if e.Kind == catalog.KindPrompt {
					calls = append(calls, [2]string{PromptGet, `{"prompt_id":"` + e.ID + `"}`})
				}
			}
		case ModeProxy:
			calls = append(calls, [2]string{"db:get@1", `{"resource_url":"` + url + `","n":1}`})
		case ModePlain:
			calls = [][2]string{{"db__get", `{"resource_url":"` + url + `"}`}}
		}
		for _, call := range calls {
			peer.steps = ""
			r := &mcp.Request{ID: "1", Method: "tools/call", Params: json.RawMessage(fmt.Sprintf(`{"name":%q,"arguments":%s}`, call[0], call[1])), Version: mcp.V20251125, Session: h.session, Peer: mcp.NoPeer}
			if out, err := h.g.Serve(t.Context(), r); err != nil || peer.steps == "" {
				t.Fatalf("%s %s: %s, %v", mode, call[0], out, err)
			}
			fmt.Fprintf(&got, "%s %s: %s\n", mode, call[0], peer.steps)
		}
	}
	want, err := os.ReadFile("testdata/steps.txt")
	if err != nil || got.String() != string(want) {
		t.Errorf("%v, got:\n%s", err, got.String())
	}
}
