package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/weir-mcp/weir/internal/config"
)

// A process is what a command is given of the process that it runs in: its standard streams, its
// environment and its version.
type process struct {
	stdin          io.Reader
	stdout, stderr terminal
	lookupEnv      func(string) (string, bool)
	environ        func() []string
	version        string
	redact         bool // secrets are replaced in results, whatever the configuration says
	running        bool // flags and arguments are read, the command itself runs
}

// Main runs the program with the arguments, the environment and the standard streams of this
// process until it ends or a signal ends it, and returns the exit code. The version is the
// linker's, or "devel".
func Main(version string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return run(ctx, buildVersion(version), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
}

// run is the whole program. It returns the exit code.
func run(ctx context.Context, version string, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &process{
		stdin: stdin, stdout: newTerminal(stdout, os.LookupEnv), stderr: newTerminal(stderr, os.LookupEnv),
		lookupEnv: os.LookupEnv, environ: os.Environ, version: version,
	}
	root := rootCommand(a)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	asked, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	code := exitCode(err)
	if !a.running && code == exitInternal {
		code = exitUsage // cobra could not make sense of the command line
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return exitInterrupted
	}
	var quiet errQuiet
	if !errors.As(err, &quiet) {
		a.complain(err)
	}
	if code == exitUsage && !a.running {
		fmt.Fprintf(a.stderr, "Run '%s --help' to see what there is.\n", asked.CommandPath())
	}
	return code
}

// complain prints an error, each of its lines with the program's name.
func (a *process) complain(err error) {
	var broken *config.Error
	if errors.As(err, &broken) {
		for _, p := range broken.Problems {
			fmt.Fprintln(a.stderr, a.stderr.paint(red, "error: ")+a.stderr.clean(p.String()))
		}
		return
	}
	fmt.Fprintln(a.stderr, a.stderr.paint(red, "weir: ")+a.stderr.clean(err.Error()))
}

// note tells a person something beside the command's output.
func (a *process) note(format string, args ...any) {
	fmt.Fprintln(a.stderr, a.stderr.paint(dim, a.stderr.clean(fmt.Sprintf(format, args...))))
}

func rootCommand(a *process) *cobra.Command {
	root := &cobra.Command{
		Use:   "weir",
		Short: "A gateway between AI agents and MCP servers",
		Long: `weir stands between AI agents and MCP servers: one address for all of them, at
the price of three tools. An agent finds a tool, runs it by its id, and views
the parts it wants of a result that is too long to read.`,
		Example: `  weir serve --config weir.yaml              # then paste the URL it prints into a client
  weir search "storm warnings for an area"    # what an agent would find
  weir call 'notes:list_notes#78130b71'       # what an agent would get`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       a.version,
	}
	root.SetVersionTemplate("weir {{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return failf(exitUsage, "%s: %w\nUsage: %s", cmd.CommandPath(), err, cmd.UseLine())
	})
	root.AddGroup(&cobra.Group{ID: "gateway", Title: "Run the gateway:"}, &cobra.Group{ID: "shell", Title: "Use it from a shell:"}, &cobra.Group{ID: "other", Title: "And beside it:"})
	in := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	in("gateway", serveCommand(a), agentCommand(a), hubCommand(a), computerCommand(a), configCommand(a))
	in("shell", lsCommand(a), searchCommand(a), browseCommand(a), callCommand(a), viewCommand(a), tableCommand(a), selectCommand(a), statsCommand(a))
	in("other", demoCommand(a), benchCommand(a), versionCommand(a))
	root.SetHelpCommandGroupID("other")
	root.SetCompletionCommandGroupID("other")
	root.AddCommand(helpTopics(a)...)
	root.InitDefaultHelpCmd()
	for _, c := range root.Commands() {
		if c.Name() == "help" { // what is asked about must be there
			c.Args = func(_ *cobra.Command, args []string) error {
				_, _, err := root.Find(args)
				return err
			}
		}
	}
	noteRunning(a, root)
	return root
}

// noValue is what a flag of optional has that is given without a value.
const noValue = "true"

// optional adds a flag for a text that may be left out. A value that is not joined
// to the flag with "=" is a positional argument, which the command looks for.
func optional(cmd *cobra.Command, into *string, name, usage string) {
	cmd.Flags().Var((*optionalText)(into), name, usage)
	cmd.Flags().Lookup(name).NoOptDefVal = noValue
}

// oneOf tells the shell which values a flag has.
func oneOf(cmd *cobra.Command, flag string, values ...string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag is not there, or has been told already
	}
}

// optionalText is the value of such a flag. Its type is that of a switch, so that
// help texts show no default.
type optionalText string

func (t *optionalText) String() string     { return string(*t) }
func (t *optionalText) Set(s string) error { *t = optionalText(s); return nil }
func (t *optionalText) Type() string       { return "bool" }

// noteRunning has every command say that it runs: what fails before is the
// command line's fault.
func noteRunning(a *process, cmd *cobra.Command) {
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			a.running = true
			return run(cmd, args)
		}
	}
	for _, sub := range cmd.Commands() {
		noteRunning(a, sub)
	}
}

// topics are help texts without a command: weir help exit-codes.
func helpTopics(a *process) []*cobra.Command {
	return []*cobra.Command{
		{Use: "exit-codes", Short: "How commands end", Long: "How commands end:\n\n" + exitCodeText()},
		{Use: "selectors", Short: "How weir view is told what to show", Long: selectorHelp},
	}
}

// positional wraps a check of positional arguments so that its error says how the
// command is used.
func positional(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch err := check(cmd, args); {
		case err == nil:
			return nil
		case len(args) == 0:
			return failf(exitUsage, "%s: an argument is missing\nUsage: %s", cmd.CommandPath(), cmd.UseLine())
		default:
			return failf(exitUsage, "%s: %q is one argument too many\nUsage: %s", cmd.CommandPath(), args[len(args)-1], cmd.UseLine())
		}
	}
}

// buildVersion returns the linker's version, or what the Go toolchain knows.
func buildVersion(version string) string {
	if version != "devel" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return version
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	revision, dirty := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "-dirty"
		}
	}
	if revision == "" {
		return version
	}
	return strings.Join([]string{version, revision[:min(12, len(revision))]}, "-") + dirty
}
