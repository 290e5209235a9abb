// Package fakemcp is an MCP server for tests and benchmarks: as fast as the standard library
// allows, and able to misbehave in every way a real server has been seen to. It shares no code with
// the tested packages: envelopes are scanned and answers are put together as bytes here, so a
// mistake in the module's own codec cannot hide in both.
//
//	stdin ──lines──┐                                     ┌─▶ listing   pages prepared as bytes
//	GET /sse ──────┼─▶ conn ─┐                           │
//	POST /mcp ─────┴─────────┴─▶ parse ─▶ serve ─────────┼─▶ tool      echo, sleep, progress, crash, …
//	                                        │            └─▶ fault     hang, exit, junk, lost session
//	                                        └─▶ client     calls in flight, questions asked back, counter
//
// It speaks all five protocol versions, over stdio, streamable HTTP at /mcp and HTTP+SSE at /sse. A
// request that names a modern version in its _meta is served the modern way, any other the legacy
// way. [Config] lists the switches; the tools' own descriptions say what they do. The program of
// the same name is [Main].
package fakemcp
