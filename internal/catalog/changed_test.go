package catalog

import (
	"slices"
	"testing"
)

// Changed names the upstreams of the namespaces that a change affects, and no others.
func TestChanged(t *testing.T) {
	list := func(upstream, namespace string, names ...string) Listing {
		l := Listing{Upstream: upstream, Namespace: namespace}
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
