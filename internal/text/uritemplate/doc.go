// Package uritemplate expands and matches URI templates (RFC 6570), with which
// MCP servers offer resources by the thousand: file:///{path}, db://{table}/{id}.
//
//	"repo://{owner}/{name}{?ref}" ──Parse──▶ Template ──Expand(values)──▶ "repo://weir-mcp/weir?ref=main"
//	                                              └──Match(uri)──▶ values, if the template may have made it
//
// All operators, modifiers and kinds of values are known (level 4 of the RFC). The
// package is pure, knows nothing of MCP, and takes time linear in its input.
package uritemplate
