// Package telemetry informs operators: events as JSON lines, and logs without
// secrets; metrics has counters. It knows nothing of gateways or configuration files, and of MCP only how to forward a
// trace ([TraceContext]). Other packages describe what happened as an [Event] and pass it to a
// function.
//
//	gateway ─┐                       ┌─▶ EventLog ─▶ a file or standard error, one JSON object a line
//	upstream ┴─ Event ─▶ func(Event) ┼─▶ EventStream ─▶ batches for a stream of the store
//	                                 ├─▶ metrics.Metrics ─▶ GET /metrics
//	                     (Fan)       └─▶ whatever a program hooks in
//
//	slog records ─▶ RedactLog(redact) ─▶ the operator's log
//
//	traceparent of the agent's HTTP request ─▶ TraceContext ─▶ _meta of the call at the server
//
// An event never contains argument values, query text or results: only the tool, the principal, the
// duration and the outcome. A session is identified by a short hash of its id, because the id
// itself is a secret.
package telemetry
