// Package telemetry tells operators what happens: events as JSON lines,
// Prometheus metrics, and logs without secrets. It knows nothing of gateways or
// configuration files, and of MCP only where a trace goes on ([TraceContext]);
// whoever does something describes it as an [Event] and hands it to a function.
//
//	gateway ─┐                       ┌─▶ EventLog ─▶ a file or standard error, one JSON object a line
//	upstream ┴─ Event ─▶ func(Event) ┼─▶ Metrics  ─▶ GET /metrics
//	                     (Fan)       └─▶ whatever a program hooks in
//
//	slog records ─▶ RedactLog(redact) ─▶ the operator's log
//
//	traceparent of the agent's HTTP request ─▶ TraceContext ─▶ _meta of the call at the server
//
// An event never holds argument values, query text or results: it says what was
// called, by whom, how long it took and how it ended. A session is told by a
// short hash of its id, as the id itself is a secret.
package telemetry
