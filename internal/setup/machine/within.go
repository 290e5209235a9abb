package machine

import (
	"context"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/gateway"
	"github.com/weir-mcp/weir/internal/host/secret"
	"github.com/weir-mcp/weir/internal/setup"
	"github.com/weir-mcp/weir/internal/setup/clients"
	"github.com/weir-mcp/weir/internal/setup/doctor"
	"github.com/weir-mcp/weir/internal/web/api"
	"github.com/weir-mcp/weir/mcp"
)

// Program is a program of others that has a gateway in it.
type Program struct {
	// File returns the absolute path of the current configuration, "" if it is no file.
	File func() string
	// Read are the options with which the program reads the file, and Changed reads it again.
	Read    config.Options
	Changed func()
	// Version is the version of the gateway, and URL is its address without a path.
	Version, URL string
}

// Within returns the changes that operators of a gateway in another program may make. They connect no
// clients, because the entry of a client would start weir and not the program.
func Within(g *gateway.Gateway, p Program) api.Machine {
	user := User{LookupEnv: config.System().LookupEnv, Secrets: secret.File}
	url := p.URL + "/mcp"
	return New(g, Options{
		Open: func() (*setup.Machine, error) {
			file, err := p.file()
			if err != nil {
				return nil, err
			}
			m, err := user.Open(file)
			if err != nil {
				return nil, err
			}
			m.How = clients.How{Known: []string{url}}
			return m, nil
		},
		Examine: func(_ context.Context, only string) (doctor.Setup, error) {
			s := doctor.Setup{Version: p.Version, Only: only}
			file, err := p.file()
			if err == nil {
				err = user.Describe(&s)
			}
			if err == nil {
				err = Read(&s, file, p.Read, config.Environ())
			}
			return s, err
		},
		Read: p.Read, Changed: p.Changed, LookupEnv: user.LookupEnv, Version: p.Version, URL: url,
	})
}

// file returns the file of the configuration.
func (p *Program) file() (string, error) {
	if file := p.File(); file != "" {
		return file, nil
	}
	return "", mcp.Errorf(mcp.KindNotFound, "this gateway has no configuration file that it could change")
}
