package house

import (
	"fmt"
	"slices"
	"strings"
)

// A layer is a height in the picture of docs/design.md. Imports point down.
type layer int

const (
	ground layer = iota
	middle
	faces
	top
)

func (l layer) String() string {
	return [...]string{"ground", "middle", "faces", "top"}[l]
}

// A place is where a package stands.
type place struct {
	path   string
	layer  layer
	beside []string // packages of its own layer that it may import
	reason string   // what makes it belong there, and why it may import from its own layer
}

// places is the table of packages, from the top down. Within a layer a package may import only what its line names, so that a
// new arrow is a recorded decision. "x/*" stands for every package below x.
var places = []place{
	{"cmd/*", top, []string{"internal/cli"}, "the programs: main alone; nothing imports them"},
	{".", top, []string{"internal/app", "internal/app/web"}, "what programs import that serve a gateway of their own"},
	{"internal/cli", top, []string{"internal/app", "internal/app/web"}, "the commands of weir; only cmd imports it"},
	{"internal/app/web", top, []string{"internal/app"}, "the HTTP face of a gateway; the gateway does not know it"},
	{"internal/app", top, nil, "puts a gateway together; knows no flags, no terminal and no exit codes"},
	{"internal/dist", top, nil, "packages of finished binaries; knows what a package manager wants, and nothing of what weir does"},
	{"internal/dist/cmd/dist", top, []string{"internal/dist"}, "the same as a program"},
	{"bench", top, nil, "shows speed from outside: real processes under load"},
	{"bench/cluster", top, []string{"internal/app", "internal/app/web"}, "gateways that act as one, in one process: only so is their memory and their way to each other seen alone"},
	{"bench/*", top, nil, "the same for one package each, beside a reference of others"},
	{"examples/*", top, nil, "shows the packages from outside, as a newcomer uses them"},

	{"internal/api", faces, nil, "the paths of viewers and operators; asks the gateway through interfaces of its own"},
	{"internal/attach", faces, nil, "carries lines between a client and a running gateway; knows no configuration and starts nothing"},
	{"internal/console", faces, nil, "the files of the web page, which asks the API"},
	{"internal/demo", faces, []string{"s2sp"}, "example MCP servers for the quickstart, as their authors would write them, with s2sp where they return or take tables"},
	{"internal/firstrun", faces, nil, "plans changes of weir.yaml and of clients' files; commands and the console show them, and it asks no person"},
	{"internal/gateway", faces, []string{"internal/gateway/dispatch", "internal/gateway/result", "internal/gateway/tables", "internal/gateway/tasks", "internal/gateway/usage"}, "meta-tools over the catalog; knows no transport"},
	{"internal/gateway/dispatch", faces, []string{"internal/gateway/result"}, "one call through checks, controls, cache and retries; fails with errors of result"},
	{"internal/gateway/tables", faces, []string{"internal/gateway/dispatch", "internal/gateway/result"}, "links of the dispatch chain that pass rows from tool to tool; knows no meta-tool"},
	{"internal/gateway/tasks", faces, []string{"internal/gateway/dispatch", "internal/gateway/result"}, "waits for calls that become tasks; a link of the dispatch chain, which knows no meta-tool"},
	{"internal/gateway/usage", faces, []string{"internal/gateway/result"}, "counts the tokens of what agents read; takes from result which blocks are text"},
	{"internal/gateway/result", faces, nil, "raw results to what an agent reads; bytes to bytes"},
	{"internal/router", faces, nil, "routes to handlers; is given them"},
	{"internal/registry", faces, nil, "agents that come and go; tells others, asks nobody"},
	{"agentserver", faces, nil, "an MCP server made of commands, skills and functions"},
	{"s2sp", faces, nil, "tools of server authors that return or take tables; knows no MCP library"},
	{"s2sp/gosdk", faces, []string{"s2sp"}, "adds such tools to servers of the official Go SDK, so that only its users compile the SDK"},
	{"smcp", faces, nil, "the A2C-SMCP protocol: types only"},
	{"internal/a2c", faces, []string{"smcp"}, "dialects, versions and signatures of A2C-SMCP; the roles share it, and programs of others need none of it"},
	{"smcp/*", faces, []string{"smcp", "internal/a2c", "internal/member"}, "hub, computer and agent speak one protocol; the latter two are members of an office"},

	{"internal/fleet", faces, []string{"smcp", "smcp/agent"}, "attaches the Computers of an office as upstreams; joins the protocol and the supervision, which do not know each other"},
	{"internal/member", faces, []string{"smcp", "internal/a2c"}, "what Computers and agents share: a member of an office"},

	{"internal/upstream", middle, []string{"internal/catalog", "internal/config", "internal/oauth", "internal/trace", "internal/upstream/subscription"}, "connects what the configuration names and feeds the catalog; a server that needs a sign-in is not asked again before there is one"},
	{"internal/upstream/subscription", middle, nil, "what sessions hear of a server; is given connections and makes none"},
	{"internal/bridge", middle, nil, "questions and notices of servers to agents, across the eras; both gateway and router use it"},
	{"internal/authn", middle, nil, "finds out who calls, by tokens and certificates; is told what to accept, and knows no configuration"},
	{"internal/catalog", middle, nil, "what can be called; is given lists, fetches nothing"},
	{"internal/search", middle, []string{"internal/search/thesaurus"}, "ranks documents; knows neither MCP nor the catalog"},
	{"internal/search/embedding", middle, []string{"internal/search"}, "asks an embeddings endpoint where one is configured"},
	{"internal/search/thesaurus", middle, nil, "words of the same meaning; knows no documents"},
	{"internal/search/thesaurus/generate", top, nil, "makes the thesaurus' table; nothing imports it"},
	{"internal/search/eval", middle, []string{"internal/search"}, "scores a ranking"},
	{"internal/lockfile", middle, []string{"internal/catalog"}, "judges listings by weir.lock, between upstreams and the catalog; is given listings and the mode of each server, and starts nothing"},
	{"internal/mcpregistry", middle, []string{"internal/search"}, "asks a registry of MCP servers and plans how one runs; ranks hits as weir ranks tools, and knows no configuration"},
	{"internal/selection", middle, nil, "bounds a choice among ids; knows no tools"},
	{"s2sp/plane", middle, []string{"internal/artifact", "s2sp/table"}, "the data plane and the forms of S2SP, without MCP: it serves tables that artifact keeps behind tokens; the gateway stands on it"},
	{"s2sp/dispatch", middle, nil, "takes bodies out of results; knows no session and no store"},
	{"internal/artifact", middle, []string{"s2sp/table"}, "keeps results; a held table is asked by rows and columns"},
	{"s2sp/table", middle, nil, "rows and columns over raw JSON; knows not where the bytes are kept"},
	{"agentclient", middle, nil, "calls agents through a router; for agents' own programs, so it knows nothing of weir's faces"},
	{"internal/taskqueue", middle, nil, "a bounded queue; knows no protocol"},
	{"internal/clients", middle, nil, "the MCP clients of a machine and their files; asks no person and writes no file"},
	{"internal/config", middle, nil, "reads the configuration; imports nothing that it configures"},
	{"internal/doctor", middle, []string{"internal/clients", "internal/config", "internal/journal"}, "judges what others tell of configuration, servers and clients, and looks at the machine; starts no server"},
	{"internal/roster", middle, nil, "who is in an office, as a value and as a document that hubs share; knows no dialect, no payload and no connection"},
	{"internal/cluster", middle, nil, "several gateways over one store: who is there, who owns what, and requests to the owner; knows no configuration, and of MCP the envelope and the errors alone"},
	{"internal/sessionid", middle, []string{"internal/telemetry"}, "makes ids of legacy sessions that outlast weir; knows no transport, which asks it through an interface; the log names a session by the tag that events have"},
	{"internal/service", middle, nil, "the gateway as a service of one user; writes the descriptions and runs the system's manager, and knows no configuration"},
	{"internal/hook", middle, nil, "asks programs of the operator about calls and results; knows neither MCP nor the configuration"},
	{"internal/audit", middle, nil, "writes, verifies and reads the audit log; knows no gateway and no MCP"},
	{"internal/audit/calls", middle, []string{"internal/audit", "internal/telemetry", "internal/trace"}, "calls as records of the audit log; gateway and router tell it, and it knows neither; sessions have the tag that events have, and a record names the trace of its call"},
	{"internal/vault", middle, nil, "keeps credentials sealed, in memory or in a folder; knows neither OAuth nor HTTP"},
	{"internal/oauth", middle, []string{"internal/vault"}, "a client of OAuth for MCP servers; knows no browser, no listener and no configuration"},
	{"internal/connect", middle, nil, "the pages on which people sign in at servers; knows neither OAuth nor upstreams"},
	{"internal/oauth/oauthtest", ground, nil, "a server behind an authorization server, for tests only"},
	{"internal/journal", middle, nil, "writes files of other programs and takes that back; knows formats by splice, and no clients"},
	{"internal/history", middle, []string{"internal/telemetry"}, "the last calls, as their events"},
	{"internal/telemetry", middle, nil, "logs without secrets, events and metrics; the audit log is another package's"},
	{"internal/trace", middle, []string{"internal/telemetry"}, "spans of requests and their export; knows no gateway and no configuration; sessions have the tag that events have"},

	{"internal/child", ground, nil, "starts programs that end with this one; knows nothing of what they say"},
	{"internal/address", ground, nil, "which network addresses there are and which of them a peer may name; every face asks it"},
	{"mcp", ground, []string{"mcp/jsonrpc", "internal/rawjson", "internal/memory", "internal/identity"}, "the contract of MCP over raw messages"},
	{"mcp/sse", ground, []string{"internal/inflight", "mcp", "mcp/streamable", "internal/guard", "internal/identity", "mcp/jsonrpc", "internal/rawjson", "internal/memory"}, "the transport of 2024-11-05; its events are framed as in mcp/streamable"},
	{"mcp/*", ground, []string{"internal/hop", "internal/inflight", "mcp", "internal/guard", "internal/child", "mcp/jsonrpc", "internal/rawjson", "internal/visible", "internal/memory", "internal/text"}, "transports: bytes to calls of a Handler and back"},
	{"internal/identity", ground, nil, "who calls; what finds it out and what decides by it meet here"},
	{"internal/authz", ground, []string{"internal/identity"}, "whether the conditions of a rule hold; the configuration checks them and the gateway asks them, and it knows neither"},
	{"internal/guard", ground, []string{"internal/address", "internal/identity", "mcp", "mcp/jsonrpc", "internal/memory", "internal/text"}, "decides who may talk to an HTTP server; refuses in the form of MCP errors"},
	{"internal/egress", ground, []string{"internal/address"}, "where requests may go whose URLs others name; sign-ins at servers and the keys of issuers stand on it, and it knows neither"},
	{"internal/hop", ground, nil, "HTTP/1.1 over plain TCP without hand-overs between goroutines; the router and the transports send by it, and it knows no MCP"},
	{"internal/framed", ground, []string{"internal/hop"}, "small HTTP exchanges as frames over connections of their own; knows no nodes; hop looks whether an idle connection is still open"},
	{"internal/issuers", ground, nil, "what is the same at every OAuth issuer; the issuers of callers and those of servers stand on it"},
	{"internal/invocation", ground, nil, "tokens between a router and its agents: both faces need it, and neither may import the other"},
	{"internal/listchange", ground, []string{"internal/rawjson", "mcp", "mcp/jsonrpc"}, "tells clients of changed lists; servers of every kind have lists, and it knows none of them"},
	{"mcp/jsonrpc", ground, []string{"internal/rawjson"}, "the envelope of a message, over raw JSON"},
	{"internal/rawjson", ground, nil, "JSON as slices of its own bytes"},
	{"internal/strict", ground, []string{"internal/rawjson", "internal/text"}, "reads configuration files by the tags of structs; config, agentserver and the Computer stand on it, and it knows none of their keys"},
	{"internal/splice", ground, nil, "edits configuration files of other programs, bytes to bytes; knows no client and no file"},
	{"internal/approval", ground, nil, "where calls wait for an operator; knows neither policies nor MCP"},
	{"internal/serverlog", ground, nil, "keeps what server programs write to standard error; knows neither processes nor configurations"},
	{"internal/clusterkey", ground, []string{"internal/seal"}, "what nodes of a cluster derive from their one secret; knows neither addresses nor connections"},
	{"internal/store", ground, nil, "documents that outlast the process, changed by compare-and-set; knows none of their contents"},
	{"internal/store/filestore", ground, []string{"internal/place", "internal/store"}, "documents in one file of a folder; knows no node"},
	{"internal/store/natsserver", ground, []string{"internal/place"}, "a NATS server in this process, over a folder; knows no documents"},
	{"internal/store/natsstore", ground, []string{"internal/store"}, "documents, messages and blobs in NATS; knows not where the server runs"},
	{"internal/store/direct", ground, []string{"internal/store"}, "messages over connections between processes; knows neither nodes nor what the messages are for"},
	{"internal/store/storetest", ground, []string{"internal/store"}, "the contract of a store, and stores that fail, for tests only"},
	{"internal/seal", ground, nil, "encrypts what weir gives away and gets back; knows none of it"},
	{"internal/secret", ground, []string{"internal/place"}, "keeps secrets in the system's keyring or in a file; the programs hand them to the configuration, which knows neither"},
	{"internal/lazy", ground, nil, "makes patterns when they are first used; knows none of them"},
	{"internal/version", ground, nil, "answers weir --version before other packages are initialised; imports as little as possible"},
	{"internal/place", ground, nil, "where weir's own files are, on every system, and what is read as a file; knows none of their contents"},
	{"internal/trust", ground, []string{"internal/place"}, "remembers which configurations a person has agreed to; a file of the state folder"},
	{"internal/bundle", ground, []string{"internal/lazy", "internal/place"}, "unpacks MCP bundles and reads their manifests; knows no registry, no client and no configuration"},
	{"internal/filewatch", ground, nil, "says when a file changes; the configuration and the Computer read theirs again"},
	{"internal/ownership", ground, nil, "whose the names of servers are: registry, Computers and the configuration ask one ledger, and none of them may import another"},
	{"internal/uritemplate", ground, nil, "RFC 6570; knows no MCP"},
	{"internal/redact", ground, []string{"internal/rawjson"}, "takes secrets out of texts; the configuration, the gateway and Computers use it, and it knows none of them"},
	{"internal/markup", ground, nil, "pages for browsers: HTML with places for values; knows not what a page is for"},
	{"internal/text", ground, []string{"internal/rawjson", "internal/visible"}, "one line, one bound, for the texts of every package"},
	{"internal/visible", ground, nil, "keeps text to what is seen; knows not what it is for"},
	{"internal/memory", ground, nil, "bounds the bytes that are held at one time; knows none of them, so that every reader can stand on it"},
	{"internal/bounded", ground, nil, "a map with bounds; knows none of its values"},
	{"internal/mcptask", ground, []string{"internal/rawjson"}, "the messages of MCP's tasks in both eras; gateway and upstream, which do not know each other, have to agree on them"},
	{"internal/inflight", ground, nil, "counts work in progress; knows none of it"},
	{"internal/work", ground, nil, "counts and bounds what others compute; knows none of it"},
	{"socketio", ground, []string{"socketio/engineio", "internal/rawjson"}, "Socket.IO runs over Engine.IO, its arguments stay raw JSON; neither knows MCP"},
	{"socketio/engineio", ground, []string{"internal/memory"}, "frames and polling; what arrives is counted"},
	{"internal/token", ground, nil, "counts tokens, offline"},

	{"internal/house", ground, nil, "reads source, imports nothing of the module"},
	{"internal/leak", ground, nil, "for tests only"},
	{"internal/memnet", ground, nil, "a network in memory, for tests only"},
	{"internal/clustertest", ground, nil, "clusters of weir processes and what breaks them, for tests only; knows a weir by its command line"},
	{"internal/simulation", ground, nil, "clusters in one process and in a time of their own, for tests only; what it runs, its tests import"},
	{"internal/linearity", ground, nil, "judges what clients of a cluster saw, for tests only; knows no node and no store"},
	{"internal/proctest", ground, nil, "processes on every system, for tests only"},
	{"internal/wsbench", ground, nil, "what WebSocket servers are measured against, for tests only"},
	{"internal/fakemcp", ground, nil, "a server that misbehaves on demand, for tests only; shares no code with what it tests"},
	{"internal/trace/tracetest", ground, nil, "a collector of spans, for tests only; shares no code with what it tests"},
	{"internal/fakeidp", ground, nil, "an identity provider that fails on demand, for tests only; shares no code with what it tests"},
	{"internal/fakemcp/cmd/fakemcp", ground, []string{"internal/fakemcp"}, "the same as a program"},
}

// testOnly are packages that no product code imports.
var testOnly = []string{"internal/house", "internal/leak", "internal/clustertest", "internal/simulation", "internal/linearity", "internal/memnet", "internal/proctest", "internal/wsbench", "internal/fakemcp", "internal/fakeidp", "internal/oauth/oauthtest", "internal/trace/tracetest", "internal/store/storetest"}

// isTestOnly reports whether a package is, or is below, one of testOnly.
func isTestOnly(path string) bool {
	return slices.ContainsFunc(testOnly, func(helper string) bool { return within(path, helper) })
}

// A ban is an import that must not happen, not even through others.
type ban struct{ from, to, reason string }

var bans = []ban{
	{"internal/gateway", "socketio", "the gateway asks Peers; which transport is below them must not matter, or every new transport would change it"},
	{"internal/gateway", "socketio/engineio", "see gateway and socketio"},
	{"socketio", "mcp", "Socket.IO is usable and testable alone; offices put MCP into it, not the other way round"},
	{"socketio/engineio", "mcp", "see socketio and mcp"},
	{"internal/search", "internal/catalog", "ranking is scored on plain documents; it must run on sets that were never a catalog"},
	{"smcp/agent", "internal/config", "an agent's protocol is for programs that have no weir.yaml"},
	{"smcp/agent", "internal/upstream", "Computers become upstreams in internal/fleet; a library for agents supervises nothing"},
	{"smcp/agent", "internal/catalog", "see smcp/agent and internal/config"},
	{"smcp/hub", "internal/config", "see smcp/agent and internal/config"},
	{"smcp/hub", "internal/upstream", "a hub carries messages and connects to no MCP server"},
	{"cmd/weir", "s2sp/gosdk", "it brings the official Go SDK with OAuth and a second JSON library: 14 CPU seconds of a cold build, for nothing that the gateway does"},
	{"s2sp/plane", "mcp", "the data plane is HTTP and tables; servers of any kind can have one"},
	{"s2sp/table", "internal/artifact", "a table is bytes and an index; where they are kept is for others to say"},
	{"internal/catalog", "mcp", "a catalog is made of raw definitions, so that one can be loaded from a file"},
}

// sdk is the official Go SDK, and sdkUsers are the packages that may import it outside tests.
const sdk = "github.com/modelcontextprotocol/go-sdk"

var sdkUsers = []string{"examples", "s2sp/gosdk"}

func layerRules() []Rule {
	return []Rule{
		{
			Name:   "every package has a place",
			Reason: "a package that is in no layer can be imported from anywhere, and then it is in all of them",
			Find:   findUnplaced,
		},
		{
			Name:   "imports point down",
			Reason: "a package can be read, tested and changed alone only if what is above it does not reach into it",
			Find:   findUpward,
		},
		{
			Name:   "every arrow beside is drawn",
			Reason: "a line that allows what nobody imports tells a reader of an arrow that is not there",
			Find:   findIdle,
		},
		{
			Name:   "nothing imports cmd",
			Reason: "a command is wiring; what is worth importing belongs into a package of its own",
			Find: func(t *Tree) []string {
				return t.edgesTo(func(e edge) bool { return within(e.To, "cmd") }, func(p *Package, _ edge) bool { return within(p.Path, "cmd") })
			},
		},
		{
			Name:   "test helpers stay in tests",
			Reason: "a helper may panic, sleep and leak; the product may not",
			Find: func(t *Tree) []string {
				isHelper := func(e edge) bool { return isTestOnly(e.To) }
				return t.edgesTo(isHelper, func(p *Package, e edge) bool { return e.Test || isTestOnly(p.Path) })
			},
		},
		{
			Name:   "some packages never meet",
			Reason: "each pair has its own reason, printed with it",
			Find:   findBanned,
		},
		{
			Name:   "the Go SDK is not in the forwarding path",
			Reason: "its typed decoding drops fields it does not know, rounds large integers and costs several times the throughput",
			Find:   findSDK,
		},
		{
			Name:   "no template calls methods by name",
			Reason: "with one such call in the program, the linker keeps every exported method of every type: 5 MB; internal/markup writes pages",
			Find:   findTemplates,
		},
	}
}

func findTemplates(t *Tree) []string {
	var found []string
	for _, p := range t.Packages {
		for _, e := range t.imports(p) {
			if !e.Test && (e.To == "html/template" || e.To == "text/template") {
				found = append(found, fmt.Sprintf("%s: %s imports %s: use internal/markup", e.Where, p.Path, e.To))
			}
		}
	}
	return found
}

// placeOf finds the line of a package, an exact one before a pattern.
func placeOf(path string) (place, bool) {
	for _, p := range places {
		if p.path == path {
			return p, true
		}
	}
	for _, p := range places {
		if parent, ok := strings.CutSuffix(p.path, "/*"); ok && strings.HasPrefix(path, parent+"/") {
			return p, true
		}
	}
	return place{}, false
}

func findUnplaced(t *Tree) []string {
	var found []string
	for _, p := range t.Packages {
		if _, ok := placeOf(p.Path); !ok {
			found = append(found, fmt.Sprintf("%s: package %q is in no layer: add a line for it to places in internal/house/layers.go, and to the layout in docs/design.md", p.Files[0].Name, p.Path))
		}
	}
	return found
}

// findUpward looks at product code only: a test may stand above what it tests.
func findUpward(t *Tree) []string {
	var found []string
	for _, p := range t.Packages {
		from, ok := placeOf(p.Path)
		if !ok {
			continue // findUnplaced says so.
		}
		for _, e := range t.imports(p) {
			to, known := placeOf(e.To)
			switch {
			case !e.Local || e.Test || !known || to.layer < from.layer || e.To == p.Path:
			case to.layer > from.layer:
				found = append(found, fmt.Sprintf("%s: %s (%s) imports %s (%s): turn the arrow, for example with an interface declared in %s", e.Where, p.Path, from.layer, e.To, to.layer, p.Path))
			case !slices.Contains(from.beside, e.To):
				found = append(found, fmt.Sprintf("%s: %s imports %s beside it (both %s): declare what it needs as an interface, or name %q in the line of %s in internal/house/layers.go and say why", e.Where, p.Path, e.To, from.layer, e.To, p.Path))
			}
		}
	}
	return found
}

// findIdle names what a line of places allows and no package of that line imports.
func findIdle(t *Tree) []string {
	there := map[string]bool{}   // lines that have a package
	used := map[[2]string]bool{} // the line, what is imported
	for _, p := range t.Packages {
		from, _ := placeOf(p.Path)
		there[from.path] = true
		for _, e := range t.imports(p) {
			if e.Local && !e.Test {
				used[[2]string{from.path, e.To}] = true
			}
		}
	}
	var found []string
	for _, line := range places {
		for _, to := range line.beside {
			if there[line.path] && !used[[2]string{line.path, to}] {
				found = append(found, fmt.Sprintf("internal/house/layers.go: the line of %s allows %q, which it does not import: take it off", line.path, to))
			}
		}
	}
	return found
}

// edgesTo lists local imports that are of a kind and not allowed.
func (t *Tree) edgesTo(kind func(edge) bool, allowed func(*Package, edge) bool) []string {
	var found []string
	for _, p := range t.Packages {
		for _, e := range t.imports(p) {
			if e.Local && kind(e) && !allowed(p, e) {
				found = append(found, fmt.Sprintf("%s: %s imports %s", e.Where, p.Path, e.To))
			}
		}
	}
	return found
}

// findBanned follows imports of product code from each banned pair's start and prints the whole way. A package's own tests
// may not take the banned import themselves either.
func findBanned(t *Tree) []string {
	byPath := map[string]*Package{}
	for _, p := range t.Packages {
		byPath[p.Path] = p
	}
	var found []string
	for _, b := range bans {
		for _, p := range t.Packages {
			if !within(p.Path, b.from) {
				continue
			}
			if way := t.wayTo(byPath, p, b.to, true, map[string]bool{}); way != "" {
				found = append(found, fmt.Sprintf("%s: %s", way, b.reason))
			}
		}
	}
	return found
}

// wayTo is "file:line: a ▶ b ▶ c" for the first way from p to a package within target, "" if there is none.
func (t *Tree) wayTo(byPath map[string]*Package, p *Package, target string, tests bool, seen map[string]bool) string {
	seen[p.Path] = true
	for _, e := range t.imports(p) {
		if !e.Local || (e.Test && !tests) || seen[e.To] {
			continue
		}
		if within(e.To, target) {
			return fmt.Sprintf("%s: %s ▶ %s", e.Where, p.Path, e.To)
		}
		next := byPath[e.To]
		if next == nil || e.Test {
			continue
		}
		if way := t.wayTo(byPath, next, target, false, seen); way != "" {
			_, rest, _ := strings.Cut(way, ": ")
			return fmt.Sprintf("%s: %s ▶ %s", e.Where, p.Path, rest)
		}
	}
	return ""
}

func findSDK(t *Tree) []string {
	var found []string
	for _, p := range t.Packages {
		if slices.ContainsFunc(sdkUsers, func(user string) bool { return within(p.Path, user) }) {
			continue
		}
		for _, e := range t.imports(p) {
			if !e.Test && within(e.To, sdk) {
				found = append(found, fmt.Sprintf("%s: %s imports %s: work on raw messages, or name the package in sdkUsers if it forwards nothing", e.Where, p.Path, e.To))
			}
		}
	}
	return found
}
