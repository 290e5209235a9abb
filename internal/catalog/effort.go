package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/weir-mcp/weir/internal/limit/work"
)

// A schema of a few lines can take too long to apply. Thirty definitions, each with two references
// to the next, are a thousand million steps; so is a pattern of a kilobyte on a long text.
// Moreover, the validator collects every error, hundreds of bytes for each byte of an array, and it
// cannot be interrupted.
//
// Therefore weir estimates beforehand the cost of a schema with given arguments. Most calls are
// light and are validated directly. The others are validated with a program that has guards between
// its parts (see guard). Guards count steps, check the context and stop at a limit.
const (
	// lightSteps and lightPatterns are the estimates, in steps and units of work, up to which
	// nothing is counted.
	lightSteps    = 20_000
	lightPatterns = 2 * work.Small

	// maxSteps bounds the steps of a guarded validation; stepsPerByte adds to it for long
	// arguments. A subschema that is applied once takes at least two steps.
	maxSteps     = 100_000
	stepsPerByte = 8
	// stepUnits is the cost of a step in units of work.
	stepUnits = 25
	// maxPatterns bounds the cost of patterns in one validation, in units.
	maxPatterns = 100_000_000

	// endless is the estimate for a recursive schema.
	endless = 1 << 30
)

var errEffort = errors.New("its references multiply: it takes too long to apply")

// A costlyPattern ends a trial whose patterns cost too much.
type costlyPattern struct {
	pattern string
	size    int // size of the text
}

func (e *costlyPattern) Error() string {
	return fmt.Sprintf("the pattern %s is too expensive for an argument of %d bytes", clip(e.pattern, 60), e.size)
}

// weight is the possible cost of a schema: steps per value of the arguments, and units of work per
// byte.
type weight struct{ steps, units int64 }

// weigh returns the weight of a schema and everything that it refers to. Recursive references, as
// in the schema of a tree, are endless.
func weigh(s *jsonschema.Schema, known map[*jsonschema.Schema]weight) weight {
	if w, ok := known[s]; ok {
		return w
	}
	known[s] = weight{endless, endless} // if it refers to itself
	w := weight{steps: ownSteps(s)}
	add := func(p jsonschema.Regexp) {
		if p, ok := p.(freePattern); ok {
			w.units += p.Instructions()
		}
	}
	if s.Pattern != nil {
		add(s.Pattern)
	}
	for p := range s.PatternProperties {
		add(p)
	}
	eachEdge(s, func(_ edge, sub *jsonschema.Schema) *jsonschema.Schema {
		more := weigh(sub, known)
		w.steps, w.units = min(w.steps+more.steps, endless), min(w.units+more.units, endless)
		return sub
	})
	if s.RecursiveRef != nil || s.DynamicRef != nil {
		w = weight{endless, endless}
	}
	known[s] = w
	return w
}

// light reports whether validating a value of size bytes costs next to nothing.
func (w weight) light(value any, size int) bool {
	if w.units*int64(size) > lightPatterns {
		return false
	}
	most := lightSteps / w.steps // values
	return int64(size/2+1) <= most || countValues(value, most) <= most
}

// countValues counts nested values and stops a little above most.
func countValues(v any, most int64) int64 {
	n := int64(1)
	switch v := v.(type) {
	case map[string]any:
		for _, member := range v {
			if n += countValues(member, most-n); n > most {
				break
			}
		}
	case []any:
		for _, element := range v {
			if n += countValues(element, most-n); n > most {
				break
			}
		}
	}
	return n
}

// guarded is a guarded program for one validation at a time.
type guarded struct {
	schema *jsonschema.Schema
	own    int64 // steps of the schema itself
	most   int64 // units for patterns
	trial  *trial
}

// newGuarded compiles a valid schema into a guarded program.
func newGuarded(raw []byte, p *patterns) (*guarded, error) {
	t := new(trial)
	c, err := compileSchema(raw, p, func(p *work.Pattern) jsonschema.Regexp { return countedPattern{p, t} })
	if err != nil {
		return nil, err
	}
	t.guard(c.schema)
	return &guarded{c.schema, ownSteps(c.schema), maxPatterns, t}, nil
}

// validate validates a value of size bytes. Its error is a *jsonschema.ValidationError, errEffort,
// a *costlyPattern or an error of m.
func (g *guarded) validate(m *work.Meter, value any, size int) (err error) {
	if m == nil {
		m = work.NewMeter(context.Background(), work.Options{})
	}
	t, root := g.trial, new(scope)
	t.meter, t.scope, t.patterns = m, root, g.most
	t.steps = maxSteps + stepsPerByte*int64(size)
	defer func() {
		t.meter, t.scope = nil, nil
		switch p := recover().(type) {
		case nil:
		case *scope:
			err = root.failure()
		case abort:
			err = p.error
		default:
			err = fmt.Errorf("%w: %v", errNotApplied, p)
		}
	}()
	t.step(g.own, value)
	return g.schema.Validate(value)
}

// trial is the state of one guarded validation.
type trial struct {
	meter    *work.Meter
	steps    int64 // remaining
	patterns int64 // remaining units
	scope    *scope
}

// abort is the panic value of a trial that cannot continue.
type abort struct{ error }

// scope collects the errors of a whole validation or of one branch, such as a form of anyOf. A
// trial panics with the scope once the scope has enough errors.
type scope struct{ kept []*jsonschema.ValidationError }

// failure returns the error of a scope that ended early.
func (s *scope) failure() *jsonschema.ValidationError {
	return &jsonschema.ValidationError{ErrorKind: &kind.Group{}, Causes: s.kept}
}

// step counts n steps and the cost of reading v.
func (t *trial) step(n int64, v any) {
	switch v := v.(type) {
	case map[string]any:
		n += int64(len(v)) / 8
	case []any:
		n += int64(len(v)) / 8
	case string:
		n += int64(len(v)) / 1024
	}
	if t.steps -= n; t.steps < 0 {
		panic(abort{errEffort})
	}
	if err := t.meter.Spend(n * stepUnits); err != nil {
		panic(abort{err})
	}
}

// match reports whether a text matches, and counts the cost.
func (t *trial) match(p *work.Pattern, text string) bool {
	before := t.meter.Spent()
	t.meter.Limit(max(t.patterns, 1))
	found, err := p.Match(t.meter, text)
	switch {
	case errors.Is(err, work.ErrLimit):
		panic(abort{&costlyPattern{p.String(), len(text)}})
	case err != nil:
		panic(abort{err})
	}
	t.meter.Limit(0)
	t.patterns -= t.meter.Spent() - before
	return found
}

// keep adds an error to the scope and ends the scope if it has enough.
func (t *trial) keep(err error) {
	ve, ok := err.(*jsonschema.ValidationError) // the validator does not wrap its errors
	if !ok {
		return
	}
	if t.scope.kept = append(t.scope.kept, ve); len(t.scope.kept) >= maxProblems {
		panic(t.scope)
	}
}

// maxIdle bounds the idle guarded programs per schema.
const maxIdle = 2

// programs are the guarded programs of one schema.
type programs struct {
	mu       sync.Mutex // guards below
	patterns *patterns
	idle     []*guarded
}

// take returns a program for exclusive use. The caller gives it back.
func (p *programs) take(raw []byte) (*guarded, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.idle); n > 0 {
		g := p.idle[n-1]
		p.idle = slices.Delete(p.idle, n-1, n)
		return g, nil
	}
	return newGuarded(raw, p.patterns)
}

func (p *programs) give(g *guarded) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) < maxIdle {
		p.idle = append(p.idle, g)
	}
}
