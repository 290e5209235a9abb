package agentserver

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/mcp"
)

// TestStorePasswords: the errors of a queue.store have no password and no token of its URL.
func TestStorePasswords(t *testing.T) {
	for _, queue := range []string{"store: 'nats://u:pass-word@a:4222'", "store: 'nats://pass-word@a,b'", "store: 'NATS://pass-word@a', group: jobs", "store: 'nats:/u:pass-word@a'"} {
		path := filepath.Join(t.TempDir(), "agent.yaml")
		if err := os.WriteFile(path, []byte(jobs("gate")+"queue: {"+queue+"}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := New(Options{Config: path}); err == nil || !strings.Contains(err.Error(), "queue.") || strings.Contains(err.Error(), "pass-word") {
			t.Errorf("%s: %v", queue, err)
		}
	}
}

// TestSharedTasks: replicas with queue.group tell and cancel each other's tasks, and one of them alone
// runs each.
func TestSharedTasks(t *testing.T) {
	docs := store.NewMemory(store.MemoryOptions{})
	o := Options{Connect: func(q QueueConfig) (any, func(), error) {
		if q.Store != "nats://a:4222" || q.Group != "jobs" {
			t.Errorf("%+v", q)
		}
		return docs, func() {}, nil
	}}
	conf := jobs(filepath.Join(t.TempDir(), "gate")) + "queue: {store: 'nats://a:4222', group: jobs}\n"
	a, b := newAgent(t, conf, o), newAgent(t, conf, o)
	id := a.post("tools/call", `{"name":"job","arguments":{"n":7}}`).text("result", "taskId")
	if done := b.ended(id); done.text("task", "status") != "completed" || string(done.get("task", "result", "structuredContent", "input", "n")) != "7" {
		t.Errorf("at another replica: %s", done.body)
	}
	gated := a.post("tools/call", `{"name":"gated"}`).text("result", "taskId")
	eventually(t, "it runs", func() bool { return b.task(http.MethodGet, gated).text("task", "status") == "running" })
	if cancelled := b.task(http.MethodDelete, gated); cancelled.text("task", "status") != "cancelled" {
		t.Errorf("%s", cancelled.body)
	}
	eventually(t, "its command has ended", func() bool { return a.Status().Running+b.Status().Running == 0 })
	legacy := b.post("tasks/list", `{}`, "Mcp-Protocol-Version", mcp.V20251125)
	if text := string(legacy.body); !strings.Contains(text, id) || !strings.Contains(text, gated) {
		t.Errorf("the list: %s", text)
	}
	if _, err := New(Options{Config: filepath.Join(a.dir, "agent.yaml")}); err == nil || !strings.Contains(err.Error(), "needs Options.Connect") {
		t.Errorf("without a connection: %v", err)
	}
}
