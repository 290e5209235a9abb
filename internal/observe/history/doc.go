// Package history remembers the last calls of a gateway and its figures of the last day, in memory
// and within fixed bounds.
//
//	telemetry.Event ─▶ Book.Observe ─┬─▶ the last Kept events ──▶ Recent: pages, newest first
//	                                 │                        └─▶ Watcher: each at its own place
//	                                 ├─▶ arguments and results of the last KeptExchanges calls, if events bring them
//	                                 └─▶ 288 steps of 5 minutes ─▶ Figures: calls, errors, tokens, p50, p95
//
// An event has no arguments, queries and results unless the operator has switched that on
// (telemetry.Exchange). The package knows no gateway,
// no HTTP and no viewer: its callers decide who may see an event.
package history
