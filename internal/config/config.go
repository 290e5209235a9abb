package config

import (
	"crypto/sha256"
	"time"

	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/config/otlp"
)

// Config is the whole configuration. Each field's doc tag is its documentation, in the JSON Schema
// too. Before a Config leaves this package, defaults are applied, variables expanded and every rule
// checked. After that a Config is read-only and safe for concurrent use.
//
// The tags are the table of keys:
//
//	key      the name in the file
//	doc      the documentation
//	default  the default, as in the file
//	enum     the legal values, comma-separated
//	min      the smallest legal value
//	name     the field with the mapping's key, for a list in Go that is a mapping in the file
//	flag     the key of an object for which true or false may stand in its place
//	text     the key of an object for which a text may stand in its place
//	empty    what an empty list means: same (as no key), none, or refused, where no key means all
//
// Inputs stand before Servers, because fields are decoded in this order and the servers'
// ${input:id} need them.
type Config struct {
	SchemaURI     string              `key:"$schema" doc:"Address of this JSON Schema, for editors. weir does not read it."`
	Listen        string              `key:"listen" default:"127.0.0.1:8088" doc:"Address and port to listen on. Port 0 takes a free one. An address other machines can reach needs auth.tokens."`
	Mode          Mode                `key:"mode" default:"auto" enum:"auto,plain,gateway,proxy" doc:"The mode of /mcp for agents that ask for none (header Weir-Mode, or /mcp?mode=). plain: every tool with its schema, called by its name. gateway: three meta-tools over the whole catalog. proxy: every tool, with its schema stripped. auto: plain while all definitions together cost less than auto_tokens, else gateway."`
	AutoTokens    int                 `key:"auto_tokens" default:"3000" min:"1" doc:"Mode auto is plain while the definitions of all tools together have fewer tokens (cl100k_base) than this."`
	PublicURL     string              `key:"public_url" doc:"The http or https URL of weir for clients, if it is not the listen address (behind a reverse proxy)."`
	TLS           TLS                 `key:"tls" safety:"true" doc:"TLS of the listener. Without it, weir speaks http."`
	Inputs        []Input             `key:"inputs" empty:"same" doc:"Values asked for, or taken from the environment, where a server's text says ${input:id}."`
	Servers       []*Server           `key:"mcpServers" empty:"same" name:"Name" entries:"true" doc:"The MCP servers behind weir, by name."`
	Auth          Auth                `key:"auth" safety:"true" doc:"Who may call weir."`
	SignIns       SignIns             `key:"credentials" safety:"true" doc:"Where the sign-ins at servers are kept."`
	Registry      Registry            `key:"registry" doc:"The MCP Registry that weir add and weir import ask."`
	Agents        Agents              `key:"agents" doc:"Agent servers that come and go, and how weir speaks to them."`
	Hub           Hub                 `key:"hub" safety:"true" flag:"enabled" doc:"The A2C-SMCP hub, at which Computers and agents meet. It is off unless this key is there: hub: {} or hub: true switches it on."`
	Hubs          []*RemoteHub        `key:"hubs" empty:"same" safety:"true" name:"Name" doc:"Hubs elsewhere whose Computers' MCP servers become upstreams, by a name of your own."`
	Firewall      Firewall            `key:"firewall" doc:"Which results are held back from the model."`
	Limits        Limits              `key:"limits" doc:"Bounds of the whole process."`
	Artifacts     Artifacts           `key:"artifacts" doc:"The store of results that were held back. Bounds are per principal."`
	S2SP          S2SP                `key:"s2sp" safety:"true" doc:"Tables that go from server to server."`
	SchemaLimits  SchemaLimits        `key:"schema_limits" safety:"true" doc:"Bounds on the schemas that servers declare for their tools."`
	Browse        Browse              `key:"browse" doc:"How tool_browse answers."`
	Search        Search              `key:"search" doc:"The ranking of tool_browse, resource_browse and prompt_browse."`
	Proxy         Proxy               `key:"proxy" doc:"How mode proxy answers."`
	ExposeHydrate bool                `key:"expose_hydrate" default:"false" doc:"Offer tool_hydrate in gateway mode too."`
	TolerantArgs  bool                `key:"tolerant_args" default:"false" doc:"Repair arguments before they are checked: an object written as a text, and texts where the schema wants a number, a boolean or null. Each repair is recorded."`
	Policy        Policy              `key:"policy" safety:"true" doc:"Which calls are made, at /mcp and at /mcps/NAME/mcp."`
	Profiles      []*Profile          `key:"profiles" empty:"same" safety:"true" name:"Name" doc:"Parts of the catalog with URLs of their own, /mcp/NAME, by name. A profile narrows what its callers see; policy holds there, too."`
	RateLimits    RateLimits          `key:"rate_limits" safety:"true" doc:"How many calls a session may make."`
	Cache         Cache               `key:"cache" doc:"Results that are kept and answered again without asking the server."`
	Retry         Retry               `key:"retry" doc:"When a call that failed on its way is made again."`
	Tasks         Tasks               `key:"tasks" doc:"Calls that a server answers with a task: long work, whose result comes later."`
	Programs      Programs            `key:"programs" safety:"true" flag:"enabled" doc:"Programs of agents: tool_run makes many calls in one. programs: false switches it off."`
	Pin           Pin                 `key:"pin" safety:"true" doc:"The catalog that an operator has looked at: weir ls --hash prints its hash."`
	Trust         mcpserver.TrustMode `key:"trust" safety:"true" enum:"warn,hold,refuse" doc:"What happens to definitions that differ from weir.lock, next to this file. weir writes there what each server offers first. warn: the log, events and cards say so. hold: they are hidden until weir trust accept. refuse: nothing of their server is served until then. Default: no lock. Servers may have a mode of their own; this one also counts for agents and Computers."`
	Flow          Flow                `key:"flow" safety:"true" doc:"Labels of results: what a model has read decides which calls it may make unasked; see flow.md."`
	Guards        Guards              `key:"guards" safety:"true" doc:"Checks of what servers send and get."`
	Strict        bool                `key:"strict" default:"false" doc:"Give the letter of the published text of the gateway surface where weir departs from it by default; gateway.md in docs/spec lists each clause."`
	CacheStable   bool                `key:"cache_stable" default:"false" doc:"tool_browse lists entries that a session has seen first, with the same bytes, for prompt caches."`
	Console       Console             `key:"console" flag:"enabled" doc:"The page /console: servers, the catalog with forms, calls, tables and reviews. If auth.tokens are set, it asks for one without agents. console: false leaves it out; the paths below /api/v1 that it reads stay."`
	Cards         bool                `key:"cards" default:"false" doc:"Tell strangers that an MCP server is here: a server card at /mcp/server-card and /.well-known/mcp/server-card.json, and a catalog at /.well-known/mcp/catalog.json. They name weir and its URL, and no server behind it."`
	HTTP          HTTP                `key:"http" safety:"true" doc:"The HTTP listener."`
	Log           Log                 `key:"log" doc:"weir's own log, on standard error."`
	Events        Events              `key:"events" doc:"What happens, for operators: never arguments, queries or results."`

	OTLP otlp.Section `key:"otlp" doc:"Spans of requests, for OpenTelemetry collectors: never arguments or results."`

	Audit Audit `key:"audit" safety:"true" doc:"The audit log: who called what, when and with which outcome, in files that show a change."`

	Store Store `key:"store" safety:"true" text:"at" doc:"Where weir keeps what outlasts its process, such as sessions: memory, file:DIR, nats://HOST:PORT, or an object."`

	Cluster Cluster `key:"cluster" safety:"true" doc:"Gateways that share a store and act as one, with store: nats://…."`

	// A later feature adds its key above together with the code that uses it, never before. An
	// accepted key without effect would mislead the reader.

	omitted     map[string]string // left-out servers by name, with the reason
	path        string
	sum         [sha256.Size]byte // of the file's contents
	secrets     []string
	credentials []string
	resolved    resolved
	origins     origins
}

// Mode is the form of the gateway's endpoint.
type Mode string

// The modes (spec/gateway §4.1 and §4.2).
const (
	ModeAuto    Mode = "auto"
	ModePlain   Mode = "plain"
	ModeGateway Mode = "gateway"
	ModeProxy   Mode = "proxy"
)

// Modes lists all modes.
var Modes = []Mode{ModeAuto, ModePlain, ModeGateway, ModeProxy}

// OnInvalid is the treatment of a tool whose schema is invalid or too large. "flag" keeps the tool
// and reports it; "reject" leaves it out (spec/gateway §4.4, schema trust).
type OnInvalid string

// BrowseFormat is the form of tool_browse's answer.
type BrowseFormat string

// The forms of an answer.
const (
	BrowseText BrowseFormat = "text"
	BrowseJSON BrowseFormat = "json"
)

// Input is a value outside the configuration: an answer of the user, or the output of a command. It
// has VS Code's form.
type Input struct {
	ID          string    `key:"id" doc:"The id that ${input:id} names."`
	Type        InputType `key:"type" default:"promptString" enum:"promptString,pickString,command" doc:"A text to ask for, one of options, or the output of a command."`
	Description string    `key:"description" doc:"What to ask."`
	Default     *string   `key:"default" doc:"The value if no answer is given."`
	Password    bool      `key:"password" default:"false" doc:"The value is secret: not echoed and never shown."`
	Options     []string  `key:"options" empty:"same" doc:"The choices of a pickString."`
	Command     string    `key:"command" doc:"The command of an input of type command."`
	Args        []string  `key:"args" empty:"same" doc:"The command's arguments."`
}

// InputType is the kind of an [Input].
type InputType string

// The kinds of input.
const (
	InputPrompt  InputType = "promptString"
	InputPick    InputType = "pickString"
	InputCommand InputType = "command"
)

// Auth lists the callers of weir.
type Auth struct {
	Tokens   []Token    `key:"tokens" empty:"refused" doc:"Static bearer tokens, a principal each. Without these, issuers and tls.client_ca: one local principal, and a loopback listener only."`
	Issuers  []*Issuer  `key:"issuers" empty:"refused" name:"Name" doc:"Authorization servers whose tokens are accepted, by a name of your own. Their users are principals such as NAME:SUBJECT."`
	Roles    Roles      `key:"roles" doc:"Who may do more than call tools."`
	DPoP     DPoP       `key:"dpop" doc:"Tokens of issuers that are bound to a key of their client (DPoP, RFC 9449). They are taken without this."`
	Accounts []Account  `key:"accounts" empty:"refused" doc:"People who sign in with a password, for auth.server with people: accounts. weir account add writes them."`
	Server   AuthServer `key:"server" doc:"The gateway signs clients in itself, as an OAuth 2.1 authorization server for its own URLs: Claude, VS Code and others need its URL alone, also where the company's provider does not let clients register. Default: off."`
	Login    Login      `key:"login" doc:"How people say in a browser who they are, at the pages /connect/NAME and the console: by OpenID Connect at one of the issuers. Without it they paste the token of their client."`

	certificates bool // tls.client_ca is set: a client certificate names a caller
}

// Token is one static bearer token. The configuration holds its hash, not the token.
type Token struct {
	Name   string `key:"name" doc:"The principal's name."`
	SHA256 string `key:"sha256" doc:"SHA-256 of the token in hexadecimal: printf %s TOKEN | sha256sum"`

	Groups  []string `key:"groups" empty:"same" doc:"Groups that the principal is in, for rules and roles."`
	Expires string   `key:"expires" doc:"From then on the token is refused: a day such as 2027-01-01 (0:00 UTC), or a time such as 2027-01-01T08:00:00Z. Default: never."`

	Agents   []string `key:"agents" empty:"none" doc:"Names of the agents (and other servers) that this token is for, at /mcps/NAME/mcp; * stands for any text, ? for one character. A token with this key, unless it is *, does not open the gateway, which reaches all. An empty list is for none of them. Default: everything."`
	Metrics  bool     `key:"metrics" default:"false" doc:"This token opens /metrics. Without agents it opens nothing else: it is for Prometheus."`
	Register []string `key:"register" empty:"same" doc:"Names under which an agent with this token may register itself; patterns as in agents. Default: none."`

	Operator bool `key:"operator" default:"false" doc:"This token may operate the gateway: restart servers, read their logs, approve calls, and see the calls of all callers. It needs a token without agents and metrics."`

	RegisterHosts []string `key:"register_hosts" empty:"same" doc:"Further addresses of agents with this token, as hosts or host:port. The address of the registration and agents.hosts are always allowed."`
}

// Firewall says when a result is held back from the model.
type Firewall struct {
	ThresholdChars int `key:"threshold_chars" default:"2000" min:"0" doc:"A result with more characters than this is kept as an artifact and summarised; a shorter one passes whole. Up to half as many more, at most 1,000, pass, too."`
	MaxViewChars   int `key:"max_view_chars" default:"20000" min:"1400" doc:"How many characters one tool_view shows at most, whatever its selector asks for."`
}

// Limits bound the process.
type Limits struct {
	Memory Bytes `key:"memory" min:"8388608" doc:"Bytes of messages in reception and of results that are kept, together. What has no room waits a little or goes to a file; messages of up to 64 KB are not counted. Default: 256MB, or half of the memory limit of weir's control group (container) where that is less."`
}

// Artifacts bounds the store of results, for each principal.
type Artifacts struct {
	TTL      time.Duration `key:"ttl" default:"1h" min:"1s" doc:"How long a result is kept."`
	MaxBytes Bytes         `key:"max_bytes" default:"64MB" min:"1" doc:"How many bytes are kept: of results with a handle, and of tables behind unspent resource_urls, which are never dropped for newer ones. A table beyond it goes to dir."`
	MaxCount int           `key:"max_count" default:"1000" min:"1" doc:"How many results with a handle are kept."`

	Dir         string        `key:"dir" doc:"Folder for results that find no room in memory, for tables beyond max_bytes, and for large messages while they are read. A relative path starts at the folder of this file. Only this user can read the files. They are removed with their result, and when weir starts. Default: weir/spill in the user's folder for caches, or in the system's folder for temporary files. It is made with the first file."`
	MemoryBytes Bytes         `key:"memory_bytes" default:"256MB" min:"1" doc:"How much memory the results of all principals take before they go to dir; half of limits.memory where that is less."`
	DiskBytes   Bytes         `key:"disk_bytes" default:"8GB" min:"0" doc:"How much room they take in dir, and large messages as much again; 0 writes no files."`
	TokenTTL    time.Duration `key:"token_ttl" default:"10m" min:"1s" doc:"How long a resource_url works, once (S2SP)."`

	Backup bool `key:"backup" default:"false" doc:"Copy each result that is held back into the store, with store: nats://…, so that it outlasts its node. At most 64MB each."`

	Redact bool `key:"redact" safety:"true" default:"false" doc:"Replace secrets in results, cards and definitions, too: those of this configuration, texts that look like a token or a password in a URL, and values under names such as password and access_token."`
}

// SchemaLimits bounds tool schemas when they are taken in (spec/gateway §4.4).
type SchemaLimits struct {
	Bytes      Bytes     `key:"bytes" default:"65536" min:"1" doc:"Largest schema, as JSON."`
	Depth      int       `key:"depth" default:"32" min:"1" doc:"Deepest nesting."`
	Properties int       `key:"properties" default:"512" min:"1" doc:"Most properties, counted over the whole schema."`
	OnInvalid  OnInvalid `key:"on_invalid" default:"flag" enum:"flag,reject" doc:"flag: offer the tool and report it. reject: leave the tool out."`
}

// Browse configures the answers of tool_browse.
type Browse struct {
	Format        BrowseFormat `key:"format" default:"text" enum:"text,json" doc:"The form of answers to the model: short text, or JSON."`
	ExposeHydrate bool         `key:"expose_hydrate" default:"false" doc:"Another place for the top-level expose_hydrate; either switches it on."`
}

// Search configures the ranking of entries.
type Search struct {
	Learn     bool      `key:"learn" default:"true" doc:"Prefer tools that callers of the same groups ran after searches with the same words. It decides between tools that match about equally. false also removes what was learnt."`
	Embedding Embedding `key:"embedding" doc:"An OpenAI-compatible endpoint for embeddings. Its ranking is fused into the ranking by words. Default: none, and nothing is sent anywhere."`
}

// Embedding is an endpoint for embeddings.
type Embedding struct {
	URL        string        `key:"url" doc:"The endpoint, such as http://127.0.0.1:11434/v1. It gets the names and descriptions of the catalog, and agents' queries."`
	Model      string        `key:"model" doc:"The model's name there."`
	Key        Secret        `key:"key" doc:"The bearer token to send, best as ${env:VAR}. Default: none."`
	Dimensions int           `key:"dimensions" default:"0" min:"0" doc:"Asks for shorter vectors, where the model can; 0 leaves that to the model."`
	Timeout    time.Duration `key:"timeout" default:"2s" min:"1ms" doc:"How long a query waits for its vector; after that it is ranked by words alone, and the endpoint is left alone for 30 seconds."`
}

// Proxy configures mode proxy (spec/gateway §4.1).
type Proxy struct {
	Names    ProxyNames `key:"names" default:"plain" enum:"plain,tool_id,url_encoded,alias" doc:"The form of a tool_id in tools/list. plain: as in mode plain (server__tool, which every model provider accepts). tool_id: as it is. url_encoded: with : and # escaped (%3A, %23). alias: a short name that always ends in a hash. Tools are called by the listed name; tool_execute takes it and the tool_id itself."`
	Firewall bool       `key:"firewall" default:"false" doc:"Results pass the firewall in mode proxy, too, and tool_view is listed. Otherwise they reach the agent as the server wrote them."`
}

// ProxyNames is the form of a tool_id in mode proxy.
type ProxyNames string

// The forms.
const (
	NamesPlain      ProxyNames = "plain"
	NamesToolID     ProxyNames = "tool_id"
	NamesURLEncoded ProxyNames = "url_encoded"
	NamesAlias      ProxyNames = "alias"
)

// Console configures the page for people.
type Console struct {
	Enabled bool `key:"enabled" default:"true" doc:"Serve the page."`
	Capture bool `key:"capture" default:"false" doc:"Keep the arguments and the results of the last 200 calls at the gateway in memory, 16 MB at most, for operators at the page Calls. Secrets that weir knows are left out; other data of callers is not."`
}

// HTTP configures the listener.
type HTTP struct {
	AllowedOrigins []string      `key:"allowed_origins" empty:"same" doc:"Origins of web pages that may call weir, such as https://app.example.com, in addition to loopback ones."`
	AllowedHosts   []string      `key:"allowed_hosts" empty:"refused" doc:"Values of the Host header that are answered, in addition to loopback ones and those of listen and public_url."`
	MaxBodyBytes   Bytes         `key:"max_body_bytes" default:"10MB" min:"1" doc:"Largest request body."`
	SessionIdle    time.Duration `key:"session_idle" default:"30m" min:"1s" doc:"A session that was not used for so long is ended. With store: file:DIR its next request makes it anew, for 30 days after it began, with its log level and its subscriptions."`
	MaxSessions    int           `key:"max_sessions" default:"10000" min:"1" doc:"Most sessions of clients before 2026-07-28 at each endpoint, about 3 KB each. A new one beyond them replaces one that is idle, of the principal that has most; its client begins again. With a shared store, and with store: file:DIR, that session goes on with its next request."`
	KeepAlive      time.Duration `key:"keep_alive" default:"15s" doc:"Time between keep-alive comments on an event stream; 0 sends none."`
}

// Log configures weir's log.
type Log struct {
	Level  string `key:"level" default:"info" enum:"debug,info,warn,error" doc:"The least severe messages that are written."`
	Format string `key:"format" default:"auto" enum:"auto,text,json" doc:"auto (at a terminal, weir serve prints a line for each server and for each change; elsewhere it is text), text (lines of key=value) or json."`
	// Unredacted allows secrets in the log.
	Unredacted bool `key:"unredacted" default:"false" doc:"Write causes of errors in full, secrets included."`
}

// Values of Log.Format.
const (
	LogAuto = "auto" // for people at a terminal, LogText elsewhere
	LogText = "text"
	LogJSON = "json"
)

// Path returns the path of the configuration file, as given to [Load] or [Parse].
func (c *Config) Path() string { return c.path }

// Sum returns the hash of the sources, as [Options.Sum] does.
func (c *Config) Sum() [sha256.Size]byte { return c.sum }

// Server returns the entry of mcpServers with this name.
func (c *Config) Server(name string) (*Server, bool) {
	for _, s := range c.Servers {
		if s.Name == name {
			return s, true
		}
	}
	return nil, false
}

// Enabled returns the servers that can be started, in the file's order. Disabled, faulty and
// left-out servers are not among them.
func (c *Config) Enabled() []*Server {
	var on []*Server
	for _, s := range c.Servers {
		if !s.Disabled && !s.Faulty() && c.omitted[s.Name] == "" {
			on = append(on, s)
		}
	}
	return on
}
