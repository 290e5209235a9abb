package app

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
	"github.com/weir-mcp/weir/internal/identity"
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

// DistantApprovals are the calls that wait for a yes at the other nodes of a cluster. It is safe for concurrent
// use.
type DistantApprovals struct {
	log  *slog.Logger
	node *cluster.Node
}

// Elsewhere returns the calls that wait at other nodes.
func (o *Operator) Elsewhere() *DistantApprovals {
	return &DistantApprovals{o.log, o.node}
}

// peerDecision is the body of a decision that another node has taken.
type peerDecision struct {
	ID       string `json:"id"`
	Approved bool   `json:"approved"`
	Reason   string `json:"reason,omitempty"`
}

// List returns the calls that wait at other nodes, each with its node, and the sorted names of the nodes that have not
// answered in time.
func (d *DistantApprovals) List(ctx context.Context) (all []approval.Call, silent []string) {
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

func (d *DistantApprovals) listAt(ctx context.Context, p cluster.Peer) ([]approval.Call, error) {
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
func (d *DistantApprovals) Decide(ctx context.Context, c approval.Call, a approval.Answer) error {
	ctx, cancel := context.WithTimeout(ctx, approvalsTime)
	defer cancel()
	err := d.ask(ctx, c.NodeInc, http.MethodPost, peerDecision{c.ID, a.Approved, a.Reason}, &approval.Call{})
	if err == nil || errors.Is(err, approval.ErrUnknown) {
		return err
	}
	if !cluster.NotSent(err) {
		return mcp.Errorf(mcp.KindNodeGone, "the gateway %s, where the call waits, does not answer; the decision may have reached it: weir approve --list shows whether the call still waits: %w", c.Node, err)
	}
	return mcp.Errorf(mcp.KindNodeGone, "the gateway %s, where the call waits, cannot be reached; try again: %w", c.Node, err)
}

// ask makes a request to another node and reads its answer.
func (d *DistantApprovals) ask(ctx context.Context, inc, method string, body, answer any) error {
	var question []byte
	if body != nil {
		var err error
		if question, err = json.Marshal(body); err != nil {
			return err
		}
	}
	status, raw, err := askNode(ctx, d.node, inc, method, peerApprovals, question, maxApprovals)
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
func (o *Operator) answer(w http.ResponseWriter, r *http.Request, _ *identity.Identity) {
	if r.Method == http.MethodGet {
		WriteJSON(w, http.StatusOK, o.Approvals.List())
		return
	}
	var d peerDecision
	raw, err := io.ReadAll(io.LimitReader(r.Body, maxRefusal))
	if err != nil || json.Unmarshal(raw, &d) != nil {
		WriteJSON(w, http.StatusBadRequest, struct{}{})
		return
	}
	c, err := o.Approvals.Decide(d.ID, approval.Answer{Approved: d.Approved, Reason: d.Reason}, func(approval.Call) error { return nil })
	if err != nil {
		WriteJSON(w, http.StatusNotFound, struct{}{})
		return
	}
	WriteJSON(w, http.StatusOK, c)
}
