package metatool

import (
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/audit"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/mcp"
)

// TestAuditOfTasks: each request that continues a call at its server has its records.
func TestAuditOfTasks(t *testing.T) {
	calltest.Eras(t, func(t *testing.T, modern bool) {
		l, to, dir := calltest.NewAudit(t, audit.FormFull, false)
		s := &calltest.TaskServer{Modern: modern, Lasts: 40 * time.Second, Says: "42 rows"}
		h := newTaskHarness(t, s, Options{Audit: to})
		handle := calltest.TaskHandle(t, h.ExecuteTask())
		if got := h.View(h.Session, handle, calltest.Head); got != "42 rows" {
			t.Fatalf("%q", got)
		}
		s.Mu.Lock()
		s.Lasts = 0
		s.Mu.Unlock()
		handle = calltest.TaskHandle(t, h.ExecuteTask())
		h.View(h.Session, handle, calltest.Head) // it still runs
		h.View(h.Session, handle, `,"selector":{"type":"cancel"}}`)
		h.View(h.Session, handle, calltest.Head) // reaches no server
		method := "tasks/result"
		if modern {
			method = "tasks/get"
		}
		want := []string{
			`begin tools/call work {}`, `end tools/call work task`,
			`begin ` + method + ` work {"taskId":"t1"}`, `end ` + method + ` work ok digest`,
			`begin tools/call work {}`, `end tools/call work task`,
			`begin ` + method + ` work {"taskId":"t2"}`, `end ` + method + ` work task`,
			`begin tasks/cancel work {"taskId":"t2"}`, `end tasks/cancel work ok`,
		}
		if got := calltest.Recorded(t, l, dir); strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("the log has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if err := audit.Each(dir, func(raw []byte) bool {
			if strings.Contains(string(raw), "tasks/cancel") && !strings.Contains(string(raw), `"handle":"`+handle+`"`) {
				t.Errorf("the task is not named: %s", raw)
			}
			return true
		}); err != nil {
			t.Fatal(err)
		}
	})
}

// TestAuditUnavailableForTasks: a required log that cannot be written keeps continuations from
// servers, too.
func TestAuditUnavailableForTasks(t *testing.T) {
	calltest.Eras(t, func(t *testing.T, modern bool) {
		l, to, _ := calltest.NewAudit(t, audit.FormHash, true)
		s := &calltest.TaskServer{Modern: modern}
		h := newTaskHarness(t, s, Options{Audit: to})
		handle := calltest.TaskHandle(t, h.ExecuteTask())
		l.Close()
		s.Mu.Lock()
		before := len(s.Seen)
		s.Mu.Unlock()
		for _, rest := range []string{calltest.Head, `,"selector":{"type":"cancel"}}`} {
			if got := h.View(h.Session, handle, rest); !strings.Contains(got, "audit.required") {
				t.Errorf("%q", got)
			}
		}
		s.Mu.Lock()
		defer s.Mu.Unlock()
		if len(s.Seen) != before {
			t.Errorf("the server was asked: %v", s.Seen[before:])
		}
	})
}

// TestAuditOfProbes: a call of a hidden name is a refusal in the log, by each way to call it, and one
// of a name that does not exist is none.
func TestAuditOfProbes(t *testing.T) {
	l, to, dir := calltest.NewAudit(t, audit.FormFull, false)
	h := newHarness(t, Options{Policy: hiding(), ExposeHydrate: true, Audit: to})
	h.List(secretListing())
	h.List(publicListing())
	tool := h.ID(t, "vault", "secret_read")
	resource, template, prompt := "", "", ""
	for _, e := range h.Snapshot().Catalog.Of("vault") {
		switch e.Kind {
		case primitive.KindResource:
			resource = e.ID
		case primitive.KindTemplate:
			template = e.ID
		case primitive.KindPrompt:
			prompt = e.ID
		}
	}
	ask := func(mode Mode, by *identity.Identity, method, params string) {
		_, _ = h.AskAs(WithMode(t.Context(), mode), by, method, params)
	}
	ask(ModePlain, calltest.SRE, "tools/list", `{}`) // the names of plain mode are given
	want := []string{}
	for _, tt := range []struct {
		mode                   Mode
		method, params, record string
	}{
		{ModeGateway, "tools/call", `{"name":"tool_execute","arguments":{"tool_id":"` + tool + `","args":{"a":1}}}`, `tools/call vault deny permission_denied {"a":1}`},
		{ModeGateway, "tools/call", `{"name":"tool_execute","arguments":{"tool_id":"` + tool + `","arguments":{"a":1}}}`, `tools/call vault deny permission_denied {"a":1}`},
		{ModeGateway, "tools/call", `{"name":"tool_hydrate","arguments":{"tool_id":"` + tool + `"}}`, `tools/call vault deny permission_denied`},
		{ModeProxy, "tools/call", `{"name":"tool_execute","arguments":{"tool_id":"` + tool + `","args":{}}}`, `tools/call vault deny permission_denied {}`},
		{ModePlain, "tools/call", `{"name":"vault__secret_read","arguments":{"a":1}}`, `tools/call vault deny permission_denied {"a":1}`},
		{ModeGateway, "tools/call", `{"name":"resource_read","arguments":{"resource_id":"` + resource + `"}}`, `resources/read vault deny permission_denied "` + resource + `"`},
		{ModeGateway, "tools/call", `{"name":"resource_read","arguments":{"resource_id":"` + template + `","args":{"name":"x"}}}`, `resources/read vault deny permission_denied "` + template + `"`},
		{ModeGateway, "tools/call", `{"name":"resource_read","arguments":{"uri":"secret://of/x"}}`, `resources/read vault deny permission_denied "secret://of/x"`},
		{ModeGateway, "tools/call", `{"name":"prompt_get","arguments":{"prompt_id":"` + prompt + `","args":{"a":"b"}}}`, `prompts/get vault deny permission_denied {"a":"b"}`},
		{ModeGateway, "resources/read", `{"uri":"secret://one"}`, `resources/read vault deny permission_denied "secret://one"`},
		{ModeGateway, "resources/subscribe", `{"uri":"secret://one"}`, `resources/subscribe vault deny permission_denied "secret://one"`},
		{ModeGateway, "prompts/get", `{"name":"secret_prompt"}`, `prompts/get vault deny permission_denied`},
		{ModeGateway, "completion/complete", `{"ref":{"type":"ref/prompt","name":"secret_prompt"},"argument":{"name":"a","value":""}}`, `completion/complete vault deny permission_denied`},
		{ModeGateway, "completion/complete", `{"ref":{"type":"ref/resource","uri":"secret://of/{name}"},"argument":{"name":"name","value":""}}`, `completion/complete vault deny permission_denied`},
	} {
		ask(tt.mode, calltest.Dev, tt.method, tt.params)
		want = append(want, "refusal "+tt.record)
		ask(tt.mode, calltest.Dev, tt.method, strings.NewReplacer("secret", "absent", "vault", "nowhere").Replace(tt.params))
	}
	if got := calltest.Recorded(t, l, dir); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the log has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if err := audit.Each(dir, func(raw []byte) bool {
		if text := string(raw); strings.Contains(text, `"kind":"refusal"`) && (!strings.Contains(text, `"principal":"ann"`) || !strings.Contains(text, `"rule":"policy.default"`)) {
			t.Errorf("%s", raw)
		}
		return true
	}); err != nil {
		t.Fatal(err)
	}
}

// TestAuditOfProbedURIs: a URI that a visible template would make, and that is hidden, is a refusal.
func TestAuditOfProbedURIs(t *testing.T) {
	l, to, dir := calltest.NewAudit(t, audit.FormFull, false)
	h := newHarness(t, Options{Audit: to, Policy: &dispatch.Policy{Hide: true, Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, Tool: "web://of/plan"}}}})
	h.List(publicListing())
	_, _ = h.AskAs(t.Context(), calltest.Dev, "resources/read", `{"uri":"web://of/plan"}`)
	_, _ = h.AskAs(t.Context(), calltest.Dev, "tools/call", `{"name":"resource_read","arguments":{"resource_id":"web://of/{name}","args":{"name":"plan"}}}`)
	want := `refusal resources/read web deny permission_denied "web://of/plan"`
	if got := calltest.Recorded(t, l, dir); len(got) != 2 || got[0] != want || got[1] != want {
		t.Errorf("%q", got)
	}
}

// TestAuditOfDirectProbes: a direct call of a hidden name is a refusal in the log.
func TestAuditOfDirectProbes(t *testing.T) {
	l, to, dir := calltest.NewAudit(t, audit.FormFull, false)
	h := newHarness(t, Options{Audit: to, Policy: hiding()})
	h.List(secretListing())
	request := &mcp.Request{ID: "1", Method: "tools/call", Params: []byte(`{"name":"secret_read","arguments":{}}`), Version: mcp.V20251125, Session: h.Session, Peer: mcp.NoPeer}
	if _, err := h.g.DirectCalls().Judge(identity.With(t.Context(), calltest.Dev), []Place{{Upstream: "vault", Namespace: "vault"}}, request, ""); err == nil {
		t.Fatal("it is admitted")
	}
	if got := calltest.Recorded(t, l, dir); len(got) != 1 || !strings.HasPrefix(got[0], "refusal tools/call vault deny permission_denied") {
		t.Errorf("%q", got)
	}
}
