package dispatch

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/text"
)

// DryRun ends a call with dry_run: all earlier checks have passed, and no later step runs
// (spec/gateway §4.5).
func DryRun() Step {
	return Step{Phase: PhaseDryRun, Name: "dry run", Before: func(_ context.Context, c *Call) error {
		if !c.DryRun {
			return nil
		}
		c.Reply = dryRunReport(c)
		return ErrAnswered
	}}
}

// misfitReport says which arguments a tool needs that a dry run was without, and carries the details
// of the error that a call would have got: the schema above all.
func misfitReport(c *Call, e *result.Error) json.RawMessage {
	message := e.Message
	if needed := rawjson.Get(c.Entry.InputSchema, "required"); rawjson.IsArray(needed) {
		message = "args needs " + names(needed) + "; nothing ran"
	}
	doc := rawjson.AppendString([]byte(`{"dry_run":true,"args_valid":false,"message":`), text.Line(message, text.MaxMessageChars))
	if len(e.Details) > 2 {
		doc = append(append(doc, ','), e.Details[1:len(e.Details)-1]...)
	}
	return append(doc, '}')
}

// isEmpty reports whether arguments are an object without members.
func isEmpty(args json.RawMessage) bool {
	if !rawjson.IsObject(args) {
		return false
	}
	empty := true
	err := rawjson.EachMember(args, func(rawjson.Member) bool { empty = false; return false })
	return empty && err == nil
}

// names returns the strings of a list, separated by commas.
func names(list json.RawMessage) string {
	var all []string
	_ = rawjson.EachElement(list, func(v []byte) bool { // the schema was read before
		all = append(all, text.Fit(rawjson.Text(v), toldKeyChars))
		return true
	})
	return strings.Join(all, ", ")
}

// dryRunReport says what a call would have done. It repeats the upstream's hints about the tool and
// marks them as unverified.
func dryRunReport(c *Call) json.RawMessage {
	annotations, err := rawjson.Delete(c.Entry.Annotations, "verified")
	if err != nil || !rawjson.IsObject(annotations) {
		annotations = nil
	}
	if annotations, err = rawjson.Set(annotations, "verified", []byte("false")); err != nil {
		annotations = []byte(`{"verified":false}`)
	}
	doc := []byte(`{"dry_run":true,"tool_id":`)
	doc = rawjson.AppendString(doc, c.Entry.ID)
	doc = append(doc, `,"upstream_name":`...)
	doc = rawjson.AppendString(doc, c.Entry.ServerName())
	doc = append(doc, `,"args_valid":true,"annotations":`...)
	doc = append(doc, annotations...)
	doc = append(doc, `,"checks":[{"name":"schema_validation","status":"pass"},{"name":"rate_limit","status":"pass"}`...)
	switch {
	case !c.decided.made:
	case c.decided.by.action == RequireApproval:
		doc = append(doc, `,{"name":"policy","status":"approval_required"}`...)
	default:
		doc = append(doc, `,{"name":"policy","status":"pass"}`...)
	}
	doc = append(doc, ']')
	if schema := schemaToLearn(ShownSchema(c.Entry, c.Entry.InputSchema)); len(schema) > 0 && len(schema) <= maxDetailSchema {
		doc = append(append(doc, `,"schema":`...), schema...)
	}
	if len(c.Provenance.ArgRepairs) > 0 {
		doc = append(doc, `,"arg_repairs":`...)
		doc = result.AppendRepairs(doc, c.Provenance.ArgRepairs)
	}
	if c.Provenance.Selection != nil {
		doc = append(doc, `,"selection":`...)
		doc = c.Provenance.Selection.AppendJSON(doc)
	}
	return append(doc, '}')
}
