// Package plane is S2SP on the wire: how a tabular result is split into the part that a model reads
// and the part that moves out of its sight, the endpoint that serves the second part, the client
// that fetches it, and the merging of both.
//
//	rows ─▶ Response ─┬─ abstract: the columns asked for + _row_id ─────────▶ agent ─▶ abstract_data ─┐
//	                  │                                                                               ▼
//	                  ├─ async: resource_url ─▶ Handler  POST /s2sp/data/{token} ◀─ Fetcher ◀────── Resolve ─▶ rows
//	                  └─ sync:  body, inline ─────────────────────────────────▶ agent ─▶ body_data ───┘
//
// A resource_url is a capability: 256 random bits, valid for one fetch within ten minutes. Because it
// reaches the consumer through a model, the consumer does not trust it: see [Fetcher].
//
// The package knows tables, tokens and HTTP. It knows nothing of MCP, tools or callers; package s2sp
// makes tools of it for server authors.
package plane
