package tasks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/weir-mcp/weir/internal/cluster"
	"github.com/weir-mcp/weir/internal/cluster/peerlink"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/internal/net/httpserver"
	"github.com/weir-mcp/weir/internal/protocol/mcptask"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// PeerPath is the path at which nodes ask each other about tasks of their server programs.
const PeerPath = "/peer/v1/task"

// maxTaskAnswer bounds an answer of another node, which bounds results itself.
const maxTaskAnswer = 256 << 20

// taskAnswer is the answer of a node about a task: a result, the error of the server, or why it cannot be asked.
type taskAnswer struct {
	Result json.RawMessage `json:"result,omitempty"`
	Error  *jsonrpc.Error  `json:"error,omitempty"`
	Why    string          `json:"why,omitempty"`
	Absent bool            `json:"absent,omitempty"` // the node has no such server
}

// OfCluster returns how a node asks the others about
func OfCluster(node *cluster.Node) *Nodes {
	return &Nodes{Inc: node.Inc, Ask: func(ctx context.Context, inc, principal string, q Question) (json.RawMessage, error) {
		return askTask(ctx, node, inc, principal, q)
	}}
}

// askTask asks a node about a task. Of an error that is no answer of the server, the task may still run.
func askTask(ctx context.Context, node *cluster.Node, inc, principal string, q Question) (json.RawMessage, error) {
	owner, err := cluster.Owner(ctx, node, inc)
	switch {
	case errors.Is(err, cluster.ErrGone):
		return nil, errNodeGone
	case err != nil:
		return nil, fmt.Errorf("the store of this gateway cannot be asked where the task is: %w", err)
	}
	body, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	id := identity.From(ctx)
	if id == nil || id.Principal != principal {
		id = &identity.Identity{Principal: principal}
	}
	status, raw, err := peerlink.Ask(identity.With(ctx, id), node, owner, http.MethodPost, PeerPath, body, maxTaskAnswer)
	if status == 0 {
		if ctx.Err() == nil && node.Suspect(ctx, owner) {
			return nil, errNodeGone
		}
		return nil, fmt.Errorf("the node of the task does not answer: %w", err)
	}
	var a taskAnswer
	switch {
	case err != nil:
		return nil, fmt.Errorf("the node of the task ended: %w", err)
	case len(raw) > maxTaskAnswer, status != http.StatusOK, json.Unmarshal(raw, &a) != nil:
		return nil, fmt.Errorf("the node of the task answered with status %d and %d bytes", status, len(raw))
	case a.Error != nil:
		return nil, a.Error
	case a.Absent:
		return nil, mcp.Errorf(mcp.KindNotFound, "%s", a.Why)
	case a.Result == nil:
		return nil, errors.New(a.Why)
	}
	return a.Result, nil
}

// Answer returns a handler of PeerPath: it asks a server program of this node about a task of a principal, for
// another node. open returns the connection to a server for a session that has all calls of its principal.
func Answer(open func(ctx context.Context, session *mcp.Session, server string) (mcp.Peer, error)) func(http.ResponseWriter, *http.Request, *identity.Identity) {
	return func(w http.ResponseWriter, r *http.Request, id *identity.Identity) { answerNode(open, w, r, id) }
}

func answerNode(open func(ctx context.Context, session *mcp.Session, server string) (mcp.Peer, error), w http.ResponseWriter, r *http.Request, id *identity.Identity) {
	var q Question
	raw, err := io.ReadAll(io.LimitReader(r.Body, maxTaskAnswer))
	known := []string{mcptask.MethodGet, mcptask.MethodResult, mcptask.MethodUpdate, mcptask.MethodCancel}
	if err != nil || json.Unmarshal(raw, &q) != nil || !slices.Contains(known, q.Method) {
		httpserver.WriteJSON(w, http.StatusBadRequest, taskAnswer{Why: "no request about a task"})
		return
	}
	session := mcp.NewSession("", id.Principal)
	defer session.Close()
	ctx := mcptask.WithOffer(mcp.WithCaller(guard.Vouch(r.Context(), id), session), mcptask.Offer{Agent: q.Agent})
	peer, err := open(ctx, session, q.Upstream)
	var result json.RawMessage
	if err == nil {
		if server, ok := peer.(interface{ Era(modern bool) mcp.Peer }); ok {
			peer = server.Era(q.Modern)
		}
		result, err = peer.Call(ctx, q.Method, q.Params, &mcp.Mux{})
	}
	var wire *jsonrpc.Error
	switch kind, _ := mcp.KindOf(err); {
	case err == nil:
		httpserver.WriteJSON(w, http.StatusOK, taskAnswer{Result: result})
	case errors.As(err, &wire):
		httpserver.WriteJSON(w, http.StatusOK, taskAnswer{Error: wire})
	default:
		httpserver.WriteJSON(w, http.StatusOK, taskAnswer{Why: err.Error(), Absent: kind == mcp.KindNotFound})
	}
}
