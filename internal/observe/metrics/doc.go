// Package metrics counts what happens in a gateway for Prometheus: events, requests and operations, and
// totals that it reads for each scrape. It knows nothing of gateways; telemetry has the events.
//
//	Event, Operation ─▶ Metrics ─┐
//	Totals ─▶ read at a scrape  ─┴─▶ GET /metrics
//
// Names of tools and servers come from outside, so the distinct values of a label are bounded.
package metrics
