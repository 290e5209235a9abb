package api

import (
	"context"
	"net/http"

	"github.com/weir-mcp/weir/internal/audit"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/lockfile"
	"github.com/weir-mcp/weir/mcp"
)

// Definitions compare the definitions of servers with weir.lock.
type Definitions interface {
	Status() *lockfile.Status
	// Accept writes the definitions that the operator has seen to the lock. The error is an *mcp.Error, or one of the
	// file.
	Accept(ctx context.Context, a lockfile.Acceptance) ([]lockfile.Difference, error)
}

// Accepted is the answer of definitions/accept.
type Accepted struct {
	Accepted []lockfile.Difference `json:"accepted"`
}

// definitions serves definitions.
func (a *API) definitions(w http.ResponseWriter, _ *http.Request) error {
	return write(w, a.o.Definitions.Status())
}

// accept serves definitions/accept.
func (a *API) accept(w http.ResponseWriter, r *http.Request) error {
	var what lockfile.Acceptance
	if err := decode(w, r, &what); err != nil {
		return err
	}
	if what.Server == "" {
		return mcp.Errorf(mcp.KindInvalidParams, "server is missing")
	}
	accepted, err := a.o.Definitions.Accept(r.Context(), what)
	if err != nil {
		return err
	}
	for _, d := range accepted {
		a.o.Operated(r.Context(), audit.Role, "", d.Server, "", "accepts "+d.String())
		a.o.Logger.Info("an operator accepts a definition", "principal", identity.From(r.Context()).Principal, "upstream", d.Server, "difference", d.String(), "hash", d.Hash)
	}
	return write(w, Accepted{append([]lockfile.Difference{}, accepted...)})
}
