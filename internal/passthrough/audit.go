package passthrough

import (
	"context"
	"encoding/json"
	"io"

	"github.com/weir-mcp/weir/mcp"
)

// An Auditor records requests of agents that reach an upstream, after the Judge has admitted them.
// Its methods are called concurrently.
type Auditor interface {
	// Enabled reports whether the Auditor records requests. It is constant.
	Enabled() bool
	// Begin is called before a request reaches the upstream. An error refuses the request. The Auditor
	// reads r before Begin returns. Where a request of the streaming forward has no session, r.Session
	// is the zero Session, and only ctx has the caller. It returns nil for a request that it does not
	// record.
	Begin(ctx context.Context, upstream string, r *mcp.Request) (Recorded, error)
}

// Recorded is a request whose start is recorded. One of Ended, Passed and Unread is called, once.
type Recorded interface {
	// Ended records the answer. It reads the result before it returns.
	Ended(result json.RawMessage, err error)
	// Pieces returns a writer for a result that is too long to be kept, nil if nothing needs the
	// result. A later call starts with another result.
	Pieces() io.Writer
	// Passed records a result of which all pieces were written.
	Passed()
	// Unread records that the answer was handed on unread.
	Unread()
}

// audits reports whether the Auditor, which may be nil, records requests.
func audits(a Auditor) bool { return a != nil && a.Enabled() }

// begin records a request that is about to reach the upstream. The Auditor may be nil.
func begin(ctx context.Context, a Auditor, upstream string, r *mcp.Request) (Recorded, error) {
	if a == nil {
		return nil, nil
	}
	return a.Begin(ctx, upstream, r)
}

// audited calls next and records the request. The Auditor may be nil.
func audited(ctx context.Context, a Auditor, upstream string, r *mcp.Request, next func(context.Context, *mcp.Request) (json.RawMessage, error)) (json.RawMessage, error) {
	recorded, err := begin(ctx, a, upstream, r)
	if err != nil {
		return nil, err
	}
	result, err := next(ctx, r)
	if recorded != nil {
		recorded.Ended(result, err)
	}
	return result, err
}
