// Package tracetest is a collector of OpenTelemetry for tests: it takes spans and metrics as OTLP over
// HTTP in JSON, and refuses everything that the specification of OTLP does not allow. It shares no code
// with the tested packages.
//
//	POST /v1/traces  ─▶ gunzip ─▶ strict decoding ─▶ Spans
//	POST /v1/metrics ─▶ gunzip ─▶ strict decoding ─▶ Points
package tracetest
