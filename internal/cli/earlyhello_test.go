package cli

import (
	"testing"
)

// TestHandshakeBeforeServersAreUp: a client that connects while servers still start is offered what
// they may have. Clients do not ask for lists whose capability the handshake lacked.
func TestHandshakeBeforeServersAreUp(t *testing.T) {
	t.Parallel()
	session, _ := stdioSession(t, "mcpServers:\n  silent: {command: sleep, args: [\"60\"]}\n")
	caps := session.InitializeResult().Capabilities
	if caps.Resources == nil || !caps.Resources.ListChanged || caps.Prompts == nil || !caps.Prompts.ListChanged {
		t.Errorf("capabilities %+v", caps)
	}
}
