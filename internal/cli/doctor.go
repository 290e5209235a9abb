package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/spf13/cobra"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/gateway"
	"github.com/weir-mcp/weir/internal/setup/clients"
	"github.com/weir-mcp/weir/internal/setup/doctor"
	"github.com/weir-mcp/weir/internal/setup/machine"
	"github.com/weir-mcp/weir/internal/upstream/confined"
)

func doctorCommand(a *process) *cobra.Command {
	var path, token string
	var fix, asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor [NAME]",
		Short: "Find out why weir, a server or a client does not work",
		Long: `Look at the configuration, the programs of servers, the servers themselves, the
gateway, the clients, the service and the disk, in 5 seconds at most. Each finding
names the thing, the owner of the fault and the fix. With NAME, only that server or
client is looked at. If no gateway runs, the servers are started for the check.

--fix mends what is safe, after showing it: rights of files with secrets, records
of gateways that have ended, and entries of weir that a client has lost since
weir connect. The exit code is 1 if a finding is a failure.`,
		Example: `  weir doctor
  weir doctor github
  weir doctor --fix`,
		Args: positional(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			d := &examination{a: a, token: token}
			defer d.close()
			if len(args) == 1 {
				d.setup.Only = args[0]
			}
			if err := d.prepare(cmd.Context(), path); err != nil {
				return err
			}
			if err := d.setup.Check(); err != nil {
				return &failure{exitUsage, err}
			}
			if c := d.setup.Config; c != nil {
				d.setup.Steps = gateway.CallSteps(c)
				d.setup.Sandbox = confined.New(confined.Options{Environ: a.environ()}).Describe
				d.setup.Probe = func(ctx context.Context) (doctor.Report, error) { return d.probe(ctx, c) }
			}
			list := d.run(cmd.Context())
			if asJSON && !fix {
				if err := printJSON(a.stdout, orEmpty(list)); err != nil {
					return err
				}
			} else {
				printFindings(a, list)
			}
			if fix {
				return repair(a, cmd.Context(), list)
			}
			if doctor.Failed(list) {
				return errQuiet(exitTool)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&path, "config", "", "the configuration to look at")
	cmd.Flags().StringVar(&token, "token", "", "bearer token for the gateway that runs (better $WEIR_TOKEN: other users see command lines)")
	cmd.Flags().BoolVar(&fix, "fix", false, "mend what is safe, after showing it")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.MarkFlagsMutuallyExclusive("fix", "json")
	servers := a.completeConfigured(&path, 1)
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		names, directive := servers(cmd, args, word)
		for _, c := range clients.All() {
			if len(args) == 0 && !slices.Contains(names, c.ID) {
				names = append(names, c.ID)
			}
		}
		return names, directive
	}
	return cmd
}

// An examination is one run of weir doctor.
type examination struct {
	a     *process
	token string
	setup doctor.Setup
	end   func() // stops the servers that were started for the check; may be nil
}

func (d *examination) close() {
	if d.end != nil {
		d.end()
	}
}

// prepare finds the configuration and everything around it. It starts nothing.
func (d *examination) prepare(ctx context.Context, named string) error {
	a, s := d.a, &d.setup
	s.Version = a.version
	if d.token == "" {
		d.token = a.env("WEIR_TOKEN")
	}
	if err := a.user().Describe(s); err != nil {
		return err
	}
	s.Records = func(ctx context.Context) []string { return endedRecords(ctx, filepath.Join(s.State, "gateways")) }
	m, err := a.machine(named)
	if err != nil {
		return err
	}
	s.Machine, s.How, s.Journal = m.Env, m.How, m.Journal
	s.Service = serviceForDoctor(a)
	found, err := findConfig(a.lookupEnv, named)
	if errors.Is(err, config.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	s.Path = found.path
	s.Distrust = found.check()
	opts := configOptions(a, ctx)
	if s.Distrust != nil {
		opts.Inputs = func(config.Input) (string, bool, error) { return "unknown", true, nil } // programs of strangers are not run
	}
	return machine.Read(s, found.path, opts, a.environ())
}

// run makes the checks.
func (d *examination) run(ctx context.Context) []doctor.Finding {
	stop := d.a.spin("looking around")
	defer stop()
	return doctor.Run(ctx, doctor.System(runtime.GOOS, d.a.lookupEnv), d.setup)
}

// maxRecords bounds the records that are looked at.
const maxRecords = 100

// endedRecords returns the files of gateways that do not run any more.
func endedRecords(ctx context.Context, folder string) (ended []string) {
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		return nil // cannot happen: the pattern is sound
	}
	for _, file := range files[:min(len(files), maxRecords)] {
		if f := parseRunFile(file); f != nil && !f.runs(ctx) && ctx.Err() == nil {
			ended = append(ended, file)
		}
	}
	return ended
}

// styleOf returns the colour of a level.
func styleOf(l doctor.Level) string {
	switch l {
	case doctor.OK:
		return green
	case doctor.Warn:
		return yellow
	}
	return red
}

// printFindings prints findings for people: a line each, and the way out below.
func printFindings(a *process, list []doctor.Finding) {
	counts := map[doctor.Level]int{}
	for _, f := range list {
		counts[f.Level]++
		line := a.stdout.paint(styleOf(f.Level), f.Level.Sign()) + " " + a.stdout.paint(bold, a.stdout.clean(a.tilde(f.Thing))) + "  " + a.stdout.clean(f.Text)
		if f.Level != doctor.OK {
			line += a.stdout.paint(dim, "  ("+f.ID+")")
		}
		fmt.Fprintln(a.stdout, line)
		for _, l := range f.Lines {
			fmt.Fprintln(a.stdout, a.stdout.paint(dim, "    │ "+a.stdout.clean(l)))
		}
		if f.Fix != "" {
			fmt.Fprintln(a.stdout, "    "+a.stdout.clean(f.Owner+": "+f.Fix))
		}
	}
	fmt.Fprintf(a.stdout, "\n%d fine, %d to look at, %d broken\n", counts[doctor.OK], counts[doctor.Warn], counts[doctor.Fail])
}

// repair mends the findings that are safe to mend. The error counts the others.
func repair(a *process, ctx context.Context, list []doctor.Finding) error {
	left, mended := 0, 0
	for _, f := range list {
		if f.Repair == nil {
			if f.Level == doctor.Fail {
				left++
			}
			continue
		}
		fmt.Fprintln(a.stdout, a.stdout.paint(bold, "fix: ")+a.stdout.clean(f.Repair.Show))
		operation, err := f.Repair.Do(ctx)
		if operation > 0 { // also if a later step failed
			fmt.Fprintf(a.stdout, "     weir undo %d takes it back\n", operation)
		}
		if err != nil {
			complain(a.stderr, fmt.Errorf("%s: %w", f.Thing, err))
			left++
			continue
		}
		mended++
	}
	fmt.Fprintf(a.stdout, "%d mended, %d left\n", mended, left)
	if left > 0 {
		return errQuiet(exitTool)
	}
	return nil
}
