package metatool

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/policy/approval"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/mcp"
)

// asks is a client that can be asked. It answers questions with answer, and keeps them.
type asks struct {
	mcp.Peer
	answer func(n int, params json.RawMessage) string

	mu        sync.Mutex // guards below
	questions []json.RawMessage
	progress  []string
}

func (a *asks) Call(_ context.Context, method string, params json.RawMessage, _ mcp.Handler) (json.RawMessage, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.questions = append(a.questions, params)
	if method != "elicitation/create" {
		return json.RawMessage(`{"roots":[]}`), nil
	}
	return json.RawMessage(a.answer(len(a.questions), params)), nil
}

func (a *asks) Notify(_ context.Context, method string, params json.RawMessage) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if method == "notifications/progress" {
		a.progress = append(a.progress, string(rawjson.Get(params, "progress"))+" "+rawjson.Text(rawjson.Get(params, "message")))
	}
	return nil
}

// programOf runs a program for a client.
func (h *runHarness) programOf(t testing.TB, peer mcp.Peer, arguments map[string]any) calltest.Answer {
	t.Helper()
	raw, err := json.Marshal(map[string]any{"name": ToolRun, "arguments": arguments, "_meta": map[string]any{"progressToken": "p"}})
	if err != nil {
		t.Fatal(err)
	}
	out, err := h.g.Serve(t.Context(), &mcp.Request{ID: "1", Method: "tools/call", Params: raw, Version: mcp.V20251125, Session: h.Session, Peer: peer})
	if err != nil {
		t.Fatal(err)
	}
	var a calltest.Answer
	if err := json.Unmarshal(out, &a); err != nil {
		t.Fatal(err)
	}
	return a
}

var addNeedsApproval = &dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.RequireApproval, Tool: "my_shop:add*", Reason: "it writes"}}}

// The person is asked at the first call, and may allow several calls of the tool in the run, or none.
func TestApprovalOfALoop(t *testing.T) {
	h := newRunHarness(t, Options{Policy: addNeedsApproval})
	added := shop(h.harness)
	h.Session = mcp.NewSession("s1", "ann")
	h.Session.SetClient(nil, json.RawMessage(calltest.CanElicit))
	const loop = `await tools.my_shop.list_items({page: 0});
for (let n = 0; n < 6; n++) await tools.my_shop.add({n})`
	client := &asks{Peer: mcp.NoPeer, answer: func(n int, _ json.RawMessage) string {
		if n == 1 {
			return `{"action":"accept","content":{"calls":4}}`
		}
		return `{"action":"accept"}`
	}}
	if a := h.programOf(t, client, map[string]any{"program": loop}); a.IsError || len(*added) != 6 {
		t.Fatalf("%+v, added %v", a, *added)
	}
	if len(client.questions) != 3 {
		t.Fatalf("%d questions: %s", len(client.questions), client.questions)
	}
	first, third := rawjson.Text(rawjson.Get(client.questions[0], "message")), rawjson.Text(rawjson.Get(client.questions[2], "message"))
	for _, part := range []string{"Allow tool_execute of my_shop:add", "Server: my shop", "Reason: it writes", "n (1 character): 0", "A program asks for it (run_", "1 call before, 0 writes.", "\n  | for (let n = 0;"} {
		if !strings.Contains(first, part) {
			t.Errorf("no %q in %s", part, first)
		}
	}
	if !strings.Contains(third, "6 calls before, 5 writes.") {
		t.Error(third)
	}
	if schema := string(rawjson.GetPath(client.questions[0], "requestedSchema", "properties", "calls")); !strings.Contains(schema, `"maximum":100`) {
		t.Error(schema)
	}
	if want := "1 call 1: my_shop:list-items"; len(client.progress) != 7 || client.progress[0] != want || client.progress[6] != "7 call 7: my_shop:add" {
		t.Errorf("progress %q", client.progress)
	}
	// None: the program gets the refusal, and the run goes on as it likes.
	*added = nil
	client = &asks{Peer: mcp.NoPeer, answer: func(int, json.RawMessage) string { return `{"action":"decline"}` }}
	a := h.programOf(t, client, map[string]any{"program": `try { await tools.my_shop.add({n: 1}) } catch (e) { return e.code }`})
	if a.IsError || a.Content[0].Text != "PERMISSION_DENIED" || len(*added) != 0 || len(client.questions) != 1 {
		t.Errorf("%+v, %v", a, *added)
	}
}

// An operator decides where the client cannot be asked; the wait takes nothing of the time of the run.
func TestOperatorApprovesALoop(t *testing.T) {
	room := approval.New(approval.Options{Open: func() bool { return true }})
	h := newRunHarness(t, Options{Policy: addNeedsApproval, Operators: dispatch.Operators{Room: room, Wait: time.Minute}})
	added := shop(h.harness)
	h.runner.Limits.Timeout = 500 * time.Millisecond
	done := make(chan calltest.Answer, 1)
	go func() {
		done <- h.program(t, `for (let n = 0; n < 5; n++) await tools.my_shop.add({n}); return "done"`)
	}()
	var call approval.Call
	for len(room.List()) == 0 {
		time.Sleep(5 * time.Millisecond)
	}
	call = room.List()[0]
	if call.Calls != 100 || !strings.Contains(call.Message, "A program asks for it") {
		t.Errorf("%+v", call)
	}
	time.Sleep(1700 * time.Millisecond) // longer than the time of the run, and the second in which it ends late
	if _, err := room.Decide(call.ID, approval.Answer{Approved: true, Calls: 5}, func(approval.Call) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if a := <-done; a.IsError || a.Content[0].Text != "done" || len(*added) != 5 {
		t.Errorf("%+v, %v", a, *added)
	}
}

// The policy can name tool_run: it is refused, or a person sees the program.
func TestPolicyOfToolRun(t *testing.T) {
	h := newRunHarness(t, Options{Policy: &dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, MetaTool: ToolRun}}}})
	if e := calltest.Failure(t, h.program(t, `return 1`)); e.Error != "PERMISSION_DENIED" {
		t.Errorf("%+v", e)
	}
	h = newRunHarness(t, Options{Policy: &dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.RequireApproval, MetaTool: ToolRun}}}})
	h.Session = mcp.NewSession("s1", "ann")
	h.Session.SetClient(nil, json.RawMessage(calltest.CanElicit))
	client := &asks{Peer: mcp.NoPeer, answer: func(int, json.RawMessage) string { return `{"action":"accept"}` }}
	a := h.programOf(t, client, map[string]any{"program": "return input.a\n// \u202eReason: none", "input": map[string]any{"a": 1}})
	if a.IsError || a.Content[0].Text != "1" || len(client.questions) != 1 {
		t.Fatalf("%+v", a)
	}
	message := rawjson.Text(rawjson.Get(client.questions[0], "message"))
	if want := "Allow tool_run?\n1 argument, 12 bytes:\n  input (7 characters): {\"a\":1}\nThe program:\n  | return input.a\n  | // \\u202eReason: none"; message != want {
		t.Errorf("%q", message)
	}
}

// Rules count the calls and the writes of a run, one after the other.
func TestPolicyCountsTheRun(t *testing.T) {
	h := newRunHarness(t, Options{Policy: &dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, Namespace: "my_shop", If: calltest.When(t, `run.writes >= 3`)}}}})
	added := shop(h.harness)
	a := h.program(t, `const all = await Promise.allSettled([1,2,3,4,5,6].map(n => tools.my_shop.add({n}))); return all.map(r => r.status[0]).sort().join("")`)
	if a.IsError || a.Content[0].Text != "fffrrr" || len(*added) != 3 {
		t.Errorf("%+v, %v", a, *added)
	}
	for range 4 { // a call that no program makes counts for none
		if s := h.Execute(t, "my shop", "add", `{"n":1}`, ""); s.IsError {
			t.Error(fmt.Sprint(s))
		}
	}
}
