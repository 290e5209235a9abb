package metatool

import (
	"context"
	"errors"

	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// codeElicitFirst is URLElicitationRequired of 2025-11-25.
const codeElicitFirst = -32042

// forClient passes on, in plain mode, the errors that a client acts on, with their code and data. As
// the result of a tool they would reach the model, which cannot.
func (g *Gateway) forClient() dispatch.Step {
	return dispatch.Step{Phase: dispatch.PhaseAnswer, Name: "client errors", After: func(_ context.Context, c *dispatch.Call, err error) error {
		var failure *result.Error
		if !errors.As(err, &failure) || failure.Cause == nil || !isForClient(c.Request, failure.Cause) {
			return err
		}
		c.Failure = failure // for the steps that record the call
		return g.caller.redactError(failure.Cause)
	}}
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

// headers checks, in plain mode, the headers in which a modern client repeats arguments. The last
// reader of the headers must do that (2026-07-28).
func (g *Gateway) headers() []dispatch.Step {
	if g.opts.CheckHeaders == nil {
		return nil
	}
	return []dispatch.Step{{Phase: dispatch.PhaseFind, Name: "headers", Before: func(ctx context.Context, c *dispatch.Call) error {
		if !c.Request.Modern() {
			return nil
		}
		return g.opts.CheckHeaders(ctx, c.Entry.InputSchema, c.Request.Params)
	}}}
}
