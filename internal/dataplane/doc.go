// Package dataplane has the way of results past the model: results that were held back, tables that servers fetch
// from each other (docs/s2sp.md), and the bodies of sync results. Results, tables and bodies of other nodes are
// reached over the peer link.
//
//	calls ─▶ artifact.Local ─┬─ Kept ──▶ console, commands
//	                         ├─ Plane ─▶ /s2sp/, other servers
//	                         └─ peer link ─▶ other nodes
//	/mcps/NAME/mcp ─▶ Bodies ─▶ the next call of the principal
//
// It knows no catalog, and of the meta-tools only how nodes name their bodies.
package dataplane
