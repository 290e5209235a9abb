// Package console is the web page of a running gateway: a few files of HTML, CSS and JavaScript. It
// knows nothing of the gateway. The page in the browser is a client of /api/v1: it reads and operates
// there, and calls tools as an MCP client.
//
//	browser ── GET /console, /console/static/… ──▶ Page: the same bytes for every viewer
//	    │
//	    └─ a token, or a login ─▶ /api/v1/…     package api
//	                               └─ …/mcp     the gateway, as for every agent
//
// The files contain no data, so they need no token. Texts of servers are untrusted: they reach the
// browser as JSON, and the page inserts them as text nodes only.
package console
