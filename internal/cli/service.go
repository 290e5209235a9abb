package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/net/httpserver"
	"github.com/weir-mcp/weir/internal/setup"
	"github.com/weir-mcp/weir/internal/setup/clients"
	"github.com/weir-mcp/weir/internal/setup/machine"
	"github.com/weir-mcp/weir/internal/setup/service"
	"github.com/weir-mcp/weir/internal/web"
)

func serviceCommand(a *process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "service",
		Short: "Run the gateway as a service that starts at login",
		Long: `Run the gateway as a service of this user, which starts at login and again after a
failure: a unit of systemd on Linux, an agent of launchd on macOS, a task on
Windows. It serves the user's configuration. Clients that speak HTTP then get its
URL from "weir connect", the others go on with "weir attach".`,
	}
	cmd.AddCommand(
		serviceInstallCommand(a), serviceUninstallCommand(a),
		serviceSwitchCommand(a, service.Starting, "Start the installed service"),
		serviceSwitchCommand(a, service.Stopping, "Stop the service until the next login, or weir service start"),
		serviceStatusCommand(a),
	)
	return cmd
}

// serviceChange is one run of weir service install or uninstall.
type serviceChange struct {
	changing
	port    int
	portSet bool

	a       *process
	m       *setup.Machine
	service *service.Service
	other   *runFile // a gateway of the same configuration that is not the service
}

func serviceInstallCommand(a *process) *cobra.Command {
	c := &serviceChange{a: a}
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Install the service, or give it new settings, and start it",
		Long: `Install the gateway as a service of this user, and start it. An installed service
gets new settings; what is not named stays. The PATH of the login shell goes into
service.env, next to the configuration, so that the service finds the programs
that the shell finds. Variables that you add to that file stay there.

It is never run as root. For a whole machine, the packages have a unit of systemd:
systemctl enable --now weir.`,
		Example: `  weir service install --dry-run
  weir service install --port 8090 --yes`,
		Args: positional(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.portSet = cmd.Flags().Changed("port")
			return c.install(cmd.Context())
		},
	}
	c.flags(cmd)
	cmd.Flags().Lookup("config").Usage = "the configuration to serve (default: the file of the installed service, else the user's)"
	cmd.Flags().IntVar(&c.port, "port", 0, "the port on 127.0.0.1, in place of the configuration's address; 0 takes that again")
	return cmd
}

func serviceUninstallCommand(a *process) *cobra.Command {
	c := &serviceChange{a: a}
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Stop the service and remove its files",
		Args:  positional(cobra.NoArgs),
		RunE:  func(cmd *cobra.Command, _ []string) error { return c.uninstall(cmd.Context()) },
	}
	c.flags(cmd)
	cmd.Flags().Lookup("config").Hidden = true // the service knows its own
	return cmd
}

func serviceSwitchCommand(a *process, action service.Action, short string) *cobra.Command {
	return &cobra.Command{
		Use: string(action), Short: short, Args: positional(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.service()
			if err != nil {
				return err
			}
			change, done := s.Start, "started"
			if action == service.Stopping {
				change, done = s.Stop, "stopped"
			}
			if err := change(cmd.Context()); err != nil {
				return serviceFailure(err, s)
			}
			item(a.stdout, green, "✓", "the service is "+done, "log: "+s.LogCommand())
			return nil
		},
	}
}

// serviceFailure gives an error of a service its exit code, and names the log where that helps.
func serviceFailure(err error, s *service.Service) error {
	if errors.Is(err, service.ErrNone) {
		return &failure{exitUsage, err}
	}
	return &failure{exitUnavailable, fmt.Errorf("%w. Its log: %s", err, s.LogCommand())}
}

// prepare finds the service and its machine.
func (c *serviceChange) prepare() (err error) {
	if c.service, err = c.a.service(); err != nil {
		return err
	}
	c.m, err = c.a.machine(c.config)
	return err
}

// install plans, shows and makes the installation.
func (c *serviceChange) install(ctx context.Context) error {
	if err := c.prepare(); err != nil {
		return err
	}
	settings, err := c.settings(ctx)
	if err != nil {
		return err
	}
	c.other = gatewayBesideService(ctx, c.a.lookupEnv, c.service, settings.Config)
	plan, err := c.service.Plan(service.Installing, settings)
	if err != nil {
		return err
	}
	if _, err := os.Stat(settings.Config); err != nil && !c.dryRun {
		return failf(exitUsage, "there is no configuration at %s: make one with weir init or weir add, or name one with --config", settings.Config)
	}
	out := c.json(plan)
	out.Program, out.Config, out.URL = settings.Program, settings.Config, serviceURL(settings)
	ok, err := c.show(ctx, plan, &out, "Install and start the service?")
	if err != nil || !ok {
		return err
	}
	stop := c.a.spin("starting the service")
	defer stop()
	if err := stopOther(ctx, c.other); err != nil {
		return err
	}
	summary := "the service with " + c.a.tilde(settings.Config)
	out.Done, err = c.record(ctx, summary, func() error { return c.service.Install(ctx, settings) })
	if err != nil {
		return serviceFailure(err, c.service)
	}
	stop()
	return c.finish(out, "the service runs, and starts at login")
}

// uninstall plans, shows and makes the removal.
func (c *serviceChange) uninstall(ctx context.Context) error {
	if err := c.prepare(); err != nil {
		return err
	}
	plan, err := c.service.Plan(service.Removing, service.Settings{})
	if err != nil {
		return serviceFailure(err, c.service)
	}
	out := c.json(plan)
	for _, s := range c.wiredByURL() {
		out.Notes = append(out.Notes, noteJSON{Client: s.Client.ID, Text: "its entry is the URL of the service. After this: weir connect " + s.Client.ID + " --attach"})
	}
	ok, err := c.show(ctx, plan, &out, "Stop the service and remove it?")
	if err != nil || !ok {
		return err
	}
	if out.Done, err = c.record(ctx, "the service is removed", func() error { return c.service.Remove(ctx) }); err != nil {
		return serviceFailure(err, c.service)
	}
	return c.finish(out, "the service is removed")
}

// wiredByURL returns the clients' files whose entry for weir is a URL.
func (c *serviceChange) wiredByURL() (wired []setup.Source) {
	sources, err := c.m.Look()
	if err != nil {
		return nil // only notes depend on it
	}
	for _, s := range sources {
		for _, server := range s.Servers {
			if server.URL != "" && c.m.How.IsOurs(server) {
				wired = append(wired, s)
				break
			}
		}
	}
	return wired
}

// settings returns the settings of the installed service, changed by the flags.
func (c *serviceChange) settings(ctx context.Context) (service.Settings, error) {
	var settings service.Settings
	if now, err := c.service.Installed(); err == nil && now != nil {
		settings = *now
	}
	if c.config != "" || settings.Config == "" {
		settings.Config = c.m.Config
	}
	if c.portSet {
		settings.Port = c.port
	}
	program, err := c.a.program()
	if err != nil {
		return settings, err
	}
	if len(program) > 1 {
		return settings, failf(exitUsage, "npx runs weir from a cache that npm empties, which no service can start from. Install it first: npm install -g weir-mcp")
	}
	if err := machine.Lasting(clients.How{Command: program}); err != nil {
		return settings, &failure{exitUsage, err}
	}
	settings.Program = program[0]
	settings.Env = serviceEnvironment(c.a, ctx)
	return settings, nil
}

// serviceEnvironment returns the variables that the service needs of this user's shell.
func serviceEnvironment(a *process, ctx context.Context) (env []string) {
	if runtime.GOOS != "windows" { // a task has the environment of the user there
		env = append(env, "PATH="+shellPath(a, ctx))
	}
	for _, name := range []string{"XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME"} {
		if value := a.env(name); filepath.IsAbs(value) {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// shellLimit bounds the start of the user's shell.
const shellLimit = 5 * time.Second

// shellPath returns the PATH of the login shell, or of this process if the shell does not tell it.
func shellPath(a *process, ctx context.Context) string {
	if shell := a.env("SHELL"); filepath.IsAbs(shell) {
		ctx, cancel := context.WithTimeout(ctx, shellLimit)
		defer cancel()
		path, err := service.ShellPath(ctx, runForService, shell)
		if err == nil {
			return service.CleanPath(path)
		}
		a.note("%v; the service gets the PATH of this command", err)
	}
	return service.CleanPath(a.env("PATH"))
}

// serviceURL returns the URL of the gateway that a service with these settings runs, "" if its port
// is not known. A gateway with TLS has the name of its certificate in public_url.
func serviceURL(settings service.Settings) string {
	c := quietConfig(settings.Config)
	scheme, address := "http://", ""
	switch {
	case c != nil && c.TLS.Enabled() && c.PublicURL != "":
		return publicMCP(c)
	case c != nil:
		if address = httpserver.Dialable(web.ListenAddress(c)); c.TLS.Enabled() {
			scheme = "https://"
		}
	}
	if settings.Port != 0 {
		address = net.JoinHostPort("127.0.0.1", strconv.Itoa(settings.Port))
	}
	if _, port, err := net.SplitHostPort(address); err != nil || port == "0" {
		return ""
	}
	return scheme + address + "/mcp"
}

// publicMCP returns the URL of /mcp below public_url, "" without one.
func publicMCP(c *config.Config) string {
	if c.PublicURL == "" {
		return ""
	}
	return strings.TrimSuffix(c.PublicURL, "/") + "/mcp"
}

// quietConfig reads a configuration without asking for inputs. It returns nil for one with mistakes.
func quietConfig(path string) *config.Config {
	c, _, err := config.Load(path, config.Options{Inputs: func(config.Input) (string, bool, error) { return "unknown", true, nil }})
	if err != nil {
		return nil
	}
	return c
}

// servicePlanJSON is a change of the service for programs.
type servicePlanJSON struct {
	Action   string            `json:"action"`
	Manager  string            `json:"manager"`
	Program  string            `json:"program,omitempty"`
	Config   string            `json:"config,omitempty"`
	URL      string            `json:"url,omitempty"`
	Files    []serviceFileJSON `json:"files"`
	Commands []string          `json:"commands"`
	Notes    []noteJSON        `json:"notes"`
	DryRun   bool              `json:"dry_run"`
	Done     int               `json:"done,omitempty"` // the number of the operation
}

type serviceFileJSON struct {
	File    string `json:"file"`
	New     bool   `json:"new"`
	Removed bool   `json:"removed"`
}

func (c *serviceChange) json(p *service.Plan) servicePlanJSON {
	out := servicePlanJSON{Action: string(p.Action), Manager: c.service.Manager(), Notes: []noteJSON{}}
	for _, f := range p.Files {
		out.Files = append(out.Files, serviceFileJSON{f.Path, f.New, f.Data == nil})
	}
	for _, command := range p.Commands {
		out.Commands = append(out.Commands, command.String())
	}
	if c.other != nil {
		out.Notes = append(out.Notes, noteJSON{Text: fmt.Sprintf("the gateway of this configuration that runs already (process %d) is ended; its clients come back by themselves", c.other.PID)})
	}
	return out
}

// show shows a plan and asks. Without a yes it ends the command.
func (c *serviceChange) show(ctx context.Context, p *service.Plan, out *servicePlanJSON, question string) (bool, error) {
	t := c.a.stdout
	if !c.asJSON {
		heading(t, out.Manager)
		if out.URL != "" {
			item(t, cyan, "·", out.URL, c.a.tilde(out.Config))
		}
		for _, f := range p.Files {
			switch {
			case f.Data == nil:
				item(t, red, "-", c.a.tilde(f.Path), "")
			case f.New:
				item(t, green, "+", c.a.tilde(f.Path), "(new)")
			default:
				item(t, yellow, "~", c.a.tilde(f.Path), "")
			}
		}
		for _, command := range out.Commands {
			item(t, dim, "$", command, "")
		}
		for _, n := range out.Notes {
			item(t, dim, "i", n.Client, n.Text)
		}
	}
	ok, err := c.agree(c.a, ctx, question)
	if err == nil && ok {
		return true, nil
	}
	out.DryRun = true
	if c.asJSON {
		return false, errors.Join(printJSON(t, out), err)
	}
	if err == nil && !c.dryRun {
		c.a.note("nothing has changed")
	}
	return false, err
}

// record makes a change and notes it in the journal with its way back.
func (c *serviceChange) record(ctx context.Context, summary string, change func() error) (int, error) {
	before, _ := c.service.Installed() // settings that cannot be read count as no service
	op := c.m.Journal.Begin("service", summary)
	op.OnUndo(setup.RestoreService, serviceStep(before))
	if err := change(); err != nil {
		return 0, err
	}
	r, err := op.Apply(ctx)
	if err != nil {
		err = errors.Join(err, c.service.Restore(context.WithoutCancel(ctx), before))
	}
	return r.N, err
}

// serviceStep writes settings for the journal; without a service it is "".
func serviceStep(settings *service.Settings) string {
	if settings == nil {
		return ""
	}
	data, err := json.Marshal(settings)
	if err != nil {
		return "" // cannot happen: texts and a number
	}
	return string(data)
}

// finish prints the outcome.
func (c *serviceChange) finish(out servicePlanJSON, what string) error {
	if c.asJSON {
		return printJSON(c.a.stdout, out)
	}
	item(c.a.stdout, green, "✓", "done", what)
	if out.Action == string(service.Installing) {
		item(c.a.stdout, dim, "i", "log", c.service.LogCommand())
		if st, err := c.service.Status(context.Background()); err == nil && runtime.GOOS == "linux" && !st.Lingers {
			item(c.a.stdout, dim, "i", "it ends when you log out", "to keep it: loginctl enable-linger")
		}
	}
	_, err := fmt.Fprintln(c.a.stdout, "To take it back: weir undo")
	return err
}

func serviceStatusCommand(a *process) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show whether the service is enabled and runs, since when, and its log",
		Long: `Show whether the service is enabled and runs, since when, whether it runs while you
are logged out, and the command that shows its log. The exit code is 1 if the
service does not run.`,
		Args: positional(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.service()
			if err != nil {
				return err
			}
			st, err := s.Status(cmd.Context())
			if err != nil {
				return &failure{exitUnavailable, err}
			}
			if asJSON {
				err = printJSON(a.stdout, st)
			} else {
				showServiceStatus(a, st)
			}
			if err == nil && !st.Running {
				err = errQuiet(exitTool)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func showServiceStatus(a *process, st service.Status) {
	if !st.Installed {
		fmt.Fprintln(a.stdout, "No service is installed. To install one: weir service install")
		return
	}
	line := func(label, text string) { fmt.Fprintf(a.stdout, "%-9s %s\n", label, a.stdout.clean(text)) }
	state := strings.TrimSpace(st.State)
	if st.PID != 0 {
		state += ", process " + strconv.Itoa(st.PID)
	}
	if !st.Since.IsZero() {
		state += ", since " + st.Since.Local().Format(time.DateTime)
	}
	line("state", state)
	line("at login", map[bool]string{true: "starts", false: "does not start; weir service install"}[st.Enabled])
	if runtime.GOOS == "linux" {
		line("lingers", map[bool]string{true: "yes: it runs while you are logged out", false: "no: it ends when you log out (loginctl enable-linger)"}[st.Lingers])
	}
	if st.Settings != nil {
		line("config", a.tilde(st.Settings.Config))
		line("URL", serviceURL(*st.Settings))
	}
	line("unit", a.tilde(st.Unit))
	line("log", st.Log)
}
