// Command bench measures weir from outside: real processes on loopback, raw
// connections, every answer checked.
//
//	callers ──┬─────────────────────────▶ upstream      direct
//	 (1, 16)  ├──▶ httputil.ReverseProxy ─▶ upstream     the baseline
//	          ├──▶ bare hop ──────────────▶ upstream     what is below weir's passthrough, and nothing else
//	          ├──▶ weir /mcps/…/mcp ──────▶ upstream     passthrough, both eras
//	          └──▶ weir /mcp ─────────────▶ upstream     tool_execute: validation and firewall;
//	          │                                            policy, quotas, cache and retry
//
// The upstream (upstream.go) is an MCP server that answers with the bytes it was sent and so costs
// next to nothing. All systems of a table are measured in turns of short rounds, and a ratio is the
// median of the rounds' ratios: on a machine that is busy with other things, a disturbance of one
// system disturbs its neighbours in the same round as well.
//
// A second gateway with ten upstreams and 500 tools answers 100,000 calls and is then idle, to see
// the memory that it keeps (memory.go). A third has 10,000 tools to browse (browse.go).
//
// The program knows nothing of weir's inside but how a tool_id is made.
//
//	go run ./bench                         builds weir and measures it
//	go run ./bench -weir bin/weir -strict  fails where a target is missed
package main
