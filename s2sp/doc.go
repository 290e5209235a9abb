// Package s2sp makes MCP servers speak S2SP, server to server: a tool that returns a table lets the
// model choose the few columns it reads, and the rest goes to the next tool without passing through
// the model.
//
//	func(ctx, In) (Rows, error)                       func(ctx, Rows) (string, error)
//	        │ ResourceTool                                    ▲ ConsumerTool
//	        ▼                                                 │ merged rows
//	get_alerts(area, abstract_domains, mode)          draw_chart(abstract_data, resource_url, body_data, column_mapping)
//	        │ abstract + resource_url ─▶ agent ─▶ abstract of some rows + resource_url ─▶ │
//	        └────────────── POST /s2sp/data/{token} ◀─────────────────────────────────────┘
//
// A [Server] is the data plane of an MCP server: a listener of its own on loopback, for servers that
// speak stdio, or a handler for a server that listens anyway. Both kinds of tool are ordinary MCP
// tools: a client that does not know S2SP omits abstract_domains and gets all rows.
//
// A [ToolHandler] is raw JSON on both sides, so any MCP library can serve it. Package s2sp/gosdk adds
// it to a server of the official Go SDK.
//
// Package s2sp/plane implements the protocol. Package s2sp/dispatch keeps the bodies of sync
// results away from the model. This package makes tools of them and knows nothing of gateways.
package s2sp
