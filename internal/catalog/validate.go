package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/work"
)

// Validate validates arguments as ValidateWithin does, without a Meter: only the limits of a single
// validation apply.
func (e *Entry) Validate(args json.RawMessage) error { return e.ValidateWithin(args, nil) }

// ValidateWithin validates the arguments of a call against the entry's input schema. Missing
// arguments mean an empty object; numbers are compared without rounding. If validation may be
// expensive, it is counted by the Meter that meter returns, and the caller closes that Meter. meter
// may be nil.
//
// The error is an *Error: ArgsInvalid with at most 20 problems, or SchemaInvalid if the schema
// itself is broken, so that no arguments can be valid (spec/gateway §4.4). If the Meter ended the
// validation, the error is the Meter's and the validity is unknown. ValidateWithin does not retain
// args. It is safe for concurrent use, with one Meter per call.
func (e *Entry) ValidateWithin(args json.RawMessage, meter func() *work.Meter) error {
	if len(bytes.TrimSpace(args)) == 0 {
		args = json.RawMessage("{}")
	}
	var c *checker // nil: any object is valid
	clip := 0
	if v := e.check; v != nil && !absent(v.schema) {
		c = v.checker()
		clip = c.clip
		if c.simple != nil && rawjson.IsObject(args) && c.simple.admits(args[rawjson.SkipSpace(args, 0):]) {
			return nil
		}
	}
	value, err := decoder{keys: uniqueKeys, clip: clip}.decode(args)
	if err != nil {
		return argsError(e.ID, []Problem{{Keyword: "json", Message: err.Error()}})
	}
	if _, ok := value.(map[string]any); !ok {
		return argsError(e.ID, []Problem{{Keyword: "type", Message: "must be an object, got " + kindOf(args)}})
	}
	if c == nil {
		return nil
	}
	if c.err != nil {
		return e.brokenSchema(c.err)
	}
	if err := c.run(e.check.schema, meter, value, len(args)); err != nil {
		return e.invalid(err)
	}
	return nil
}

// invalid converts the error of a failed validation.
func (e *Entry) invalid(err error) error {
	var ve *jsonschema.ValidationError
	var costly *costlyPattern
	switch {
	case errors.Is(err, errEffort):
		return e.brokenSchema(errEffort)
	case errors.As(err, &costly):
		return argsError(e.ID, []Problem{{Keyword: "pattern", Message: costly.Error()}})
	case errors.As(err, &ve) && inCircle(ve):
		return e.brokenSchema(errCircular)
	case ve != nil:
		return argsError(e.ID, flatten(ve))
	case errors.Is(err, errNotApplied):
		return &Error{Code: SchemaInvalid, Message: fmt.Sprintf("the input schema of %s cannot be applied", e.ID), ID: e.ID, Err: err}
	}
	return err
}

// brokenSchema returns the error of a schema that cannot be applied.
func (e *Entry) brokenSchema(err error) *Error {
	return &Error{
		Code: SchemaInvalid,
		Message: fmt.Sprintf("the input schema of %s is invalid (%s): its owner, server %q, has to mend it",
			e.ID, schemaProblem(err), e.Upstream),
		ID:  e.ID,
		Err: err,
	}
}

// inCircle reports whether validation failed because the schema refers to itself without end; other
// arguments would not help.
func inCircle(ve *jsonschema.ValidationError) bool {
	if _, ok := ve.ErrorKind.(*kind.RefCycle); ok {
		return true
	}
	return slices.ContainsFunc(ve.Causes, inCircle)
}

// errNotApplied reports that the validator stopped unexpectedly.
var errNotApplied = errors.New("schema cannot be applied")

// run validates a value of size bytes against schema, of which c is the compiled form. It
// converts panics that a hostile schema causes into errors.
func (c *checker) run(schema []byte, meter func() *work.Meter, value any, size int) (err error) {
	if !c.weight.light(value, size) {
		g, err := c.guarded.take(schema)
		if err != nil { // cannot happen: it compiled before
			return fmt.Errorf("%w: %w", errNotApplied, err)
		}
		defer c.guarded.give(g)
		var m *work.Meter
		if meter != nil {
			m = meter()
		}
		return g.validate(m, value, size)
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errNotApplied, p)
		}
	}()
	return c.program.Validate(value)
}

// flatten returns the distinct leaf problems of a validation error, sorted and bounded.
func flatten(ve *jsonschema.ValidationError) []Problem {
	var problems []Problem
	var walk func(e *jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		if len(problems) >= 10*maxProblems {
			return
		}
		switch e.ErrorKind.(type) {
		case *kind.AnyOf, *kind.OneOf:
			if p, ok := mergeTypes(e); ok {
				problems = append(problems, p)
				return
			}
			problems = append(problems, describe(e)...)
		}
		if len(e.Causes) == 0 {
			problems = append(problems, describe(e)...)
		}
		for _, cause := range e.Causes {
			walk(cause)
		}
	}
	walk(ve)
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return strings.Compare(a.Path+"\x00"+a.Keyword+"\x00"+a.Message, b.Path+"\x00"+b.Keyword+"\x00"+b.Message)
	})
	problems = slices.Compact(problems)
	return problems[:min(len(problems), maxProblems)]
}

// mergeTypes returns "must be string or null" if all branches of an anyOf fail because of the type
// of the same value.
func mergeTypes(e *jsonschema.ValidationError) (Problem, bool) {
	var want []string
	got := ""
	for _, cause := range e.Causes {
		for len(cause.Causes) == 1 {
			cause = cause.Causes[0] // skip references and groups
		}
		k, ok := cause.ErrorKind.(*kind.Type)
		if !ok || !slices.Equal(cause.InstanceLocation, e.InstanceLocation) {
			return Problem{}, false
		}
		want = append(want, k.Want...)
		got = k.Got
	}
	if len(want) == 0 {
		return Problem{}, false
	}
	slices.Sort(want)
	return Problem{
		Path:    pointer(e.InstanceLocation),
		Keyword: "type",
		Message: fmt.Sprintf("must be %s, got %s", strings.Join(slices.Compact(want), " or "), got),
	}, true
}

// describe explains a failed keyword in plain words, without repeating values of the arguments.
func describe(e *jsonschema.ValidationError) []Problem {
	keyword := ""
	if path := e.ErrorKind.KeywordPath(); len(path) > 0 {
		keyword = path[len(path)-1]
	}
	one := func(format string, args ...any) []Problem {
		return []Problem{{pointer(e.InstanceLocation), keyword, fmt.Sprintf(format, args...)}}
	}
	each := func(names []string, format string) (problems []Problem) {
		for _, name := range names {
			path := append(slices.Clone(e.InstanceLocation), name)
			problems = append(problems, Problem{pointer(path), keyword, fmt.Sprintf(format, clip(name, 80))})
		}
		return problems
	}
	switch k := e.ErrorKind.(type) {
	case *kind.Type:
		return one("must be %s, got %s", strings.Join(k.Want, " or "), k.Got)
	case *kind.Required:
		keyword = "required"
		return each(k.Missing, "required property %q is missing")
	case *kind.AdditionalProperties:
		keyword = "additionalProperties"
		return each(k.Properties, "unknown property %q")
	case *kind.Dependency:
		keyword = "dependencies"
		return each(k.Missing, "required property %q is missing")
	case *kind.DependentRequired:
		keyword = "dependentRequired"
		return each(k.Missing, "required property %q is missing")
	case *kind.Enum:
		return one("must be one of %s", list(k.Want))
	case *kind.Const:
		return one("must be %s", list([]any{k.Want}))
	case *kind.FalseSchema:
		return one("is not allowed")
	case *kind.AnyOf:
		return one("matches none of the allowed forms")
	case *kind.OneOf:
		if len(k.Subschemas) > 0 {
			return one("matches more than one of the forms of which it must match exactly one")
		}
		return one("matches none of the allowed forms")
	case *kind.Not:
		keyword = "not"
		return one("has a form that is not allowed")
	case *kind.Format:
		return one("is not a valid %s", k.Want)
	case *kind.Pattern:
		return one("does not match the pattern %s", clip(k.Want, 100))
	case *kind.MinLength:
		return one("must have at least %d characters, has %d", k.Want, k.Got)
	case *kind.MaxLength:
		return one("must have at most %d characters, has %d", k.Want, k.Got)
	case *kind.MinItems:
		return one("must have at least %d items, has %d", k.Want, k.Got)
	case *kind.MaxItems:
		return one("must have at most %d items, has %d", k.Want, k.Got)
	case *kind.MinProperties:
		return one("must have at least %d properties, has %d", k.Want, k.Got)
	case *kind.MaxProperties:
		return one("must have at most %d properties, has %d", k.Want, k.Got)
	case *kind.UniqueItems:
		return one("items %d and %d are equal", k.Duplicates[0], k.Duplicates[1])
	case *kind.Minimum:
		return one("must be at least %s", number(k.Want))
	case *kind.Maximum:
		return one("must be at most %s", number(k.Want))
	case *kind.ExclusiveMinimum:
		return one("must be more than %s", number(k.Want))
	case *kind.ExclusiveMaximum:
		return one("must be less than %s", number(k.Want))
	case *kind.MultipleOf:
		return one("must be a multiple of %s", number(k.Want))
	}
	printer := message.NewPrinter(language.English)
	return one("%s", clip(collapse(e.ErrorKind.LocalizedString(printer)), 160))
}

// number formats a bound of a schema.
func number(r *big.Rat) string {
	if r.IsInt() {
		return clip(r.RatString(), 40)
	}
	f, _ := r.Float64()
	return strconv.FormatFloat(f, 'g', -1, 64)
}

// list formats the values of an enum, shortened to a readable number.
func list(values []any) string {
	const most = 12
	var parts []string
	for _, v := range values[:min(most, len(values))] {
		part := fmt.Sprint(v)
		if s, ok := v.(string); ok {
			part = strconv.Quote(s)
		} else if b, err := json.Marshal(v); err == nil {
			part = string(b)
		}
		parts = append(parts, clip(part, 60))
	}
	if len(values) > most {
		parts = append(parts, fmt.Sprintf("… (%d in all)", len(values)))
	}
	return strings.Join(parts, ", ")
}

// pointer formats a JSON pointer.
func pointer(path []string) string {
	var b strings.Builder
	for _, part := range path {
		b.WriteByte('/')
		b.WriteString(strings.ReplaceAll(strings.ReplaceAll(part, "~", "~0"), "/", "~1"))
	}
	return b.String()
}
