package api

import (
	"errors"
	"net/http"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/approval"
	"github.com/weir-mcp/weir/internal/audit"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/mcp"
)

// Approvals is the answer of approvals.
type Approvals struct {
	Approvals []approval.Call `json:"approvals"`
}

// Decision is the body of approvals/{id}.
type Decision struct {
	Decision string `json:"decision"` // DecisionApprove or DecisionDeny
	Reason   string `json:"reason,omitempty"`
	// Unseen says that the operator knows that not all of the arguments are shown. A call with Partly
	// set cannot be approved without it.
	Unseen bool `json:"unseen,omitempty"`
}

// The decisions.
const (
	DecisionApprove = "approve"
	DecisionDeny    = "deny"
)

// maxReason bounds a reason in characters.
const maxReason = 500

// approvals serves approvals.
func (a *API) approvals(w http.ResponseWriter, _ *http.Request) error {
	return write(w, Approvals{a.o.Approvals.List()})
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
	case utf8.RuneCountInString(d.Reason) > maxReason:
		return mcp.Errorf(mcp.KindInvalidParams, "reason has more than %d characters", maxReason)
	}
	id, yes := r.PathValue("id"), d.Decision == DecisionApprove
	c, err := a.o.Approvals.Decide(id, approval.Answer{Approved: yes, Reason: d.Reason}, func(c approval.Call) error {
		if yes && c.Partly && !d.Unseen {
			return mcp.Errorf(mcp.KindInvalidParams, "not all arguments of %s are shown; approve it with unseen: true (weir approve %s --unseen), or deny it", c.Tool, c.ID)
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
