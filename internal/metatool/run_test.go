package metatool

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/runs"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/internal/testkit/runstest"
	"github.com/weir-mcp/weir/internal/text/token"
	"github.com/weir-mcp/weir/mcp"
)

// runHarness is a harness with tool_run, whose server "math" adds and counts.
type runHarness struct {
	*harness
	runner *runs.Runner
}

func newRunHarness(t testing.TB, opts Options) *runHarness {
	t.Helper()
	h := &runHarness{harness: newHarness(t, opts)}
	h.runner = runstest.New(t, store.NewMemory(store.MemoryOptions{}), h.Store)
	h.change(func(o *Options) { o.Programs = h.runner })
	return h
}

// program runs a program.
func (h *runHarness) program(t testing.TB, source string, more ...any) calltest.Answer {
	t.Helper()
	arguments := map[string]any{"program": source}
	for i := 0; i+1 < len(more); i += 2 {
		arguments[more[i].(string)] = more[i+1]
	}
	raw, err := json.Marshal(arguments)
	if err != nil {
		t.Fatal(err)
	}
	return h.Tool(t, ToolRun, string(raw))
}

// failed is the details of a program that failed.
type failed struct {
	Error, Message string
	Details        struct {
		Reason       string
		Line, Column int
		Source, Run  string
		ToolError    struct{ Code, Message string } `json:"tool_error"`
		Calls        []struct {
			ToolID      string `json:"tool_id"`
			Writes      bool
			OK          int
			Error       int
			Unknown     int
			FromJournal int `json:"from_journal"`
		}
		Log string
	}
}

func failure(t testing.TB, a calltest.Answer) (f failed) {
	t.Helper()
	if !a.IsError {
		t.Fatalf("no error: %+v", a)
	}
	if err := json.Unmarshal([]byte(a.Content[0].Text), &f); err != nil {
		t.Fatalf("%v: %s", err, a.Content[0].Text)
	}
	return f
}

// toolServer answers calls of its tools with functions of the arguments.
func toolServer(answers map[string]func(args map[string]any) string) calltest.Peer {
	return func(_ context.Context, params json.RawMessage, _ mcp.Handler) (json.RawMessage, error) {
		var p struct {
			Name      string
			Arguments map[string]any
		}
		if err := json.Unmarshal(params, &p); err != nil {
			return nil, err
		}
		return json.RawMessage(answers[p.Name](p.Arguments)), nil
	}
}

func jsonText(v any) string {
	raw, _ := json.Marshal(v)
	return calltest.Text(string(raw))
}

const (
	listItems = `{"name":"list-items","description":"List items.","inputSchema":{"type":"object","properties":{"page":{"type":"integer"}},"required":["page"]},"annotations":{"readOnlyHint":true}}`
	addItem   = `{"name":"add","description":"Add an item.","inputSchema":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}}`
)

// shop has a read-only tool and one that writes, and the items that were added.
func shop(h *harness) *[]float64 {
	added := new([]float64)
	h.Add("my shop", toolServer(map[string]func(map[string]any) string{
		"list-items": func(a map[string]any) string {
			page := int(a["page"].(float64))
			return jsonText([]map[string]any{{"id": 2 * page}, {"id": 2*page + 1}})
		},
		"add": func(a map[string]any) string {
			n := a["n"].(float64)
			if n < 0 {
				return `{"content":[{"type":"text","text":"no negative items"}],"isError":true}`
			}
			*added = append(*added, n)
			return fmt.Sprintf(`{"content":[],"structuredContent":{"n":%v,"of":%d}}`, n, len(*added))
		},
	}), listItems, addItem)
	return added
}

func TestRunOfAProgram(t *testing.T) {
	h := newRunHarness(t, Options{})
	added := shop(h.harness)
	for _, tt := range []struct{ source, want string }{
		{`return 1`, "1"},
		{`return "a text"`, "a text"},
		{`const pages = await Promise.all([0, 1].map(page => tools.my_shop.list_items({page}))); return pages.flat().map(i => i.id)`, "[0,1,2,3]"},
		{`return (await tools["my shop"]["list-items"]({page: 4}))[0]`, `{"id":8}`},
		{`return await call("` + h.ID(t, "my shop", "list-items") + `", {page: 1})`, `[{"id":2},{"id":3}]`},
		{`for (const n of input) await tools.my_shop.add({n}); return await tools.my_shop.add({n: 9})`, `{"n":9,"of":3}`},
		{`try { await tools.my_shop.add({n: -1}) } catch (e) { return [e.code, e.message, e.retryable] }`, `["TOOL_ERROR","no negative items",false]`},
		{`try { await tools.my_shop.add({n: "x"}) } catch (e) { return [e.name, e.code] }`, `["ToolError","ARGS_INVALID"]`},
		{`try { await tools.my_shop.remove({}) } catch (e) { return e.code }`, `HYDRATE_FAILED`},
		{`try { await call("nope:x#12345678", {}) } catch (e) { return e.code }`, `HYDRATE_FAILED`},
		{`return (await find("add an item", {top_k: 1})).map(t => [t.server, t.signature, t.read_only])`, `[["my_shop","(n)",false]]`},
	} {
		a := h.program(t, tt.source, "input", []int{1, 2})
		if a.IsError || a.Content[0].Text != tt.want {
			t.Errorf("%s\n = %+v, want %s", tt.source, a.Content, tt.want)
		}
	}
	if fmt.Sprint(*added) != "[1 2 9]" {
		t.Errorf("added %v", *added)
	}
	if a := h.program(t, `log("one", 2); return 3`); len(a.Content) != 2 || a.Content[1].Text != "log:\none 2" {
		t.Errorf("%+v", a)
	}
}

// A table that a program returns is held back as any result, and the program reads results of any size.
func TestRunReturnsATable(t *testing.T) {
	h := newRunHarness(t, Options{})
	h.Add("x", calltest.Say(calltest.Text(`[`+strings.Repeat(`{"event":"Wind","wind":88},`, 2000)+`{"event":"Flood","wind":1}]`)), `{"name":"t","description":"d","annotations":{"readOnlyHint":true}}`)
	a := h.program(t, `const rows = await tools.x.t({}); return rows.map(r => ({...r, half: r.wind / 2}))`)
	if a.IsError || len(a.Env.Artifacts) != 1 || !strings.Contains(a.Content[0].Text, "2001") {
		t.Fatalf("%+v", a)
	}
	handle := a.Env.Artifacts[0].Handle
	v := h.Tool(t, ToolView, `{"handle":"`+handle+`","selector":{"type":"table","where":[{"column":"wind","op":"lt","value":2}]}}`)
	if v.IsError || !strings.Contains(v.Content[0].Text, "Flood") {
		t.Errorf("%+v", v)
	}
	a = h.program(t, `const rows = await open(input); const some = await open(input, {type: "rows", start: 0, end: 1}); return [rows.length, rows[2000].half, typeof some]`, "input", handle)
	if a.IsError || a.Content[0].Text != `[2001,0.5,"string"]` && a.Content[0].Text != `[2001,0.5,"object"]` {
		t.Errorf("%+v", a)
	}
}

// A program that fails says where, what ran, and how to go on; the mended one makes no call twice.
func TestRunGoesOn(t *testing.T) {
	h := newRunHarness(t, Options{})
	added := shop(h.harness)
	a := h.program(t, "const first = await tools.my_shop.list_items({page: 0});\nfor (let n = 0; n < 5; n++) {\n  if (n == 3) throw new Error(\"no three\");\n  await tools.my_shop.add({n});\n}")
	f := failure(t, a)
	if f.Error != "PROGRAM_FAILED" || f.Details.Reason != "PROGRAM_ERROR" || f.Details.Line != 3 || !strings.Contains(f.Details.Source, "no three") || len(f.Details.Calls) != 2 ||
		f.Details.Calls[1].OK != 3 || !f.Details.Calls[1].Writes || f.Details.Calls[0].Writes || !strings.Contains(f.Message, f.Details.Run) {
		t.Fatalf("%+v", a)
	}
	a = h.program(t, `await tools.my_shop.list_items({page: 0}); let last; for (let n = 0; n < 5; n++) last = await tools.my_shop.add({n}); return last`, "resume", f.Details.Run)
	if a.IsError || a.Content[0].Text != `{"n":4,"of":5}` || fmt.Sprint(*added) != "[0 1 2 3 4]" {
		t.Errorf("%+v, added %v", a, *added)
	}
	// Only the caller of the run goes on with it.
	h.Session = mcp.NewSession("s2", "bob")
	if e := calltest.Failure(t, h.program(t, `return 1`, "resume", f.Details.Run)); e.Error != "ARGS_INVALID" || !strings.Contains(e.Message, "there is no run") {
		t.Errorf("%+v", e)
	}
}

// What the programs of one gateway may do is bounded.
func TestRunLimits(t *testing.T) {
	h := newRunHarness(t, Options{})
	added := shop(h.harness)
	h.runner.Limits.Calls = 4
	f := failure(t, h.program(t, "for (let n = 0; n < 9; n++) {\n await tools.my_shop.add({n});\n}"))
	if f.Details.Reason != "PROGRAM_CALLS" || len(*added) != 4 || f.Details.Calls[0].OK != 4 {
		t.Errorf("%+v", f)
	}
	f = failure(t, h.program(t, "const a = 1;\nfor (;;) {}", "timeout", 0.2))
	if f.Details.Reason != "PROGRAM_TIMEOUT" {
		t.Errorf("%+v", f)
	}
	f = failure(t, h.program(t, "return ("))
	if f.Details.Reason != "PROGRAM_SYNTAX" || f.Details.Run != "" {
		t.Errorf("%+v", f)
	}
}

func TestRunArguments(t *testing.T) {
	h := newRunHarness(t, Options{})
	for arguments, says := range map[string]string{
		`{}`:                              "program is missing",
		`{"program":" "}`:                 "program is empty",
		`{"program":3}`:                   "program must be a string, not 3",
		`{"program":"x","resume":3}`:      "resume must be the id of a run, not 3",
		`{"program":"x","timeout":"now"}`: `timeout must be seconds, or a duration such as "2s", not the string "now"`,
		`{"program":"x","timeout":-1}`:    `timeout must be seconds, or a duration such as "2s", not -1`,
		`{"program":"x","args":{}}`:       `unknown argument "args"; known are program, input, resume, timeout`,
	} {
		if e := calltest.Failure(t, h.Tool(t, ToolRun, arguments)); e.Error != "ARGS_INVALID" || !strings.HasPrefix(e.Message, "tool_run: "+says) {
			t.Errorf("%s: %+v", arguments, e)
		}
	}
}

// The definition is short, and there only where programs are on.
func TestRunDefinition(t *testing.T) {
	if n := token.Count(runTool); n > 220 {
		t.Errorf("%d tokens", n)
	}
	if err := rawjson.Valid([]byte(runTool)); err != nil {
		t.Error(err)
	}
	if n := token.Count(browseTool) + token.Count(executeTool) + token.Count(viewTool) + token.Count(runTool); n > 900 {
		t.Errorf("%d tokens of all verbs", n)
	}
	h := newHarness(t, Options{})
	if _, err := h.Ask(t, "tools/call", `{"name":"tool_run","arguments":{"program":"return 1"}}`); err == nil {
		t.Error("tool_run without programs")
	}
	list, err := h.Ask(t, "tools/list", `{}`)
	if err != nil || strings.Contains(string(list), ToolRun) {
		t.Errorf("%s, %v", list, err)
	}
}
