package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/audit"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/policy/approval"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/mcp"
)

// Approvals is the answer of approvals.
type Approvals struct {
	Approvals []approval.Call `json:"approvals"`
	// Silent are the names of other gateways of the cluster that have not answered: calls may wait
	// there as well.
	Silent []string `json:"silent,omitempty"`
}

// Decision is the body of approvals/{id}.
type Decision struct {
	Decision string `json:"decision"` // DecisionApprove or DecisionDeny
	Reason   string `json:"reason,omitempty"`
	// Unseen says that the operator knows that not all of the arguments are shown. A call with Partly
	// set cannot be approved without it.
	Unseen bool `json:"unseen,omitempty"`
	// Calls is how many calls of the tool the program that asks may make in its run, this one included; 0 is 1. It
	// is at most the calls of the approval.
	Calls int `json:"calls,omitempty"`
}

// The decisions.
const (
	DecisionApprove = "approve"
	DecisionDeny    = "deny"
)

// maxReason bounds a reason in characters.
const maxReason = 500

// Elsewhere are the calls that wait for a yes at other nodes of a cluster. Its methods are called concurrently.
type Elsewhere interface {
	// List returns the calls, each with its Node, and the names of nodes that have not answered.
	List(ctx context.Context) (all []approval.Call, silent []string)
	// Decide ends the wait of a call that List has returned. The error is approval.ErrUnknown if it does not
	// wait any more, and an *mcp.Error otherwise.
	Decide(ctx context.Context, c approval.Call, a approval.Answer) error
}

// approvals serves approvals.
func (a *API) approvals(w http.ResponseWriter, r *http.Request) error {
	all := Approvals{Approvals: a.o.Approvals.List()}
	if a.o.Elsewhere != nil {
		more, silent := a.o.Elsewhere.List(r.Context())
		all.Approvals, all.Silent = append(all.Approvals, more...), silent
		slices.SortStableFunc(all.Approvals, func(a, b approval.Call) int { return a.Since.Compare(b.Since) })
	}
	return write(w, all)
}

// settle ends the wait of a call, here or at another node. check may refuse that with an error.
func settle(ctx context.Context, a *API, id string, answer approval.Answer, check func(approval.Call) error) (approval.Call, error) {
	c, err := a.o.Approvals.Decide(id, answer, check)
	if !errors.Is(err, approval.ErrUnknown) || a.o.Elsewhere == nil {
		return c, err
	}
	all, silent := a.o.Elsewhere.List(ctx)
	for _, c := range all {
		if c.ID != id {
			continue
		}
		if err := check(c); err != nil {
			return c, err
		}
		return c, a.o.Elsewhere.Decide(ctx, c, answer)
	}
	if len(silent) > 0 {
		return c, mcp.Errorf(mcp.KindNodeGone, "no call %q waits at the gateways that answer; %s did not answer within two seconds: try again", text.Line(id, 40), strings.Join(silent, ", "))
	}
	return c, err
}

// decide serves approvals/{id}.
func (a *API) decide(w http.ResponseWriter, r *http.Request) error {
	var d Decision
	if err := decode(w, r, &d); err != nil {
		return err
	}
	switch {
	case d.Decision != DecisionApprove && d.Decision != DecisionDeny:
		return mcp.Errorf(mcp.KindInvalidParams, "decision must be %q or %q", DecisionApprove, DecisionDeny)
	case d.Calls < 0:
		return mcp.Errorf(mcp.KindInvalidParams, "calls must not be negative")
	case utf8.RuneCountInString(d.Reason) > maxReason:
		return mcp.Errorf(mcp.KindInvalidParams, "reason has more than %d characters", maxReason)
	}
	id, yes := r.PathValue("id"), d.Decision == DecisionApprove
	c, err := settle(r.Context(), a, id, approval.Answer{Approved: yes, Reason: d.Reason, Calls: d.Calls}, func(c approval.Call) error {
		if yes && c.Partly && !d.Unseen {
			return mcp.Errorf(mcp.KindInvalidParams, "not all arguments of %s are shown; approve it with unseen: true (weir approve %s --unseen), or deny it", c.Tool, c.ID)
		}
		if most := max(1, c.Calls); yes && d.Calls > most {
			return mcp.Errorf(mcp.KindInvalidParams, "calls is %d, and at most %d may be approved at once", d.Calls, most)
		}
		return nil
	})
	if errors.Is(err, approval.ErrUnknown) {
		return mcp.Errorf(mcp.KindNotFound, "no call %q waits: it was decided, its caller has gone, or its time is up; weir approve --list shows those that wait", text.Line(id, 40))
	}
	if err != nil {
		return err
	}
	a.o.Operated(r.Context(), audit.Approval, d.Decision, c.Server, c.Tool, "asked by "+c.Principal)
	a.o.Logger.Info("an operator has decided", "decision", d.Decision, "id", c.ID, "upstream", c.Server, "tool", c.Tool, "caller", c.Principal, "principal", identity.From(r.Context()).Principal)
	return write(w, c)
}
