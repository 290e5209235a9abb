package agentserver

import (
	"strings"
	"testing"
)

// TestCommandsTellNoSecrets: what a command says on standard error reaches callers
// and the log of its task without the secrets of its entry, lines in pieces too.
func TestCommandsTellNoSecrets(t *testing.T) {
	a := newAgent(t, `
name: demo
tools:
  - name: fails
    description: Fails
    command: sh
    args: [-c, 'printf "%s and %s" "$API_KEY" "$(printf "u:$API_KEY" | base64)" >&2; printf " and $2, $MODE\n" >&2; exit 3', sh, --token, opensesame]
    env: {API_KEY: letmein-please, MODE: production}
    async: true
`, Options{})
	task := a.ended(a.call("fails", "{}").text("result", "taskId"))
	const want = "[redacted] and [redacted] and [redacted], production"
	if got := task.text("task", "error"); got != want {
		t.Errorf("the error is %q, want %q", got, want)
	}
	if got := task.text("task", "logTail"); got != want+"\n" {
		t.Errorf("the log is %q", got)
	}
	for _, secret := range []string{"letmein", "opensesame", "bGV0bWVpbi"} {
		if strings.Contains(string(task.body), secret) {
			t.Errorf("%s is in %s", secret, task.body)
		}
	}
}
