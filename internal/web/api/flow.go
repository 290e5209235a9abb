package api

import (
	"context"
	"net/http"

	"github.com/weir-mcp/weir/internal/audit"
	"github.com/weir-mcp/weir/internal/flow"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/mcp"
)

// Labels are the labels of tools, and of what models have read. Its methods are called concurrently.
type Labels interface {
	// Rules returns what the rules say of the tools that the caller of a request sees.
	Rules(ctx context.Context) flow.Listing
	// Readings returns what the models of the open sessions have read.
	Readings(ctx context.Context) []flow.Reading
	// Clear forgets what the model of a session has read, and returns it. Its error is an *mcp.Error.
	Clear(ctx context.Context, session string) (flow.Reading, error)
}

// Readings is the answer of flow/sessions.
type Readings struct {
	Sessions []flow.Reading `json:"sessions"`
}

// Clearing is the body of flow/clear.
type Clearing struct {
	Session string `json:"session"`
}

// A labeller serves the paths of flow labels.
type labeller struct{ *Options }

func (l *labeller) routes() []route {
	return []route{
		{method: http.MethodGet, path: "flow", right: mayOperate, summary: "Each tool with its flow label, whether it is a sink, and the rules that say so", answer: flow.Listing{}, serve: l.rules},
		{method: http.MethodGet, path: "flow/sessions", right: mayOperate, summary: "What the models of open sessions have read: the label of each session, and the sources that gave it", answer: Readings{}, serve: l.readings},
		{method: http.MethodPost, path: "flow/clear", right: mayOperate, summary: "Clear the flow label of a session", body: Clearing{}, answer: flow.Reading{}, serve: l.clear},
	}
}

func (l *labeller) rules(w http.ResponseWriter, r *http.Request) error {
	return write(w, l.Look.Labels.Rules(r.Context()))
}

func (l *labeller) readings(w http.ResponseWriter, r *http.Request) error {
	return write(w, Readings{l.Look.Labels.Readings(r.Context())})
}

// clear serves flow/clear. A person has to decide that a session may act on what it has read, so it is audited.
func (l *labeller) clear(w http.ResponseWriter, r *http.Request) error {
	var c Clearing
	if err := decode(w, r, &c); err != nil {
		return err
	}
	if c.Session == "" {
		return mcp.Errorf(mcp.KindInvalidParams, "session is missing: weir flow sessions lists them")
	}
	was, err := l.Look.Labels.Clear(r.Context(), c.Session)
	if err != nil {
		return err
	}
	l.Operated(r.Context(), audit.Approval, "clear", "", "", "flow label of session "+was.Session+" of "+was.Principal+": "+was.Integrity)
	l.Logger.Info("an operator has cleared the flow label of a session", "session", was.Session, "caller", was.Principal, "principal", identity.From(r.Context()).Principal)
	return write(w, was)
}
