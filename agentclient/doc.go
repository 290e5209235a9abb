// Package agentclient calls agents through a router, as an agent does whose
// tool needs another agent:
//
//	Client ── POST {router}/mcps/{agent}/mcp, one request, no session ──▶ router ──▶ agent
//	       ◀── JSON, or SSE: progress …, the response ──
//
// Each call is one POST and is made once: what failed is never sent again by
// this package, because a tool may have run. The package knows how to ask and
// how to read answers, and nothing of what weir does with them.
package agentclient
