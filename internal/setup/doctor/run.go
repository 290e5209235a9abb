package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/setup/clients"
	"github.com/weir-mcp/weir/internal/setup/journal"
	"github.com/weir-mcp/weir/internal/upstream/confined"
)

// limit bounds Run. patience is its bound for one server, which may load a package first. Each check ends
// half a second earlier, so that the report comes in time.
const (
	limit    = 5 * time.Second
	patience = 30 * time.Second
	rest     = 500 * time.Millisecond
)

// Setup has the caller's knowledge of weir on this machine.
type Setup struct {
	// Version is the version of this program.
	Version string
	// Path is the configuration's file, "" if there is none. Config is nil if it cannot be read;
	// Problems say why.
	Path     string
	Config   *config.Config
	Problems []config.Problem
	Warnings []config.Warning
	// Distrust is set if the person has not agreed to the configuration: its programs are not run.
	Distrust error
	// Secrets are further files that hold secrets, and that only their user may read.
	Secrets []string
	// State is the folder of weir's own files.
	State string
	// Listen is the address of the gateway, as a client dials it.
	Listen string
	// Probe returns the servers as a gateway sees them. It is called once and returns the known
	// states when its context ends. nil: the servers are not looked at.
	Probe func(context.Context) (Report, error)
	// Sandbox says how the program of a server is confined on this machine. nil: it is not known.
	Sandbox func(*config.Server) confined.Confinement
	// Steps are the names of the steps of a call, in their order; nil if there is no configuration.
	Steps []string
	// Records returns the files of gateways that do not run any more; may be nil.
	Records func(context.Context) []string
	// Machine, How and Journal tell of the clients. A nil Journal has no operations.
	Machine clients.Environment
	How     clients.How
	Journal *journal.Journal
	// Keyring asks the system's keyring for a secret that does not exist. It is nil if the
	// configuration names no secret.
	Keyring func(context.Context) error
	// Store asks the servers that keep the shared state of gateways. It is nil if the configuration names none.
	// refused says that they answer, and do not take this gateway.
	Store func(context.Context) (refused bool, err error)
	// Service is the state of weir as a service; nil if it is not known.
	Service func(context.Context) (Service, error)
	// Only limits the report to one server or client, by name; "" looks at all.
	Only string
}

// Service is the state of weir as a service of the user.
type Service struct {
	Installed, Enabled, Running bool
	// Lingers reports whether the service runs while the user is logged out. Only systemd has that.
	Lingers bool
	// Path is the PATH that was taken at install time; "" if there is none.
	Path string
}

// A check is one piece of work of a group.
type check struct {
	group string
	run   func(context.Context) []Finding
}

// Run makes all checks at the same time and returns their findings in the order of the groups. It
// takes at most 5 seconds, and 30 for a single server: a check that does not end in time becomes a finding.
func Run(ctx context.Context, env Environment, s Setup) []Finding {
	limit := limit
	if _, client := clients.ByID(s.Only); s.Only != "" && !client {
		limit = patience
	}
	ctx, cancel := context.WithTimeout(ctx, limit-rest)
	defer cancel()
	d := &doctor{env: env, Setup: s}
	d.service = shared(func() (Service, error) {
		if s.Service == nil {
			return Service{}, nil
		}
		return s.Service(ctx)
	})
	d.probe = shared(func() (Report, error) {
		if s.Probe == nil {
			return Report{}, errNotProbed
		}
		return s.Probe(ctx)
	})
	checks := d.checks()
	results := make([]chan []Finding, len(checks))
	for i, c := range checks {
		results[i] = make(chan []Finding, 1) // a late check must not wait for its reader
		go func() { results[i] <- c.run(ctx) }()
	}
	grace := time.NewTimer(limit - rest/2)
	defer grace.Stop()
	var all []Finding
	for i, c := range checks {
		select {
		case list := <-results[i]:
			all = append(all, list...)
			continue
		default:
		}
		select {
		case list := <-results[i]:
			all = append(all, list...)
		case <-grace.C:
			grace.Reset(0)
			all = append(all, found("doctor-late", c.group, "the check did not end within %s", limit))
		}
	}
	return sorted(causes(all))
}

// causes leaves out the findings of a server that follow from a fault of its entry or its program.
func causes(list []Finding) []Finding {
	known := map[string]bool{}
	for _, f := range list {
		known[f.Thing] = known[f.Thing] || f.ID == "config-server" || f.ID == "runtime-missing"
	}
	return slices.DeleteFunc(list, func(f Finding) bool { return known[f.Thing] && strings.HasPrefix(f.ID, "server-") })
}

// shared starts f at once and returns a function that waits for its result. Several checks may call it
// at the same time.
func shared[T any](f func() (T, error)) func() (T, error) {
	var value T
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		value, err = f()
	}()
	return func() (T, error) {
		<-done
		return value, err
	}
}

// doctor is one run.
type doctor struct {
	Setup
	env     Environment
	probe   func() (Report, error)
	service func() (Service, error)
}

// checks returns the checks to run.
func (d *doctor) checks() []check {
	if d.Only != "" {
		if _, ok := clients.ByID(d.Only); ok {
			return []check{{"client", d.checkClients}}
		}
		return []check{{"config", d.checkConfig}, {"runtime", d.checkRuntime}, {"server", d.checkServers}, {"server", d.checkSandboxes}, {"schema", d.checkSchemas}}
	}
	return []check{
		{"config", d.checkConfig}, {"config", d.checkModes}, {"runtime", d.checkRuntime}, {"server", d.checkServers}, {"server", d.checkSandboxes}, {"server", d.checkProxy},
		{"schema", d.checkSchemas}, {"flow", d.checkFlow}, {"gateway", d.checkGateway}, {"gateway", d.checkRecords}, {"gateway", d.checkSteps}, {"gateway", d.checkClock}, {"store", d.checkStore},
		{"client", d.checkClients}, {"keyring", d.checkKeyring}, {"service", d.checkService}, {"disk", d.checkDisk},
	}
}

// servers returns the servers to look at, those that run.
func (d *doctor) servers() (list []*config.Server) {
	if d.Config == nil {
		return nil
	}
	for _, s := range d.Config.Enabled() {
		if d.Only == "" || s.Name == d.Only {
			list = append(list, s)
		}
	}
	return list
}

// Check returns an error if the name in Only is neither a server nor a client.
func (s Setup) Check() error {
	if s.Only == "" || s.Config == nil {
		return nil
	}
	if _, ok := clients.ByID(s.Only); ok {
		return nil
	}
	if _, ok := s.Config.Server(s.Only); ok {
		return nil
	}
	return fmt.Errorf("%q is neither a server of %s nor a client: weir ls lists the servers, weir connect --help the clients", s.Only, s.Path)
}
