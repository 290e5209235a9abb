package router

import (
	"context"
	"encoding/json"

	"github.com/weir-mcp/weir/mcp"
)

// Auditor is told about requests of agents. Its method is called concurrently. It sees the requests
// that the Judge has admitted, and only those of upstreams to which the Judge applies.
type Auditor interface {
	// Begin is called before a request reaches the upstream. An error refuses the request. ended,
	// which may be nil, is called once with the answer.
	Begin(ctx context.Context, upstream string, r *mcp.Request) (ended func(result json.RawMessage, err error), err error)
}

// audited calls next and tells the Auditor, which may be nil.
func audited(ctx context.Context, a Auditor, upstream string, r *mcp.Request, next func(context.Context, *mcp.Request) (json.RawMessage, error)) (json.RawMessage, error) {
	if a == nil {
		return next(ctx, r)
	}
	ended, err := a.Begin(ctx, upstream, r)
	if err != nil {
		return nil, err
	}
	result, err := next(ctx, r)
	if ended != nil {
		ended(result, err)
	}
	return result, err
}
