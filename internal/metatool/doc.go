// Package metatool exposes thousands of tools through three meta-tools. An agent browses cards,
// executes a tool by its id, and views parts of results that are too long to read whole.
//
// Gateway is an mcp.Handler over any number of upstreams. It sees them as Peers and as a Snapshot
// of their definitions. Transports, processes and configuration files belong to other packages.
//
//	tools/call tool_browse  ─▶ search.Index (query) or catalog.Catalog (path) ─▶ cards
//	tools/call tool_execute ─▶ catalog: exact tool_id ─▶ validate ─▶ … ─▶ dispatch ─▶ Peer of the upstream
//	                                                                          │ raw result
//	                           agent ◀── content blocks as they came, or ◀── firewall ─▶ artifact.Local
//	                                     a description, a handle, views                        │
//	tools/call tool_view    ─▶ handle, selector ───────────────────────────────────────────────┘
//
// Its subpackages divide the work. Package dispatch takes one call through checks, controls, cache
// and retries to the upstream. Package result turns a raw result into text for an agent. Package
// tables passes rows between tools. Package usage counts tokens.
//
// Failures of the gateway are tool results with isError and the error's JSON as text. A tool's own
// answers, including its errors, pass unchanged. Session data, such as quotas and the tools that a
// session has seen, is never shared between sessions. Each answer is counted in tokens and reported
// to operators as an event without arguments and secrets.
//
// In proxy mode, each tool is listed by itself, stripped of its schema, and executed through
// tool_execute.
package metatool
