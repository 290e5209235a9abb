package config

import (
	"reflect"
	"slices"

	"github.com/weir-mcp/weir/internal/json/strict"
)

// Change is the difference between two configurations, as a reload needs it.
type Change struct {
	// Added, Removed and Changed are names of servers, sorted. They omit disabled servers: to
	// disable a server removes it. Expanded values count, so a server whose variable changed is
	// changed.
	Added, Removed, Changed []string

	// Faulty are the names of servers with a new fault in their entry, sorted. A faulty server that
	// ran before is in Removed as well.
	Faulty []string

	// Idle are the names of servers that are not in both configurations and run with neither: they are
	// disabled or faulty. Sorted.
	Idle []string

	// Omitted are the names of servers that are now left out for a new reason, sorted.
	Omitted []string

	// Other are the top-level keys besides mcpServers and inputs whose values
	// differ, in the table's order.
	Other []string
}

// Empty reports whether nothing changed.
func (c Change) Empty() bool {
	return len(c.Added)+len(c.Removed)+len(c.Changed)+len(c.Faulty)+len(c.Idle)+len(c.Omitted)+len(c.Other) == 0
}

// Diff compares two loaded configurations. A nil old one has no servers and the
// defaults. Where things stand in their files does not count.
func Diff(old, new *Config) Change {
	if old == nil {
		old = &Config{}
		strict.SetDefaults(old)
	}
	var change Change
	was, now := unlike(old.Enabled(), new.Enabled())
	before := make(map[string]*Server, len(was))
	for _, s := range was {
		before[s.Name] = s
	}
	for _, s := range now {
		was, ok := before[s.Name]
		delete(before, s.Name)
		switch {
		case !ok:
			change.Added = append(change.Added, s.Name)
		case was != s && !same(reflect.ValueOf(*was), reflect.ValueOf(*s)):
			change.Changed = append(change.Changed, s.Name)
		}
	}
	for name := range before {
		change.Removed = append(change.Removed, name)
	}
	was, now = unlike(old.Servers, new.Servers)
	faults := make(map[string]string, len(was))
	for _, s := range was {
		faults[s.Name] = s.Fault()
	}
	for _, s := range now {
		if !s.Disabled && s.Faulty() && s.Fault() != faults[s.Name] {
			change.Faulty = append(change.Faulty, s.Name)
		}
	}
	slices.Sort(change.Faulty)
	change.Idle = append(notRunning(was, new), notRunning(now, old)...)
	slices.Sort(change.Idle)
	for name, reason := range new.omitted {
		if old.omitted[name] != reason {
			change.Omitted = append(change.Omitted, name)
		}
	}
	slices.Sort(change.Omitted)
	slices.Sort(change.Added)
	slices.Sort(change.Removed)
	slices.Sort(change.Changed)

	a, b := reflect.ValueOf(old).Elem(), reflect.ValueOf(new).Elem()
	for _, f := range strict.Fields(a.Type()) {
		switch f.Key {
		case "mcpServers", "inputs", "$schema": // servers are above, and answers are in them
		default:
			if !same(a.FieldByIndex(f.Index), b.FieldByIndex(f.Index)) {
				change.Other = append(change.Other, f.Key)
			}
		}
	}
	return change
}

// notRunning returns the names of servers that do not run and that another configuration does not have.
func notRunning(servers []*Server, other *Config) (names []string) {
	for _, s := range servers {
		if _, has := other.Server(s.Name); !has && (s.Disabled || s.Faulty()) {
			names = append(names, s.Name)
		}
	}
	return names
}

// unlike returns the servers of two lists without the ones that both share at the start and at the end. Of thousands of
// servers, most often one has come or gone.
func unlike(a, b []*Server) ([]*Server, []*Server) {
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return a, b
}

// same compares by value; an empty list or mapping is the same as none, unless the table of keys says
// otherwise.
func same(a, b reflect.Value) bool {
	switch a.Kind() {
	case reflect.Struct:
		for i := range a.NumField() {
			if !a.Type().Field(i).IsExported() {
				continue // derived from other keys
			}
			if !same(a.Field(i), b.Field(i)) {
				return false
			}
			if f := a.Type().Field(i); f.Tag.Get("empty") == string(strict.EmptyNone) && a.Field(i).IsNil() != b.Field(i).IsNil() {
				return false
			}
		}
		return true
	case reflect.Slice, reflect.Map:
		if a.Len() == 0 && b.Len() == 0 {
			return true
		}
	}
	return reflect.DeepEqual(a.Interface(), b.Interface())
}
