package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/weir-mcp/weir/internal/work"
)

// A schema of a few lines can take longer to apply than anybody waits: thirty
// definitions, each of which refers to the next one twice, are a thousand
// million steps; a pattern of a kilobyte, matched with a long text, is as many.
// And the validator keeps every error it meets, hundreds of bytes for each byte of
// an array. It cannot be stopped from outside.
//
// What a schema can cost with given arguments is estimated beforehand. Nearly all
// calls are light and validated as they are. The others are validated with a
// program that has guards between its parts, see guard: they count, look at the
// context, and give up where it is enough.
const (
	// lightSteps and lightPatterns are the estimates, in steps and in units of
	// work, up to which nothing is counted.
	lightSteps    = 20_000
	lightPatterns = 2 * work.Small

	// maxSteps bounds the steps of a guarded validation, and stepsPerByte what
	// long arguments may take more. A subschema that is applied once is two steps
	// and more.
	maxSteps     = 100_000
	stepsPerByte = 8
	// stepUnits is a step in units of work.
	stepUnits = 25
	// maxPatterns bounds what the patterns of one validation cost, in units.
	maxPatterns = 100_000_000

	// endless is an estimate beyond counting, as that of a recursive schema.
	endless = 1 << 30
)

var errEffort = errors.New("its references multiply: it takes too long to apply")

// A costlyPattern is the end of a trial whose patterns cost too much.
type costlyPattern struct {
	pattern string
	size    int // of the text
}

func (e *costlyPattern) Error() string {
	return fmt.Sprintf("the pattern %s is too expensive for an argument of %d bytes", clip(e.pattern, 60), e.size)
}

// weight is what a schema can cost: steps for each value of the arguments, and
// units of work for each of their bytes.
type weight struct{ steps, units int64 }

// weigh returns the weight of a schema, each reference followed. References that
// come back, as in the schema of a tree, weigh endlessly.
func weigh(s *jsonschema.Schema, known map[*jsonschema.Schema]weight) weight {
	if w, ok := known[s]; ok {
		return w
	}
	known[s] = weight{endless, endless} // where it refers to itself
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

// light reports whether validating a value that was written in size bytes costs
// next to nothing.
func (w weight) light(value any, size int) bool {
	if w.units*int64(size) > lightPatterns {
		return false
	}
	most := lightSteps / w.steps // values
	return int64(size/2+1) <= most || countValues(value, most) <= most
}

// countValues counts the values in a value, up to a little over most.
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

// guarded is a program that one validation at a time may use.
type guarded struct {
	schema *jsonschema.Schema
	own    int64 // steps of the schema itself
	most   int64 // units that patterns may cost
	trial  *trial
}

// newGuarded compiles a schema that has been found to be sound.
func newGuarded(raw []byte, p *patterns) (*guarded, error) {
	t := new(trial)
	c, err := compileSchema(raw, p, func(p *work.Pattern) jsonschema.Regexp { return countedPattern{p, t} })
	if err != nil {
		return nil, err
	}
	t.guard(c.schema)
	return &guarded{c.schema, ownSteps(c.schema), maxPatterns, t}, nil
}

// validate validates a value that was written in size bytes. Besides a
// *jsonschema.ValidationError it returns errEffort, a *costlyPattern, or what m
// does.
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
	steps    int64 // left
	patterns int64 // units left
	scope    *scope
}

// abort is what a trial panics with that cannot go on.
type abort struct{ error }

// scope is a part of a validation whose errors belong together: all of it, or one
// branch, such as a form of anyOf. A trial panics with the scope that has enough
// errors.
type scope struct{ kept []*jsonschema.ValidationError }

// failure is the error of a scope that was left early.
func (s *scope) failure() *jsonschema.ValidationError {
	return &jsonschema.ValidationError{ErrorKind: &kind.Group{}, Causes: s.kept}
}

// step counts steps, and what going over a value costs.
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

// match reports whether a text has a match.
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

// keep notes an error in the scope, and ends the scope where it has enough.
func (t *trial) keep(err error) {
	ve, ok := err.(*jsonschema.ValidationError) //nolint:errorlint // the validator's own
	if !ok {
		return
	}
	if t.scope.kept = append(t.scope.kept, ve); len(t.scope.kept) >= maxProblems {
		panic(t.scope)
	}
}

// maxIdle bounds the guarded programs that a schema keeps.
const maxIdle = 2

// programs are the guarded programs of one schema.
type programs struct {
	mu       sync.Mutex // guards below
	patterns *patterns
	idle     []*guarded
}

// take returns a program that nobody else uses. The caller gives it back.
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
