package api

import (
	"net/http"
	"slices"

	"github.com/weir-mcp/weir/internal/audit"
	"github.com/weir-mcp/weir/internal/lockfile"
	"github.com/weir-mcp/weir/internal/policy/approval"
)

// A right is the permission that a caller needs for a route.
type right string

const (
	// mayLook is for callers who may use the whole gateway.
	mayLook right = "look"
	// mayCall is for the same callers. What they may call, the gateway decides.
	mayCall right = "call"
	// mayOperate is for operators. Auditors may use the audit log as well.
	mayOperate right = "operate"
	// mayOwn is for the user who runs the gateway: it changes files of that user.
	mayOwn right = "own"
	// mayExchange is for callers who show a code of the route "codes" in the body.
	mayExchange right = "exchange"
)

// A route is one path of the API. The OpenAPI document is made of the table of routes.
type route struct {
	method, path string
	right        right
	summary      string
	query        []parameter
	body, answer any    // values of the types of the bodies; nil: none
	stream       string // the content type of an answer that is no JSON
	common       bool   // the answer of any node is the same, or is for the caller's own node: it takes no node
	serve        handler
}

// nodeQuery names the node of a cluster that answers.
var nodeQuery = parameter{"node", "the name or the INC of the node of a cluster that answers; the one that is asked without it"}

// A parameter is a parameter of the query: its name and its meaning.
type parameter [2]string

// routes returns the table of all routes. Those of viewers and operators take the parameter node, except the common
// ones.
func (a *API) routes() []route {
	c := &clustered{a}
	all := slices.Concat(a.lookRoutes(), a.operateRoutes(), c.routes(), (&eventful{a}).routes(), (&editor{&a.o}).routes(), (&checkup{&a.o}).routes(), (&wirer{&a.o}).routes(), (&labeller{&a.o}).routes())
	for i := range all {
		r := &all[i]
		takes := !r.common && (r.right == mayLook || r.right == mayOperate)
		if takes {
			r.query = append(slices.Clip(r.query), nodeQuery)
		}
		r.serve = c.atNode(takes, r.serve)
	}
	return all
}

// tableQuery are the parameters that go into the selector "table" of tool_view.
var tableQuery = []parameter{{"columns", "JSON array of names"}, {"where", "JSON array of conditions"}, {"order_by", "JSON"}, {"group_by", "JSON array of names"}, {"aggregate", "JSON"}}

var paged = []parameter{{"offset", "the number of the first element, from 0"}, {"limit", "the number of elements"}}

// lookRoutes are the routes of viewers. None of them changes anything, except by a call of a tool.
func (a *API) lookRoutes() []route {
	id := parameter{"id", "the id of an entry"}
	query := parameter{"query", "what the entry should do"}
	get := func(path, summary string, answer any, serve handler, query ...parameter) route {
		return route{method: http.MethodGet, path: path, right: mayLook, summary: summary, query: query, answer: answer, serve: serve}
	}
	stream := get("calls/stream", "Follow the calls, as server-sent events", nil, a.stream, parameter{"after", "the id of the last event that was received"})
	stream.stream = "text/event-stream"
	file := get("artifacts/{handle}/file", "All rows that fit, or what is kept byte for byte, as a file", nil, saver{a.o.Look.Artifacts}.save, append([]parameter{{"format", formNames() + "; csv without it"}}, tableQuery...)...)
	file.stream = "*/*"
	return []route{
		{method: http.MethodGet, path: "openapi.json", right: mayLook, summary: "This document", answer: map[string]any{}, common: true, serve: a.openapi},
		{method: http.MethodGet, path: "me", right: mayLook, summary: "Who the viewer is, and what the viewer may do", answer: me{}, common: true, serve: a.me},
		get("overview", "The state of the gateway and a page of its servers", overviewAnswer{}, a.overview, paged...),
		get("servers/{name}", "The state of one server", Upstream{}, a.server),
		get("catalog", "A page of the entries at a path, or of those that fit a query in the order in which agents get them", cardsAnswer{}, a.catalog,
			append([]parameter{{"kind", "tool, resource or prompt; tool without it"}, {"path", "a path; / without it"}, query}, paged...)...),
		get("catalog/entry", "All of one entry", entryAnswer{}, a.entry, id),
		get("catalog/why", "Why an entry has its rank for a query", whyAnswer{}, a.why, id, query),
		get("calls", "The history of calls, the newest first, without arguments and results", callsAnswer{}, a.calls,
			parameter{"session", "only calls of this session"}, parameter{"principal", "only calls of this principal"}, parameter{"server", "only calls of this server"}, parameter{"tool", "only calls of tools whose id starts with it"}, parameter{"run", "only calls of this run of a program"},
			parameter{"errors", "1: only calls that ended with an error"}, parameter{"before", "only calls before the one with this id"}, parameter{"limit", "the number of calls"}),
		stream,
		get("figures", "Calls, errors, tokens and durations of the last day, in steps of five minutes", figuresAnswer{}, a.figures),
		get("artifacts", "A page of what is kept for the viewer", artifactsAnswer{}, a.artifacts, paged...),
		get("artifacts/{handle}", "Rows of a kept table, or the beginning of a kept text", viewAnswer{}, a.artifact, slices.Concat(tableQuery, paged)...),
		file,
		{method: http.MethodPost, path: "mcp", right: mayCall, summary: "A message of MCP, of the era without sessions, as at /mcp", body: map[string]any{}, answer: map[string]any{}, serve: a.mcp},
		get("offices", "Members of the hub, and Computers with their servers", officesAnswer{}, a.offices, paged...),
		get("setup", "The address for clients, and texts to paste into them", Setup{}, a.setup),
	}
}

// operateRoutes are the routes of operators.
func (a *API) operateRoutes() []route {
	get := func(path, summary string, answer any, serve handler, query ...parameter) route {
		return route{method: http.MethodGet, path: path, right: mayOperate, summary: summary, query: query, answer: answer, serve: serve}
	}
	post := func(path, summary string, body, answer any, serve handler) route {
		return route{method: http.MethodPost, path: path, right: mayOperate, summary: summary, body: body, answer: answer, serve: serve}
	}
	lines := []parameter{{"lines", "the number of the newest lines"}, {"after", "only lines after this number"}, {"follow", "1: these and all later lines, as lines of JSON"}}
	var records []parameter
	for _, key := range auditKeys {
		records = append(records, parameter{key, "see docs/audit.md"})
	}
	session := post("sessions", "A token of an operator for a code", Code{}, sessionToken{}, a.session)
	session.right = mayExchange
	changed := post("audit/credentials", "Record what a command does with credentials", credentialChanges{}, recordedChanges{}, a.changed)
	changed.right = mayOwn
	return []route{
		get("servers", "All servers, also disabled ones", List{}, a.list),
		post("servers/{name}/restart", "Restart a server", struct{}{}, Server{}, a.restart),
		get("servers/{name}/log", "Lines that a server wrote to standard error", Lines{}, a.log, lines...),
		get("logs", "Lines that all servers wrote to standard error", Lines{}, a.log, lines...),
		{method: http.MethodGet, path: "approvals", right: mayOperate, summary: "Calls that wait for the yes of an operator", answer: Approvals{}, common: true, serve: a.approvals},
		{method: http.MethodPost, path: "approvals/{id}", right: mayOperate, summary: "Approve a call, or deny it", body: Decision{}, answer: approval.Call{}, common: true, serve: a.decide},
		get("audit", "A page of the audit log", audit.Page{}, a.audit, records...),
		changed,
		get("calls/{id}/exchange", "The arguments and the result of a call, where console.capture keeps them", exchangeAnswer{}, a.exchange),
		get("definitions", "How servers differ from weir.lock", lockfile.Status{}, a.definitions),
		post("definitions/accept", "Agree to a difference, or to all of a server", lockfile.Acceptance{}, Accepted{}, a.accept),
		{method: http.MethodPost, path: "codes", right: mayOperate, summary: "A code that a browser of this machine changes for a token, once and within a minute", body: struct{}{}, answer: Code{}, common: true, serve: a.code},
		session,
	}
}

// routes are the routes of operators that change the configuration.
func (a *editor) routes() []route {
	one := func(method, path, summary string, body, answer any, serve handler) route {
		return route{method: method, path: path, right: mayOperate, summary: summary, body: body, answer: answer, serve: serve}
	}
	return []route{
		one(http.MethodGet, "servers/{name}/entry", "The entry of a server in the configuration, with its secrets hidden", nil, Entry{}, a.configured),
		one(http.MethodPost, "servers", "Add the servers of a text to the configuration, or plan to; needs If-Match unless it plans", Addition{}, Edited{}, a.addServers),
		one(http.MethodPatch, "servers/{name}", "Change the entry of a server by a merge patch (RFC 7396); needs If-Match", amendment{}, Edited{}, a.amendServer),
		one(http.MethodDelete, "servers/{name}", "Take a server out of the configuration; needs If-Match", struct{}{}, Edited{}, a.removeServer),
		one(http.MethodPost, "operations/{n}/undo", "Take back a change by its number", struct{}{}, Edited{}, a.undo),
		{method: http.MethodGet, path: "registry", right: mayOperate, summary: "Servers of the MCP Registry that fit some words", query: []parameter{{"query", "what the server should do"}}, answer: Published{}, common: true, serve: a.published},
	}
}
