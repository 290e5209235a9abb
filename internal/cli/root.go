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

// A process is the part of the operating system's process that commands may use: standard streams,
// environment and version.
type process struct {
	stdin          io.Reader
	stdout, stderr terminal
	lookupEnv      func(string) (string, bool)
	environ        func() []string
	version        string
	redact         bool       // replace secrets in results even if the configuration does not ask for it
	keyboard       *questions // made by newQuestions; its reader may hold typed lines
	running        bool       // the command line was accepted and the command has started
}

// unlinked is the version of a program that was built without a version; see package version.
const unlinked = "devel"

// Main runs the program with this process's arguments, environment and standard streams until it
// ends or is ended by a signal. It returns the exit code. version comes from the linker; "devel"
// means the version that the Go toolchain recorded, if there is one.
func Main(version string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	info, _ := debug.ReadBuildInfo()
	return run(ctx, buildVersion(version, info), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
}

// run runs the program and returns the exit code.
func run(ctx context.Context, version string, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &process{
		stdin: stdin, stdout: newTerminal(stdout, os.LookupEnv), stderr: newTerminal(stderr, os.LookupEnv),
		lookupEnv: os.LookupEnv, environ: os.Environ, version: version,
	}
	if len(args) > 0 && (args[0] == "--version" || args[0] == "-v") {
		fmt.Fprintf(a.stdout, "weir %s\n", version) // without the tree of commands
		return exitOK
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
		code = exitUsage // cobra refused the command line
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return exitInterrupted
	}
	var quiet errQuiet
	if !errors.As(err, &quiet) {
		complain(a.stderr, err)
	}
	if code == exitUsage && !a.running {
		fmt.Fprintf(a.stderr, "Run '%s --help' to see what there is.\n", asked.CommandPath())
	}
	return code
}

// complain prints an error with the program's name before each line.
func complain(stderr terminal, err error) {
	var broken *config.Error
	if errors.As(err, &broken) {
		for _, p := range broken.Problems {
			fmt.Fprintln(stderr, stderr.paint(red, "error: ")+stderr.clean(p.String()))
		}
		return
	}
	fmt.Fprintln(stderr, stderr.paint(red, "weir: ")+stderr.clean(err.Error()))
}

// note prints a message for people on stderr.
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
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return failf(exitUsage, "%s: %w\nUsage: %s", cmd.CommandPath(), err, cmd.UseLine())
	})
	root.AddGroup(&cobra.Group{ID: "first", Title: "Set it up:"}, &cobra.Group{ID: "gateway", Title: "Run the gateway:"}, &cobra.Group{ID: "shell", Title: "Use it from a shell:"}, &cobra.Group{ID: "other", Title: "More commands:"})
	in := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	in("first", firstCommands(a)...)
	in("first", doctorCommand(a))
	in("gateway", serveCommand(a), attachCommand(a), serviceCommand(a), agentCommand(a), hubCommand(a), computerCommand(a), configCommand(a), policyCommand(a), flowCommand(a), secretCommand(a), trustCommand(a))
	in("gateway", loginCommand(a), logoutCommand(a), credentialsCommand(a), accountCommand(a))
	in("gateway", operatorCommands(a)...)
	in("gateway", auditCommand(a))
	in("shell", lsCommand(a), searchCommand(a), browseCommand(a), showCommand(a), callCommand(a), runCommand(a), viewCommand(a), getCommand(a), tableCommand(a), selectCommand(a), statsCommand(a), whoamiCommand(a), openCommand(a), tryCommand(a))
	in("other", demoCommand(a), benchCommand(a), manCommand(a), upgradeCommand(a), versionCommand(a))
	root.AddCommand(backgroundCommand())
	root.SetHelpCommandGroupID("other")
	root.SetCompletionCommandGroupID("other")
	root.AddCommand(helpTopics()...)
	root.InitDefaultHelpCmd()
	for _, c := range root.Commands() {
		if c.Name() == "help" { // weir help NAME fails for unknown names
			c.Args = func(_ *cobra.Command, args []string) error {
				_, _, err := root.Find(args)
				return err
			}
		}
	}
	noteRunning(a, root)
	return root
}

// noValue is the value of an optional flag that was given without one.
const noValue = "true"

// optional adds a text flag whose value may be omitted. A value that is not joined with "=" arrives
// as a positional argument, which the command must handle.
func optional(cmd *cobra.Command, into *string, name, usage string) {
	cmd.Flags().Var((*optionalText)(into), name, usage)
	cmd.Flags().Lookup(name).NoOptDefVal = noValue
}

// oneOf tells shell completion the values of a flag.
func oneOf(cmd *cobra.Command, flag string, values ...string) {
	completeFlag(cmd, flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// completeFlag tells shell completion how to complete the value of a flag.
func completeFlag(cmd *cobra.Command, flag string, complete cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic(err) // cannot happen: the flag exists and has no completion yet
	}
}

// optionalText is the value of an optional flag. Its type is bool, so that help texts
// show no default.
type optionalText string

func (t *optionalText) String() string     { return string(*t) }
func (t *optionalText) Set(s string) error { *t = optionalText(s); return nil }
func (t *optionalText) Type() string       { return "bool" }

// noteRunning makes every command record that it has started: an error before that is a usage
// error.
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

// helpTopics returns help texts that are not commands: weir help exit-codes.
func helpTopics() []*cobra.Command {
	return []*cobra.Command{
		{Use: "files", Short: "Where weir keeps its files", Long: filesHelp},
		{Use: "exit-codes", Short: "Exit codes of commands", Long: "Exit codes of commands:\n\n" + exitCodeText()},
		{Use: "selectors", Short: "Selectors of weir view", Long: selectorHelp},
	}
}

// positional wraps a check of positional arguments so that its error shows the command's usage.
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

// buildVersion returns the linker's version, or the one that the Go toolchain recorded: go install
// of a tag records the tag. info may be nil.
func buildVersion(linked string, info *debug.BuildInfo) string {
	if linked != unlinked || info == nil {
		return linked
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
		return linked
	}
	return strings.Join([]string{linked, revision[:min(12, len(revision))]}, "-") + dirty
}
