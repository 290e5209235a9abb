// Package gatewaytest runs clusters of gateways in one process, for tests of whatever gateways do together: nodes
// behind a balancer that takes them in turn, over documents in memory, with peer links that can be cut.
//
//	client ─▶ balancer ─┬▶ node ─┬─ peer link ─┐
//	                    └▶ node ─┴─────────────┴▶ store.Memory, one MCP server
//
// It shares no code with a gateway but its public constructors.
package gatewaytest
