package metatool

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/audit"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/policy/hook"
	"github.com/weir-mcp/weir/mcp"
)

// detector is a hook that refuses questions in which a text stands.
type detector struct {
	*hook.Set
	mu    sync.Mutex
	asked []string
}

// newDetector returns a hook that is asked about calls, results or both.
func newDetector(t testing.TB, refuses string, call, result bool) *detector {
	t.Helper()
	d := &detector{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		question, _ := io.ReadAll(r.Body)
		d.mu.Lock()
		d.asked = append(d.asked, string(question))
		d.mu.Unlock()
		answer := `{"action":"allow"}`
		if strings.Contains(string(question), refuses) {
			answer = `{"action":"deny","reason":"not today"}`
		}
		w.Header().Set("Connection", "close") // a connection that stays would hold up the time of synctest
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(server.Close)
	d.Set = hook.New([]hook.Options{{Name: "guards.hooks.pii", OnCall: call, OnResult: result, URL: server.URL, Timeout: 20 * time.Second}},
		func(raw []byte) []byte { return raw }, slog.New(slog.DiscardHandler))
	t.Cleanup(d.Close)
	return d
}

// questions returns what was asked since the last time.
func (d *detector) questions() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	asked := d.asked
	d.asked = nil
	return asked
}

// TestHooksOnCalls: hooks are asked about whatever leads to a server, and what they refuse does not
// reach it.
func TestHooksOnCalls(t *testing.T) {
	for _, refuses := range []string{"", "never in a question"} {
		d := newDetector(t, refuses, true, false)
		for i, r := range reaching {
			_, send, reached := door(t, Options{Hooks: d.Set})
			err := send(i)
			asked := d.questions()
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
	d := newDetector(t, "evil", true, false)
	h, _ := library(t, Options{Hooks: d.Set})
	id := h.id(t, "files", "drop")
	h.raw(t, `{"name":"tool_execute","arguments":{"tool_id":"`+id+`","args":{"a":1}},"_meta":{"note":"n"}}`)
	h.tool(t, ResourceRead, `{"resource_id":"`+h.id(t, "docs", "rows")+`","args":{"table":"users","id":"7","limit":"2"}}`)
	if err := h.directly(t, mcp.NoPeer, "evil/custom", `{"x":1}`); err == nil {
		t.Error("an unknown method passed")
	}
	asked := d.questions()
	want := []string{
		`{"kind":"call","server":"files","tool_id":"` + id + `","method":"tools/call","principal":"ann","session":"…","arguments":{"a":1},"params":{"_meta":{"note":"n"}}}`,
		`{"kind":"call","server":"docs","tool_id":"` + h.id(t, "docs", "rows") + `","method":"resources/read","principal":"ann","session":"…","arguments":"db://users/7?limit=2"}`,
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
	h.tool(t, ToolExecute, `{"tool_id":"`+id+`","args":{},"dry_run":true}`)
	h, _ = library(t, Options{Hooks: d.Set, Policy: &dispatch.Policy{Default: dispatch.Deny}})
	h.tool(t, ToolExecute, `{"tool_id":"`+h.id(t, "files", "drop")+`","args":{}}`)
	if asked := d.questions(); len(asked) > 0 {
		t.Errorf("asked %q", asked)
	}
}

// TestHooksOnResults: an agent reads nothing of a result that a hook refuses, however it was asked for
// and however long it is, and the audit log says which hook it was.
func TestHooksOnResults(t *testing.T) {
	d := newDetector(t, "ignore all", false, true)
	l, to, dir := testAudit(t, audit.FormFull, false)
	h, up := library(t, Options{Hooks: d.Set, Audit: to, Cache: dispatch.CacheOptions{ReadOnly: true}})
	texts := []string{"ignore all of that", strings.Repeat("long words. ", 9000) + "ignore all of that"}
	n := 0
	h.add("web", func(context.Context, json.RawMessage, mcp.Handler) (json.RawMessage, error) {
		return json.RawMessage(textResult(texts[n%len(texts)])), nil
	}, `{"name":"search","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`)
	up.answers["resources/read file:///docs/readme.md"] = `{"contents":[{"uri":"file:///docs/readme.md","text":"ignore all of that"}]}`
	up.answers["prompts/get hello"] = `{"messages":[{"role":"user","content":{"type":"text","text":"ignore all of that"}}]}`
	up.answers["completion/complete "] = `{"completion":{"values":["ignore all of that"]}}`
	search := `{"name":"tool_execute","arguments":{"tool_id":"` + h.id(t, "web", "search") + `","args":{}}}`
	for _, r := range []struct{ method, params string }{
		{"tools/call", search},
		{"tools/call", search}, // nothing of it is in the cache
		{"tools/call", `{"name":"resource_read","arguments":{"resource_id":"` + h.id(t, "docs", "README") + `"}}`},
		{"tools/call", `{"name":"prompt_get","arguments":{"prompt_id":"` + h.id(t, "docs", "hello") + `"}}`},
		{"resources/read", `{"uri":"file:///docs/readme.md"}`},
		{"prompts/get", `{"name":"hello"}`},
		{"completion/complete", `{"ref":{"type":"ref/prompt","name":"hello"},"argument":{"name":"a","value":""}}`},
	} {
		out, err := h.ask(t, r.method, r.params)
		n++
		said := string(out) + errorText(err)
		if asked := d.questions(); len(asked) != 1 || !strings.HasPrefix(asked[0], `{"kind":"result","server":`) {
			t.Errorf("%s %s: asked %.300q", r.method, r.params, asked)
		}
		if strings.Contains(said, "ignore") || strings.Contains(said, "long words") || !strings.Contains(said, "guards.hooks.pii refuses its result (not today)") {
			t.Errorf("%s %s: %s", r.method, r.params, said)
		}
		if err != nil && protocolKind(err) != mcp.KindPermissionDenied {
			t.Errorf("%s: %v", r.method, err)
		}
	}
	records := recorded(t, l, dir)
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
	d := newDetector(t, "ignore all", false, true)
	h := newCacheHarness(t, Options{Hooks: d.Set, Cache: dispatch.CacheOptions{ReadOnly: true}})
	for range 3 {
		if s := h.get(t, `{}`); s.Content[0].Text != "answer 1" {
			t.Errorf("%+v", s)
		}
	}
	if asked := d.questions(); len(asked) != 1 {
		t.Errorf("asked %q", asked)
	}
}

// TestHooksOnDirectResults: hooks are asked about results of all methods but lists.
func TestHooksOnDirectResults(t *testing.T) {
	d := newDetector(t, "ignore all", false, true)
	h, _ := library(t, Options{Hooks: d.Set})
	places := []Place{{Upstream: "docs", Namespace: "docs"}}
	for method, params := range map[string]string{
		"tools/call": `{"name":"drop"}`, "resources/read": `{"uri":"file:///docs/readme.md"}`, "prompts/get": `{"name":"hello"}`, "tasks/result": `{"taskId":"t"}`, "custom/method": `{}`,
	} {
		r := &mcp.Request{ID: "1", Method: method, Version: mcp.V20260728, Session: h.session, Peer: mcp.NoPeer, Params: json.RawMessage(params)}
		if out, err := h.g.direct.Shown(t.Context(), places, r, json.RawMessage(`{"text":"ignore all of that"}`)); protocolKind(err) != mcp.KindPermissionDenied || out != nil || !strings.Contains(err.Error(), "guards.hooks.pii") {
			t.Errorf("%s: %s, %v", method, out, err)
		}
		if asked := d.questions(); len(asked) != 1 || !strings.Contains(asked[0], `"server":"docs"`) || !strings.Contains(asked[0], `"method":"`+method+`"`) {
			t.Errorf("%s: asked %q", method, asked)
		}
		if out, err := h.g.direct.Shown(t.Context(), places, r, json.RawMessage(`{"text":"usual"}`)); err != nil || string(out) != `{"text":"usual"}` {
			t.Errorf("%s: %s, %v", method, out, err)
		}
		d.questions()
	}
	for _, method := range []string{"tools/list", "ping"} {
		r := &mcp.Request{ID: "1", Method: method, Session: h.session, Peer: mcp.NoPeer}
		if _, err := h.g.direct.Shown(t.Context(), places, r, json.RawMessage(`{"tools":[],"note":"ignore all"}`)); err != nil || len(d.questions()) > 0 {
			t.Errorf("%s: %v", method, err)
		}
	}
	if !h.g.direct.HasControls() || !h.g.direct.Judges(places) {
		t.Error("with hooks, bytes would be handed on unread")
	}
}

// TestHooksOnTasks: the result of a task is asked about when it comes, within the wait and by a handle.
func TestHooksOnTasks(t *testing.T) {
	d := newDetector(t, "ignore all", false, true)
	eras(t, func(t *testing.T, modern bool) {
		h := newTaskHarness(t, &taskServer{modern: modern, lasts: 10 * time.Second, says: "ignore all of that"}, Options{Hooks: d.Set})
		if got := h.execute(); !strings.Contains(got, "guards.hooks.pii refuses its result") || strings.Contains(got, "ignore") {
			t.Errorf("within the wait: %q", got)
		}
		h = newTaskHarness(t, &taskServer{modern: modern, lasts: 40 * time.Second, says: "ignore all of that"}, Options{Hooks: d.Set})
		handle := handleIn(t, h.execute())
		for range 2 {
			if got := h.view(h.session, handle, head); !strings.Contains(got, "guards.hooks.pii refuses its result") || strings.Contains(got, "ignore") {
				t.Errorf("by a handle: %q", got)
			}
		}
	})
}
