package cli

import (
	"strings"
	"testing"

	"github.com/weir-mcp/weir/agentserver"
)

// TestTasksStorePasswords: the error of a NATS server that cannot be reached has neither password nor token.
func TestTasksStorePasswords(t *testing.T) {
	for _, at := range []string{"nats://u:pass-word@127.0.0.1:1", "nats://pass-word@127.0.0.1:1,nats://u:pass-word@127.0.0.1:1", "nats://u:pass-word@bad host:1", "nats://u:pass%-word@a"} {
		_, _, err := sharedTasks(agentserver.QueueConfig{Store: at, Group: "g"}, nil)
		if err == nil || strings.Contains(err.Error(), "-word") || !strings.Contains(err.Error(), "nats://") {
			t.Errorf("%s: %v", at, err)
		}
	}
}
