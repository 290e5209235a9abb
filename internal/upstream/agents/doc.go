// Package agents knows the agent servers that are not in the configuration: agents of a
// routing.json, and agents that have registered themselves.
//
//	routing.json ── WatchRouting ──▶ SetRoutes ┐
//	                                           ├─▶ Agents ─▶ Options.Changed: upstreams are started and ended
//	agent ── POST /agents, again within the lease ──▶ lease ┘
//	      ── DELETE /agents/{name} ──▶ gone         └ runs out ──▶ gone
//
// Names are unique: the configuration goes first, then the first owner of a name, which has it for
// good. An agent belongs to the principal that registered it. If it restarts at its old place it
// has its name again at once; elsewhere it has to wait until the lease of the old one has run out,
// which keeps a second agent from taking the calls of the first.
//
// With Options.Kept, registrations are documents in a store, and their leases start again with the
// next process.
//
// The protocol of registration is described in package agentserver, whose other end this is. The
// package knows the name and the address of an agent, and of MCP only the form of errors.
package agents
