package config

import (
	"fmt"
	"slices"

	"github.com/weir-mcp/weir/internal/json/strict"
)

// Faults returns the problems within single entries of mcpServers, in the file's
// order. A Config that was read with [Options.Strict] has none.
func (c *Config) Faults() []Problem {
	var all []Problem
	for _, s := range c.Servers {
		all = append(all, s.Problems...)
	}
	slices.SortStableFunc(all, strict.ByPlace)
	return all
}

// place assigns the problems of entries and returns the problems of the file and the warnings. If
// the file is read strictly or has other faults, all problems are the file's. Otherwise each
// belongs to its server, with a warning. If the server of a faulty entry is running, it keeps the
// entry of the previous configuration.
func (d *decoder) place(c, before *Config) (problems, warnings []Problem) {
	problems, warnings = d.Problems(), d.Warnings()
	if d.whole || len(problems) > 0 { // no server starts, for its own reason or another
		for _, s := range c.Servers {
			problems = append(problems, d.Faults(d.paths[s])...)
		}
		return problems, warnings
	}
	taken := map[string]bool{}
	for _, s := range c.Servers {
		if s.Problems = d.Faults(d.paths[s]); s.Faulty() {
			slices.SortStableFunc(s.Problems, strict.ByPlace)
		} else if !s.Disabled {
			taken[s.Namespace] = true
		}
	}
	kept := false
	tell := func(s *Server, outcome string) {
		for _, p := range s.Problems {
			p.Message += fmt.Sprintf("; the server %q %s", strict.Clip(s.Name), outcome)
			warnings = append(warnings, p)
		}
	}
	for i, s := range c.Servers {
		old := before.running(s.Name)
		switch {
		case !s.Faulty():
			continue
		case s.Disabled:
			tell(s, "is disabled")
			continue
		case old == nil || taken[old.Namespace]:
			tell(s, "is not started, the others are")
			continue
		}
		tell(s, "keeps running as it was configured before")
		c.Servers[i], taken[old.Namespace], kept = old, true, true
		if port, ok := before.resolved.ports[s.Name]; ok {
			d.expand.new.ports[s.Name] = port
		}
	}
	if kept {
		for _, secret := range before.secrets {
			d.expand.hidden.add(secret, slices.Contains(before.credentials, secret))
		}
	}
	return problems, warnings
}

// running returns the server of this name that the configuration runs, or nil. c may be nil.
func (c *Config) running(name string) *Server {
	if c == nil {
		return nil
	}
	if s, ok := c.Server(name); ok && !s.Disabled && !s.Faulty() {
		return s
	}
	return nil
}

// Omitted returns the reason why a server with a sound entry is left out, or ""; see
// [Options.Omit].
func (c *Config) Omitted(server string) string { return c.omitted[server] }

// Kept returns the servers that are not left out, in the file's order. Disabled and faulty servers
// are among them.
func (c *Config) Kept() []*Server {
	return slices.DeleteFunc(slices.Clone(c.Servers), func(s *Server) bool { return c.omitted[s.Name] != "" })
}

func (c *Config) omit(reasonOf func(*Config, *Server) string) {
	if reasonOf == nil {
		return
	}
	for _, s := range c.Servers {
		if s.Disabled || s.Faulty() {
			continue
		}
		if text := reasonOf(c, s); text != "" {
			if c.omitted == nil {
				c.omitted = map[string]string{}
			}
			c.omitted[s.Name] = text
		}
	}
}
