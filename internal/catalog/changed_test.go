package catalog

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
)

// Changed names the upstreams of the namespaces that a change affects, and no others.
func TestChanged(t *testing.T) {
	list := func(upstream, namespace string, names ...string) primitive.Listing {
		l := primitive.Listing{Upstream: upstream, Namespace: namespace}
		for _, name := range names {
			l.Tools = append(l.Tools, raws(`{"name":"`+name+`"}`)...)
		}
		return l
	}
	first, _ := New(Limits{}).With(list("a", "a", "read"))
	first, _ = first.With(list("b", "shared", "read"))
	both, _ := first.With(list("c", "shared", "read", "write"))
	for name, tt := range map[string]struct {
		old, next *Catalog
		want      []string
	}{
		"nothing":         {both, both, nil},
		"a new one":       {first, both, []string{"b", "c"}},
		"one without":     {both, both.Without("a"), []string{"a"}},
		"the hidden ones": {both, both.Without("b"), []string{"b", "c"}},
	} {
		if got := tt.next.Changed(tt.old); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// The numbers of entries and the hashes of surfaces follow each change.
func TestKindsAndContent(t *testing.T) {
	with := func(c *Catalog, upstream, prompt string) *Catalog {
		l := primitive.Listing{Upstream: upstream, Namespace: upstream, Tools: raws(`{"name":"read"}`)}
		if prompt != "" {
			l.Prompts = raws(`{"name":"` + prompt + `"}`)
		}
		next, _ := c.With(l)
		return next
	}
	plain := with(with(New(Limits{}), "a", ""), "b", "")
	asked := with(plain, "b", "ask")
	for name, tt := range map[string]struct {
		of                      *Catalog
		all, tools, prompts     int
		like                    *Catalog // with the same prompts
		unlike                  *Catalog
		hasPrompts, hasTemplate bool
	}{
		"tools alone":          {plain, 2, 2, 0, New(Limits{}), asked, false, false},
		"a prompt":             {asked, 3, 2, 1, with(asked, "a", ""), with(plain, "b", "other"), true, false},
		"without its server":   {asked.Without("b"), 1, 1, 0, plain, asked, false, false},
		"a part":               {asked.Only(func(e *Entry) bool { return e.Kind == primitive.KindPrompt }), 1, 0, 1, asked, plain, true, false},
		"joined with a prompt": {plain.Join(plain.Reader().Read(&primitive.Listing{Upstream: "b", Namespace: "b", Prompts: raws(`{"name":"ask"}`)})), 2, 1, 1, asked, plain, true, false},
	} {
		n := tt.of.Kinds()
		if tt.of.Len() != tt.all || n[primitive.KindTool] != tt.tools || n[primitive.KindPrompt] != tt.prompts || len(tt.of.Entries()) != tt.all {
			t.Errorf("%s: %d entries, %v", name, tt.of.Len(), n)
		}
		if tt.of.Has(primitive.KindPrompt) != tt.hasPrompts || tt.of.Has(primitive.KindTemplate) != tt.hasTemplate {
			t.Errorf("%s: prompts %t, templates %t", name, tt.of.Has(primitive.KindPrompt), tt.of.Has(primitive.KindTemplate))
		}
		if tt.of.Content(primitive.KindPrompt) != tt.like.Content(primitive.KindPrompt) {
			t.Errorf("%s: other prompts than where they are the same", name)
		}
		if tt.of.Content(primitive.KindPrompt) == tt.unlike.Content(primitive.KindPrompt) {
			t.Errorf("%s: the same prompts as where they differ", name)
		}
	}
}

// Another id of the same definition is another list: a prompt whose name several servers have is
// listed by its id.
func TestContentOfIDs(t *testing.T) {
	with := func(c *Catalog, upstream string) *Catalog {
		next, _ := c.With(primitive.Listing{Upstream: upstream, Namespace: upstream, Prompts: raws(`{"name":"ask"}`)})
		return next
	}
	one := with(New(Limits{}), "a")
	if with(one, "b").Content(primitive.KindPrompt) == with(one, "c").Content(primitive.KindPrompt) {
		t.Error("b:ask and c:ask have the same hash")
	}
}

// The namespaces and the hash of a catalog are those of one that was made of the same listings at once.
func TestNamespacesFollowChanges(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	c, listed := New(Limits{}), map[string]primitive.Listing{}
	for range 300 {
		upstream := fmt.Sprintf("s%d", random.IntN(15))
		if random.IntN(3) == 0 {
			c = c.Without(upstream)
			delete(listed, upstream)
		} else {
			l := primitive.Listing{Upstream: upstream, Namespace: fmt.Sprintf("n%d", random.IntN(10)), Tools: raws(fmt.Sprintf(`{"name":"t%d","description":"%d"}`, random.IntN(1000), random.IntN(3)))}
			c, _ = c.With(l)
			listed[upstream] = l
		}
		again := New(Limits{})
		for _, l := range listed {
			again, _ = again.With(l)
		}
		if got, want := c.Namespaces(), slices.Sorted(maps.Keys(c.spaces)); !slices.Equal(got, want) {
			t.Fatalf("namespaces %q, want %q", got, want)
		}
		if got, want := c.Hash(), again.Hash(); got != want {
			t.Fatalf("the hash is %s, and %s of the same listings", got, want)
		}
	}
}
