package catalog

import (
	"reflect"
	"slices"
	"strconv"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// edge describes how a schema uses another one.
type edge struct {
	// many: applied to each member or element, not once.
	many bool
	// branch: the other schema may fail while this one succeeds.
	branch bool
	// ref: used by reference, so the other one may be any schema.
	ref bool
}

// eachEdge calls f for each schema that s uses. Unless the edge is a reference, it replaces that
// schema with f's result.
func eachEdge(s *jsonschema.Schema, f func(edge, *jsonschema.Schema) *jsonschema.Schema) {
	one := func(e edge, sub **jsonschema.Schema) {
		if *sub != nil {
			if with := f(e, *sub); !e.ref {
				*sub = with
			}
		}
	}
	list := func(e edge, subs []*jsonschema.Schema) {
		for i := range subs {
			one(e, &subs[i])
		}
	}
	named := func(e edge, subs map[string]*jsonschema.Schema) {
		for name, sub := range subs {
			subs[name] = f(e, sub)
		}
	}
	// The value is a schema only in some drafts or forms.
	either := func(e edge, v any) any {
		switch v := v.(type) {
		case *jsonschema.Schema:
			return f(e, v)
		case []*jsonschema.Schema:
			list(edge{branch: e.branch}, v)
		}
		return v
	}
	one(edge{ref: true}, &s.Ref)
	one(edge{ref: true}, &s.RecursiveRef)
	if s.DynamicRef != nil {
		one(edge{ref: true}, &s.DynamicRef.Ref)
	}
	list(edge{}, s.AllOf)
	list(edge{branch: true}, s.AnyOf)
	list(edge{branch: true}, s.OneOf)
	one(edge{branch: true}, &s.Not)
	one(edge{branch: true}, &s.If)
	one(edge{}, &s.Then)
	one(edge{}, &s.Else)
	named(edge{}, s.Properties)
	named(edge{}, s.DependentSchemas)
	for name, v := range s.Dependencies {
		s.Dependencies[name] = either(edge{}, v)
	}
	for pattern, sub := range s.PatternProperties {
		s.PatternProperties[pattern] = f(edge{many: true}, sub)
	}
	one(edge{many: true}, &s.PropertyNames)
	s.AdditionalProperties = either(edge{many: true}, s.AdditionalProperties)
	one(edge{many: true}, &s.UnevaluatedProperties)
	list(edge{}, s.PrefixItems)
	one(edge{many: true}, &s.Items2020)
	s.Items = either(edge{many: true}, s.Items)
	s.AdditionalItems = either(edge{many: true}, s.AdditionalItems)
	one(edge{many: true, branch: true}, &s.Contains)
	one(edge{many: true}, &s.UnevaluatedItems)
	one(edge{}, &s.ContentSchema)
}

// guard adds guards to a program: on all edges except references, and except edges that apply a
// trivial schema once.
func (t *trial) guard(root *jsonschema.Schema) {
	seen := map[*jsonschema.Schema]bool{}
	var walk func(*jsonschema.Schema)
	walk = func(s *jsonschema.Schema) {
		if seen[s] {
			return
		}
		seen[s] = true
		eachEdge(s, func(e edge, sub *jsonschema.Schema) *jsonschema.Schema {
			walk(sub)
			if e.ref || !e.many && isLeaf(sub) {
				return sub
			}
			return t.guarded(e, sub)
		})
		if s.Contains != nil {
			s.Extensions = append(s.Extensions, containing{t, s.Contains, s.MinContains, s.MaxContains, s.DraftVersion >= 2020})
			s.Contains, s.MinContains, s.MaxContains = nil, nil, nil
		}
	}
	walk(root)
}

// guarded returns a schema that applies s through a guard. It copies those fields of s that the
// validator reads besides its keywords.
func (t *trial) guarded(e edge, s *jsonschema.Schema) *jsonschema.Schema {
	p := *s
	fields := reflect.ValueOf(&p).Elem()
	for i := range fields.NumField() {
		switch f := fields.Type().Field(i); {
		case !f.IsExported(), f.Name == "DraftVersion", f.Name == "Location":
		default:
			fields.Field(i).SetZero()
		}
	}
	p.Extensions = []jsonschema.SchemaExt{&guard{t, s, e.branch, ownSteps(s), s.UniqueItems}}
	return &p
}

// isLeaf reports whether applying a schema is always cheap, whatever the value.
func isLeaf(s *jsonschema.Schema) bool {
	if s.Pattern != nil || s.Format != nil || s.MinLength != nil || s.MaxLength != nil || s.UniqueItems ||
		s.ContentEncoding != nil || s.ContentMediaType != nil || s.AdditionalProperties != nil || ownSteps(s) > 6 {
		return false
	}
	leaf := true
	eachEdge(s, func(_ edge, sub *jsonschema.Schema) *jsonschema.Schema {
		leaf = false
		return sub
	})
	return leaf
}

// ownSteps returns the cost of s without the schemas behind guards.
func ownSteps(s *jsonschema.Schema) int64 { return ownStepsTo(s, 16) }

func ownStepsTo(s *jsonschema.Schema, depth int) int64 {
	n := int64(2 + len(s.Required)/4 + len(s.DependentRequired) + len(s.Dependencies))
	if s.Enum != nil {
		n += int64(len(s.Enum.Values)) / 4
	}
	if s.Minimum != nil || s.Maximum != nil || s.ExclusiveMinimum != nil || s.ExclusiveMaximum != nil || s.MultipleOf != nil {
		n += 2
	}
	n += int64(len(s.AllOf)+len(s.AnyOf)+len(s.OneOf)+len(s.Properties)+len(s.PrefixItems)) / 2
	if s.Ref != nil && depth > 0 {
		n += ownStepsTo(s.Ref, depth-1)
	}
	return n
}

// guard is the only keyword of a guarded schema. It counts, applies the original schema, and keeps
// no more errors than are reported.
type guard struct {
	trial  *trial
	schema *jsonschema.Schema
	branch bool
	steps  int64
	unique bool // the schema has uniqueItems
}

// Validate implements jsonschema.SchemaExt. It panics when the trial or its scope ends.
func (g *guard) Validate(vc *jsonschema.ValidatorContext, v any) {
	steps := g.steps
	if list, ok := v.([]any); ok && g.unique {
		steps += int64(len(list))
	}
	g.trial.step(steps, v)
	if g.branch {
		if err := g.try(vc, v); err != nil {
			vc.AddErr(err)
		}
		return
	}
	around := g.trial.scope
	before := len(around.kept)
	err := vc.Validate(g.schema, v, nil)
	if err == nil {
		return
	}
	trimNames(err)
	if len(around.kept) == before { // otherwise an inner guard has kept the cause
		g.trial.keep(err)
	}
	vc.AddErr(err)
}

// try applies the schema as a branch: its errors have a scope of their own.
func (g *guard) try(vc *jsonschema.ValidatorContext, v any) (err error) {
	outer, own := g.trial.scope, new(scope)
	g.trial.scope = own
	defer func() {
		g.trial.scope = outer
		switch p := recover(); p {
		case nil:
		case any(own):
			err = own.failure()
		default:
			panic(p)
		}
	}()
	if err = vc.Validate(g.schema, v, nil); err != nil {
		trimNames(err)
	}
	return err
}

// trimNames shortens a list of unknown properties to the names that are reported.
func trimNames(err error) {
	ve, ok := err.(*jsonschema.ValidationError) // the validator does not wrap its errors
	if !ok {
		return
	}
	switch k := ve.ErrorKind.(type) {
	case *kind.AdditionalProperties:
		if len(k.Properties) <= maxProblems {
			return
		}
		var first []string // sorted
		for _, name := range k.Properties {
			if at, _ := slices.BinarySearch(first, name); at < maxProblems {
				first = slices.Insert(first, at, name)
				first = first[:min(len(first), maxProblems)]
			}
		}
		k.Properties = first
	case *kind.Group:
		for _, cause := range ve.Causes {
			trimNames(cause)
		}
	}
}

// containing implements contains, minContains and maxContains. The validator's implementation keeps
// an error per element that does not match.
type containing struct {
	trial    *trial
	schema   *jsonschema.Schema // guarded
	min, max *int
	marks    bool // matching elements count as evaluated (2020-12)
}

// Validate implements jsonschema.SchemaExt.
func (c containing) Validate(vc *jsonschema.ValidatorContext, v any) {
	list, ok := v.([]any)
	if !ok {
		return
	}
	var causes []*jsonschema.ValidationError
	var matched []int // the first indexes
	n := 0
	for i, element := range list {
		err := vc.Validate(c.schema, element, []string{strconv.Itoa(i)})
		if err == nil {
			if n++; len(matched) < maxProblems {
				matched = append(matched, i)
			}
			if c.marks {
				vc.EvaluatedItem(i)
			}
			continue
		}
		if ve, ok := err.(*jsonschema.ValidationError); ok && len(causes) < maxProblems { // the validator does not wrap its errors
			causes = append(causes, ve)
		}
	}
	switch {
	case c.min != nil && n < *c.min:
		vc.AddErrors(causes, &kind.MinContains{Got: matched, Want: *c.min})
	case c.min == nil && n == 0:
		vc.AddErrors(causes, &kind.Contains{})
	}
	if c.max != nil && n > *c.max {
		vc.AddError(&kind.MaxContains{Got: matched, Want: *c.max})
	}
}
