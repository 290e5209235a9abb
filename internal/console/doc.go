// Package console is the web page of a running gateway: servers, catalog, live calls, offices and
// stored results. It consists of a few files of HTML, CSS and JavaScript and the data that they
// request. It knows nothing of gateways, routers and hubs; it asks them through its own interfaces.
//
//	browser ── GET /console, /console/static/… ──▶ Page: the same bytes for everybody
//	    │
//	    └─ Authorization: Bearer … ─▶ (guard) ─▶ Data ─┬─▶ overview, offices  Gateway
//	                                                   ├─▶ catalog, entry     Catalog
//	                                                   ├─▶ artifacts, preview Artifacts
//	                                                   └─▶ events (SSE)       Feed ◀── telemetry.Event
//
// The page is read-only: all requests are GET. Its files contain no data. Texts of servers are
// untrusted: they reach the browser as JSON, and the page inserts them as text nodes only.
//
// A Feed collects recent events while a browser watches. Without a watcher, an event costs one
// atomic load.
package console
