package router

import (
	"context"

	"github.com/weir-mcp/weir/mcp"
)

// Judge decides about calls that run or read something of an upstream:
// tools/call, resources/read and prompts/get, in both eras, alone or in a batch.
// Where it has a say, no message is forwarded as it comes: a batch may hold one
// that must not pass, and a person at the agent's client can be asked only in a
// session that is kept here.
type Judge interface {
	// Judges reports whether there is anything to decide about an upstream's
	// calls. It is called for each request, concurrently, and must be fast.
	Judges(upstream string) bool
	// Judge returns nil, or the error that the agent gets instead of a result,
	// best an *mcp.Error. It may ask the agent through r.Peer, and wait for the
	// answer. mcp.Caller(ctx) is the session on whose behalf the call is made.
	Judge(ctx context.Context, upstream string, r *mcp.Request) error
}
