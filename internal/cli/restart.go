package cli

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/weir-mcp/weir/internal/gateway"
	"github.com/weir-mcp/weir/internal/upstream"
	"github.com/weir-mcp/weir/internal/web/api"
)

// restartsAtOnce bounds the servers that one command restarts at the same time.
const restartsAtOnce = 4

func restartCommand(a *process) *cobra.Command {
	var t target
	var all, asJSON bool
	cmd := &cobra.Command{
		Use:   "restart NAME...",
		Short: "Restart servers of the running gateway",
		Long: `Restart servers of the running gateway. A server is listed again. Calls in flight go
on for the time of mcpServers.NAME.drain, and then fail with an error that agents
may try again; new calls wait for the new start.

The exit code is 1 if a server does not come up.`,
		Example: "  weir restart files\n  weir restart --all",
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case all && len(args) > 0:
				return failf(exitUsage, "--all restarts every server: leave out the names, or --all")
			case all:
				return nil
			}
			return positional(cobra.MinimumNArgs(1))(cmd, args)
		},
		ValidArgsFunction: a.completeRunning(&t, 0),
		RunE: func(cmd *cobra.Command, names []string) error {
			o, err := findOperator(a, cmd.Context(), t)
			if err != nil {
				return err
			}
			if all {
				if names, err = o.running(cmd.Context()); err != nil {
					return err
				}
			}
			return restartServers(a, cmd.Context(), o, names, asJSON)
		},
	}
	t.operatorFlags(cmd)
	t.nodeFlag(a, cmd)
	cmd.Flags().BoolVar(&all, "all", false, "restart all servers that are not disabled")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// running returns the names of all servers that can be restarted.
func (o *operator) running(ctx context.Context) (names []string, err error) {
	var list api.List
	if err := o.get(ctx, "servers", &list); err != nil {
		return nil, err
	}
	for _, s := range list.Servers {
		if s.State != string(upstream.StateDisabled) && s.State != string(upstream.StateLeftOut) {
			names = append(names, s.Name)
		}
	}
	return names, nil
}

// restartServers restarts servers side by side and prints a line for each.
func restartServers(a *process, ctx context.Context, o *operator, names []string, asJSON bool) error {
	results := make([]api.Server, len(names))
	width := 0
	for _, name := range names {
		width = max(width, min(utf8.RuneCountInString(name), rosterName))
	}
	lines := &screenLines{out: a.stdout}
	var mu sync.Mutex // guards failed and the output
	var failed error
	turns := make(chan struct{}, restartsAtOnce)
	var work sync.WaitGroup
	stop := a.spin("restarting " + strings.Join(names, ", "))
	for i, name := range names {
		work.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			one := &operator{base: o.base, bearer: o.bearer}
			var s api.Server
			err := one.post(ctx, serverPath(name, "restart"), struct{}{}, &s)
			if err != nil {
				s = api.Server{Name: name, State: string(upstream.StateFailed), Error: err.Error()}
			}
			mu.Lock()
			defer mu.Unlock()
			results[i] = s
			if s.Error != "" && (failed == nil || err != nil) {
				failed = errQuiet(exitTool)
			}
			if !asJSON && ctx.Err() == nil {
				printOutcome(lines, padded(middle(oneLine(a.stdout.clean(name)), rosterName), width), restartOutcome(s))
			}
		})
	}
	work.Wait()
	stop()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if asJSON {
		if err := printJSON(a.stdout, results); err != nil {
			return err
		}
	}
	return failed
}

// restartOutcome returns the line about a restarted server, in the form of weir serve.
func restartOutcome(s api.Server) outcome {
	o, known := outcomeOf(gateway.UpstreamHealth{
		Name: s.Name, State: s.State, Listed: s.Listed, Tools: s.Tools, Resources: s.Resources, Prompts: s.Prompts, Error: s.Error, Note: s.Note,
	})
	if !known {
		return outcome{mark: markDown, style: yellow, text: "has not answered yet; weir ls shows what becomes of it"}
	}
	if o.mark == markUp {
		o.text += fmt.Sprintf(" · %d ms", s.TookMS)
	}
	return o
}

// printOutcome prints the line of a server: wrapped for a person, whole for a program.
func printOutcome(lines *screenLines, lead string, o outcome) {
	if lines.out.screen() {
		lines.print(time.Now(), o.style, o.mark, lead, o.text)
		return
	}
	fmt.Fprintf(lines.out, "%s %s  %s\n", o.mark, lead, oneLine(o.text))
}

// padded returns a text with spaces up to a number of characters.
func padded(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s)))
}
