package catalog

import (
	"encoding/json"
	"sync"
	"sync/atomic"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// checker is a compiled schema with which arguments are validated.
type checker struct {
	program *jsonschema.Schema // for light arguments; used concurrently
	weight  weight             // weight of program
	simple  *simpleSchema      // finds most valid arguments; nil: program has other keywords
	guarded programs           // for other arguments
	clip    int                // see textClip
	err     error
}

func newChecker(schema json.RawMessage) *checker {
	var p patterns
	out := &checker{clip: textClip(schema)}
	c, err := compileFree(schema, &p)
	if err != nil {
		out.err = err
		return out
	}
	out.program, out.weight = c.schema, weigh(c.schema, map[*jsonschema.Schema]weight{})
	out.guarded.patterns = &p
	out.simple = simpleOf(c.schema)
	return out
}

// validator compiles a schema when it is needed. Entries that differ only in their id share one.
type validator struct {
	schema  json.RawMessage  // if absent, any object is valid
	shared  *compiledSchemas // nil: the compiled schema is kept as long as the validator
	current atomic.Pointer[checker]
	uses    atomic.Int32 // again, up to maxUses; shared counts down
	mu      sync.Mutex   // held while the schema is compiled
}

// checker returns the compiled schema, which stays valid if v drops it meanwhile.
func (v *validator) checker() *checker {
	if c := v.current.Load(); c != nil {
		if v.uses.Load() < maxUses {
			v.uses.Add(1)
		}
		return c
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if c := v.current.Load(); c != nil {
		return c
	}
	c := newChecker(v.schema)
	v.current.Store(c)
	if v.shared != nil {
		v.shared.add(v)
	}
	return c
}

// compiledSchemas bounds the memory of the compiled schemas of a catalog and of all that derive from
// it. A compiled schema has about seven times the bytes of its JSON, so the schemas of 10,000 tools
// would take as much memory as the rest of a catalog. A schema that is dropped is compiled again
// when its tool is called, which takes about as long as a call over loopback.
type compiledSchemas struct {
	mu   sync.Mutex // guards below
	kept []*validator
	hand int // the next of kept to be looked at
	cost int
}

// Bounds of compiled schemas. The schemas of about 800 usual tools are within them.
const (
	maxCompiledCost = 768 << 10
	baseCost        = 512 // of a schema, in addition to the bytes of its JSON
	maxUses         = 3   // that count: so many rounds keep a schema
)

func (v *validator) cost() int { return baseCost + len(v.schema) }

// add accounts for a validator that has compiled its schema. While the bound is exceeded, it goes
// round, takes a use from each of the others and drops compiled schemas that have none left.
func (c *compiledSchemas) add(v *validator) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept = append(c.kept, v)
	c.cost += v.cost()
	for c.cost > maxCompiledCost && len(c.kept) > 1 {
		c.hand %= len(c.kept)
		w := c.kept[c.hand]
		if w == v || w.uses.Load() > 0 {
			if w != v {
				w.uses.Add(-1)
			}
			c.hand++
			continue
		}
		w.current.Store(nil)
		c.cost -= w.cost()
		last := len(c.kept) - 1
		c.kept[c.hand], c.kept[last] = c.kept[last], nil
		c.kept = c.kept[:last]
	}
}
