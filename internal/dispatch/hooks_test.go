package dispatch_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/audit"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/internal/testkit/metatooltest"
	"github.com/weir-mcp/weir/mcp"
)

// TestHooksOnCalls: hooks are asked about whatever leads to a server, and what they refuse does not
// reach it.
func TestHooksOnCalls(t *testing.T) {
	for _, refuses := range []string{"", "never in a question"} {
		d := calltest.NewDetector(t, refuses, true, false)
		for i, r := range reaching {
			_, send, reached := door(t, metatool.Options{Hooks: d.Set})
			err := send(i)
			asked := d.Questions()
			if len(asked) != 1 || !strings.HasPrefix(asked[0], `{"kind":"call","server":`) || !strings.Contains(asked[0], `"principal":"ann"`) || strings.Contains(asked[0], `"result":`) {
				t.Errorf("%s, direct %t: asked %q", r.name, r.direct, asked)
			}
			switch refused := err != nil && strings.Contains(err.Error(), "guards.hooks.pii refuses it (not today)"); {
			case refused != (refuses == ""):
				t.Errorf("%s, direct %t: %v", r.name, r.direct, err)
			case refused && reached() > 0:
				t.Errorf("%s, direct %t: reached a server", r.name, r.direct)
			}
		}
	}
}

// TestHooksSeeWhatServersGet: a question has the id, the arguments and the other members of a message.
func TestHooksSeeWhatServersGet(t *testing.T) {
	d := calltest.NewDetector(t, "evil", true, false)
	h, _ := metatooltest.Library(t, metatool.Options{Hooks: d.Set})
	id := h.ID(t, "files", "drop")
	h.Raw(t, `{"name":"tool_execute","arguments":{"tool_id":"`+id+`","args":{"a":1}},"_meta":{"note":"n"}}`)
	h.Tool(t, metatool.ResourceRead, `{"resource_id":"`+h.ID(t, "docs", "rows")+`","args":{"table":"users","id":"7","limit":"2"}}`)
	if err := h.Directly(t, mcp.NoPeer, "evil/custom", `{"x":1}`); err == nil {
		t.Error("an unknown method passed")
	}
	asked := d.Questions()
	want := []string{
		`{"kind":"call","server":"files","tool_id":"` + id + `","method":"tools/call","principal":"ann","session":"…","arguments":{"a":1},"params":{"_meta":{"note":"n"}}}`,
		`{"kind":"call","server":"docs","tool_id":"` + h.ID(t, "docs", "rows") + `","method":"resources/read","principal":"ann","session":"…","arguments":"db://users/7?limit=2"}`,
		`{"kind":"call","server":"files","tool_id":"files:evil/custom","method":"evil/custom","principal":"ann","session":"…","params":{"x":1}}`,
	}
	for i := range want {
		if i >= len(asked) {
			t.Fatalf("asked %q", asked)
		}
		before, after, _ := strings.Cut(want[i], "…")
		if !strings.HasPrefix(asked[i], before) || !strings.HasSuffix(asked[i], after) || strings.Contains(asked[i], `"session":"s"`) {
			t.Errorf("asked\n%s\nwant\n%s", asked[i], want[i])
		}
	}
	// A dry run asks no hook, nor does a call that the policy refuses.
	h.Tool(t, metatool.ToolExecute, `{"tool_id":"`+id+`","args":{},"dry_run":true}`)
	h, _ = metatooltest.Library(t, metatool.Options{Hooks: d.Set, Policy: &dispatch.Policy{Default: dispatch.Deny}})
	h.Tool(t, metatool.ToolExecute, `{"tool_id":"`+h.ID(t, "files", "drop")+`","args":{}}`)
	if asked := d.Questions(); len(asked) > 0 {
		t.Errorf("asked %q", asked)
	}
}

// TestHooksOnResults: an agent reads nothing of a result that a hook refuses, however it was asked for
// and however long it is, and the audit log says which hook it was.
func TestHooksOnResults(t *testing.T) {
	d := calltest.NewDetector(t, "ignore all", false, true)
	l, to, dir := calltest.NewAudit(t, audit.FormFull, false)
	h, up := metatooltest.Library(t, metatool.Options{Hooks: d.Set, Audit: to, Cache: dispatch.CacheOptions{ReadOnly: true}})
	texts := []string{"ignore all of that", strings.Repeat("long words. ", 9000) + "ignore all of that"}
	n := 0
	h.Add("web", func(context.Context, json.RawMessage, mcp.Handler) (json.RawMessage, error) {
		return json.RawMessage(calltest.Text(texts[n%len(texts)])), nil
	}, `{"name":"search","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`)
	up.Answers["resources/read file:///docs/readme.md"] = `{"contents":[{"uri":"file:///docs/readme.md","text":"ignore all of that"}]}`
	up.Answers["prompts/get hello"] = `{"messages":[{"role":"user","content":{"type":"text","text":"ignore all of that"}}]}`
	up.Answers["completion/complete "] = `{"completion":{"values":["ignore all of that"]}}`
	search := `{"name":"tool_execute","arguments":{"tool_id":"` + h.ID(t, "web", "search") + `","args":{}}}`
	for _, r := range []struct{ method, params string }{
		{"tools/call", search},
		{"tools/call", search}, // nothing of it is in the cache
		{"tools/call", `{"name":"resource_read","arguments":{"resource_id":"` + h.ID(t, "docs", "README") + `"}}`},
		{"tools/call", `{"name":"prompt_get","arguments":{"prompt_id":"` + h.ID(t, "docs", "hello") + `"}}`},
		{"resources/read", `{"uri":"file:///docs/readme.md"}`},
		{"prompts/get", `{"name":"hello"}`},
		{"completion/complete", `{"ref":{"type":"ref/prompt","name":"hello"},"argument":{"name":"a","value":""}}`},
	} {
		out, err := h.Ask(t, r.method, r.params)
		n++
		said := string(out) + calltest.ErrorText(err)
		if asked := d.Questions(); len(asked) != 1 || !strings.HasPrefix(asked[0], `{"kind":"result","server":`) {
			t.Errorf("%s %s: asked %.300q", r.method, r.params, asked)
		}
		if strings.Contains(said, "ignore") || strings.Contains(said, "long words") || !strings.Contains(said, "guards.hooks.pii refuses its result (not today)") {
			t.Errorf("%s %s: %s", r.method, r.params, said)
		}
		if err != nil && calltest.KindOf(err) != mcp.KindPermissionDenied {
			t.Errorf("%s: %v", r.method, err)
		}
	}
	records := calltest.Recorded(t, l, dir)
	refused := 0
	for _, line := range records {
		if strings.HasPrefix(line, "end") && strings.Contains(line, "permission_denied") {
			refused++
		}
	}
	if refused != 7 {
		t.Errorf("%d ends say that a result was refused:\n%s", refused, strings.Join(records, "\n"))
	}
}

// TestHooksAndTheCache: a result that the cache keeps was asked about once.
func TestHooksAndTheCache(t *testing.T) {
	d := calltest.NewDetector(t, "ignore all", false, true)
	h := newCacheHarness(t, metatool.Options{Hooks: d.Set, Cache: dispatch.CacheOptions{ReadOnly: true}})
	for range 3 {
		if s := get(t, h, `{}`); s.Content[0].Text != "answer 1" {
			t.Errorf("%+v", s)
		}
	}
	if asked := d.Questions(); len(asked) != 1 {
		t.Errorf("asked %q", asked)
	}
}

// TestHooksOnDirectResults: hooks are asked about results of all methods but lists.
func TestHooksOnDirectResults(t *testing.T) {
	d := calltest.NewDetector(t, "ignore all", false, true)
	h, _ := metatooltest.Library(t, metatool.Options{Hooks: d.Set})
	places := []metatool.Place{{Upstream: "docs", Namespace: "docs"}}
	for method, params := range map[string]string{
		"tools/call": `{"name":"drop"}`, "resources/read": `{"uri":"file:///docs/readme.md"}`, "prompts/get": `{"name":"hello"}`, "tasks/result": `{"taskId":"t"}`, "custom/method": `{}`,
	} {
		r := &mcp.Request{ID: "1", Method: method, Version: mcp.V20260728, Session: h.Session, Peer: mcp.NoPeer, Params: json.RawMessage(params)}
		if out, err := h.Gateway.DirectCalls().Shown(t.Context(), places, r, json.RawMessage(`{"text":"ignore all of that"}`)); calltest.KindOf(err) != mcp.KindPermissionDenied || out != nil || !strings.Contains(err.Error(), "guards.hooks.pii") {
			t.Errorf("%s: %s, %v", method, out, err)
		}
		if asked := d.Questions(); len(asked) != 1 || !strings.Contains(asked[0], `"server":"docs"`) || !strings.Contains(asked[0], `"method":"`+method+`"`) {
			t.Errorf("%s: asked %q", method, asked)
		}
		if out, err := h.Gateway.DirectCalls().Shown(t.Context(), places, r, json.RawMessage(`{"text":"usual"}`)); err != nil || string(out) != `{"text":"usual"}` {
			t.Errorf("%s: %s, %v", method, out, err)
		}
		d.Questions()
	}
	for _, method := range []string{"tools/list", "ping"} {
		r := &mcp.Request{ID: "1", Method: method, Session: h.Session, Peer: mcp.NoPeer}
		if _, err := h.Gateway.DirectCalls().Shown(t.Context(), places, r, json.RawMessage(`{"tools":[],"note":"ignore all"}`)); err != nil || len(d.Questions()) > 0 {
			t.Errorf("%s: %v", method, err)
		}
	}
	if !h.Gateway.DirectCalls().HasControls() || !h.Gateway.DirectCalls().Judges(places) {
		t.Error("with hooks, bytes would be handed on unread")
	}
}

// TestHooksOnTasks: the result of a task is asked about when it comes, within the wait and by a handle.
func TestHooksOnTasks(t *testing.T) {
	d := calltest.NewDetector(t, "ignore all", false, true)
	calltest.Eras(t, func(t *testing.T, modern bool) {
		h := metatooltest.NewTasks(t, &calltest.TaskServer{Modern: modern, Lasts: 10 * time.Second, Says: "ignore all of that"}, metatool.Options{Hooks: d.Set})
		if got := h.ExecuteTask(); !strings.Contains(got, "guards.hooks.pii refuses its result") || strings.Contains(got, "ignore") {
			t.Errorf("within the wait: %q", got)
		}
		h = metatooltest.NewTasks(t, &calltest.TaskServer{Modern: modern, Lasts: 40 * time.Second, Says: "ignore all of that"}, metatool.Options{Hooks: d.Set})
		handle := calltest.TaskHandle(t, h.ExecuteTask())
		for range 2 {
			if got := h.View(h.Session, handle, calltest.Head); !strings.Contains(got, "guards.hooks.pii refuses its result") || strings.Contains(got, "ignore") {
				t.Errorf("by a handle: %q", got)
			}
		}
	})
}
