package computer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/rawjson"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/smcp"
)

// A fault is why a call was not answered by its tool, with the protocol's code
// for it.
type fault struct {
	code int
	text string
	err  error // for errors.Is; not part of the text
}

func (f *fault) Error() string { return f.text }

func (f *fault) Unwrap() error { return f.err }

func faultf(code int, format string, args ...any) error {
	return &fault{code: code, text: fmt.Sprintf(format, args...)}
}

// expired is the fault of a call, or of a question, whose time is over.
func expired(format string, args ...any) error {
	return &fault{code: smcp.CodeTimeout, text: fmt.Sprintf(format, args...), err: context.DeadlineExceeded}
}

// callError returns the error of a call whose context may have ended.
func callError(ctx context.Context, err error, timeout time.Duration) error {
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, errAgentCancelled):
		return fmt.Errorf("the call was cancelled: %w", errAgentCancelled)
	case errors.Is(cause, context.DeadlineExceeded):
		return expired("the call took longer than %s", timeout)
	}
	if k, ok := mcp.KindOf(err); ok && k == mcp.KindUpstreamTimeout {
		return expired("%s", plain(err))
	}
	return err
}

// plain is the text of an error in the words of people: errors of Go's own say
// what contexts do.
func plain(err error) string {
	return strings.NewReplacer(context.DeadlineExceeded.Error(), "the time was over", context.Canceled.Error(), "it was cancelled").Replace(err.Error())
}

// failure is the result of a call that was not answered by a tool.
func (c *Computer) failure(err error) json.RawMessage {
	var flags string
	switch {
	case errors.Is(err, errAgentCancelled):
		flags = `{"` + smcp.MetaCancelled + `":true,"` + smcp.MetaReason + `":"` + smcp.ReasonAgent + `"}`
	case errors.Is(err, context.DeadlineExceeded):
		flags = `{"` + smcp.MetaTimeout + `":true}`
	}
	out := append(json.RawMessage(`{"content":[{"type":"text","text":`), rawjson.Quote(c.inputs.redact(plain(err)))...)
	out = append(out, `}],"isError":true`...)
	if flags != "" {
		out = append(out, `,"meta":`+flags+`,"_meta":`+flags...)
	}
	return append(out, '}')
}

// draftError is the same for an Agent of the first draft, which reads an error
// object in the place of a result. A cancellation has none there: nil.
func draftError(in *inputs, tool string, err error) *smcp.Error {
	if errors.Is(err, errAgentCancelled) {
		return nil
	}
	e := &smcp.Error{Code: smcp.CodeInternal, Message: in.redact(plain(err))}
	var f *fault
	if errors.As(err, &f) {
		e.Code = f.code
	} else if errors.Is(err, context.DeadlineExceeded) {
		e.Code = smcp.CodeTimeout
	}
	return e.With("toolId", clipName(tool))
}
