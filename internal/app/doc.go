// Package app assembles a gateway: upstreams, the result store, the surface for agents, the router,
// the hub and agent registration. It does not know flags, terminals or exit codes (see
// internal/cli), and it opens no listener for clients (see app/web).
//
//	Config ─▶ New ─▶ Engine ─┬─ Front ──────────▶ /mcp, standard input, a shell command's pipe
//	                         ├─ RouterOptions ──▶ /mcps/NAME/mcp
//	                         ├─ Offices ────────▶ /socket.io/, Computers
//	                         ├─ Plane ──────────▶ /s2sp/
//	                         └─ Health, Stats, CatalogInfo, Metrics, History
//
//	config file changes ─▶ Follow ─▶ Reload ─▶ upstreams, agents, offices, then the Face
//
// A gateway shuts down in this order: app/web waits for running calls, the gateway leaves its
// offices, upstreams stop, and results go that no store keeps. Engine.Close does all of this except the
// first step.
//
// OpenHub runs weir's other service: a hub without a gateway.
package app
