package catalog

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
)

// An id names one thing for the life of the catalog and of all catalogs derived from it. The
// entries of one namespace get their ids together:
//
//	entries of all its segments, by priority ─▶ assigner ─▶ entries with ids, disputes
//	      before: the space until now, past: ids of what is gone ─┘
//
// A tool with a version gets the short id, without a hash, if no other tool wants it. If two raw
// names map to one short id, both ids carry their hash, and the short id never names a tool again:
// otherwise it would run the second tool once the first is gone. An id that has named a tool never
// names another.
type assigner struct {
	before *space // may be nil
	past   *past
	taken  map[string]*Entry
	most   int // see Limits.most

	disputed map[string][]*Entry // short id -> one entry per raw name that wants it
	disputes []dispute
}

// dispute is a finding about an id that several entries want or wanted.
type dispute struct {
	Finding
	upstreams []string // upstreams that it concerns
	refuses   bool     // a strict catalog refuses the listing
}

func (d *dispute) concerns(upstream string) bool { return slices.Contains(d.upstreams, upstream) }

// assign assigns ids to the entries of the segments of one namespace, in order of priority, and
// returns the entries.
func (a *assigner) assign(namespace string, segments []*segment) []*Entry {
	n := 0
	for _, seg := range segments {
		n += len(seg.namespaces[namespace])
	}
	a.taken = make(map[string]*Entry, n)
	a.findRivals(namespace, segments)
	out := make([]*Entry, 0, n)
	for _, seg := range segments {
		for _, e := range seg.namespaces[namespace] {
			listed := a.listed(e)
			if listed == nil {
				continue
			}
			if listed.overBudget() && !e.overBudget() { // with its longer id
				a.dispute(FoundOverBudget, listed, listed.ID, []string{e.Upstream}, "%s", listed.budgetFinding())
				a.refuse()
			}
			a.taken[listed.ID] = listed
			out = append(out, listed)
		}
	}
	a.report()
	return out
}

// listed returns an entry with its final id, or nil if the entry is left out.
func (a *assigner) listed(e *Entry) *Entry {
	if e.Kind == primitive.KindTool {
		return a.tool(e)
	}
	return a.primitive(e)
}

// findRivals finds the short ids that several tools want.
func (a *assigner) findRivals(namespace string, segments []*segment) {
	wants := map[string]*Entry{}
	for _, seg := range segments {
		for _, e := range seg.namespaces[namespace] {
			if e.Kind != primitive.KindTool || e.Version == "" {
				continue
			}
			first := wants[e.ID]
			switch {
			case first == nil:
				wants[e.ID] = e
			case first.RawName != e.RawName:
				if a.disputed == nil {
					a.disputed = map[string][]*Entry{}
				}
				if a.disputed[e.ID] == nil {
					a.disputed[e.ID] = []*Entry{first}
				}
				a.disputed[e.ID] = append(a.disputed[e.ID], e)
			}
		}
	}
}

// tool returns a tool with its final id, or nil if it is left out; that is a dispute.
func (a *assigner) tool(e *Entry) *Entry {
	if e.Version != "" && !a.mayBeShort(e) {
		short := e
		e = e.renamed(ToolID{e.Namespace, e.Name, e.Version, e.Hash8}.join())
		if a.disputed[short.ID] == nil {
			a.dispute(FoundCollision, e, short.ID, []string{e.Upstream},
				"the tool %q of server %q is listed as %s: %s has named another tool since weir started, and names none until weir starts again",
				clip(e.RawName, 140), e.Upstream, e.ID, short.ID)
		}
	}
	first := a.taken[e.ID]
	switch {
	case first != nil && first.RawName == e.RawName:
		a.dispute(FoundConflict, e, e.ID, []string{first.Upstream, e.Upstream},
			"two servers offer the tool %q: %q and %q. Give one a namespace: mcpServers.%s.namespace", e.RawName, first.Upstream, e.Upstream, e.Upstream)
		return nil
	case first != nil:
		a.dispute(FoundCollision, e, e.ID, []string{first.Upstream, e.Upstream},
			"two different tools have the same id %s: %q of server %q, which keeps it, and %q of server %q, which is left out. Rename one of them at its server",
			e.ID, clip(first.RawName, 140), first.Upstream, clip(e.RawName, 140), e.Upstream)
		a.refuse()
		return nil
	case !a.free(e.ID, e):
		a.dispute(FoundCollision, e, e.ID, []string{e.Upstream},
			"two different tools have the same id %s: the tool %q of server %q is left out, because the id has named another one since weir started. Rename it at its server, or restart weir",
			e.ID, clip(e.RawName, 140), e.Upstream)
		return nil
	}
	return e
}

// mayBeShort reports whether a tool with a version may have the id without a hash.
func (a *assigner) mayBeShort(e *Entry) bool {
	known, own := a.named(e.ID, e)
	return a.disputed[e.ID] == nil && (own || !known && !a.past.full)
}

// primitive returns a resource or prompt with its id: the plain one, or the first of id~2, id~3, …
// that is free or already its own (spec/gateway §6.3).
func (a *assigner) primitive(e *Entry) *Entry {
	for n, id := 2, e.ID; ; n++ {
		if a.taken[id] == nil && a.free(id, e) {
			if id == e.ID {
				return e
			}
			return e.renamed(id)
		}
		id = fmt.Sprintf("%s~%d", e.ID, n)
	}
}

// free reports whether an id has never named an entry other than e.
func (a *assigner) free(id string, e *Entry) bool {
	known, own := a.named(id, e)
	return !known || own
}

// named reports whether an id names or has named an entry, and whether that is e.
func (a *assigner) named(id string, e *Entry) (known, own bool) {
	if a.before != nil {
		if n := a.before.index[id]; n != nil {
			return true, same(n.entry, e)
		}
	}
	h, known := a.past.held[id]
	return known, known && h == fingerprintOf(e)
}

// report adds a finding for each short id that several tools want.
func (a *assigner) report() {
	for _, id := range slices.Sorted(maps.Keys(a.disputed)) {
		const told = 4
		rivals := a.disputed[id]
		var names, ids, upstreams []string
		for _, e := range rivals {
			upstreams = append(upstreams, e.Upstream)
			if len(names) < told {
				names = append(names, fmt.Sprintf("%q of server %q", clip(e.RawName, 60), e.Upstream))
				ids = append(ids, ToolID{e.Namespace, e.Name, e.Version, e.Hash8}.join())
			}
		}
		more := ""
		if n := len(rivals) - told; n > 0 {
			more = fmt.Sprintf(" and %d more", n)
		}
		a.dispute(FoundCollision, rivals[0], id, upstreams,
			"different tools have the same id %s: %s%s. Each is listed with its hash: %s. Rename one of them at its server for short ids",
			id, strings.Join(names, ", "), more, strings.Join(ids, ", "))
		a.refuse()
	}
}

func (a *assigner) dispute(kind FindingKind, e *Entry, id string, upstreams []string, format string, args ...any) {
	a.disputes = append(a.disputes, dispute{Finding: Finding{
		Kind: kind, Upstream: e.Upstream, Name: e.RawName, ID: id, Message: fmt.Sprintf(format, args...),
	}, upstreams: upstreams})
}

// refuse makes the newest dispute a reason for which a strict catalog refuses a listing.
func (a *assigner) refuse() { a.disputes[len(a.disputes)-1].refuses = true }

// same reports whether two entries are versions of the same thing: tools of a namespace with the
// same raw name, or resources or prompts of one server with the same key.
func same(a, b *Entry) bool {
	if a.Kind == primitive.KindTool || b.Kind == primitive.KindTool {
		return a.Kind == b.Kind && a.RawName == b.RawName
	}
	return a.Kind == b.Kind && a.Upstream == b.Upstream && a.key() == b.key()
}

// fingerprint identifies a removed entry, by the rule of same, in 16 bytes.
type fingerprint [16]byte

// noFingerprint stands for an id that several tools wanted; it names none of them.
var noFingerprint fingerprint

func fingerprintOf(e *Entry) fingerprint {
	text := string(e.Kind) + "\x00" + e.key()
	if e.Kind != primitive.KindTool {
		text += "\x00" + e.Upstream
	}
	sum := sha256.Sum256([]byte(text))
	return fingerprint(sum[:16])
}

// Limits of the memory for ids of removed entries. They allow for several times the tools of a
// large server.
const (
	maxPast      = 32_768  // in one namespace
	maxPastTotal = 262_144 // in a catalog
)

// past records the earlier meanings of the ids of one namespace. It is immutable.
type past struct {
	held map[string]fingerprint
	// full reports that some ids could not be recorded. From then on tools with a version carry
	// their hash as well, so that they differ from all earlier tools.
	full bool
}

var noPast = &past{}

// after returns the past after now replaced before; both may be nil. disputed are ids that several
// tools want. room is the number of further ids that may be recorded.
func (p *past) after(before, now *space, disputed map[string][]*Entry, room int) *past {
	next := &past{full: p.full}
	changed := false
	change := func() {
		if !changed {
			changed = true
			next.held = maps.Clone(p.held)
			if next.held == nil {
				next.held = map[string]fingerprint{}
			}
		}
	}
	put := func(id string, h fingerprint) {
		if old, known := p.held[id]; known && (old == h || old == noFingerprint) {
			return
		}
		change()
		if _, known := next.held[id]; !known && (len(next.held) >= maxPast || len(next.held)-len(p.held) >= room) {
			next.full = true
			return
		}
		next.held[id] = h
	}
	if now != nil {
		for id := range p.held { // these entries are back
			if now.index[id] != nil {
				change()
				delete(next.held, id)
			}
		}
	}
	for id := range disputed {
		put(id, noFingerprint)
	}
	if before != nil {
		for _, e := range before.entries {
			if now == nil || now.index[e.ID] == nil {
				if disputed[e.ID] == nil {
					put(e.ID, fingerprintOf(e))
				}
			}
		}
	}
	if !changed {
		if next.full == p.full {
			return p
		}
		next.held = p.held
	}
	return next
}
