// Package gateway puts a gateway together: it opens the parts, connects them, applies a changed configuration to
// all of them or to none, and ends them in order. It does not know flags, terminals or exit codes (see
// internal/cli), and it opens no listener for clients (see internal/web).
//
//	Config ─▶ New ─▶ Gateway ─┬─ Front ──────────▶ /mcp, standard input, a shell command's pipe
//	                          ├─ RouterOptions ──▶ /mcps/NAME/mcp
//	                          ├─ Offices ────────▶ /socket.io/, Computers
//	                          ├─ Data ───────────▶ /s2sp/, kept results
//	                          └─ Health, Stats, CatalogInfo, Metrics, History
//
//	config file changes ─▶ Follow ─▶ Reload ─▶ upstreams, agents, offices, then the Face
//
// A gateway shuts down in this order: internal/web waits for running calls, the gateway leaves its
// offices, upstreams stop, and results that no store keeps are removed. Gateway.Close does all of this except the
// first step.
package gateway
