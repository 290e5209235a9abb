package machine

import (
	"context"
	"errors"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/gateway"
	"github.com/weir-mcp/weir/internal/net/httpserver"
	"github.com/weir-mcp/weir/internal/setup"
	"github.com/weir-mcp/weir/internal/setup/clients"
	"github.com/weir-mcp/weir/internal/setup/doctor"
	"github.com/weir-mcp/weir/internal/store/nodestore"
	"github.com/weir-mcp/weir/internal/upstream/lineage"
	"github.com/weir-mcp/weir/internal/web"
	"github.com/weir-mcp/weir/internal/web/api"
)

// Options are the settings of New. All fields but those that say otherwise are required.
type Options struct {
	// Open returns the computer of the user who runs the gateway. Its Config is the gateway's file.
	Open func() (*setup.Machine, error)
	// Read are the options with which the gateway reads the file.
	Read config.Options
	// Changed is called after a change of the file. Nil is for a gateway that sees changes by itself.
	Changed func()
	// Examine returns what the doctor has to know of the gateway's file and of the computer, without a
	// Probe. only is Setup.Only.
	Examine func(ctx context.Context, only string) (doctor.Setup, error)
	// LookupEnv reads a variable of this process.
	LookupEnv func(name string) (string, bool)
	// Version is the version of the gateway, and URL is where people reach its /mcp.
	Version, URL string
	// Connects is set if the gateway connects clients. Their entries start weir or have its URL.
	Connects bool
}

// New returns the changes that operators of a gateway may make.
func New(g *gateway.Gateway, o Options) api.Machine {
	r := &registry{o, g}
	changes := &edits{Options: o, gateway: g, registry: r}
	m := api.Machine{Edits: changes, Registry: r, Checks: &checkup{Options: o, gateway: g}}
	if o.Connects {
		m.Clients = &wiring{changes}
	}
	return m
}

// Read reads the configuration at path for the doctor, and adds to s what it has to know of it. environ
// is the environment of this process. Mistakes of the configuration are no error.
func Read(s *doctor.Setup, path string, o config.Options, environ []string) error {
	s.Path = path
	o.Omit = omission(s.Only, environ)
	var broken *config.Error
	c, warnings, err := config.Load(path, o)
	switch {
	case errors.As(err, &broken):
		s.Problems = broken.Problems
	case err != nil:
		return err
	default:
		s.Config, s.Listen = c, httpserver.Dialable(web.ListenAddress(c))
		if c.Store.Shared() {
			s.Store = func(ctx context.Context) (bool, error) { return nodestore.Look(ctx, c) }
		}
	}
	s.Warnings = warnings
	return nil
}

// omission returns the config.Options.Omit of an examination: weir itself, and all servers but the one
// that only names.
func omission(only string, environ []string) func(*config.Config, *config.Server) string {
	itself := lineage.OmitItself(environ, false)
	_, client := clients.ByID(only)
	return func(c *config.Config, server *config.Server) string {
		if only != "" && (client || server.Name != only) {
			return "it is not looked at"
		}
		return itself(c, server)
	}
}
