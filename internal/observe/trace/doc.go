// Package trace follows operations of MCP: the requests of agents, and the requests that weir sends
// to servers for them. It measures each operation, and reports sampled ones as spans of
// OpenTelemetry, sent as OTLP over HTTP in JSON. It knows no gateway and no configuration file.
//
//	agent ─▶ Handler ─ span SERVER ─▶ … ─▶ Begin ─ span CLIENT ─▶ server
//	            │  parent: _meta.traceparent,     │ End     its params get _meta.traceparent
//	            │  else the HTTP header           │
//	            ▼                                 ▼
//	         Operation ─▶ histograms     queue ─▶ batch ─▶ gzip ─▶ POST …/v1/traces
//
// No call waits for the export. The queue is bounded; spans that find no room in it are dropped and
// counted. Without an endpoint no span is made, and params keep their bytes.
//
// A span never holds arguments, results, URIs or messages of errors. A session has the tag that it
// has in events. Names and attributes follow OpenTelemetry's conventions for MCP.
package trace
