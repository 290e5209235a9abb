package catalog

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
)

// Compiled schemas are bounded over all tools of a catalog and of those that derive from it. A tool
// whose schema was dropped is validated as before, and one that is called all the time keeps its own.
func TestCompiledSchemasAreBounded(t *testing.T) {
	c := New(Limits{})
	const servers, tools = 16, 100
	for server := range servers {
		name := fmt.Sprintf("server%d", server)
		l := primitive.Listing{Upstream: name, Namespace: name}
		for n := range tools {
			l.Tools = append(l.Tools, fmt.Appendf(nil, `{"name":"tool%d","description":"Does it.","inputSchema":{"type":"object","properties":{"id":{"type":"string","maxLength":%d}},"required":["id"]}}`, n, n+1))
		}
		c, _ = c.With(l)
	}
	entries := c.Entries()
	if len(entries) != servers*tools {
		t.Fatalf("%d entries", len(entries))
	}
	good, bad := json.RawMessage(`{"id":"x"}`), json.RawMessage(`{"id":1}`)
	hot := entries[7]
	if err := hot.Validate(good); err != nil {
		t.Fatal(err)
	}
	first := hot.check.current.Load()
	for range 2 {
		for _, e := range entries {
			if err := e.Validate(good); err != nil {
				t.Fatal(err)
			}
			var refused *Error
			if err := e.Validate(bad); !errors.As(err, &refused) || refused.Code != ArgsInvalid {
				t.Fatalf("%s: %v", e.ID, err)
			}
			if err := hot.Validate(good); err != nil {
				t.Fatal(err)
			}
		}
	}
	kept, cost := 0, 0
	for _, e := range entries {
		if e.check.current.Load() != nil {
			kept++
			cost += e.check.cost()
		}
	}
	if kept != len(c.compiled.kept) || cost != c.compiled.cost {
		t.Errorf("%d compiled schemas cost %d, accounted for are %d, %d", kept, cost, len(c.compiled.kept), c.compiled.cost)
	}
	if cost > maxCompiledCost || kept < tools {
		t.Errorf("%d compiled schemas cost %d, the bound is %d", kept, cost, maxCompiledCost)
	}
	if hot.check.current.Load() != first {
		t.Error("the schema of a tool that is called all the time was compiled again")
	}
}

// Callers of many tools may validate at the same time.
func TestCompiledSchemasConcurrently(t *testing.T) {
	shared := new(compiledSchemas)
	var all []*validator
	for n := range 1600 {
		all = append(all, &validator{schema: fmt.Appendf(nil, `{"type":"object","maxProperties":%d}`, n), shared: shared})
	}
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for n := range all {
				if c := all[(n+worker*300)%len(all)].checker(); c.err != nil || c.program == nil {
					t.Error(c.err)
				}
			}
		})
	}
	wg.Wait()
	if shared.cost > maxCompiledCost {
		t.Errorf("the cost is %d", shared.cost)
	}
}
