package metatool

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/runs"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/mcp"
)

// save makes a program the tool weir:NAME, which is declared read-only if NAME says so.
func (h *runHarness) save(t testing.TB, name, source string) (id string) {
	t.Helper()
	if h.runner.Saved == nil {
		h.runner.SavedAt, h.runner.Saved = "weir", map[string]runs.Saved{}
	}
	h.runner.Saved[name] = runs.Saved{Source: source, Hash: runs.HashOf(source), ReadOnly: strings.HasPrefix(name, "read")}
	var all []string
	for name, saved := range h.runner.Saved {
		all = append(all, fmt.Sprintf(`{"name":%q,"description":"Adds items to the shop.","inputSchema":{"type":"object","properties":{"n":{"type":"integer"},"resume":{"type":"string"}},"required":["n"]},"annotations":{"readOnlyHint":%v},"_meta":{"weir/program":%q}}`, name, saved.ReadOnly, saved.Hash))
	}
	h.Add("weir", calltest.Peer(func(context.Context, json.RawMessage, mcp.Handler) (json.RawMessage, error) {
		return nil, mcp.Errorf(mcp.KindInternal, "a saved program has no server")
	}), all...)
	h.change(func(*Options) {}) // as a reload does
	return h.ID(t, "weir", name)
}

// execute calls a tool by its id.
func (h *runHarness) execute(t testing.TB, id, args string) calltest.Answer {
	t.Helper()
	return h.Tool(t, ToolExecute, fmt.Sprintf(`{"tool_id":%q,"args":%s}`, id, args))
}

// A saved program is found, checked and called like any tool, and its arguments are the input of the program.
func TestSavedProgram(t *testing.T) {
	h := newRunHarness(t, Options{})
	added := shop(h.harness)
	id := h.save(t, "fill", `for (let n = 1; n <= input.n; n++) await tools.my_shop.add({n}); log("done"); return {added: input.n, input}`)
	if a := h.Tool(t, ToolBrowse, `{"query":"add items shop"}`); !strings.Contains(a.Content[0].Text, "weir:fill") {
		t.Errorf("not found: %s", a.Content[0].Text)
	}
	a := h.execute(t, id, `{"n":2}`)
	if a.IsError || a.Content[0].Text != `{"added":2,"input":{"n":2}}` || len(a.Content) != 2 || a.Content[1].Text != "log:\ndone" || fmt.Sprint(*added) != "[1 2]" {
		t.Errorf("%+v, added %v", a, *added)
	}
	if e := calltest.Failure(t, h.execute(t, id, `{"n":"x"}`)); e.Error != "ARGS_INVALID" {
		t.Errorf("%+v", e)
	}
	if a := h.Tool(t, ToolExecute, fmt.Sprintf(`{"tool_id":%q,"args":{"n":1},"dry_run":true}`, id)); a.IsError || len(*added) != 2 {
		t.Errorf("a dry run: %+v, added %v", a, *added)
	}
	// A program starts no saved program, and finds none.
	for _, source := range []string{`await call("` + id + `", {n: 1})`, `await tools.weir.fill({n: 1})`} {
		f := failure(t, h.program(t, source))
		if f.Details.ToolError.Code != "ARGS_INVALID" || !strings.Contains(f.Message, "a program starts no other one") {
			t.Errorf("%s: %+v", source, f)
		}
	}
	inside := h.save(t, "inside", `await call("`+id+`", {n: 1})`)
	if f := failure(t, h.execute(t, inside, `{"n":1}`)); !strings.Contains(f.Message, "a program starts no other one") || len(*added) != 2 {
		t.Errorf("%+v", f)
	}
	if a := h.program(t, `return (await find("add items to the shop", {top_k: 10})).map(t => t.server)`); a.IsError || strings.Contains(a.Content[0].Text, "weir") {
		t.Errorf("%+v", a)
	}
	// Its definition names the program: another one is not run for it.
	h.runner.Saved["fill"] = runs.Saved{Source: "return 1", Hash: runs.HashOf("return 1")}
	if e := calltest.Failure(t, h.execute(t, id, `{"n":2}`)); e.Error != "UPSTREAM_UNAVAILABLE" || !strings.Contains(e.Message, "a changed configuration") {
		t.Errorf("%+v", e)
	}
}

// Each mode that lists tools lists a saved program, under the name that any tool would have.
func TestSavedProgramInEachMode(t *testing.T) {
	for _, mode := range []Mode{ModePlain, ModeProxy, ModeAuto} {
		h := newRunHarness(t, Options{Mode: mode})
		added := shop(h.harness)
		h.save(t, "fill", `return await tools.my_shop.add({n: input.n})`)
		list, err := h.Ask(t, "tools/list", `{}`)
		if err != nil {
			t.Fatal(err)
		}
		var page struct{ Tools []struct{ Name string } }
		if err := json.Unmarshal(list, &page); err != nil {
			t.Fatal(err)
		}
		name := ""
		for _, tool := range page.Tools {
			if strings.HasPrefix(tool.Name, "weir") {
				name = tool.Name
			}
		}
		raw, err := h.Ask(t, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":{"n":7}}`, name))
		if err != nil || !strings.Contains(string(raw), `{\"n\":7,\"of\":1}`) || len(*added) != 1 {
			t.Errorf("%s %q: %s, %v", mode, name, raw, err)
		}
	}
}

// The policy judges the call of a saved program by its own id, and the calls of the program as those of the caller.
func TestSavedProgramHasAPolicyOfItsOwn(t *testing.T) {
	deny := func(rules ...dispatch.PolicyRule) Options {
		return Options{Policy: &dispatch.Policy{Rules: rules}}
	}
	h := newRunHarness(t, deny(dispatch.PolicyRule{Action: dispatch.Deny, MetaTool: ToolRun}))
	shop(h.harness)
	id := h.save(t, "fill", `return await tools.my_shop.add({n: input.n})`)
	if e := calltest.Failure(t, h.program(t, `return 1`)); e.Error != "PERMISSION_DENIED" {
		t.Errorf("%+v", e)
	}
	if a := h.execute(t, id, `{"n":1}`); a.IsError {
		t.Errorf("tool_run is denied, and the saved program is not: %+v", a)
	}
	h = newRunHarness(t, deny(dispatch.PolicyRule{Action: dispatch.Deny, Tool: "weir:fill#*"}))
	added := shop(h.harness)
	if e := calltest.Failure(t, h.execute(t, h.save(t, "fill", `return await tools.my_shop.add({n: 1})`), `{"n":1}`)); e.Error != "PERMISSION_DENIED" || len(*added) != 0 {
		t.Errorf("%+v", e)
	}
	h = newRunHarness(t, deny(dispatch.PolicyRule{Action: dispatch.Deny, Tool: "my_shop:add#*"}))
	added = shop(h.harness)
	f := failure(t, h.execute(t, h.save(t, "fill", `return await tools.my_shop.add({n: 1})`), `{"n":1}`))
	if f.Error != "PROGRAM_FAILED" || f.Details.ToolError.Code != "PERMISSION_DENIED" || len(*added) != 0 {
		t.Errorf("%+v", f)
	}
}

// A call of a saved program that failed goes on with the same tool: no call is made twice.
func TestSavedProgramGoesOn(t *testing.T) {
	h := newRunHarness(t, Options{})
	added := shop(h.harness)
	broken := true
	h.Add("switch", calltest.Peer(func(context.Context, json.RawMessage, mcp.Handler) (json.RawMessage, error) {
		if broken {
			return json.RawMessage(`{"content":[{"type":"text","text":"not now"}],"isError":true}`), nil
		}
		return json.RawMessage(calltest.Text(`{"on":true}`)), nil
	}), `{"name":"check","description":"Checks."}`)
	id := h.save(t, "fill", "for (let n = 1; n <= input.n; n++) {\n  if (n == 3) await tools.switch.check({});\n  await tools.my_shop.add({n});\n}\nreturn input;")
	f := failure(t, h.execute(t, id, `{"n":4}`))
	if f.Details.Line != 2 || !strings.HasPrefix(f.Message, id+": ") || !strings.Contains(f.Message, `Call it again with resume "`+f.Details.Run) || fmt.Sprint(*added) != "[1 2]" {
		t.Fatalf("%+v, added %v", f, *added)
	}
	broken = false
	a := h.execute(t, id, fmt.Sprintf(`{"n":4,"resume":%q}`, f.Details.Run))
	if a.IsError || a.Content[0].Text != `{"n":4}` || fmt.Sprint(*added) != "[1 2 3 4]" {
		t.Errorf("%+v, added %v", a, *added)
	}
	if e := calltest.Failure(t, h.execute(t, id, `{"n":4,"resume":"run_0000000000000000"}`)); e.Error != "ARGS_INVALID" {
		t.Errorf("%+v", e)
	}
}

// A program that is declared read-only is listed so, makes calls that read, and makes no other ones, also where the
// policy would allow them and where the program catches the refusal.
func TestSavedProgramThatOnlyReads(t *testing.T) {
	for _, opts := range []Options{{}, {Policy: &dispatch.Policy{Default: dispatch.Allow}}} {
		h := newRunHarness(t, opts)
		added := shop(h.harness)
		id := h.save(t, "read_stock", `return (await tools.my_shop.list_items({page: 0})).length`)
		if e, ok := h.Snapshot().Catalog.Lookup(id); !ok || !e.ReadOnly || e.Card.SideEffects {
			t.Errorf("%+v", e)
		}
		if a := h.execute(t, id, `{"n":1}`); a.IsError || a.Content[0].Text != "2" {
			t.Errorf("%+v", a)
		}
		f := failure(t, h.execute(t, h.save(t, "read_and_write", `await tools.my_shop.list_items({page: 0}); await tools.my_shop.add({n: 1})`), `{"n":1}`))
		if f.Error != "PROGRAM_FAILED" || f.Details.ToolError.Code != "PERMISSION_DENIED" || !strings.Contains(f.Message, "does not declare itself read-only") {
			t.Errorf("%+v", f)
		}
		a := h.execute(t, h.save(t, "read_or_write", `try { await tools.my_shop.add({n: 1}) } catch (e) { return e.code }`), `{"n":1}`)
		if a.IsError || a.Content[0].Text != "PERMISSION_DENIED" || len(*added) != 0 {
			t.Errorf("%+v, added %v", a, *added)
		}
		// The configuration has changed, and the catalog has not yet.
		saved := h.runner.Saved["read_stock"]
		saved.ReadOnly = false
		h.runner.Saved["read_stock"] = saved
		if e := calltest.Failure(t, h.execute(t, id, `{"n":1}`)); e.Error != "UPSTREAM_UNAVAILABLE" {
			t.Errorf("%+v", e)
		}
	}
}
