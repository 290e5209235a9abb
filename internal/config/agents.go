package config

import (
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/json/strict"
	"github.com/weir-mcp/weir/internal/net/address"
	"github.com/weir-mcp/weir/internal/text"
)

// Agents configures weir as a router of agent servers.
type Agents struct {
	Routing    string          `key:"routing" doc:"A routing.json: {port, routes: {NAME: {hostPort}}}. Its agents are served at /mcps/NAME/mcp and read again when the file changes; its port is the one to listen on where listen is left out. A relative path is relative to this file."`
	Lease      time.Duration   `key:"lease" default:"30s" min:"1s" doc:"An agent that has registered itself is forgotten when it was not heard of for so long."`
	Max        int             `key:"max" default:"1000" min:"1" max:"20000" doc:"Most agents that register themselves, in a cluster at all gateways together. Each costs some 50 KB of memory at each gateway."`
	Hosts      []string        `key:"hosts" empty:"same" safety:"true" doc:"Further addresses of agents that register themselves: hosts such as agents.example.com or 10.0.0.7, or host:port. The address of the registration is always allowed. Link-local addresses are refused even here."`
	Headers    []string        `key:"headers" empty:"same" safety:"true" doc:"Request headers of callers that are forwarded to registered agents, in addition to those of MCP and of trace context. Default: none."`
	Invocation Invocation      `key:"invocation" safety:"true" doc:"Signs requests to agents. Each request bears a token that is good once, for this agent, principal and tool."`
	Limits     AgentLimits     `key:"limits" safety:"true" doc:"Bounds of the requests to each agent."`
	PerAgent   []*AgentLimited `key:"per_agent" empty:"same" safety:"true" name:"Name" doc:"Other bounds for single agents, by name. What is left out is as in limits."`
}

// Invocation is the key that signs invocation tokens. Without a key, weir sends none.
type Invocation struct {
	Secret     Secret `key:"secret" doc:"A secret of 32 characters or more that weir shares with its agents (HS256), best as ${VAR}; they are given it as AGENT_INVOCATION_SECRET."`
	PrivateKey string `key:"private_key" doc:"A PEM file with an Ed25519 private key (EdDSA), such as openssl genpkey -algorithm ed25519 makes. Agents need the public key only."`
}

// AgentLimits bound the requests to one agent.
type AgentLimits struct {
	InFlight     int   `key:"in_flight" default:"2048" min:"0" doc:"Most requests that wait for an answer at a time; 0 sets no bound."`
	PerMinute    int   `key:"per_minute" default:"0" min:"0" doc:"Most requests a minute; 0 sets no bound."`
	MaxBodyBytes Bytes `key:"max_body_bytes" default:"0" min:"0" doc:"Largest request body, where http.max_body_bytes is not smaller; 0 sets no other bound."`
}

// AgentLimited holds the AgentLimits of one agent. Zero stands for the value of all agents.
type AgentLimited struct {
	// Name is the key in per_agent.
	Name         string
	InFlight     int   `key:"in_flight" min:"1" doc:"Most requests that wait for an answer at a time."`
	PerMinute    int   `key:"per_minute" min:"1" doc:"Most requests a minute."`
	MaxBodyBytes Bytes `key:"max_body_bytes" min:"1" doc:"Largest request body."`
}

// LimitsOf returns the bounds of an agent.
func (a *Agents) LimitsOf(name string) AgentLimits {
	l := a.Limits
	for _, own := range a.PerAgent {
		if own.Name != name {
			continue
		}
		if own.InFlight > 0 {
			l.InFlight = own.InFlight
		}
		if own.PerMinute > 0 {
			l.PerMinute = own.PerMinute
		}
		if own.MaxBodyBytes > 0 {
			l.MaxBodyBytes = own.MaxBodyBytes
		}
	}
	return l
}

// token returns the token of a principal, or nil.
func (a *Auth) token(principal string) *Token {
	for i := range a.Tokens {
		if a.Tokens[i].Name == principal {
			return &a.Tokens[i]
		}
	}
	return nil
}

// Scoped reports whether a principal's token is only for some agents, or only for /metrics. Such a
// token does not open endpoints that reach all agents at once.
func (a *Auth) Scoped(principal string) bool {
	t := a.token(principal)
	return t != nil && t.scoped()
}

// scoped reports whether the token is only for some agents, or only for /metrics.
func (t *Token) scoped() bool {
	return t.MetricsOnly() || t.Agents != nil && !slices.Contains(t.Agents, "*")
}

// MetricsOnly reports whether the token opens /metrics and nothing else.
func (t *Token) MetricsOnly() bool { return t.Metrics && len(t.Agents) == 0 }

// MetricsOnly reports whether a principal's token opens /metrics and nothing else.
func (a *Auth) MetricsOnly(principal string) bool {
	t := a.token(principal)
	return t != nil && t.MetricsOnly()
}

// SeesMetrics reports whether a principal may read /metrics: its token says so, or opens
// everything.
func (a *Auth) SeesMetrics(principal string) bool {
	t := a.token(principal)
	if t == nil {
		return !a.Required()
	}
	return t.Metrics || !a.Scoped(principal)
}

// Reaches reports whether a principal may call an agent. Principals of issuers and certificates may
// call all, and so may every principal if nothing in auth names callers.
func (a *Auth) Reaches(principal, agent string) bool {
	t := a.token(principal)
	if t == nil {
		return !a.Required() || a.vouched(principal)
	}
	return t.Agents == nil && !t.Metrics || matchAny(t.Agents, agent)
}

// Operates reports whether a principal's token has the right of an operator.
func (a *Auth) Operates(principal string) bool {
	t := a.token(principal)
	return t != nil && t.Operator
}

// Registers reports whether a principal may register an agent under a name.
func (a *Auth) Registers(principal, agent string) bool {
	t := a.token(principal)
	if t == nil {
		return !a.Required()
	}
	return matchAny(t.Register, agent)
}

// AgentHosts returns the hosts where agents that a principal registers may be, in addition to the
// address of the registration.
func (c *Config) AgentHosts(principal string) address.List {
	hosts := slices.Clone(c.Agents.Hosts)
	if t := c.Auth.token(principal); t != nil {
		hosts = append(hosts, t.RegisterHosts...)
	}
	list, err := address.NewList(hosts)
	if err != nil {
		return address.List{} // the configuration was checked
	}
	return list
}

func matchAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return text.Match(p, name) })
}

// NewServer returns the entry of a server that weir finds while it runs, as from a file with
// nothing but a url. The server keeps state for each session, as an agent server does. The error
// names the fault of the name or the url.
func NewServer(name, rawURL string) (*Server, error) {
	if !legalName(name) {
		return nil, fmt.Errorf("%q cannot be a server's name: it must be 1 to 64 letters, digits, '.', '_' and '-', a letter or digit first", strict.Clip(name))
	}
	u, err := url.Parse(rawURL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("the url of %q must be http://HOST… or https://HOST…", name)
	}
	if u.User != nil || u.Fragment != "" {
		return nil, fmt.Errorf("the url of %q must have no user, password or fragment", name)
	}
	s := new(Server)
	*s = serverDefaults()
	s.Name, s.Namespace, s.URL, s.Type, s.PerSession = name, namespaceOf(name), rawURL, mcpserver.TransportHTTP, true
	s.Agent = true
	return s, nil
}

// AgentNamespace returns the namespace of an agent whose name is legal.
func AgentNamespace(name string) string { return namespaceOf(name) }

// serverDefaults returns a server with the defaults of all keys. None of them is a list or a mapping, so copies
// share nothing. Reading the defaults from the tags takes 50 times as long as the copy.
var serverDefaults = sync.OnceValue(func() (s Server) {
	strict.SetDefaults(&s)
	return s
})

// NamespaceFor returns a namespace for a name that is not among the taken ones.
func NamespaceFor(name string, taken func(string) bool) string {
	space := namespaceOf(name)
	for i := 2; taken(space); i++ {
		suffix := "_" + strconv.Itoa(i)
		base := namespaceOf(name)
		space = base[:min(len(base), 64-len(suffix))] + suffix
	}
	return space
}

func (d *decoder) checkAgents(c *Config) {
	a := &c.Agents
	for _, s := range c.Servers {
		if s.Agent && !s.Disabled && (s.URL == "" || s.Type == mcpserver.TransportSSE) {
			path := strict.Join(d.paths[s], "agent")
			d.Within(d.paths[s], func() {
				d.Fail(d.At(path), path, "%s: an agent server is at an http url; this one has none", path)
			})
		}
		s.PerSession = s.PerSession || s.Agent
	}
	if a.Routing != "" && !filepath.IsAbs(a.Routing) && d.dir != "" {
		a.Routing = filepath.Join(d.dir, a.Routing)
	}
	if a.Invocation.PrivateKey != "" && !filepath.IsAbs(a.Invocation.PrivateKey) && d.dir != "" {
		a.Invocation.PrivateKey = filepath.Join(d.dir, a.Invocation.PrivateKey)
	}
	const secret = "agents.invocation.secret"
	switch given := a.Invocation.Secret.Reveal(); {
	case given == "":
	case a.Invocation.PrivateKey != "":
		d.Warn(d.At(secret), secret, "agents.invocation has both a secret and a private_key: the private_key is used")
	case len(given) < 32:
		d.Fail(d.At(secret), secret, "%s needs 32 characters or more; make one with: openssl rand -hex 32", secret)
	}
	checkHosts(d.Decoder, "agents.hosts", a.Hosts)
	for i, name := range a.Headers {
		if !strict.HeaderName(name) {
			d.Fail(d.At("agents.headers"), "agents.headers", "agents.headers[%d] must be the name of a header such as X-Tenant, not %q", i, strict.Clip(name))
		}
	}
	for i, t := range c.Auth.Tokens {
		checkHosts(d.Decoder, "auth.tokens["+strconv.Itoa(i)+"].register_hosts", t.RegisterHosts)
		for key, patterns := range map[string][]string{"agents": t.Agents, "register": t.Register} {
			path := "auth.tokens[" + strconv.Itoa(i) + "]." + key
			if slices.Contains(patterns, "") {
				d.Fail(d.At(path), path, "%s: an empty pattern matches nothing; * stands for any text", path)
			}
		}
	}
}

// checkHosts checks a list of hosts and host:port.
func checkHosts(d *strict.Decoder, path string, hosts []string) {
	for i, host := range hosts {
		if _, err := address.NewList([]string{host}); err != nil {
			d.Fail(d.At(path), path, "%s[%d]: %v", path, i, err)
		}
	}
}
