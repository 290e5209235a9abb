package mcpserver

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/json/strict"
	"github.com/weir-mcp/weir/internal/text"
)

// Transport is the way in which weir speaks to a server.
type Transport string

// The transports. In a file, type may also be "streamable-http"; a loaded Config has TransportHTTP
// for it.
const (
	TransportStdio Transport = "stdio"
	TransportHTTP  Transport = "http"
	TransportSSE   Transport = "sse"
	// TransportOpenAPI is HTTP requests as an OpenAPI document describes them.
	TransportOpenAPI Transport = "openapi"
)

// StartMode is the time at which a server is started.
type StartMode string

// The start modes.
const (
	StartBoot StartMode = "boot"
	StartLazy StartMode = "lazy"
)

// ScopeMode says where a server runs that several gateways of a cluster have: "node" at each of them,
// "cluster" at one.
type ScopeMode string

// The scopes.
const (
	ScopeNode    ScopeMode = "node"
	ScopeCluster ScopeMode = "cluster"
)

// TrustMode is the treatment of definitions that differ from weir.lock: warn, hold or refuse, and ""
// without a lock (spec/trust §3).
type TrustMode string

// Server is one entry of mcpServers. A loaded Config always sets Name, Namespace, Type and Start.
// It resolves Command and Cwd against the file's folder.
//
// weir speaks to a server with a Command and no URL over its standard streams. With both, weir
// starts the command and speaks to it at the URL.
//
// Nothing is expanded in a disabled entry, so a server that is switched off cannot fail because of
// a missing variable.
type Server struct {
	// Name is the key in mcpServers. It stands in URLs: /mcps/{name}/mcp.
	Name string

	// Problems are the faults within the entry, in the file's order. If there are any, the server
	// must not be started. Then only its fields Name, Namespace, Required and Disabled are
	// meaningful. See [Server.Faulty] and [Options.Strict].
	Problems []strict.Problem

	Command      string                   `key:"command" doc:"The program to start. A relative path with a separator is looked up in cwd, or next to this file; a bare name on the PATH."`
	Args         []string                 `key:"args" empty:"same" doc:"The program's arguments."`
	Env          map[string]strict.Secret `key:"env" doc:"Environment variables for the program."`
	EnvFile      string                   `key:"env_file" doc:"A file of lines NAME=value with further environment variables for the program, read whenever this file is; env wins. A relative path is relative to this file."`
	Cwd          string                   `key:"cwd" doc:"The program's working folder; a relative one is relative to this file."`
	URL          string                   `key:"url" doc:"The server's http or https URL. Together with command: weir starts the program and speaks to it here."`
	OpenAPI      OpenAPI                  `key:"openapi" safety:"true" text:"document" doc:"The server is no MCP server but an HTTP API at url, whose operations are tools: an OpenAPI 3 document, or an object; see openapi.md."`
	Headers      map[string]strict.Secret `key:"headers" doc:"HTTP headers sent with each request to url."`
	Credentials  CredentialsMode          `key:"credentials" safety:"true" default:"shared" enum:"shared,user,forward" doc:"Whose credential weir shows the server. shared: all callers use one sign-in. user: each caller signs in, or has the credentials that ${user:NAME} names in headers and env, and no caller's calls use another's. forward: the token that the caller shows weir, if its aud names the server, too; see signin.md."`
	Lists        ListsMode                `key:"lists" safety:"true" enum:"caller,shared" doc:"Whose lists of tools, resources and prompts callers see of a server with credentials: user or forward. caller: each caller sees what the server lists for its own credential. shared: all callers see what it lists for one of them. Default: caller."`
	OAuth        OAuth                    `key:"oauth" doc:"How weir signs in at the server at url. Without it weir follows what the server says; see signin.md."`
	Type         Transport                `key:"type" enum:"stdio,http,streamable-http,sse,openapi" doc:"How to speak to the server. Default: openapi with openapi, http with a url, else stdio. http and streamable-http are the same; sse is the HTTP+SSE transport of 2024-11-05."`
	Namespace    string                   `key:"namespace" doc:"First part of this server's tool ids. Default: made from its name."`
	Tags         []string                 `key:"tags" empty:"same" doc:"Tags added to the cards of this server's tools."`
	Required     bool                     `key:"required" default:"false" doc:"weir does not start without this server."`
	IncludeTools []string                 `key:"include_tools" empty:"refused" safety:"true" doc:"Only tools whose name matches one of these patterns are offered. * stands for any text, ? for one character."`
	ExcludeTools []string                 `key:"exclude_tools" empty:"same" safety:"true" doc:"Tools whose name matches one of these patterns are not offered, whatever include_tools says."`
	Overrides    []*Override              `key:"overrides" empty:"same" safety:"true" name:"Tool" doc:"What agents see of single tools, by the server's names of the tools; see config.md#overrides."`
	Timeout      time.Duration            `key:"timeout" default:"60s" doc:"How long one call may take; 0 sets no limit."`
	PerSession   bool                     `key:"per_session" default:"false" doc:"One connection (and one process) per client session, for servers that keep state per client."`
	Agent        bool                     `key:"agent" default:"false" doc:"The server at url is an agent server. weir signs its requests if agents.invocation is set, and /status asks for its state. Each session has its own connection."`
	Disabled     bool                     `key:"disabled" safety:"true" default:"false" doc:"Leave this server out."`
	Start        StartMode                `key:"start" default:"boot" enum:"boot,lazy" doc:"boot: started with weir. lazy: listed once at boot, then started by the first call."`
	Scope        ScopeMode                `key:"scope" default:"node" enum:"node,cluster" doc:"Where this server runs if several gateways share a store. node: each gateway starts, or connects to, its own. cluster: one gateway does, and the others reach the server through it; see cluster.md. With one gateway both are the same."`
	Tables       Tables                   `key:"tables" doc:"Which of this server's results are tables."`
	Drain        time.Duration            `key:"drain" default:"10s" doc:"How long calls in flight may go on after a reload has changed or removed this server. New calls go to the changed server at once. 0 cuts them off."`
	MaxResponse  strict.Bytes             `key:"max_response" default:"64MB" min:"65536" doc:"Largest message of this server. Large ones are received into files; see limits.memory."`
	Flow         Flow                     `key:"flow" doc:"The label of this server's results that no rule of flow.label names; see flow.md."`
	Trust        TrustMode                `key:"trust" safety:"true" enum:"warn,hold,refuse" doc:"What happens to this server's definitions that differ from weir.lock. Default: the top-level trust."`
	Sandbox      Sandbox                  `key:"sandbox" safety:"true" text:"mode" doc:"What the program may use of this machine: off, auto, or an object; see sandbox.md."`
	IdleTimeout  time.Duration            `key:"idle_timeout" default:"15m" doc:"A started program that was not called for so long is stopped, and started by the next call; 0 never stops it."`
}

// LogValue shows the server's identity and nothing that may contain a secret.
func (s Server) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("name", s.Name),
		slog.String("namespace", s.Namespace),
		slog.String("type", string(s.Type)),
		slog.Bool("disabled", s.Disabled),
	)
}

// Offers reports whether include_tools and exclude_tools allow the tool with this name (the
// server's own name for it).
func (s *Server) Offers(tool string) bool {
	matches := func(pattern string) bool { return text.Match(pattern, tool) }
	if slices.ContainsFunc(s.ExcludeTools, matches) {
		return false
	}
	return len(s.IncludeTools) == 0 || slices.ContainsFunc(s.IncludeTools, matches)
}

// Tables names further forms of a server's results that count as a table. Always counted are an
// array of objects, an object whose only member is one, and one object a line.
type Tables struct {
	Paths    []string `key:"paths" empty:"none" doc:"Where in an object the rows stand, whatever else is in it: features, data.items, or features[].properties for one member of each element (both name the rows of GeoJSON)."`
	Dispatch bool     `key:"dispatch" default:"false" doc:"Keep the bodies of sync results (S2SP) from agents at /mcps/NAME/mcp, too. The next call that names their ddi:// handle gets them. At /mcp it is always so."`
	Relay    bool     `key:"relay" default:"false" doc:"For a server with a data plane of its own (S2SP) that weir starts or that listens on loopback: its rows stay there until they are fetched, and stream through weir, whatever their size. Without it weir asks for all rows with the call, at most max_response bytes, and keeps them."`
	CSV      bool     `key:"csv" default:"false" doc:"Text whose lines are comma-separated values, the first one the columns' names, is a table."`
}

// Flow is the label of the results of a server.
type Flow struct {
	Integrity       string     `key:"integrity" enum:"trusted,untrusted" doc:"trusted: its text is of people or systems that may tell the model what to do. Default: untrusted."`
	Confidentiality []string   `key:"confidentiality" empty:"none" doc:"Names of those who may see the results, such as hr. None: they are public."`
	Labels          LabelsMode `key:"labels" default:"ignored" enum:"ignored,trusted" doc:"Labels that the server puts on its results, in _meta under weir/label. trusted: they count before integrity and confidentiality here. ignored: they do not."`
}

// Set reports whether the entry gives results a label.
func (f *Flow) Set() bool { return f.Integrity != "" || len(f.Confidentiality) > 0 }

// LabelsMode says whether labels count that a server puts on its results.
type LabelsMode string

// The modes, and the values of integrity.
const (
	LabelsIgnored LabelsMode = "ignored"
	LabelsTrusted LabelsMode = "trusted"

	Trusted   = "trusted"
	Untrusted = "untrusted"
)

// OpenAPI says which document describes an HTTP API, and which of its operations are tools.
type OpenAPI struct {
	Document string   `key:"document" doc:"A file, or an http or https URL, with OpenAPI 3.0 or 3.1 in JSON or YAML. A relative path is relative to this file."`
	Include  []string `key:"include" empty:"refused" safety:"true" doc:"Only operations of which one of these patterns matches the operationId, the path, the method and the path (GET /pets*), or a tag (tag:pets). * stands for any text, ? for one character."`
	Exclude  []string `key:"exclude" empty:"same" safety:"true" doc:"Operations that are not offered, whatever include says."`
}

// Sandbox says what the program of a server may use of the machine that it runs on.
type Sandbox struct {
	Mode    string       `key:"mode" enum:"off,auto" doc:"auto: the program reads the system, what runs it and the folders that it is told; it changes a state folder of its own and the folders that it is told; it sees neither your home nor other processes. off: it runs as you. Default: off without the key sandbox, else auto."`
	Read    []string     `key:"read" empty:"same" doc:"Files and folders that the program reads in addition. ~ is your home."`
	Write   []string     `key:"write" empty:"same" doc:"Files and folders that it changes in addition."`
	Net     []string     `key:"net" empty:"refused" enum:"all,none" doc:"Its way to the network. all: as weir. none. Or a list of hosts, as host, host:port and *.host: weir's proxy is its only way out then, and lets these through. Default: all."`
	Env     []string     `key:"env" empty:"same" doc:"Names of variables of weir's environment that the program gets in addition to env, such as SSH_AUTH_SOCK."`
	Memory  strict.Bytes `key:"memory" min:"16777216" doc:"How much memory each of its processes may write to."`
	CPU     int          `key:"cpu" min:"1" doc:"How many processors it may use."`
	Image   string       `key:"image" doc:"Run command in a container of this image, by podman or docker, with read and write as its volumes."`
	Require bool         `key:"require" default:"false" doc:"Do not start the program where this machine cannot confine it as asked. Without it weir starts the program and says what stays open."`
}

// On reports whether the program of a server runs in a sandbox.
func (s *Sandbox) On() bool { return s.Mode == "auto" || s.Mode == "" && !s.empty() }

// empty reports whether no key of the object is set.
func (s *Sandbox) empty() bool { return reflect.ValueOf(*s).IsZero() }

// Named returns the hosts that Net names, without those with a *.
func (s *Sandbox) Named() []string {
	if len(s.Net) == 1 && (s.Net[0] == "all" || s.Net[0] == "none") {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(s.Net), func(host string) bool {
		rest, below := strings.CutPrefix(host, "*.")
		return below && rest != "" && !strings.ContainsAny(rest, "*/:@")
	})
}

// Faulty reports whether the server's entry has a fault. Then this server is not started; the
// others are.
func (s *Server) Faulty() bool { return len(s.Problems) > 0 }

// Fault describes the faults of the entry in one line: the place in the file, the key and the fix.
// It returns "" for a sound entry. It omits the file's folder, because the text reaches agents.
func (s *Server) Fault() string {
	if !s.Faulty() {
		return ""
	}
	first := s.Problems[0]
	first.File = filepath.Base(first.File)
	fault := first.String()
	if more := len(s.Problems) - 1; more > 0 {
		fault += fmt.Sprintf(" (and %d more: weir config check lists them)", more)
	}
	return fault
}
