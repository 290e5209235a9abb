package agentserver

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/protocol/mcptask"
	"github.com/weir-mcp/weir/internal/queue"
	"github.com/weir-mcp/weir/mcp"
)

// TestRunningTaskTellsItsLog: the status message of a running task is the last line of its log, on
// one line, bounded and without the secrets of the tool's entry.
func TestRunningTaskTellsItsLog(t *testing.T) {
	gate := filepath.Join(t.TempDir(), "gate")
	a := newAgent(t, fmt.Sprintf(`
name: demo
tools:
  - name: slow
    description: Waits
    command: sh
    args: [-c, 'echo began >&2; printf "step 3 of %%s \033[1m%%0500d\n" "$API_KEY" 7 >&2; while [ ! -e %s ]; do sleep 0.01; done; echo done']
    env: {API_KEY: letmein-please}
    async: true
`, gate), Options{})
	headers := a.session(mcp.V20251125)
	id := a.post("tools/call", `{"name":"slow","task":{}}`, headers...).text("result", "task", "taskId")
	get := func() reply { return a.post("tasks/get", `{"taskId":"`+id+`"}`, headers...) }
	eventually(t, "its last line is the message", func() bool {
		return strings.HasPrefix(get().text("result", "statusMessage"), "step 3 of [redacted] ")
	})
	if r := get(); utf8.RuneCountInString(r.text("result", "statusMessage")) > maxStatusMessage || strings.Contains(string(r.body), "letmein") || strings.Contains(r.text("result", "statusMessage"), "\033") {
		t.Errorf("%s", r.body)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	a.ended(id)
	if r := get(); r.text("result", "status") != "completed" || r.text("result", "statusMessage") != "" {
		t.Errorf("after its end: %s", r.body)
	}
}

// A gateway tells a task that waits as one that waits, not as one that runs.
func TestQueuedMessage(t *testing.T) {
	if got := toModern(queue.Task{State: queue.Pending}); got.StatusMessage != mcptask.Queued || got.Status != "working" {
		t.Errorf("%+v", got)
	}
}
