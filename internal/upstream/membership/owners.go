package membership

import (
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"sync"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/ownership"
	registry "github.com/weir-mcp/weir/internal/upstream/agents"
	"github.com/weir-mcp/weir/internal/upstream/computers"
	"github.com/weir-mcp/weir/smcp"
	"github.com/weir-mcp/weir/smcp/hub"
)

// Owners decides who owns the name and namespace of a server. Every source of servers asks it.
//
//	configuration, --catalog ─▶ configure ┐
//	POST /agents, routing.json ─▶ agent ──┼─▶ ownership.Ledger
//	hub: a Computer joins ─▶ computer ────┤
//	computers.Fleet: its servers ─────────────┘
type Owners struct {
	log    *slog.Logger
	office string // office of weir's own hub, whose Computers are upstreams; "" for none
	Ledger ownership.Ledger

	mu     sync.Mutex // guards below
	config *config.Config
	file   map[string]string // namespace in --catalog -> entry that uses it
	name   string            // path of --catalog, "" for none
	barred map[string]string // agents that were left out -> reason
}

// NewOwners returns the owners of a configuration's names.
func NewOwners(c *config.Config, log *slog.Logger) *Owners {
	o := &Owners{log: log, office: c.Hub.Office, barred: map[string]string{}}
	o.Configure(c)
	return o
}

// Configure replaces the names that a configuration defines and binds.
func (o *Owners) Configure(c *config.Config) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.config = c
	o.take()
}

// ServesFile records that a snapshot file with a name is served, with the namespaces of its entries.
func (o *Owners) ServesFile(name string, namespaces []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.name, o.file = name, map[string]string{}
	for _, space := range namespaces {
		o.file[space] = "--catalog"
	}
	o.take()
}

// take updates the ledger. The caller holds mu.
func (o *Owners) take() {
	names, namespaces := map[string]string{}, map[string]string{}
	for space, by := range o.file {
		namespaces[space] = by
	}
	if o.name != "" {
		names[o.name] = "--catalog"
	}
	if len(o.config.Programs.Saved) > 0 {
		names[config.SavedServer], namespaces[config.SavedServer] = "programs.saved", "programs.saved"
	}
	for _, s := range o.config.Servers {
		names[s.Name] = "mcpServers." + s.Name
		if s.Namespace != "" {
			namespaces[s.Namespace] = "mcpServers." + s.Name
		}
	}
	o.Ledger.Configure(names, namespaces)

	bindings := []ownership.Binding{}
	bind := func(keys map[string]string) {
		decoded := map[string]ed25519.PublicKey{}
		for name, text := range keys {
			if key, err := smcp.DecodeKey(text); err == nil { // the hub reports an invalid key
				decoded[name] = key
			}
		}
		bindings = append(bindings, computers.Bindings(decoded)...)
	}
	if o.config.Hub.Enabled {
		keys := map[string]string{}
		for _, comp := range o.config.Hub.Computers {
			keys[comp.Name] = comp.Key
		}
		bind(keys)
	}
	for _, h := range o.config.Hubs {
		bind(h.Keys)
	}
	o.Ledger.Bind(bindings)
}

// agent claims an agent's name and namespace.
func (o *Owners) agent(a registry.Agent) error {
	return o.Ledger.Claim(registry.OwnerOf(a), ownership.Want{Names: []string{a.Name}, Namespaces: []string{config.AgentNamespace(a.Name)}})
}

// Computer claims the name of a Computer that joins an office of weir's own hub. Offices that no
// gateway uses manage their names themselves.
func (o *Owners) Computer(c hub.Claimant) error {
	if c.Office != o.office {
		return nil
	}
	return o.Ledger.Claim(computers.OwnerOf(c.Name, "hub\x00"+c.Office, c.Principal, c.Key), computers.WantedBy(c.Name))
}

// leaveOut records which agents are left out, and logs each of them once.
func (o *Owners) leaveOut(list []registry.Barred) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := map[string]string{}
	for _, b := range list {
		key, fix := "the agent "+b.Agent.Name, "give it another name where it is started"
		if b.Agent.Source == registry.FromRouting {
			key, fix = "routes."+b.Agent.Name+" of routing.json", "give it another name there"
		}
		now[key] = fmt.Sprintf("%s is left out: %v; %s", key, b.Err, fix)
		if o.barred[key] != now[key] {
			o.log.Warn(now[key], "agent", b.Agent.Name, "finding", string(catalog.FoundTaken))
		}
	}
	o.barred = now
}

// Findings describes the agents that are left out.
func (o *Owners) Findings() []catalog.Finding {
	o.mu.Lock()
	defer o.mu.Unlock()
	var all []catalog.Finding
	for key, reason := range o.barred {
		all = append(all, catalog.Finding{Kind: catalog.FoundTaken, Upstream: "agents", Name: key, Message: reason})
	}
	return all
}
