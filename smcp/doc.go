// Package smcp implements the A2C-SMCP protocol: the names of its events, the shapes of their
// payloads, and the codes of its errors. It has no transport and no state; the three roles are
// packages of their own.
//
//	Agent (smcp/agent)            Server (smcp/hub)             Computer (smcp/computer)
//	  │ server:join_office ──────────▶ │ ◀────────── server:join_office │
//	  │ ◀────────── notify:enter_office│                               │
//	  │ client:tool_call ────────────▶ │ client:tool_call ────────────▶ │──▶ MCP servers
//	  │ ◀───────────────────────── ack │ ◀───────────────────────── ack │
//	  │ server:tool_call_cancel ─────▶ │ notify:tool_call_cancel ─────▶ │
//	  │ ◀──────────────── notify:update_* ◀── server:update_* │
//
// The prefix of an event names its receiver: client: is a request of an Agent to a Computer, server:
// is a request to the Server, and notify: goes from the Server to a room. A room is an office: at
// most one Agent, and Computers.
//
// Arguments, results and schemas are raw JSON, because the protocol only passes them on.
package smcp
