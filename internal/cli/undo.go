package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-mcp/weir/internal/setup"
	"github.com/weir-mcp/weir/internal/setup/journal"
)

func undoCommand(a *process) *cobra.Command {
	var c changing
	var list bool
	cmd := &cobra.Command{
		Use:   "undo [N]",
		Short: "Take back the last change of weir's, or the Nth",
		Long: `Take back the last operation that changed weir.yaml or a client's file, or with N
the one of that number. A file that is as weir left it gets its old bytes back. In
any other file, weir's entries go and what weir took out comes back; everything
else in it stays. An undo can be taken back by its own number.`,
		Example: `  weir undo --list
  weir undo 3`,
		Args:              positional(cobra.MaximumNArgs(1)),
		ValidArgsFunction: a.completeOperations(),
		RunE: func(cmd *cobra.Command, args []string) error {
			n := 0
			if len(args) == 1 {
				var err error
				if n, err = strconv.Atoi(args[0]); err != nil || n < 1 {
					return failf(exitUsage, "%q is no number of an operation; weir undo --list shows them", args[0])
				}
			}
			m, err := a.machine(c.config)
			if err != nil {
				return err
			}
			if list {
				return listOperations(a.stdout, m, c.asJSON)
			}
			return runUndo(a, cmd.Context(), &c, m, n)
		},
	}
	c.flags(cmd)
	cmd.Flags().BoolVar(&list, "list", false, "list the operations")
	return cmd
}

// stateOf says whether an operation stands.
func stateOf(r journal.Record) string {
	switch {
	case r.UndoneBy != 0:
		return "undone by " + strconv.Itoa(r.UndoneBy)
	case !r.Done:
		return "interrupted"
	}
	return "done"
}

func listOperations(stdout terminal, m *setup.Machine, asJSON bool) error {
	all, err := m.Journal.List()
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(stdout, operationsJSON(all))
	}
	if len(all) == 0 {
		_, err := fmt.Fprintln(stdout, "weir has changed nothing yet.")
		return err
	}
	slices.Reverse(all)
	var rows [][]cell
	for _, r := range all {
		style := ""
		if r.UndoneBy != 0 {
			style = dim
		}
		rows = append(rows, []cell{{cyan, strconv.Itoa(r.N)}, {"", r.Time.Local().Format("01-02 15:04")}, {style, stateOf(r)}, {style, r.Kind + ": " + r.Summary}})
	}
	return printTable(stdout, []column{{"N", whole}, {"WHEN", whole}, {"STATE", whole}, {"WHAT", wrapped}}, rows)
}

// operationJSON is an operation for programs, without the bytes that it cut.
type operationJSON struct {
	N       int       `json:"n"`
	Kind    string    `json:"kind"`
	Summary string    `json:"summary"`
	Time    time.Time `json:"time"`
	State   string    `json:"state"`
	Files   []string  `json:"files"`
}

func operationsJSON(all []journal.Record) []operationJSON {
	out := []operationJSON{}
	for _, r := range all {
		o := operationJSON{N: r.N, Kind: r.Kind, Summary: r.Summary, Time: r.Time, State: stateOf(r), Files: []string{}}
		for _, f := range r.Files {
			o.Files = append(o.Files, f.File)
		}
		out = append(out, o)
	}
	return out
}

// runUndo shows which operation would be taken back, asks, and takes it back.
func runUndo(a *process, ctx context.Context, c *changing, m *setup.Machine, n int) error {
	all, err := m.Journal.List()
	if err != nil {
		return err
	}
	at := -1
	for i, r := range all {
		if n == 0 && r.Kind != "undo" && r.UndoneBy == 0 || n != 0 && r.N == n {
			at = i
		}
	}
	if at < 0 {
		if n != 0 {
			return failf(exitUsage, "there is no operation %d; weir undo --list shows them", n)
		}
		return failf(exitUsage, "there is nothing to undo")
	}
	r := all[at]
	if !c.asJSON {
		heading(a.stdout, fmt.Sprintf("Undo %d: %s, %s", r.N, r.Kind, r.Summary))
		for _, f := range r.Files {
			item(a.stdout, "", "·", a.tilde(f.File), "")
		}
		for _, s := range r.Steps {
			if s.Do == setup.RestoreService {
				s.Name = "" // settings, only for weir
			}
			item(a.stdout, "", "·", s.Do, s.Name)
		}
	}
	ok, err := c.agree(a, ctx, "Take it back?")
	if err != nil || !ok {
		if c.asJSON {
			return errors.Join(printJSON(a.stdout, operationsJSON(all[at:at+1])), err)
		}
		return err
	}
	stop := a.spin("writing")
	u, err := m.Undo(ctx, r.N)
	stop()
	if errors.Is(err, journal.ErrNothing) || errors.Is(err, journal.ErrChanged) {
		err = &failure{exitUsage, err}
	}
	if u == nil || err != nil && u.By == 0 {
		return err
	}
	return errors.Join(showUndone(a, c, u), err)
}

// showUndone prints the effect of an undo on each file.
func showUndone(a *process, c *changing, u *journal.Undone) error {
	type fileJSON struct {
		File  string   `json:"file"`
		Exact bool     `json:"exact"`
		Kept  []string `json:"kept"`
		Taken []string `json:"taken"`
	}
	files := []fileJSON{}
	for _, f := range u.Files {
		line := fileJSON{File: f.File, Exact: f.Exact, Kept: []string{}, Taken: []string{}}
		for _, path := range f.Kept {
			line.Kept = append(line.Kept, path.String())
		}
		for _, path := range f.Taken {
			line.Taken = append(line.Taken, path.String())
		}
		files = append(files, line)
	}
	if c.asJSON {
		return printJSON(a.stdout, struct {
			Undone int        `json:"undone"`
			By     int        `json:"by"`
			Files  []fileJSON `json:"files"`
		}{u.Record.N, u.By, files})
	}
	for _, f := range files {
		text := "as before"
		if !f.Exact {
			text = "weir's changes are out; others stay"
		}
		item(a.stdout, green, "✓", a.tilde(f.File), text)
		for _, path := range f.Kept {
			item(a.stdout, yellow, "!", path, "is another entry by now, and stays")
		}
		for _, path := range f.Taken {
			item(a.stdout, yellow, "!", path, "did not come back: the name is taken by now")
		}
	}
	for _, step := range u.Steps {
		if step.Do == setup.RemoveSecret {
			item(a.stdout, yellow, "!", step.Name, "is out of the store; the way back needs it: weir secret set "+step.Name)
		}
	}
	_, err := fmt.Fprintf(a.stdout, "%s Undone. To take that back: weir undo %d\n", a.stdout.paint(green, "✓"), u.By)
	return err
}

// completeOperations completes the numbers of the journal, the latest first.
func (a *process) completeOperations() cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		m, err := a.machine("")
		if err != nil || len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		all, err := m.Journal.List()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var out []string
		for _, r := range slices.Backward(all) {
			if r.UndoneBy == 0 {
				out = append(out, fmt.Sprintf("%d\t%s: %s", r.N, r.Kind, r.Summary))
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}
