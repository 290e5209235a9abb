package metatool

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/protocol/mcptask"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/tasks"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/mcp"
)

// taskCalls continues calls whose servers answered with a task.
//
//	tool_view of a task's handle ─▶ restored call ─▶ admitted, not counted ─┬▶ shaping ▶ columns ▶ wait ▶ server
//	tool_execute of it, where there is no tool_view                         └▶ cancel ▶ server
type taskCalls struct {
	client    *tasks.Client
	resume    *dispatch.Pipeline
	upstreams Upstreams
}

// newTaskCalls returns the task calls of one face of a gateway. Views says that it has tool_view.
func newTaskCalls(g *Gateway, views bool, shape *shaping) *taskCalls {
	admit := subjectsIn(g.whole)
	t := &taskCalls{upstreams: g.opts.Upstreams}
	t.client = tasks.New(tasks.Surroundings{
		Registry: g.state.tasks,
		Ask:      g.caller.askTask,
		Asks:     g.caller.asks,
		Place: func(ctx context.Context, upstream string) (at tasks.Place, err error) {
			peer, err := g.opts.Upstreams.Peer(ctx, upstream)
			if server, ok := peer.(taskPeer); ok && err == nil {
				var url string
				if url, at.Shared = server.TasksAt(); url != "" {
					at.Server = store.Hash(url) // the URL may have a secret
				}
			}
			return at, err
		},
		Outlives: func(ctx context.Context, upstream string) bool {
			peer, err := g.opts.Upstreams.Peer(ctx, upstream)
			server, ok := peer.(taskPeer)
			return err == nil && (!ok || server.TasksOutliveSessions())
		},
		Admit: func(ctx context.Context, c *dispatch.Call) error {
			return g.ctl.AdmitAgain(ctx, c, admit)
		},
		Begin: g.accounts.audit.resume,
		Clean: func(ctx context.Context, raw json.RawMessage) (json.RawMessage, error) {
			return g.caller.clean(ctx, withoutOwnMeta(raw))
		},
		Redact: g.opts.Firewall.Redact,
		More: func(handle string) (wait, cancel string) {
			if views {
				return fmt.Sprintf(`tool_view {"handle":%q,"selector":{"type":"head"}}`, handle),
					fmt.Sprintf(`tool_view {"handle":%q,"selector":{"type":"cancel"}}`, handle)
			}
			return fmt.Sprintf(`tool_execute {"tool_id":%q,"args":{}}`, handle), fmt.Sprintf(`tool_execute {"tool_id":%q,"args":{"cancel":true}}`, handle)
		},
	}, g.opts.Tasks)
	t.resume = dispatch.New(dispatch.Sender{Names: []string{"resume"}, Send: t.client.Resume}, append(dispatch.Results(g.ctl), shape.tools(), g.tables(views).Columns())...)
	return t
}

// taskPeer is a Peer whose server may answer with tasks.
type taskPeer interface {
	// OffersTasks reports whether the server has tasks.
	OffersTasks() bool
	// TellsAgentTasks reports whether the server is an agent server, which may name a task in an
	// ordinary result.
	TellsAgentTasks() bool
	// TasksOutliveSessions reports whether a task may go on when the agent's session has ended.
	TasksOutliveSessions() bool
	// TasksAt returns the place of the server, "" if its tasks end with weir. shared says that all
	// principals have one connection to it.
	TasksAt() (url string, shared bool)
	// Era returns the Peer that prefers an era.
	Era(modern bool) mcp.Peer
}

// offerTask lets the server of a call answer with a task, if it has tasks.
func (a *caller) offerTask(ctx context.Context, c *dispatch.Call, peer mcp.Peer) context.Context {
	server, ok := peer.(taskPeer)
	switch {
	case ok && server.TellsAgentTasks():
		c.MayBe = dispatch.AgentTask
	case c.Entry.TaskSupport != "" || ok && server.OffersTasks():
		c.MayBe = dispatch.MCPTask
	default:
		return ctx
	}
	return mcptask.WithOffer(ctx, mcptask.Offer{Tool: c.Entry.TaskSupport, TTL: a.taskTTL})
}

// askTask makes a request about a task to the server of a call's entry, on behalf of the agent. The
// mcptask.Offer of ctx says what kind of task it is.
func (a *caller) askTask(ctx context.Context, c *dispatch.Call, modern bool, method string, params json.RawMessage, back mcp.Handler) (json.RawMessage, error) {
	if err := c.Pass.Check(method); err != nil {
		return nil, err
	}
	ctx = mcp.WithCaller(ctx, c.Request.Session)
	peer, err := a.upstreams.Peer(ctx, c.Entry.Upstream)
	if err != nil {
		return nil, err
	}
	if server, ok := peer.(taskPeer); ok {
		peer = server.Era(modern)
	}
	return a.screen.Peer(peer).Call(ctx, method, params, back)
}

// view continues the task of a handle: it waits for the result, or cancels the task.
func (t *taskCalls) view(ctx context.Context, c *dispatch.Call, handle string, cancel bool) (json.RawMessage, error) {
	c.Catalog = t.upstreams.Snapshot().Catalog
	if err := t.client.Restore(ctx, c, handle); err != nil {
		return nil, err
	}
	if cancel {
		return t.client.Cancel(ctx, c)
	}
	return t.resume.Run(ctx, c)
}

// viewed answers tool_view of a task's handle. The selector is optional there.
func (t *taskCalls) viewed(ctx context.Context, c *dispatch.Call, handle string) (json.RawMessage, error) {
	var out [2][]byte
	c.Arguments = understoodView(c.Arguments)
	if err := readArguments(c, viewKeys, out[:]); err != nil {
		return nil, err
	}
	return t.view(ctx, c, handle, rawjson.Text(rawjson.Get(out[1], "type")) == "cancel")
}

// firstText returns the text of the first member key, "" if there is none. It reads no further: large
// arguments come behind it.
func firstText(object json.RawMessage, key string) (text string) {
	_ = rawjson.EachMember(object, func(m rawjson.Member) bool { // faults are reported by the reader of all members
		if string(m.Key) != key {
			return true
		}
		text = rawjson.Text(m.Value)
		return false
	})
	return text
}

// handles takes the handle of a task for the id of a tool, for agents without tool_view.
func (t *taskCalls) handles() dispatch.Step {
	return dispatch.Step{Phase: dispatch.PhaseName, Name: "handle", Before: func(ctx context.Context, c *dispatch.Call) (err error) {
		if !tasks.IsHandle(firstText(c.Arguments, "tool_id")) {
			return nil
		}
		handle := rawjson.Text(rawjson.Get(c.Arguments, "tool_id"))
		if handle == "" { // it stands twice, which is refused
			return nil
		}
		args := rawjson.Get(understoodExecute(c.Arguments), "args")
		cancel := rawjson.Get(args, "cancel")
		switch string(cancel) {
		case "", "null", "false", "true":
			if c.Reply, err = t.view(ctx, c, handle, string(cancel) == "true"); err != nil {
				return err
			}
			return dispatch.ErrAnswered
		}
		return &result.Error{Code: result.ArgsInvalid, Message: "args of a task: cancel must be true or false, not " + text.Value(cancel)}
	}}
}
