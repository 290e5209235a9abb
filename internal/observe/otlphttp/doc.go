// Package otlphttp sends requests of OTLP over HTTP in JSON to one endpoint, and reads the answers. It knows neither spans
// nor metrics, only the names that answers have for them.
//
//	JSON ─▶ Pack (gzip) ─▶ Post ─▶ nil | *Refusal: later, never, or so many of them
package otlphttp
