// Package membership says which servers a gateway has: the configured ones, and agents that register and leave.
// It decides whose the name of a server is, and signs the requests to agents.
//
//	configuration ────────────┐
//	routing.json, POST /agents ┴─▶ Owners ─▶ Agents.Merge ─▶ upstream.Manager
//
// It does not know where in a cluster a server runs.
package membership
