// Package agent is the Agent of A2C-SMCP. It joins an office, knows the Computers in it and their
// tools, and calls these tools. It speaks to any hub of the protocol and to Computers of any dialect.
//
//	Connect ─▶ join ─▶ list_room ─▶ OnEnter, OnTools for each Computer there
//	                     │
//	   notify:enter_office │ notify:leave_office, notify:update_* ─▶ the callbacks
//	                     ▼
//	CallTool ─▶ client:tool_call ─▶ result
//	   └─ ctx ends, time is over ─▶ server:tool_call_cancel
//	OpenMCP  ─▶ client:mcp ─▶ mcp.Stream to one MCP server (Computers of weir)
//
// The package does not interpret the results of tools.
package agent
