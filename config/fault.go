package config

import (
	"fmt"
	"path/filepath"
	"slices"
)

// Faulty reports whether something is wrong within the server's entry, so that
// this server is not started while the others are.
func (s *Server) Faulty() bool { return len(s.Problems) > 0 }

// Fault is what is wrong within the entry, in one line that names the place in the
// file, the key and the fix; "" for a sound entry. The file's folder is left out:
// the text reaches agents.
func (s *Server) Fault() string {
	if !s.Faulty() {
		return ""
	}
	first := s.Problems[0]
	first.File = filepath.Base(first.File)
	text := first.String()
	if more := len(s.Problems) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more: weir config check lists them)", more)
	}
	return text
}

// Faults returns the problems within single entries of mcpServers, in the file's
// order. A Config that was read with [Options.Strict] has none.
func (c *Config) Faults() []Problem {
	var all []Problem
	for _, s := range c.Servers {
		all = append(all, s.Problems...)
	}
	slices.SortStableFunc(all, byPlace)
	return all
}

// within calls fn. What it reports counts as wrong in the entry at this path of
// mcpServers alone.
func (d *decoder) within(entry string, fn func()) {
	before := d.entry
	d.entry = entry
	fn()
	d.entry = before
}

// place puts the problems of entries where they belong: to the file where it is
// read strictly, else to their servers. An entry whose server runs already keeps it as it
// was in the configuration before, with a warning in place of the problems.
func (d *decoder) place(c, before *Config) {
	if d.whole {
		for _, s := range c.Servers {
			d.problems = append(d.problems, d.faults[d.paths[s]]...)
		}
		return
	}
	taken := map[string]bool{}
	for _, s := range c.Servers {
		if s.Problems = d.faults[d.paths[s]]; s.Faulty() {
			slices.SortStableFunc(s.Problems, byPlace)
		} else if !s.Disabled {
			taken[s.Namespace] = true
		}
	}
	kept := false
	for i, s := range c.Servers {
		old := before.running(s.Name)
		if !s.Faulty() || old == nil || taken[old.Namespace] {
			continue
		}
		for _, p := range s.Problems {
			p.Message += fmt.Sprintf("; the server %q keeps running as it was configured before", s.Name)
			d.warnings = append(d.warnings, p)
		}
		c.Servers[i], taken[old.Namespace], kept = old, true, true
		if port, ok := before.resolved.ports[s.Name]; ok {
			d.expand.new.ports[s.Name] = port
		}
	}
	if kept {
		for _, secret := range before.secrets {
			d.expand.secrets[secret] = true
		}
	}
}

// running returns the server of this name that the configuration runs, nil where
// there is none. c may be nil.
func (c *Config) running(name string) *Server {
	if c == nil {
		return nil
	}
	if s, ok := c.Server(name); ok && !s.Disabled && !s.Faulty() {
		return s
	}
	return nil
}
