// Package gateway shows thousands of tools at the price of three: an agent
// browses cards, executes a tool by its id, and views the parts it wants of a
// result that was too large to read.
//
// It is a Handler over any number of upstreams, which it knows only as Peers and
// as a snapshot of what they offer. It knows nothing of transports, of how
// upstreams are started or of configuration files.
//
//	tools/call tool_browse  ─▶ search.Index (query) or catalog.Catalog (path) ─▶ cards
//	tools/call tool_execute ─▶ catalog: exact tool_id ─▶ validate ─▶ … ─▶ dispatch ─▶ Peer of the upstream
//	                                                                          │ raw result
//	                           agent ◀── content blocks as they came, or ◀── firewall ─▶ artifact.Local
//	                                     a description, a handle, views                        │
//	tools/call tool_view    ─▶ handle, selector ───────────────────────────────────────────────┘
//
// Its rooms: dispatch takes one call through checks, controls, cache and retries to the upstream; result
// makes of what came back what an agent reads; tables passes rows from tool to tool; usage counts tokens.
//
// Failures that the gateway finds are tool results with isError and the error's
// JSON as text; what the tool itself answers, its errors included,
// passes. What is kept for a session (state.go: quotas, what it has seen) is
// kept for no other; every answer is counted in tokens (account.go) and told to
// operators as an event (events.go), without arguments and without secrets.
//
// In proxy mode (proxy.go) every tool is listed by itself, stripped of its
// schema, and executed through tool_execute.
package gateway
