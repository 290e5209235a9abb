package calltest

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/mcp"
)

// TaskClient calls the one tool of a TaskServer, whose name is "slow", and answers the questions of its tasks.
type TaskClient struct {
	T      testing.TB
	Server *TaskServer
	ToolID string
	Agent  *TaskAgent
	now    func() (mcp.Handler, *mcp.Session) // those of the harness
}

// Tasks attaches a TaskServer, and returns a client of it.
func (h *Harness[S]) Tasks(t testing.TB, s *TaskServer) *TaskClient {
	t.Helper()
	h.AttachTasks(s)
	h.Session.SetVersion(mcp.V20251125)
	h.Session.SetClient(nil, json.RawMessage(CanElicit))
	c := h.TaskClient(t, s)
	c.ToolID = h.ID(t, "work", "slow")
	return c
}

// AttachTasks attaches a TaskServer as the server "work".
func (h *Harness[S]) AttachTasks(s *TaskServer) {
	definition := SlowTool
	if s.Modern {
		definition = SlowModern
	}
	h.Attach(primitive.Listing{Upstream: "work", Namespace: "work", Tools: Raws(definition)}, s)
}

// TaskClient returns a client of a TaskServer that is not attached, or not yet.
func (h *Harness[S]) TaskClient(t testing.TB, s *TaskServer) *TaskClient {
	return &TaskClient{T: t, Server: s, Agent: &TaskAgent{}, now: func() (mcp.Handler, *mcp.Session) { return h.Handler, h.Session }}
}

// CallTool calls a meta-tool and returns the first text of its result.
func (c *TaskClient) CallTool(ctx context.Context, session *mcp.Session, name, args string) (string, error) {
	handler, _ := c.now()
	raw, err := handler.Serve(ctx, &mcp.Request{ID: "1", Method: "tools/call", Params: json.RawMessage(`{"name":"` + name + `","arguments":` + args + `,` + progressToken + `}`), Version: mcp.V20251125, Session: session, Peer: c.Agent})
	if err != nil {
		return "", err
	}
	text := ""
	_ = rawjson.EachElement(rawjson.Get(raw, "content"), func(v []byte) bool { text = rawjson.Text(rawjson.Get(v, "text")); return false })
	return text, nil
}

// ExecuteTask calls the tool and returns the text of the answer.
func (c *TaskClient) ExecuteTask() string {
	c.T.Helper()
	_, session := c.now()
	text, err := c.CallTool(c.T.Context(), session, "tool_execute", `{"tool_id":"`+c.ToolID+`","args":{}}`)
	if err != nil {
		c.T.Fatal(err)
	}
	return text
}

// View calls tool_view with a handle; rest are the further members of its arguments and the end of them.
func (c *TaskClient) View(session *mcp.Session, handle, rest string) string {
	c.T.Helper()
	text, err := c.CallTool(c.T.Context(), session, "tool_view", `{"handle":"`+handle+`"`+rest)
	if err != nil {
		c.T.Fatal(err)
	}
	return text
}
