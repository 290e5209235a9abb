package metatool

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// codeElicitFirst is URLElicitationRequired of 2025-11-25.
const codeElicitFirst = -32042

// forClient is the link of plain mode that passes on the errors that a client acts on, with their
// code and data. As the result of a tool they would reach the model, which cannot.
func (g *Gateway) forClient(next dispatch.Dispatcher) dispatch.Dispatcher {
	return dispatch.DispatcherFunc(func(ctx context.Context, c *dispatch.Call) (json.RawMessage, error) {
		raw, err := next.Dispatch(ctx, c)
		var failure *result.Error
		if !errors.As(err, &failure) || failure.Cause == nil || !isForClient(c.Request, failure.Cause) {
			return raw, err
		}
		c.Failure = failure // for what records the call
		return nil, g.caller.redactError(failure.Cause)
	})
}

// isForClient reports whether an error of a call tells the client of a request what to do: to
// declare a capability, to start a call with rounds again, or to open a page first.
func isForClient(r *mcp.Request, err error) bool {
	code := 0
	var answered *jsonrpc.Error
	var own *mcp.Error
	switch {
	case errors.As(err, &answered):
		code = answered.Code
	case errors.As(err, &own):
		code = own.Kind.Info().JSONRPC
	}
	switch code {
	case mcp.KindMissingCapability.Info().JSONRPC:
		return r.Modern()
	case jsonrpc.CodeInvalidParams:
		return r.Modern() && (rawjson.Get(r.Params, "requestState") != nil || rawjson.Get(r.Params, "inputResponses") != nil)
	case codeElicitFirst:
		return !r.Modern() && canOpenPages(r)
	}
	return false
}

// headers is the link of plain mode that checks the headers in which a modern client repeats
// arguments. The last reader of the headers must do that (2026-07-28).
func (g *Gateway) headers(next dispatch.Dispatcher) dispatch.Dispatcher {
	if g.opts.CheckHeaders == nil {
		return next
	}
	return dispatch.DispatcherFunc(func(ctx context.Context, c *dispatch.Call) (json.RawMessage, error) {
		if c.Request.Modern() {
			if err := g.opts.CheckHeaders(ctx, c.Entry.InputSchema, c.Request.Params); err != nil {
				return nil, err
			}
		}
		return next.Dispatch(ctx, c)
	})
}
