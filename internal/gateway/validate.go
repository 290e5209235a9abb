package gateway

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/gateway/result"
	"github.com/weir-mcp/weir/internal/rawjson"
	"github.com/weir-mcp/weir/internal/text"
)

// maxDetailSchema bounds the schema that an error carries, in bytes. A larger
// one is kept as an artifact and the error holds the handle.
const maxDetailSchema = 20_000

// validateLink checks the arguments against the tool's schema (gateway-surface
// §4.4): what does not fit never reaches the upstream. keep stores a schema that is
// too large for an error.
func validateLink(check *checker, keep func(ctx context.Context, c *Call, schema []byte) (artifact.Artifact, error)) Middleware {
	return func(next Dispatcher) Dispatcher {
		return DispatcherFunc(func(ctx context.Context, c *Call) (json.RawMessage, error) {
			if err := check.validate(ctx, c.Entry, c.Args); err != nil && !c.tables.excuses(err) {
				return nil, argsError(ctx, c, err, keep)
			}
			return next.Dispatch(ctx, c)
		})
	}
}

// argsError carries everything that the next call needs to be right: what is
// wrong where, and the schema.
func argsError(ctx context.Context, c *Call, err error, keep func(context.Context, *Call, []byte) (artifact.Artifact, error)) error {
	var ce *catalog.Error
	if !errors.As(err, &ce) {
		return err
	}
	e := &result.Error{Code: result.Code(ce.Code), Message: ce.Message, Cause: ce.Err}
	details := []byte(`{"` + idKey(c.Entry.Kind) + `":`)
	details = rawjson.AppendString(details, c.Entry.ID)
	if len(ce.Problems) > 0 {
		details = append(details, `,"problems":[`...)
		for i, p := range ce.Problems {
			if i > 0 {
				details = append(details, ',')
			}
			details = append(details, `{"path":`...)
			details = rawjson.AppendString(details, text.Line(p.Path, text.MaxMessageChars))
			details = append(details, `,"keyword":`...)
			details = rawjson.AppendString(details, p.Keyword)
			details = append(details, `,"message":`...)
			details = rawjson.AppendString(details, text.Line(p.Message, text.MaxMessageChars))
			details = append(details, '}')
		}
		details = append(details, ']')
	}
	schema := shownSchema(c.Entry, c.Entry.InputSchema)
	switch {
	case e.Code != result.ArgsInvalid || len(schema) == 0:
	case len(schema) <= maxDetailSchema:
		details = append(append(details, `,"schema":`...), schema...)
	default:
		if a, err := keep(ctx, c, schema); err == nil {
			details = append(details, `,"schema_handle":`...)
			details = rawjson.AppendString(details, a.Handle)
		}
	}
	e.Details = append(details, '}')
	return e
}

func (g *Gateway) keepSchema(ctx context.Context, c *Call, schema []byte) (artifact.Artifact, error) {
	return g.opts.Artifacts.Put(ctx, c.Request.Session.Principal(), "application/schema+json", "input schema of "+c.Entry.ID, schema)
}
