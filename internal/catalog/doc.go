// Package catalog holds what can be called: the tools, resources and prompts of
// all upstreams, under stable ids, with the cards agents choose from, the paths
// they browse by and the checks their arguments must pass.
//
// It knows nothing of connections, transports, sessions or ranking: somebody
// else lists upstreams and hands over the raw definitions.
//
//	Listing of one upstream (raw definitions)
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
// A Catalog never changes. With and Without return a new one that shares all
// entries of the other upstreams, so a caller keeps the current one in an
// atomic pointer and every call sees either the old or the new catalog whole
// (spec/gateway §4.6). Entries are shared too and must not be changed.
//
// Definitions keep their bytes: unknown fields, key order and 20-digit integers
// reach whoever reads Entry.Raw as the upstream sent them.
package catalog
