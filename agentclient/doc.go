// Package agentclient calls agents through a router. It is for agents whose tools need other
// agents:
//
//	Client ── POST {router}/mcps/{agent}/mcp, one request, no session ──▶ router ──▶ agent
//	       ◀── JSON, or SSE: progress …, the response ──
//
// Each call is one POST. The package never repeats a failed call, because the tool may have run. It
// knows how to send a request and how to read its response, and nothing of weir's work with them.
package agentclient
