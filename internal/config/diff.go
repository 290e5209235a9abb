package config

import (
	"reflect"
	"slices"

	"github.com/weir-mcp/weir/internal/config/mcpserver"
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
	servers := mcpserver.Diff(old.Enabled(), new.Enabled())
	change.Added, change.Removed, change.Changed = servers.Added, servers.Removed, servers.Changed
	was, now := mcpserver.Unlike(old.Servers, new.Servers)
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

	a, b := reflect.ValueOf(old).Elem(), reflect.ValueOf(new).Elem()
	for _, f := range strict.Fields(a.Type()) {
		switch f.Key {
		case "mcpServers", "inputs", "$schema": // servers are above, and answers are in them
		default:
			if !strict.Equal(a.FieldByIndex(f.Index), b.FieldByIndex(f.Index)) {
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
