package mcpserver

import (
	"reflect"
	"slices"

	"github.com/weir-mcp/weir/internal/json/strict"
)

// Change is the difference between two lists of servers. It omits disabled and faulty servers: to
// disable a server removes it. The names are sorted.
type Change struct{ Added, Removed, Changed []string }

// Diff compares two lists of servers by their names and values.
func Diff(old, new []*Server) (change Change) {
	was, now := Unlike(old, new)
	before := make(map[string]*Server, len(was))
	for _, s := range was {
		if s.runs() {
			before[s.Name] = s
		}
	}
	for _, s := range now {
		if !s.runs() {
			continue
		}
		was, ok := before[s.Name]
		delete(before, s.Name)
		switch {
		case !ok:
			change.Added = append(change.Added, s.Name)
		case was != s && !strict.Equal(reflect.ValueOf(*was), reflect.ValueOf(*s)):
			change.Changed = append(change.Changed, s.Name)
		}
	}
	for name := range before {
		change.Removed = append(change.Removed, name)
	}
	slices.Sort(change.Added)
	slices.Sort(change.Removed)
	slices.Sort(change.Changed)
	return change
}

func (s *Server) runs() bool { return !s.Disabled && !s.Faulty() }

// Unlike returns the two lists without the servers that both share at their start and at their end.
// Of thousands of servers, most often one was added or removed.
func Unlike(a, b []*Server) ([]*Server, []*Server) {
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return a, b
}
