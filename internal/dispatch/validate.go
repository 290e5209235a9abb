package dispatch

import (
	"context"
	"errors"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/text"
)

// maxDetailSchema bounds the schema in an error, in bytes. A larger schema becomes an artifact, and
// the error holds its handle.
const maxDetailSchema = 20_000

// schemaStore keeps bytes for a principal.
type schemaStore interface {
	At(profile string) artifact.Place
}

// Validate checks the arguments against the tool's schema (spec/gateway §4.4):
// invalid arguments never reach the upstream. store keeps a schema that is too large for an error. A
// dry run without arguments of a tool that needs some ends in a report, because it is how an agent
// asks for the schema.
func Validate(check *Checker, store schemaStore) Step {
	return Step{Phase: PhaseCheck, Name: "validate", Before: func(ctx context.Context, c *Call) error {
		if err := c.Entry.Override.Check(c.Args); err != nil {
			return &result.Error{Code: result.ArgsInvalid, Message: c.Entry.ID + ": " + err.Error(), Path: c.Entry.ID, Cause: err}
		}
		err := check.Validate(ctx, c.Entry, c.Args)
		if err == nil || c.Refs != nil && c.Refs.Excuses(err) {
			return nil
		}
		err = ArgsError(ctx, c, err, store)
		var misfit *result.Error
		if c.DryRun && isEmpty(c.Args) && errors.As(err, &misfit) && misfit.Code == result.ArgsInvalid {
			c.Reply = misfitReport(c, misfit)
			return ErrAnswered
		}
		return err
	}}
}

// Values adds the values that the operator has given the tool to the arguments. No earlier step sees
// them, and the agent does not.
func Values() Step {
	return Step{Phase: PhaseFill, Name: "values", Before: func(_ context.Context, c *Call) error {
		args, err := c.Entry.Override.Fill(c.Args)
		if err != nil {
			return &result.Error{Code: result.ArgsInvalid, Message: c.Entry.ID + ": " + err.Error(), Path: c.Entry.ID, Cause: err}
		}
		c.Args = args
		return nil
	}}
}

// ArgsError returns an error with all data for a correct next call: the faults, their places and
// the schema.
func ArgsError(ctx context.Context, c *Call, err error, store schemaStore) error {
	var ce *catalog.Error
	if !errors.As(err, &ce) {
		return err
	}
	e := &result.Error{Code: result.Code(ce.Code), Message: ce.Message, Path: c.Entry.ID, Cause: ce.Err}
	if len(ce.Problems) > 0 {
		e.Message = misfit(ce.Problems, c.Args, c.Entry.InputSchema)
	}
	var details []byte
	if c.Format != result.FormatDefault && c.Format != result.FormatText { // a model has it in the message
		details = appendProblems(nil, c.Entry, ce.Problems)
	}
	schema := schemaToLearn(ShownSchema(c.Entry, c.Entry.InputSchema))
	switch {
	case e.Code != result.ArgsInvalid || len(schema) == 0:
	case len(schema) <= maxDetailSchema:
		details = append(append(details, `,"schema":`...), schema...)
	default:
		if a, err := keepSchema(ctx, store, c, schema); err == nil {
			details = append(details, `,"schema_handle":`...)
			details = rawjson.AppendString(details, a.Handle)
		}
	}
	if len(details) > 0 {
		details[0] = '{'
		e.Details = append(details, '}')
	}
	return e
}

// appendProblems appends the members of details that programs read: the id and the problems.
func appendProblems(details []byte, of *catalog.Entry, problems []catalog.Problem) []byte {
	details = append(append(details, `,"`+IdKey(of.Kind)+`":`...), rawjson.Quote(of.ID)...)
	if len(problems) == 0 {
		return details
	}
	details = append(details, `,"problems":[`...)
	for i, p := range problems {
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
	return append(details, ']')
}

func keepSchema(ctx context.Context, store schemaStore, c *Call, schema []byte) (artifact.Artifact, error) {
	return store.At(identity.RouteOf(ctx).Profile).Put(ctx, c.Request.Session.Principal(), "application/schema+json", "input schema of "+c.Entry.ID, schema)
}

// IdKey returns the key of an entry's id in arguments and details.
func IdKey(kind primitive.Kind) string {
	switch kind {
	case primitive.KindTool:
		return "tool_id"
	case primitive.KindPrompt:
		return "prompt_id"
	}
	return "resource_id"
}

// ShownSchema returns a definition, or a part of one, as the upstream wrote it, without invisible
// characters.
func ShownSchema(e *catalog.Entry, raw []byte) []byte {
	if e.Hidden == 0 {
		return raw
	}
	return primitive.VisibleTexts(raw)
}
