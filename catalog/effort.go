package catalog

import (
	"errors"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A schema of a few lines can take longer to apply than anybody waits: thirty
// definitions, each of which refers to the next one twice, are a thousand
// million steps. The validator cannot be stopped from outside, so the schemas
// that may do that count their own steps and give up.
const (
	// smallEffort is the number of subschemas that a schema may come to, each
	// reference followed, without being watched. References that come back, as
	// in the schema of a tree, have no such number.
	smallEffort = 10_000
	// maxSteps bounds the steps of a watched schema, and stepsPerByte what
	// long arguments may take more.
	maxSteps     = 100_000
	stepsPerByte = 4
)

var errEffort = errors.New("its references multiply: it takes too long to apply")

// effort counts the steps of a schema, which are those of one call at a time.
type effort struct {
	mu   sync.Mutex // held during a validation
	left int
}

// step is what one subschema costs whenever it is applied.
type step struct {
	of   *effort
	cost int
}

// Validate implements jsonschema.SchemaExt. What it panics with ends in run.
func (s step) Validate(*jsonschema.ValidatorContext, any) {
	if s.of.left -= s.cost; s.of.left < 0 {
		panic(errEffort)
	}
}

// watch returns the counter that schema has been given, nil for one that needs
// none.
func watch(schema *jsonschema.Schema) *effort {
	costs := map[*jsonschema.Schema]int{}
	if unfold(schema, costs) <= smallEffort {
		return nil
	}
	e := new(effort)
	for s := range costs {
		direct := 1
		for range subschemas(s) {
			direct++
		}
		s.Extensions = append(s.Extensions, step{e, direct})
	}
	return e
}

// unfold returns how many subschemas s comes to, up to a little over
// smallEffort, and adds all that it refers to to costs.
func unfold(s *jsonschema.Schema, costs map[*jsonschema.Schema]int) int {
	const endless = smallEffort + 1
	if cost, ok := costs[s]; ok {
		return cost
	}
	costs[s] = endless // where it refers to itself
	cost := 1
	for sub := range subschemas(s) {
		cost = min(cost+unfold(sub, costs), endless)
	}
	costs[s] = cost
	return cost
}

// subschemas yields the schemas that s consists of and refers to.
func subschemas(s *jsonschema.Schema) func(yield func(*jsonschema.Schema) bool) {
	return func(yield func(*jsonschema.Schema) bool) {
		each := func(list ...*jsonschema.Schema) bool {
			for _, sub := range list {
				if sub != nil && !yield(sub) {
					return false
				}
			}
			return true
		}
		// What is a schema in one draft and something else in another.
		either := func(v any) bool {
			switch v := v.(type) {
			case *jsonschema.Schema:
				return each(v)
			case []*jsonschema.Schema:
				return each(v...)
			}
			return true
		}
		if !each(s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else, s.PropertyNames, s.UnevaluatedProperties,
			s.Contains, s.Items2020, s.UnevaluatedItems, s.ContentSchema) ||
			!each(s.AllOf...) || !each(s.AnyOf...) || !each(s.OneOf...) || !each(s.PrefixItems...) ||
			!either(s.AdditionalProperties) || !either(s.Items) || !either(s.AdditionalItems) {
			return
		}
		if s.DynamicRef != nil && !each(s.DynamicRef.Ref) {
			return
		}
		for _, sub := range s.Properties {
			if !each(sub) {
				return
			}
		}
		for _, sub := range s.PatternProperties {
			if !each(sub) {
				return
			}
		}
		for _, sub := range s.DependentSchemas {
			if !each(sub) {
				return
			}
		}
		for _, sub := range s.Dependencies {
			if !either(sub) {
				return
			}
		}
	}
}
