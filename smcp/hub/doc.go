// Package hub is the Server of A2C-SMCP. It admits Agents and Computers to offices, carries calls from
// an Agent to a Computer of its office and the answers back, and notifies an office of its changes. It
// reads only the fields of a payload that name the receiver, and knows nothing of MCP.
//
//	connect ─▶ version (HTTP) ─▶ credentials (CONNECT) ─▶ session without a role
//	                                                        │ server:join_office
//	                                                        ▼
//	        ┌──────────────────── office ───────────────────────┐
//	        │ Agent ── client:* ─▶ route ─▶ Computer ── ack ─▶ Agent │
//	        │ Computer ── server:update_* ─▶ notify:* to the others  │
//	        └────────────────────────────────────────────────────────┘
//
// Every change of an office and its notification happen under one lock, so that all members see the
// same order. The hub does not wait for calls: the reader of the Computer's connection hands the
// answer on, and a call whose Computer goes away is answered at once.
package hub
