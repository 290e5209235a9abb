package policy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/cluster"
	"github.com/weir-mcp/weir/internal/cluster/peerlink"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/net/httpserver"
	"github.com/weir-mcp/weir/internal/policy/approval"
	"github.com/weir-mcp/weir/mcp"
)

// peerApprovals is the path at which nodes tell each other of the calls that wait for a yes (GET), and of the
// decisions of operators (POST).
const peerApprovals = "/peer/v1/approvals"

// Bounds of a request for the calls of another node.
const (
	approvalsTime = 2 * time.Second
	maxApprovals  = 16 << 20
)

// RemoteApprovals are the calls that wait for a yes at the other nodes of a cluster. It is safe for concurrent
// use.
type RemoteApprovals struct {
	log  *slog.Logger
	node *cluster.Node
	room *approval.Room // the calls that wait at this node
}

// NewRemoteApprovals returns the calls that wait at other nodes than node, whose own calls are in room.
func NewRemoteApprovals(node *cluster.Node, room *approval.Room, log *slog.Logger) *RemoteApprovals {
	return &RemoteApprovals{log, node, room}
}

// Route is where other nodes ask for the calls that wait here, and decide about them.
func (d *RemoteApprovals) Route() peerlink.Route {
	return peerlink.Route{Path: peerApprovals, Serve: d.answer}
}

// peerDecision is the body of a decision that another node has taken.
type peerDecision struct {
	ID       string `json:"id"`
	Approved bool   `json:"approved"`
	Reason   string `json:"reason,omitempty"`
	Calls    int    `json:"calls,omitempty"`
}

// List returns the calls that wait at other nodes, each with its node, and the sorted names of the nodes that have not
// answered in time.
func (d *RemoteApprovals) List(ctx context.Context) (all []approval.Call, silent []string) {
	ctx, cancel := context.WithTimeout(ctx, approvalsTime)
	defer cancel()
	var mu sync.Mutex // guards all and silent
	var asked sync.WaitGroup
	for _, p := range d.node.Peers() {
		if p.Inc == d.node.Inc() || p.URL == "" {
			continue
		}
		asked.Go(func() {
			calls, err := d.listAt(ctx, p)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				d.log.Warn("the calls that wait for a yes at another node are not known", "node", p.Name, "err", err)
				silent = append(silent, p.Name)
				return
			}
			all = append(all, calls...)
		})
	}
	asked.Wait()
	slices.Sort(silent)
	return all, silent
}

func (d *RemoteApprovals) listAt(ctx context.Context, p cluster.Peer) ([]approval.Call, error) {
	var calls []approval.Call
	if err := d.ask(ctx, p.Inc, http.MethodGet, nil, &calls); err != nil {
		return nil, err
	}
	for i := range calls {
		calls[i].Node, calls[i].NodeInc = p.Name, p.Inc
	}
	return calls, nil
}

// Decide ends the wait of a call of List. The error is approval.ErrUnknown if it does not wait any more.
func (d *RemoteApprovals) Decide(ctx context.Context, c approval.Call, a approval.Answer) error {
	ctx, cancel := context.WithTimeout(ctx, approvalsTime)
	defer cancel()
	err := d.ask(ctx, c.NodeInc, http.MethodPost, peerDecision{c.ID, a.Approved, a.Reason, a.Calls}, &approval.Call{})
	if err == nil || errors.Is(err, approval.ErrUnknown) {
		return err
	}
	if !cluster.NotSent(err) {
		return mcp.Errorf(mcp.KindNodeGone, "the gateway %s, where the call waits, does not answer; the decision may have reached it: weir approve --list shows whether the call still waits: %w", c.Node, err)
	}
	return mcp.Errorf(mcp.KindNodeGone, "the gateway %s, where the call waits, cannot be reached; try again: %w", c.Node, err)
}

// ask makes a request to another node and reads its answer.
func (d *RemoteApprovals) ask(ctx context.Context, inc, method string, body, answer any) error {
	var question []byte
	if body != nil {
		var err error
		if question, err = json.Marshal(body); err != nil {
			return err
		}
	}
	status, raw, err := peerlink.Ask(ctx, d.node, inc, method, peerApprovals, question, maxApprovals)
	switch {
	case err != nil:
		return err
	case status == http.StatusNotFound:
		return approval.ErrUnknown
	case status != http.StatusOK:
		return fmt.Errorf("status %d", status)
	}
	return json.Unmarshal(raw, answer)
}

// answer serves peerApprovals. The other node has checked the operator, and that all is shown.
func (d *RemoteApprovals) answer(w http.ResponseWriter, r *http.Request, _ *identity.Identity) {
	if r.Method == http.MethodGet {
		httpserver.WriteJSON(w, http.StatusOK, d.room.List())
		return
	}
	var q peerDecision
	raw, err := io.ReadAll(io.LimitReader(r.Body, peerlink.MaxRefusal))
	if err != nil || json.Unmarshal(raw, &q) != nil {
		httpserver.WriteJSON(w, http.StatusBadRequest, struct{}{})
		return
	}
	c, err := d.room.Decide(q.ID, approval.Answer{Approved: q.Approved, Reason: q.Reason, Calls: q.Calls}, func(approval.Call) error { return nil })
	if err != nil {
		httpserver.WriteJSON(w, http.StatusNotFound, struct{}{})
		return
	}
	httpserver.WriteJSON(w, http.StatusOK, c)
}
