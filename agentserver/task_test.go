package agentserver

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/mcp"
)

// jobs are async tools. The gate is a file that lets "gated" go on.
func jobs(gate string) string {
	return fmt.Sprintf(`
name: demo
tools:
  - {name: job, description: Works, command: sh, args: [-c, "cat; echo step one >&2"], async: true, inputSchema: {n: number}}
  - {name: fails, description: Fails, command: sh, args: [-c, "echo broken >&2; exit 3"], async: true}
  - {name: gated, description: Waits, command: sh, args: [-c, "echo waiting >&2; while [ ! -e %s ]; do sleep 0.01; done"], async: true}
  - {name: late, description: Late, command: sleep, args: ['60'], async: true, timeoutMs: 100}
  - {name: sync, description: Sync, command: echo, args: [ok]}
`, gate)
}

const tasksCapability = `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`

// An async tool answers at once with the id of its task, which keeps its
// arguments, shows its log, and ends with its result.
func TestAsyncTool(t *testing.T) {
	gate := filepath.Join(t.TempDir(), "gate")
	a := newAgent(t, jobs(gate), Options{Concurrency: 2})
	r := a.post("tools/call", `{"name":"gated"}`)
	id := r.text("result", "taskId")
	if id == "" || r.text("result", "_meta", "taskId") != id || r.text("result", "structuredContent", "taskId") != id || rawjson.Text(rawjson.Get([]byte(r.content()), "taskId")) != id || r.text("result", "metadata", "toolName") != "gated" {
		t.Fatalf("%s", r.body)
	}
	eventually(t, "its log can be read", func() bool { return a.task(http.MethodGet, id).text("task", "logTail") == "waiting\n" })
	running := a.task(http.MethodGet, id)
	if running.text("task", "status") != "running" || string(running.get("task", "result")) != "null" || string(running.get("task", "error")) != "null" {
		t.Errorf("%s", running.body)
	}
	keys := []string{}
	_ = rawjson.EachMember(running.get("task"), func(m rawjson.Member) bool { keys = append(keys, string(m.Key)); return true })
	if got := strings.Join(keys, " "); got != "id toolName status createdAt updatedAt error result logTail logSeq logTruncated" {
		t.Errorf("the task has %s", got)
	}
	cancelled := a.task(http.MethodDelete, id)
	if cancelled.text("task", "status") != "cancelled" || cancelled.text("task", "error") == "" {
		t.Errorf("%s", cancelled.body)
	}

	id = a.post("tools/call", `{"name":"job","arguments":{"n":7}}`).text("result", "taskId")
	done := a.ended(id)
	if done.text("task", "status") != "completed" || string(done.get("task", "result", "structuredContent", "input", "n")) != "7" || done.text("task", "result", "structuredContent", "taskId") != id {
		t.Errorf("the task lost its arguments: %s", done.body)
	}
	if done.text("task", "logTail") != "step one\n" || string(done.get("task", "logSeq")) != "1" || string(done.get("task", "logTruncated")) != "false" {
		t.Errorf("log: %s", done.body)
	}
	failed := a.ended(a.call("fails", "{}").text("result", "taskId"))
	if failed.text("task", "status") != "failed" || failed.text("task", "error") != "broken" || string(failed.get("task", "result", "isError")) != "true" {
		t.Errorf("%s", failed.body)
	}
	late := a.ended(a.call("late", "{}").text("result", "taskId"))
	if late.text("task", "status") != "failed" || !strings.Contains(late.text("task", "error"), "timed out after 100ms") {
		t.Errorf("%s", late.body)
	}
	for path, status := range map[string]int{"": http.StatusBadRequest, "none": http.StatusNotFound} {
		if r := a.task(http.MethodGet, path); r.status != status || r.get("error", "data", "kind") == nil {
			t.Errorf("%q: %d %s", path, r.status, r.body)
		}
	}
	for path, status := range map[string]int{"/task": 200, "/mcps/demo/task": 200, "/mcps/other/task": 404} {
		resp, err := http.Get(a.url + path + "?taskId=" + id)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != status {
			t.Errorf("%s: %d", path, resp.StatusCode)
		}
	}
}

// Only who made a task may read and cancel it, whichever way.
func TestTasksHaveOwners(t *testing.T) {
	gate := filepath.Join(t.TempDir(), "gate")
	a := newAgent(t, jobs(gate), Options{Authenticate: func(token string) (string, bool) { return token, token == "ann" || token == "bob" }})
	ann, bob := []string{"Authorization", "Bearer ann"}, []string{"Authorization", "Bearer bob"}
	id := a.post("tools/call", `{"name":"gated"}`, ann...).text("result", "taskId")
	if r := a.task(http.MethodGet, id, ann...); r.text("task", "id") != id {
		t.Errorf("ann: %s", r.body)
	}
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		if r := a.task(method, id, bob...); r.status != http.StatusNotFound || r.get("task") != nil {
			t.Errorf("bob's %s: %d %s", method, r.status, r.body)
		}
	}
	for _, method := range []string{"tasks/get", "tasks/result", "tasks/cancel"} {
		if r := a.post(method, `{"taskId":"`+id+`"}`, bob...); r.code() != -32602 {
			t.Errorf("bob's %s: %s", method, r.body)
		}
	}
	if r := a.post("tasks/list", "{}", bob...); string(r.get("result", "tasks")) != "[]" {
		t.Errorf("bob's list: %s", r.body)
	}
	if r := a.task(http.MethodGet, id, ann...); r.text("task", "status") != "running" {
		t.Errorf("it still runs: %s", r.body)
	}
	a.task(http.MethodDelete, id, ann...)
}

// Tasks of 2025-11-25.
func TestLegacyTasks(t *testing.T) {
	gate := filepath.Join(t.TempDir(), "gate")
	a := newAgent(t, jobs(gate), Options{})
	r := a.post("initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`)
	if got := string(r.get("result", "capabilities", "tasks")); got != `{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}` {
		t.Errorf("capabilities: %s", r.body)
	}
	headers := a.session(mcp.V20251125)
	list := string(a.post("tools/list", "{}", headers...).body)
	if strings.Count(list, `"execution":{"taskSupport":"optional"}`) != 4 {
		t.Errorf("tools: %s", list)
	}
	if r := a.post("tools/call", `{"name":"sync","task":{"ttl":1000}}`, headers...); r.code() != -32601 {
		t.Errorf("a tool that does not run as a task: %s", r.body)
	}
	r = a.post("tools/call", `{"name":"job","arguments":{"n":1},"task":{"ttl":60000}}`, headers...)
	id := r.text("result", "task", "taskId")
	if id == "" || r.text("result", "task", "status") != "working" || string(r.get("result", "task", "ttl")) != "60000" || r.get("result", "task", "pollInterval") == nil {
		t.Fatalf("%s", r.body)
	}
	r = a.post("tasks/result", `{"taskId":"`+id+`"}`, headers...)
	if string(r.get("result", "structuredContent", "input")) != `{"n":1}` || r.text("result", "_meta", "io.modelcontextprotocol/related-task", "taskId") != id {
		t.Errorf("result: %s", r.body)
	}
	if r = a.post("tasks/get", `{"taskId":"`+id+`"}`, headers...); r.text("result", "status") != "completed" || r.text("result", "taskId") != id {
		t.Errorf("get: %s", r.body)
	}
	if r = a.post("tasks/cancel", `{"taskId":"`+id+`"}`, headers...); r.code() != -32602 {
		t.Errorf("a task that is over cannot be cancelled: %s", r.body)
	}
	failed := a.post("tools/call", `{"name":"fails","task":{}}`, headers...).text("result", "task", "taskId")
	if r = a.post("tasks/result", `{"taskId":"`+failed+`"}`, headers...); string(r.get("result", "isError")) != "true" {
		t.Errorf("failed: %s", r.body)
	}
	if r = a.post("tasks/get", `{"taskId":"`+failed+`"}`, headers...); r.text("result", "status") != "failed" || r.text("result", "statusMessage") != "broken" {
		t.Errorf("failed: %s", r.body)
	}
	late := a.post("tools/call", `{"name":"late","task":{}}`, headers...).text("result", "task", "taskId")
	if r = a.post("tasks/result", `{"taskId":"`+late+`"}`, headers...); r.code() != -32003 || r.text("error", "data", "kind") != "timeout" {
		t.Errorf("late: %s", r.body)
	}
	gated := a.post("tools/call", `{"name":"gated","task":{}}`, headers...).text("result", "task", "taskId")
	if r = a.post("tasks/cancel", `{"taskId":"`+gated+`"}`, headers...); r.text("result", "status") != "cancelled" {
		t.Errorf("cancel: %s", r.body)
	}
	r = a.post("tasks/list", "{}", headers...)
	var ids []string
	_ = rawjson.EachElement(r.get("result", "tasks"), func(v []byte) bool {
		ids = append(ids, rawjson.Text(rawjson.Get(v, "taskId")))
		return true
	})
	if strings.Join(ids, " ") != strings.Join([]string{id, failed, late, gated}, " ") {
		t.Errorf("list: %s", r.body)
	}
	if r = a.post("tasks/list", `{"cursor":"none"}`, headers...); r.code() != -32602 {
		t.Errorf("cursor: %s", r.body)
	}
	// An older version knows no tasks: params.task is not looked at.
	old := a.session(mcp.V20250618)
	if r = a.post("tools/call", `{"name":"sync","task":{"ttl":1}}`, old...); r.content() != "ok\n" {
		t.Errorf("2025-06-18: %s", r.body)
	}
	if got := string(a.post("tools/list", "{}", old...).body); strings.Contains(got, "taskSupport") {
		t.Errorf("2025-06-18: %s", got)
	}
}

// The extension of 2026-07-28.
func TestModernTasks(t *testing.T) {
	gate := filepath.Join(t.TempDir(), "gate")
	a := newAgent(t, jobs(gate), Options{})
	r := a.modern("server/discover", "{}", "{}")
	if r.get("result", "capabilities", "extensions", tasksExtension) == nil || r.get("result", "capabilities", "tasks") != nil {
		t.Errorf("discover: %s", r.body)
	}
	ask := func(method, params string) reply { t.Helper(); return a.modern(method, params, tasksCapability) }
	get := func(id string) reply { t.Helper(); return ask("tasks/get", `{"taskId":"`+id+`"}`) }
	end := func(id string) reply {
		t.Helper()
		a.ended(id)
		return get(id)
	}
	if r := ask("tools/call", `{"name":"sync","task":{"ttl":1}}`); r.text("result", "resultType") != "complete" || r.content() != "ok\n" || r.get("result", "taskId") != nil {
		t.Errorf("sync: %s", r.body)
	}
	r = ask("tools/call", `{"name":"job","arguments":{"n":1}}`)
	id := r.text("result", "taskId")
	if id == "" || r.text("result", "resultType") != "task" || r.text("result", "status") != "working" || string(r.get("result", "ttlMs")) != "3600000" || string(r.get("result", "pollIntervalMs")) != "1000" {
		t.Fatalf("%s", r.body)
	}
	for _, key := range []string{"task", "result", "error", "ttl", "pollInterval", "requestState", "inputRequests"} {
		if r.get("result", key) != nil {
			t.Errorf("the task made has %q: %s", key, r.body)
		}
	}
	r = end(id)
	if r.text("result", "resultType") != "complete" || r.text("result", "status") != "completed" || string(r.get("result", "result", "structuredContent", "input")) != `{"n":1}` || r.get("result", "result", "_meta") != nil {
		t.Errorf("completed: %s", r.body)
	}
	if r = end(ask("tools/call", `{"name":"fails"}`).text("result", "taskId")); r.text("result", "status") != "completed" || string(r.get("result", "result", "isError")) != "true" {
		t.Errorf("a tool that failed has completed: %s", r.body)
	}
	if r = end(ask("tools/call", `{"name":"late"}`).text("result", "taskId")); r.text("result", "status") != "failed" || string(r.get("result", "error", "code")) != "-32003" || r.get("result", "result") != nil {
		t.Errorf("timeout: %s", r.body)
	}
	id = ask("tools/call", `{"name":"gated"}`).text("result", "taskId")
	if r = ask("tasks/update", `{"taskId":"`+id+`","inputResponses":{}}`); r.text("result", "resultType") != "complete" || r.get("result", "taskId") != nil {
		t.Errorf("update: %s", r.body)
	}
	for range 2 {
		if r = ask("tasks/cancel", `{"taskId":"`+id+`"}`); r.text("result", "resultType") != "complete" || r.get("result", "taskId") != nil || r.get("result", "status") != nil {
			t.Errorf("cancel: %s", r.body)
		}
	}
	if r = get(id); r.text("result", "status") != "cancelled" || r.get("result", "error") != nil {
		t.Errorf("cancelled: %s", r.body)
	}
	for _, method := range []string{"tasks/result", "tasks/list"} {
		if r = ask(method, `{"taskId":"`+id+`"}`); r.code() != -32601 {
			t.Errorf("%s: %s", method, r.body)
		}
	}
	// Who did not say that it knows tasks gets none of the extension's.
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		r = a.modern(method, `{"taskId":"`+id+`"}`, "{}")
		if r.status != http.StatusBadRequest || r.code() != -32021 || r.get("error", "data", "requiredCapabilities", "extensions", tasksExtension) == nil {
			t.Errorf("%s: %d %s", method, r.status, r.body)
		}
	}
	if r = a.modern("tools/call", `{"name":"job","arguments":{"n":1}}`, "{}"); r.text("result", "resultType") != "complete" || r.get("result", "taskId") != nil || r.text("result", "_meta", "taskId") == "" {
		t.Errorf("without the extension: %s", r.body)
	}
}
