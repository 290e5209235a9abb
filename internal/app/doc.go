// Package app is a gateway put together: upstreams, the store of results, the surface for agents,
// the router, the hub and the agents that register. It knows nothing of flags, terminals and exit
// codes, which are internal/cli's, and listens on nothing for clients, which is app/web's.
//
//	Config ─▶ New ─▶ Engine ─┬─ Front ──────────▶ /mcp, standard input, a shell command's pipe
//	                         ├─ RouterOptions ──▶ /mcps/NAME/mcp
//	                         ├─ Offices ────────▶ /socket.io/, Computers
//	                         ├─ Plane ──────────▶ /s2sp/
//	                         └─ Health, Stats, CatalogInfo, Metrics, Feed
//
//	config file changes ─▶ Follow ─▶ Reload ─▶ upstreams, agents, offices, then the Face
//
// A gateway ends in this order: the face lets running calls finish, the offices are left, upstreams
// end, and the store forgets all results. Engine.Close does all but the first.
//
// OpenHub is the second thing that weir runs: a hub without a gateway.
package app
