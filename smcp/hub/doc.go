// Package hub implements the Server of A2C-SMCP. It admits Agents and Computers to offices, carries
// calls from an Agent to a Computer of its office, returns the answers, and announces changes to the
// office. It reads only the fields of a payload that name the receiver, and nothing of MCP.
//
//	connect ─▶ version (HTTP) ─▶ credentials (CONNECT) ─▶ session without a role
//	                                                        │ server:join_office
//	                                                        ▼
//	        ┌──────────────────── office ───────────────────────┐
//	        │ Agent ── client:* ─▶ route ─▶ Computer ── ack ─▶ Agent │
//	        │ Computer ── server:update_* ─▶ notify:* to the others  │
//	        └────────────────────────────────────────────────────────┘
//
// Each change of an office and its notification happen under one lock, so that all members see the
// same order. The hub does not block on calls: the reader of the Computer's connection passes the
// answer on. When a Computer leaves, the hub answers its calls at once.
package hub
