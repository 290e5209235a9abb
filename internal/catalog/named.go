package catalog

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
)

// Clients name resources by URI and prompts by name, and several servers may list the same one. A
// server must not be able to decide which is used:
//
//	servers of the configuration     the first one in its order
//	others, found while weir runs    never before one of the configuration;
//	                                 of two of them, none

// Named returns the entries of one kind with a name, which is the URI of a resource and the URI
// template of a resource template. They are in the order of the configuration, with upstreams that
// it does not name last. The slice is shared and must not be changed. Tools are never included,
// because they are called by id.
func (c *Catalog) Named(kind primitive.Kind, name string) []*Entry {
	return c.names().of[nameKey{kind, name}]
}

// Choose returns the entry that a shared name stands for: the entry of the first configured
// upstream. If none is configured and there is only one upstream, it is the entry of that one.
// Otherwise Choose returns nil. Of one upstream's entries the first one wins.
func (c *Catalog) Choose(entries []*Entry) *Entry {
	ranks := c.names().ranks
	var best *Entry
	rivals := false
	for _, e := range entries {
		switch {
		case best == nil || compareRanks(ranks[e.Upstream], ranks[best.Upstream]) < 0:
			rivals = rivals || best != nil && best.Upstream != e.Upstream
			best = e
		case e.Upstream != best.Upstream:
			rivals = true
		}
	}
	if best != nil && rivals && ranks[best.Upstream].found {
		return nil
	}
	return best
}

// Found reports whether an upstream is not configured but was found at run time.
func (c *Catalog) Found(upstream string) bool { return c.names().ranks[upstream].found }

type nameKey struct {
	kind primitive.Kind
	name string
}

// rank is the priority of an upstream.
type rank struct {
	found      bool
	order, seq int
	name       string // of the upstream
}

func compareRanks(a, b rank) int {
	if a.found != b.found {
		if b.found {
			return -1
		}
		return 1
	}
	if a.found && a.order == b.order { // nodes of a cluster may list them in different orders
		return cmp.Or(strings.Compare(a.name, b.name), cmp.Compare(a.seq, b.seq))
	}
	return cmp.Or(cmp.Compare(a.order, b.order), cmp.Compare(a.seq, b.seq))
}

// nameIndex finds entries by their names at the upstream.
type nameIndex struct {
	of     map[nameKey][]*Entry
	shared []nameKey // listed by several upstreams, sorted
	ranks  map[string]rank
}

// names returns the index. The first caller builds it.
func (c *Catalog) names() *nameIndex {
	c.namesOnce.Do(func() {
		ix := &nameIndex{of: map[nameKey][]*Entry{}, ranks: make(map[string]rank, len(c.segments))}
		for _, s := range c.segments {
			ix.ranks[s.upstream] = s.rank()
		}
		for _, s := range c.spaces {
			if s.kinds.onlyTools() {
				continue
			}
			for _, e := range s.entries {
				if e.Kind != primitive.KindTool {
					key := nameKey{e.Kind, e.key()}
					ix.of[key] = append(ix.of[key], e)
				}
			}
		}
		for key, entries := range ix.of {
			if len(entries) > 1 {
				slices.SortFunc(entries, func(a, b *Entry) int {
					return cmp.Or(compareRanks(ix.ranks[a.Upstream], ix.ranks[b.Upstream]), compareEntries(a, b))
				})
				ix.shared = append(ix.shared, key)
			}
		}
		slices.SortFunc(ix.shared, func(a, b nameKey) int {
			return cmp.Or(strings.Compare(string(a.kind), string(b.kind)), strings.Compare(a.name, b.name))
		})
		c.nameIndex = ix
	})
	return c.nameIndex
}

// sharedNames returns a finding for each name that several upstreams list, at most maxFindings. If
// upstream is set, it must be among them.
func (c *Catalog) sharedNames(upstream string) []Finding {
	if c.kinds.onlyTools() {
		return nil // and no index of names is made
	}
	var findings []Finding
	for _, key := range c.names().shared {
		entries := c.Named(key.kind, key.name)
		if upstream != "" && !slices.ContainsFunc(entries, func(e *Entry) bool { return e.Upstream == upstream }) {
			continue
		}
		if len(findings) == maxFindings {
			break
		}
		last, kind := entries[len(entries)-1], FoundShared
		if c.Found(last.Upstream) {
			kind = FoundRival
		}
		findings = append(findings, Finding{
			Kind: kind, Upstream: last.Upstream, Name: key.name, ID: last.ID, Message: c.sharedName(key, entries),
		})
	}
	return findings
}

// sharedName describes who lists a name, which entry it stands for and how to reach the others.
func (c *Catalog) sharedName(key nameKey, entries []*Entry) string {
	const told = 4
	var servers, ids []string
	for _, e := range entries[:min(told, len(entries))] {
		servers = append(servers, fmt.Sprintf("%q", e.Upstream))
		ids = append(ids, e.ID)
	}
	more := ""
	if n := len(entries) - told; n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	noun := strings.ReplaceAll(string(key.kind), "_", " ")
	text := fmt.Sprintf("several servers list the %s %q: %s%s. ", noun, clip(key.name, 140), strings.Join(servers, ", "), more)
	if e := c.Choose(entries); e != nil {
		return text + fmt.Sprintf("By that name clients reach %q, which the configuration names first; the ids are %s", e.Upstream, strings.Join(ids, ", "))
	}
	return text + fmt.Sprintf("None of them is in mcpServers, so that name reaches none; the ids are %s", strings.Join(ids, ", "))
}
