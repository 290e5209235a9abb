package house

import (
	"fmt"
	"slices"
	"strings"
)

// A layer is a floor of the picture in docs/design.md. Imports point down.
type layer int

const (
	ground layer = iota
	protocols
	state
	contracts
	parts
	assembly
	faces
	programs
)

func (l layer) String() string {
	return [...]string{"ground", "protocols", "state", "contracts", "parts", "assembly", "faces", "programs"}[l]
}

// A place is where a package stands.
type place struct {
	path   string
	layer  layer
	beside []string // packages of its own layer that it may import
	reason string   // why it belongs there, and why it may import from its own layer
}

// places is the table of packages, from the top down. Within a layer a package may import only the packages that its line
// names, so that a new arrow is a recorded decision. "x/*" stands for every package below x.
var places = []place{
	// programs: programs, and what they are built of
	{".", programs, nil, "what programs import that serve a gateway of their own"},
	{"cmd/*", programs, []string{"internal/cli"}, "the programs: main alone; nothing imports them"},
	{"internal/cli", programs, nil, "the commands of weir; only cmd imports it"},
	{"bench", programs, nil, "shows speed from outside: real processes under load"},
	{"bench/cluster", programs, nil, "gateways that act as one, in one process: only so is their memory and their way to each other seen alone"},
	{"bench/*", programs, nil, "the same for one package each, beside a reference of others"},
	{"examples/*", programs, nil, "shows the packages from outside, as a newcomer uses them"},
	{"internal/dist", programs, nil, "packages of finished binaries; knows what a package manager wants, and nothing of what weir does"},
	{"internal/dist/cmd/dist", programs, []string{"internal/dist"}, "the same as a program"},
	{"internal/search/thesaurus/generate", programs, nil, "makes the thesaurus' table; nothing imports it"},

	// faces: HTTP faces and example servers
	{"internal/web", faces, []string{"internal/web/api", "internal/web/attach", "internal/web/cards", "internal/web/console"}, "the HTTP face of a gateway; the gateway does not know it"},
	{"internal/setup/machine", faces, []string{"internal/web", "internal/web/api"}, "what operators of a running gateway change of its file and its computer; serves weir serve and programs of others"},
	{"internal/web/api", faces, nil, "the paths of viewers and operators; asks the gateway through interfaces of its own"},
	{"internal/web/console", faces, nil, "the files of the web page, which asks the API"},
	{"internal/web/cards", faces, nil, "what clients may know of weir before they connect; knows no configuration and no gateway"},
	{"internal/web/attach", faces, nil, "carries lines between a client and a running gateway; knows no configuration and starts nothing"},
	{"internal/demo", faces, nil, "example MCP servers for the quickstart, as their authors would write them, with s2sp where they return or take tables"},

	// assembly: a gateway put together, and a machine set up
	{"internal/gateway", assembly, nil, "puts a gateway together; knows no flags, no terminal and no exit codes"},
	{"internal/setup", assembly, []string{"internal/setup/bundle", "internal/setup/clients", "internal/setup/journal"}, "plans changes of weir.yaml and of clients' files; commands and the console show them, and it asks no person"},
	{"internal/setup/clients", assembly, nil, "the MCP clients of a machine and their files; asks no person and writes no file"},
	{"internal/setup/journal", assembly, nil, "writes files of other programs and takes that back; knows formats by splice, and no clients"},
	{"internal/setup/mcpregistry", assembly, nil, "asks a registry of MCP servers and plans how one runs; ranks hits as weir ranks tools, and knows no configuration"},
	{"internal/setup/bundle", assembly, nil, "unpacks MCP bundles and reads their manifests; knows no registry, no client and no configuration"},
	{"internal/setup/service", assembly, nil, "the gateway as a service of one user; writes the descriptions and runs the system's manager, and knows no configuration"},
	{"internal/setup/doctor", assembly, []string{"internal/setup/clients", "internal/setup/journal"}, "judges what others tell of configuration, servers and clients, and looks at the machine; starts no server"},

	// parts: the parts of a gateway
	{"smcp/computer", parts, []string{"internal/upstream"}, "the Computer of A2C-SMCP, with the servers that it hosts"},
	{"internal/upstream", parts, []string{"internal/upstream/openapi", "internal/upstream/subscription"}, "connects what the configuration names and feeds the catalog; a server that needs a sign-in is not asked again before there is one"},
	{"internal/upstream/subscription", parts, nil, "what sessions hear of a server; is given connections and makes none"},
	{"internal/upstream/agents", parts, nil, "agents that come and go; tells others, asks nobody"},
	{"internal/upstream/placement", parts, []string{"internal/passthrough", "internal/upstream"}, "at which node of a cluster a program runs, and the way to it; knows neither agents nor listings"},
	{"internal/upstream/membership", parts, []string{"internal/passthrough", "internal/store/nodestore", "internal/upstream", "internal/upstream/agents", "internal/upstream/computers"}, "which servers a gateway has, and whose their names are; joins the configuration, agents and the supervision"},
	{"internal/upstream/listings", parts, []string{"internal/upstream"}, "lists of servers that outlast the process; between upstreams and the judgement by weir.lock, and knows neither"},
	{"internal/upstream/lineage", parts, nil, "what programs get of weir's environment, and configurations by which weir would start itself; starts none"},
	{"internal/upstream/credentials", parts, []string{"internal/upstream"}, "what callers and the gateway show upstreams; joins the configuration, sign-ins and the supervision, which do not know each other"},
	{"internal/upstream/openapi", parts, nil, "an HTTP API as a Peer, by its document; knows no configuration, no credentials and no supervision"},
	{"internal/upstream/confined", parts, nil, "puts the programs of servers into their sandboxes; joins the configuration, the supervision and the sandboxes, which do not know each other"},
	{"internal/upstream/computers", parts, []string{"internal/upstream"}, "attaches the Computers of an office as upstreams; joins the protocol and the supervision, which do not know each other"},
	{"internal/office", parts, []string{"internal/passthrough", "internal/upstream", "internal/upstream/computers"}, "the hub and the offices of a gateway, and a hub without one"},
	{"internal/policy", parts, []string{"internal/dispatch", "internal/metatool", "internal/passthrough", "internal/result", "internal/tasks", "internal/upstream", "internal/metatool/tools"}, "who may make which call; gives the configuration to the meta-tools and judges requests at /mcps"},
	{"internal/policy/definitions", parts, []string{"internal/dispatch", "internal/metatool", "internal/passthrough", "internal/result", "internal/upstream"}, "hides definitions that differ from weir.lock, and hidden text; between upstreams, the catalog and /mcps"},
	{"internal/observe", parts, []string{"internal/metatool", "internal/passthrough", "internal/result", "internal/result/usage"}, "reports what a gateway does; decides nothing"},
	{"internal/store/nodestore", parts, nil, "the store of a gateway with its node, as configured; knows not what the documents are for"},
	{"internal/dataplane", parts, []string{"internal/metatool", "internal/passthrough", "internal/result", "internal/store/nodestore", "internal/tables"}, "the way of results past the model, between callers, servers and nodes; joins what is kept, what is fetched and what waits at /mcps, none of which knows the others"},
	{"internal/audit/syslog", state, []string{"internal/audit"}, "records of the audit log as syslog messages; is given lines, and knows no configuration"},
	{"internal/audit/trail", parts, []string{"internal/passthrough", "internal/upstream/credentials"}, "tells the audit log of what does not pass the meta-tools"},
	{"internal/metatool/tools", parts, []string{"internal/dispatch"}, "tools of a catalog for commands and the API; shows schemas as calls check them"},
	{"internal/dispatch", parts, []string{"internal/result"}, "one call through checks, controls, cache and retries; fails with errors of result"},
	{"internal/result", parts, nil, "raw results to what an agent reads; bytes to bytes"},
	{"internal/result/usage", parts, []string{"internal/result"}, "counts the tokens of what agents read; takes from result which blocks are text"},
	{"internal/tables", parts, []string{"internal/dispatch", "internal/result"}, "links of the dispatch chain that pass rows from tool to tool; knows no meta-tool"},
	{"internal/tasks", parts, []string{"internal/dispatch", "internal/result"}, "waits for calls that become tasks; a link of the dispatch chain, which knows no meta-tool"},
	{"internal/runs", parts, []string{"internal/dispatch", "internal/result"}, "runs of programs with their journals; gives the calls to a gateway and knows neither catalog nor steps"},
	{"internal/metatool", parts, []string{"internal/dispatch", "internal/result", "internal/result/usage", "internal/runs", "internal/tables", "internal/tasks"}, "meta-tools over the catalog; knows no transport"},
	{"internal/metatool/ranking", parts, []string{"internal/metatool"}, "prepares the catalog for searches in the background; the meta-tools search, and do not know it"},
	{"internal/passthrough", parts, []string{"internal/upstream"}, "routes to handlers; is given them"},

	// contracts: what is configured and what can be called
	{"agentserver", contracts, []string{"internal/catalog", "internal/catalog/primitive"}, "an MCP server made of commands, skills and functions"},
	{"internal/config", contracts, []string{"internal/config/mcpserver", "internal/config/otlp"}, "reads the configuration; imports nothing that it configures"},
	{"internal/config/mcpserver", contracts, nil, "one entry of mcpServers; reads no file and knows no other part of the configuration"},
	{"internal/config/otlp", contracts, nil, "where spans go; a section that a Computer has, too"},
	{"internal/catalog", contracts, []string{"internal/catalog/primitive"}, "what can be called; is given lists, fetches nothing"},
	{"internal/catalog/primitive", contracts, nil, "definitions as servers list them; a program that connects to servers needs no ids and no schemas"},
	{"internal/lockfile", contracts, []string{"internal/catalog", "internal/catalog/primitive"}, "judges listings by weir.lock, between upstreams and the catalog; is given listings and the mode of each server, and starts nothing"},
	{"internal/access/callers", contracts, []string{"internal/config"}, "who may call by a configuration; converts it for access and guard, which know none"},
	{"internal/part", contracts, []string{"internal/config"}, "the life of a part of a gateway; is given configurations, and knows no part"},
	{"internal/flow", contracts, []string{"internal/catalog", "internal/catalog/primitive", "internal/config", "internal/config/mcpserver"}, "labels of results and what they allow; carried by all parts of a call as values that they do not look into"},
	{"internal/flow/propose", contracts, []string{"internal/config"}, "a first flow section, made of what servers say of their tools; knows no gateway, and the room of the labels does not know it"},
	{"internal/bridge", contracts, nil, "questions and notices of servers to agents, across the eras; both gateway and router use it"},

	// state: what is kept, for how long, and who may use it
	{"smcp/agent", state, []string{"internal/office/a2c", "internal/office/member"}, "the Agent of A2C-SMCP; a library for programs that have no weir.yaml"},
	{"smcp/hub", state, []string{"internal/office/a2c", "internal/office/roster", "internal/ownership"}, "the hub of A2C-SMCP: it carries messages and connects to no MCP server"},
	{"s2sp", state, []string{"internal/artifact", "s2sp/plane"}, "tools of server authors that return or take tables; knows no MCP library"},
	{"s2sp/plane", state, []string{"internal/artifact"}, "the data plane and the forms of S2SP, without MCP: it serves tables that artifact keeps behind tokens; the gateway stands on it"},
	{"s2sp/gosdk", state, []string{"s2sp"}, "adds such tools to servers of the official Go SDK, so that only its users compile the SDK"},
	{"agentclient", state, nil, "calls agents through a router; for agents' own programs, so it knows nothing of weir's faces"},
	{"internal/store", state, nil, "documents that outlast the process, changed by compare-and-set; knows none of their contents"},
	{"internal/store/filestore", state, []string{"internal/store"}, "documents in one file of a folder; knows no node"},
	{"internal/store/natsstore", state, []string{"internal/store"}, "documents, messages and blobs in NATS; knows not where the server runs"},
	{"internal/link", state, []string{"internal/store"}, "messages over connections between processes; knows neither nodes nor what the messages are for"},
	{"internal/store/backend", state, []string{"internal/store", "internal/store/filestore", "internal/store/natsstore"}, "opens the store that is configured; whoever uses it does not ask which one it is"},
	{"internal/testkit/storetest", state, []string{"internal/store"}, "the contract of a store, and stores that fail, for tests only"},
	{"internal/link", state, []string{"internal/store"}, "requests, connections and messages between two nodes, and how they prove that they are nodes; is told which nodes there are, and knows neither documents nor sessions"},
	{"internal/cluster", state, []string{"internal/lease", "internal/link", "internal/store"}, "several gateways over one store: who is there, who owns what, and requests to the owner; knows no configuration, and of MCP the envelope and the errors alone"},
	{"internal/cluster/peerlink", state, []string{"internal/cluster"}, "requests that only nodes make of each other; knows not what they are for"},
	{"internal/cluster/sessionid", state, []string{"internal/observe/telemetry", "internal/store"}, "makes ids of legacy sessions that outlast weir; knows no transport, which asks it through an interface; the log names a session by the tag that events have"},
	{"internal/link", state, nil, "what nodes of a cluster derive from their one secret; knows neither addresses nor connections"},
	{"internal/lease", state, []string{"internal/store"}, "says that a process lives; knows not what it owns"},
	{"internal/queue", state, []string{"internal/lease", "internal/store", "internal/store/filestore"}, "a bounded queue; opens the file of its own tasks; knows no protocol"},
	{"internal/artifact", state, []string{"internal/store"}, "keeps results; a held table is asked by rows and columns"},
	{"internal/observe/metrics", state, []string{"internal/observe/otlphttp", "internal/observe/telemetry"}, "counts for Prometheus and OpenTelemetry; no public package gets the client of Prometheus"},
	{"internal/observe/otlphttp", state, nil, "requests to a collector of OpenTelemetry and their answers; knows neither spans nor metrics"},
	{"internal/observe/telemetry", state, nil, "logs without secrets, and events; the audit log is another package's"},
	{"internal/observe/trace", state, []string{"internal/observe/otlphttp", "internal/observe/telemetry"}, "spans of requests and their export; knows no gateway and no configuration; sessions have the tag that events have"},
	{"internal/observe/history", state, []string{"internal/observe/telemetry"}, "the last calls, as their events"},
	{"internal/access/dpop", state, []string{"internal/access/jwk"}, "proofs that a client has the key of its token; callers show them, and weir shows them to servers"},
	{"internal/access/jwk", state, nil, "public keys of JSON Web Keys, for tokens and for proofs"},
	{"internal/access", state, []string{"internal/access/dpop", "internal/access/jwk"}, "finds out who calls, by tokens and certificates; is told what to accept, and knows no configuration"},
	{"internal/access/authserver", state, []string{"internal/access", "internal/access/dpop", "internal/store"}, "the gateway as the authorization server of its own URLs, with documents that all nodes share; what the signatures of clients are checked with is that of tokens, and it knows neither the configuration nor the pages of sign-ins at servers"},
	{"internal/access/authz", state, nil, "whether the conditions of a rule hold; the configuration checks them and the gateway asks them, and it knows neither"},
	{"internal/signin", state, []string{"internal/store"}, "the pages on which people sign in at servers, with the logouts that all nodes share; knows neither OAuth nor upstreams"},
	{"internal/signin/oauth", state, []string{"internal/access/dpop", "internal/signin/vault"}, "a client of OAuth for MCP servers; knows no browser, no listener and no configuration"},
	{"internal/signin/vault", state, nil, "keeps credentials sealed, in memory or in a folder; knows neither OAuth nor HTTP"},
	{"internal/audit", state, nil, "writes, verifies and reads the audit log; knows no gateway and no MCP"},
	{"internal/audit/calls", state, []string{"internal/audit", "internal/observe/telemetry", "internal/observe/trace"}, "calls as records of the audit log; gateway and router tell it, and it knows neither; sessions have the tag that events have, and a record names the trace of its call"},
	{"internal/program", state, []string{"internal/program/worker"}, "runs programs of agents in processes of their own; asks a host for everything, and knows neither tools nor MCP"},
	{"internal/program/worker", state, nil, "the process that runs one program; speaks frames, and knows nothing of what its host does"},
	{"internal/search", state, []string{"internal/search/thesaurus"}, "ranks documents; knows neither MCP nor the catalog"},
	{"internal/search/thesaurus", state, nil, "words of the same meaning; knows no documents"},
	{"internal/search/embedding", state, []string{"internal/search", "internal/store"}, "asks an embeddings endpoint where one is configured"},
	{"internal/search/feedback", state, []string{"internal/search", "internal/store"}, "which tools were run after searches; knows no catalog, no call and no ranking"},
	{"internal/search/eval", state, []string{"internal/search"}, "scores a ranking"},
	{"internal/search/selection", state, nil, "bounds a choice among ids; knows no tools"},
	{"internal/office/roster", state, []string{"internal/store"}, "who is in an office, as a value and as a document that hubs share; knows no dialect, no payload and no connection"},
	{"internal/office/a2c", state, nil, "dialects, versions and signatures of A2C-SMCP; the roles share it, and programs of others need none of it"},
	{"internal/office/member", state, []string{"internal/office/a2c"}, "what Computers and agents share: a member of an office"},
	{"internal/policy/hook", state, nil, "asks programs of the operator about calls and results; knows neither MCP nor the configuration"},
	{"internal/policy/approval", state, nil, "where calls wait for an operator; knows neither policies nor MCP"},
	{"internal/ownership", state, nil, "whose the names of servers are: registry, Computers and the configuration ask one ledger, and none of them may import another"},

	// protocols: the protocols, and who calls
	{"mcp", protocols, []string{"internal/identity", "mcp/jsonrpc"}, "the contract of MCP over raw messages"},
	{"mcp/jsonrpc", protocols, nil, "the envelope of a message, over raw JSON"},
	{"mcp/stdio", protocols, []string{"mcp", "mcp/jsonrpc"}, "a transport: lines of a program"},
	{"mcp/streamable", protocols, []string{"internal/net/guard", "mcp", "mcp/jsonrpc"}, "a transport: Streamable HTTP, both sides"},
	{"mcp/sse", protocols, []string{"internal/identity", "internal/net/guard", "mcp", "mcp/jsonrpc", "mcp/streamable"}, "the transport of 2024-11-05; its events are framed as in mcp/streamable"},
	{"socketio", protocols, []string{"socketio/engineio"}, "Socket.IO runs over Engine.IO, its arguments stay raw JSON; neither knows MCP"},
	{"socketio/engineio", protocols, nil, "frames and polling; what arrives is counted"},
	{"smcp", protocols, nil, "the A2C-SMCP protocol: types only"},
	{"internal/columnar", ground, nil, "the contract between tables and a codec of Arrow and Parquet, so that who does without these forms does not link them"},
	{"internal/columnar/codec", ground, []string{"internal/columnar", "internal/json/rawjson"}, "Arrow and Parquet as rows of JSON and back; knows no table"},
	{"s2sp/table", protocols, nil, "rows and columns over raw JSON; knows not where the bytes are kept"},
	{"s2sp/columnar", protocols, nil, "registers the codec of Arrow and Parquet for programs that import it"},
	{"s2sp/dispatch", protocols, nil, "takes bodies out of results; knows no session and no store"},
	{"internal/identity", protocols, nil, "who calls; what finds it out and what decides by it meet here"},
	{"internal/net/guard", protocols, []string{"internal/identity", "mcp", "mcp/jsonrpc"}, "decides who may talk to an HTTP server; refuses in the form of MCP errors"},
	{"internal/protocol/mcptask", protocols, nil, "the messages of MCP's tasks in both eras; gateway and upstream, which do not know each other, have to agree on them"},
	{"internal/protocol/listchange", protocols, []string{"mcp", "mcp/jsonrpc"}, "tells clients of changed lists; servers of every kind have lists, and it knows none of them"},
	{"internal/protocol/invocation", protocols, nil, "tokens between a router and its agents: both faces need it, and neither may import the other"},
	{"internal/access/issuers", protocols, nil, "what is the same at every OAuth issuer; the issuers of callers and those of servers stand on it"},

	// ground: knows neither MCP nor weir
	{"internal/json/rawjson", ground, nil, "JSON as slices of its own bytes"},
	{"internal/json/strict", ground, []string{"internal/json/rawjson", "internal/text"}, "reads configuration files by the tags of structs; config, agentserver and the Computer stand on it, and it knows none of their keys"},
	{"internal/json/splice", ground, nil, "edits configuration files of other programs, bytes to bytes; knows no client and no file"},
	{"internal/text", ground, []string{"internal/json/rawjson", "internal/text/visible"}, "one line, one bound, for the texts of every package"},
	{"internal/text/visible", ground, nil, "keeps text to what is seen; knows not what it is for"},
	{"internal/text/lazy", ground, nil, "makes patterns when they are first used; knows none of them"},
	{"internal/text/redact", ground, []string{"internal/json/rawjson"}, "takes secrets out of texts; the configuration, the gateway and Computers use it, and it knows none of them"},
	{"internal/text/token", ground, nil, "counts tokens, offline"},
	{"internal/text/uritemplate", ground, nil, "RFC 6570; knows no MCP"},
	{"internal/limit/bounded", ground, nil, "a map with bounds; knows none of its values"},
	{"internal/limit/inflight", ground, nil, "counts work in progress; knows none of it"},
	{"internal/limit/memory", ground, nil, "bounds the bytes that are held at one time; knows none of them, so that every reader can stand on it"},
	{"internal/limit/work", ground, nil, "counts and bounds what others compute; knows none of it"},
	{"internal/host/child", ground, nil, "starts programs that end with this one; knows nothing of what they say"},
	{"internal/host/confine", ground, nil, "the process that gives up what a server does not need, and becomes it"},
	{"internal/host/sandbox", ground, []string{"internal/host/confine", "internal/host/place", "internal/net/address"}, "what a server needs of the machine, and the strongest way to close the rest; knows no configuration"},
	{"internal/host/place", ground, nil, "where weir's own files are, on every system, and what is read as a file; knows none of their contents"},
	{"internal/host/filewatch", ground, nil, "says when a file changes; the configuration and the Computer read theirs again"},
	{"internal/host/trust", ground, []string{"internal/host/place"}, "remembers which configurations a person has agreed to; a file of the state folder"},
	{"internal/host/secret", ground, []string{"internal/host/place"}, "keeps secrets in the system's keyring or in a file; the programs hand them to the configuration, which knows neither"},
	{"internal/host/serverlog", ground, nil, "keeps what server programs write to standard error; knows neither processes nor configurations"},
	{"internal/net/address", ground, nil, "which network addresses there are and which of them a peer may name; every face asks it"},
	{"internal/net/httpserver", ground, []string{"internal/text/visible"}, "HTTP servers with the limits of all listeners; knows no path"},
	{"internal/net/egress", ground, []string{"internal/net/address"}, "where requests may go whose URLs others name; sign-ins at servers and the keys of issuers stand on it, and it knows neither"},
	{"internal/net/hop", ground, nil, "HTTP/1.1 over plain TCP without hand-overs between goroutines; the router and the transports send by it, and it knows no MCP"},
	{"internal/program/wire", ground, nil, "frames between a gateway and the workers of programs; knows no program"},
	{"internal/access/password", ground, nil, "hashes of passwords; the configuration checks them, the authorization server compares them and a command makes them"},
	{"internal/seal", ground, nil, "encrypts what weir gives away and gets back; knows none of it"},
	{"internal/version", ground, nil, "answers weir --version before other packages are initialised; imports as little as possible"},
	{"internal/house", ground, nil, "reads source, imports nothing of the module"},
	{"internal/testkit/leak", ground, nil, "for tests only"},
	{"internal/testkit/calltest", parts, []string{"internal/result"}, "servers in memory and a client of what stands before them, for tests only; knows no gateway, whose own tests use it"},
	{"internal/testkit/runstest", parts, []string{"internal/runs"}, "runs of programs for the tests of what stands around them"},
	{"internal/testkit/metatooltest", parts, []string{"internal/metatool", "internal/testkit/calltest"}, "a gateway over calltest, with which the rooms below it test what they do in a call"},
	{"internal/testkit/gatewaytest", faces, []string{"internal/web", "internal/web/api"}, "clusters of gateways in one process, for tests only"},
	{"internal/testkit/memnet", ground, nil, "a network in memory, for tests only"},
	{"internal/testkit/clustertest", ground, nil, "clusters of weir processes and what breaks them, for tests only; knows a weir by its command line"},
	{"internal/testkit/linearity", ground, nil, "judges what clients of a cluster saw, for tests only; knows no node and no store"},
	{"internal/testkit/proctest", ground, nil, "processes on every system, for tests only"},
	{"internal/testkit/podmantest", ground, nil, "containers of the executable of a test, for tests only"},
	{"internal/testkit/natstest", ground, []string{"internal/testkit/proctest"}, "NATS servers, for tests only"},
	{"internal/testkit/wsbench", ground, nil, "what WebSocket servers are measured against, for tests only"},
	{"internal/testkit/fakemcp", ground, nil, "a server that misbehaves on demand, for tests only; shares no code with what it tests"},
	{"internal/testkit/fakemcp/cmd/fakemcp", ground, []string{"internal/testkit/fakemcp"}, "the same as a program"},
	{"internal/testkit/tracetest", ground, nil, "a collector of spans, for tests only; shares no code with what it tests"},
	{"internal/testkit/fakeidp", ground, nil, "an identity provider that fails on demand, for tests only; shares no code with what it tests"},
	{"internal/testkit/oauthtest", ground, nil, "a server behind an authorization server, for tests only"},
	{"internal/testkit/simulation", ground, nil, "clusters in one process and in a time of their own, for tests only; what it runs, its tests import"},
}

// testOnly are packages that no product code imports.
var testOnly = []string{"internal/house", "internal/testkit/leak", "internal/testkit/calltest", "internal/testkit/metatooltest", "internal/testkit/gatewaytest", "internal/testkit/clustertest", "internal/testkit/simulation", "internal/testkit/linearity", "internal/testkit/memnet", "internal/testkit/proctest", "internal/testkit/natstest", "internal/testkit/podmantest", "internal/testkit/wsbench", "internal/testkit/fakemcp", "internal/testkit/fakeidp", "internal/testkit/oauthtest", "internal/testkit/tracetest", "internal/testkit/storetest"}

// isTestOnly reports whether a package is, or is below, one of testOnly.
func isTestOnly(path string) bool {
	return slices.ContainsFunc(testOnly, func(helper string) bool { return within(path, helper) })
}

// A ban is an import that must not happen, not even through others.
type ban struct{ from, to, reason string }

var bans = []ban{
	{"internal/metatool", "socketio", "the gateway asks Peers; which transport is below them must not matter, or every new transport would change it"},
	{"internal/metatool", "socketio/engineio", "see gateway and socketio"},
	{"socketio", "mcp", "Socket.IO is usable and testable alone; offices put MCP into it, not the other way round"},
	{"socketio/engineio", "mcp", "see socketio and mcp"},
	{"internal/search", "internal/catalog", "ranking is scored on plain documents; it must run on sets that were never a catalog"},
	{"smcp/agent", "internal/config", "an agent's protocol is for programs that have no weir.yaml"},
	{"smcp/agent", "internal/upstream", "Computers become upstreams in internal/upstream/computers; a library for agents supervises nothing"},
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
	}
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

// findIdle names imports that a line of places allows and no package of that line has.
func findIdle(t *Tree) []string {
	there := map[string]bool{}   // lines that have a package
	used := map[[2]string]bool{} // the line, the import
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
