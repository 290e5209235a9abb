// Package tables implements S2SP in a gateway: it passes rows from one tool to another past the
// model, which reads only the columns that it requests.
//
// Its steps of a call, in their order:
//
//	columns  abstract_domains of the call ─▶ the tool's own parameters, or its result is divided
//	preview  a few rows in the place of each $table reference, to be validated
//	fill     all rows in the place of each $table reference
//	bodies   the body behind a ddi:// handle in the place of the handle
//	carry    rows in the place of a resource_url that the tool's server cannot reach
//	reasons  why a fetch failed, in the error of the tool that fetched
//
//	tool_execute(tool_id, args, abstract_domains, mode)
//	   │ the tool takes abstract_domains itself ─▶ handed on; others cannot reach its plane ─▶ its rows are kept here, or its resource_url leads through here
//	   │ any other tool ─▶ its result is a table ─┬─▶ async: rows wait behind resource_url ─▶ POST /s2sp/data/{token}
//	   ▼                                          └─▶ sync:  rows wait in the session behind ddi:// ─▶ body_data of the next call
//	abstract
//
// The package uses the store of tables and the addresses of data planes. Meta-tools, upstreams and
// the gateway's options belong to other packages.
package tables
