package computer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/smcp"
)

// fault is the reason why no tool answered a call, with its protocol code.
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

// expired returns the fault of a call or a question that timed out.
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

// plain returns an error's text for users. It rewords Go's context errors.
func plain(err error) string {
	return strings.NewReplacer(context.DeadlineExceeded.Error(), "the time was over", context.Canceled.Error(), "it was cancelled").Replace(err.Error())
}

// failure returns the result of a call that no tool answered.
func failure(in *inputs, err error) json.RawMessage {
	var flags string
	switch {
	case errors.Is(err, errAgentCancelled):
		flags = `{"` + smcp.MetaCancelled + `":true,"` + smcp.MetaReason + `":"` + smcp.ReasonAgent + `"}`
	case errors.Is(err, context.DeadlineExceeded):
		flags = `{"` + smcp.MetaTimeout + `":true}`
	}
	out := append(json.RawMessage(`{"content":[{"type":"text","text":`), rawjson.Quote(in.redact(plain(err)))...)
	out = append(out, `}],"isError":true`...)
	if flags != "" {
		out = append(out, `,"meta":`+flags+`,"_meta":`+flags...)
	}
	return append(out, '}')
}

// draftError returns the error object that an Agent of the first draft reads in place of a result. It
// is nil for a cancellation, which has no error there.
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
