// Package catalog stores everything that can be called: the tools, resources and prompts of all
// upstreams. It assigns stable ids, makes the cards that agents choose from and the paths that they
// browse, and validates arguments.
//
// It knows nothing of connections, transports, sessions or ranking: callers list the upstreams and
// pass in the raw definitions of package primitive.
//
//	primitive.Listing of one upstream (raw definitions)
//	   │ With
//	   ▼
//	segment: entries of that upstream ── parsed, checked, carded, once
//	   │
//	   ▼
//	spaces: one per namespace ── who wins an id, the path tree
//	   │
//	   ▼
//	Catalog ── Lookup(id) · Children(path) · Nearest(id) · Entries() · Hash()
//
// A Catalog is immutable. With and Without return a new one that shares the entries of all other
// upstreams. A Live keeps the current catalog in an atomic pointer, so that every call sees one
// complete catalog (spec/gateway §4.6). Entries are shared and must not be changed.
//
// Definitions keep their bytes: Entry.Raw has unknown fields, key order and 20-digit integers as
// the upstream sent them.
package catalog
