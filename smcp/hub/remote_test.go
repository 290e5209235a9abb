package hub

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/weir-mcp/weir/internal/roster"
)

// TestCallOfPeerThatHasJustLeft: a call of another node finds a Computer that leaves at this moment. The hub says
// that nothing was delivered, and counts nothing.
func TestCallOfPeerThatHasJustLeft(t *testing.T) {
	h := New(Options{})
	defer func() { _ = h.Shutdown(context.Background()) }()
	s := &session{alias: "aaaaaa.s.1"}
	for _, payload := range []string{`{"computer":"desk","req_id":"r"}`, `[]`} {
		answer := ""
		remote{fabric{h}}.call(s, &roster.Message{
			Op: roster.OpCall, Event: "client:tool_call", To: s.alias, Args: []json.RawMessage{json.RawMessage(payload)},
			Reply: func(m *roster.Message) { answer = m.Problem },
		})
		if answer != roster.ProblemStale || s.serving != 0 {
			t.Errorf("%s: %q, %d in flight", payload, answer, s.serving)
		}
	}
}
