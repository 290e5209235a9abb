package cli

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/host/secret"
	"github.com/weir-mcp/weir/internal/setup"
	"github.com/weir-mcp/weir/internal/setup/clients"
	"github.com/weir-mcp/weir/internal/setup/machine"
	"github.com/weir-mcp/weir/internal/web"
)

// changing are the flags of commands that change files.
type changing struct {
	config              string
	dryRun, yes, asJSON bool

	first func(ctx context.Context) error // runs after the yes, before the change; may be nil
}

const changingHelp = `
The plan is shown before anything changes, and "weir undo" takes the change back.
Without a terminal, and without --yes, the plan is all that happens (exit code 2).`

// flags adds the flags to a command.
func (c *changing) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.config, "config", "", "the weir.yaml to change (default: the user's, in the configuration folder)")
	cmd.Flags().BoolVar(&c.dryRun, "dry-run", false, "show the plan and change nothing")
	cmd.Flags().BoolVarP(&c.yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVar(&c.asJSON, "json", false, "print JSON")
	cmd.Long = strings.TrimSpace(cmd.Long) + "\n" + changingHelp
}

// machine returns the computer of the person who runs this process. path is the weir.yaml to change,
// "" for the user's.
func (a *process) machine(path string) (*setup.Machine, error) {
	m, err := a.user().Open(path)
	if err != nil {
		return nil, err
	}
	own, err := places(a.lookupEnv).Config()
	if err != nil {
		return nil, err
	}
	custom := m.Config
	if custom == own {
		custom = ""
	}
	m.Service = undoableService{a}
	m.How, err = a.way(custom, m.Config)
	return m, err
}

// user returns the user who runs this process. Only a person at a terminal can unlock a keyring, so
// without one new secrets go to the file.
func (a *process) user() machine.User {
	u := machine.User{LookupEnv: a.lookupEnv, Secrets: secret.Auto}
	if !a.stderr.screen() {
		u.Secrets = secret.File
	}
	return u
}

// env reads a variable, "" for one that is not set.
func (a *process) env(name string) string {
	value, _ := a.lookupEnv(name)
	return value
}

// way returns how clients reach weir: by the URL of the service, or they start its program. custom is a configuration that is not
// the user's, and conf the configuration in use.
func (a *process) way(custom, conf string) (clients.How, error) {
	h := clients.How{Windows: runtime.GOOS == "windows", Known: []string{defaultURL}}
	if c := quietConfig(conf); c != nil {
		if _, port, err := net.SplitHostPort(web.ListenAddress(c)); err == nil && port != "0" {
			h.Known = append(h.Known, "http://127.0.0.1:"+port+"/mcp")
		}
		if at := publicMCP(c); at != "" {
			h.Known = append(h.Known, at)
		}
	}
	var err error
	if h.Command, err = a.program(); err != nil {
		return h, err
	}
	h.Config = custom
	if known, url := a.serviceWay(conf); known != "" {
		h.Known, h.URL = append(h.Known, known), url
	}
	return h, nil
}

// serviceWay returns the URL of the installed service, "" without one, and the same URL for clients'
// files if each client can use it and the service has this configuration.
func (a *process) serviceWay(conf string) (known, url string) {
	s, err := a.service()
	if err != nil {
		return "", "" // this user has no service
	}
	settings, err := s.Installed()
	if err != nil || settings == nil {
		return "", ""
	}
	known = serviceURL(*settings)
	if settings.Config == conf && opensFreely(conf) {
		url = known
	}
	return known, url
}

// opensFreely reports whether each client of this machine can use the URL of a configuration's
// gateway: it wants no token, and clients need no certificate authority. One with mistakes may want
// them.
func opensFreely(conf string) bool {
	c := quietConfig(conf)
	return c != nil && !c.Auth.Required() && !c.TLS.Enabled()
}

// program returns the command that starts this weir again: its absolute path with links kept, so
// that an update behind the link is followed. Under npx it is the package.
func (a *process) program() ([]string, error) {
	if a.env("npm_command") == "exec" && a.env("npm_package_name") != "" {
		return []string{"npx", "-y", "weir-mcp"}, nil
	}
	if path, err := exec.LookPath(os.Args[0]); err == nil {
		if path, err = filepath.Abs(path); err == nil && filepath.Base(path) != "weir.test" {
			return []string{path}, nil
		}
	}
	path, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("weir does not know where it is: %w", err)
	}
	return []string{path}, nil
}

// nearMachine is machine for commands that change one server: without a path it takes this folder's
// weir.yaml, if there is one.
func (a *process) nearMachine(path string) (*setup.Machine, error) {
	if path == "" {
		found, err := config.Find(".")
		if err == nil && strings.HasPrefix(filepath.Base(found), "weir.") {
			path = found
		}
	}
	return a.machine(path)
}

// firstCommands are the commands that set weir up and change its servers.
func firstCommands(a *process) []*cobra.Command {
	return []*cobra.Command{
		initCommand(a), importCommand(a), connectCommand(a), disconnectCommand(a), clientsCommand(a), undoCommand(a),
		addCommand(a), removeCommand(a), enableCommand(a), disableCommand(a), sandboxCommand(&learning{a: a}),
	}
}
