package agent

import (
	"context"
	"errors"

	"github.com/weir-mcp/weir/internal/office/member"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/smcp"
)

// CallError converts the error of a call to a Computer into an *mcp.Error that names the Computer and
// the fix. It returns errors of other protocols unchanged.
func CallError(computer string, err error) error {
	var refused *smcp.Error
	switch {
	case errors.Is(err, smcp.ErrUnsigned):
		return mcp.Errorf(mcp.KindUpstreamProtocol, "the result of computer %q is not signed, and a key is known for it: start it with weir computer --key, or take its key out of hub.computers or hubs.NAME.keys%w", computer, hidden{err})
	case errors.Is(err, smcp.ErrBadSignature):
		return mcp.Errorf(mcp.KindUpstreamProtocol, "the result of computer %q is not signed with the key that is known for it, or was changed on the way: weir computer --show-key prints the key for hub.computers or hubs.NAME.keys%w", computer, hidden{err})
	case errors.As(err, &refused):
		return mcp.Errorf(kindOf(refused), "computer %q: %s%w", computer, refused.Message, hidden{err})
	case errors.Is(err, context.DeadlineExceeded):
		return mcp.Errorf(mcp.KindUpstreamTimeout, "computer %q did not answer in time", computer)
	case errors.Is(err, member.ErrNotConnected):
		return mcp.Errorf(mcp.KindUpstreamUnavailable, "computer %q: weir is not connected to its hub; it tries again", computer)
	}
	return err
}

// hidden wraps a cause for errors.Is without showing its text.
type hidden struct{ error }

func (hidden) Error() string { return "" }

func (h hidden) Unwrap() error { return h.error }

// kindOf maps a protocol error to a kind of MCP error.
func kindOf(e *smcp.Error) mcp.Kind {
	switch e.Code {
	case smcp.CodeInvalid:
		return mcp.KindInvalidParams
	case smcp.CodeForbidden:
		return mcp.KindPermissionDenied
	case smcp.CodeTimeout, smcp.CodeTimeout02:
		return mcp.KindUpstreamTimeout
	case smcp.CodeBusy:
		return mcp.KindOverloaded
	}
	return mcp.KindUpstreamUnavailable
}
