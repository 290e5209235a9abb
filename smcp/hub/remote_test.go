package hub

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/office/roster"
	"github.com/weir-mcp/weir/smcp"
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

// TestCallOfPeerThatMoves: a call that comes after a drain has looked for calls, and before the connection has ended,
// has an answer, which says that it did not run. Nothing is counted.
func TestCallOfPeerThatMoves(t *testing.T) {
	h := New(Options{})
	defer func() { _ = h.Shutdown(context.Background()) }()
	desk := &session{alias: "aaaaaa.s.1", moving: true}
	desk.at = &roster.Member{Role: roster.Computer, Name: "desk", SID: desk.alias, Peer: desk}
	answer := ""
	remote{fabric{h}}.call(desk, &roster.Message{
		Op: roster.OpCall, Event: "client:tool_call", To: desk.alias, Args: []json.RawMessage{json.RawMessage(`{"computer":"desk","req_id":"r"}`)},
		Reply: func(m *roster.Message) { answer = m.Problem },
	})
	if answer != roster.ProblemMoving || !errors.Is(problem(answer), errMoving) || desk.serving != 0 {
		t.Errorf("from another node: %q, %d in flight", answer, desk.serving)
	}
	o := &office{ID: "o", Office: roster.Office{ID: "o", Computers: map[string]*roster.Member{"desk": desk.at}}}
	agent := &session{role: smcp.RoleAgent, office: o}
	for _, moves := range []*session{desk, agent} {
		desk.moving, agent.moving = moves == desk, moves == agent
		err := h.begin(&call{agent: agent, counted: true}, "desk")
		if err == nil || !strings.Contains(err.Message, "did not run") || len(agent.calls) != 0 || o.calls != 0 || desk.serving != 0 {
			t.Errorf("at the same node: %v", err)
		}
	}
}
