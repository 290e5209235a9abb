// Package smcp is the A2C-SMCP protocol: the names of its events, the shapes of
// their payloads, and how its dialects differ. It knows no transport and keeps
// no state; the three roles are packages of their own.
//
//	Agent (smcp/agent)            Server (smcp/hub)             Computer (smcp/computer)
//	  │ server:join_office ──────────▶ │ ◀────────── server:join_office │
//	  │ ◀────────── notify:enter_office│                               │
//	  │ client:tool_call ────────────▶ │ client:tool_call ────────────▶ │──▶ MCP servers
//	  │ ◀───────────────────────── ack │ ◀───────────────────────── ack │
//	  │ server:tool_call_cancel ─────▶ │ notify:tool_call_cancel ─────▶ │
//	  │ ◀──────────────── notify:update_* ◀── server:update_* │
//
// The event's prefix says which way it goes: client: an Agent asks a Computer,
// server: anybody asks the Server, notify: the Server tells a room. A room is an
// office: at most one Agent, and Computers.
//
// Payloads that are only passed on (arguments, results, schemas) are raw JSON.
package smcp
