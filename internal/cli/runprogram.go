package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/metatool"
)

// runArgs are the arguments of tool_run.
type runArgs struct {
	Program string          `json:"program"`
	Input   json.RawMessage `json:"input,omitempty"`
	Resume  string          `json:"resume,omitempty"`
	Timeout float64         `json:"timeout,omitempty"`
}

// calledTool is one line of the table of calls.
type calledTool struct {
	ToolID      string `json:"tool_id"`
	Writes      bool   `json:"writes"`
	OK          int    `json:"ok"`
	Error       int    `json:"error"`
	Unknown     int    `json:"unknown"`
	FromJournal int    `json:"from_journal"`
}

func runCommand(a *process) *cobra.Command {
	var (
		t       target
		input   string
		resume  string
		within  time.Duration
		asJSON  bool
		quietly bool
	)
	cmd := &cobra.Command{
		Use:   "run FILE.js",
		Short: "Run a program that calls tools",
		Long: `Run a program that calls tools, as an agent runs it with tool_run: JavaScript, the
body of an async function. - reads it from standard input. docs/programs.md says
what is in its scope.

The result goes to standard output, as an agent would get it; each call, and a table
of the calls at the end, to standard error.

A program that failed names its run. Mend the program and pass the run to --resume:
calls that have a result are not made again. --resume last is the newest run, also if
weir or the gateway was killed.

A policy may want a person's approval: at a terminal you are asked.

--as NAME runs it for the caller whose token in auth.tokens has this name, in a gateway
of the command's own: the policy, limits and groups of that caller count. --profile
NAME runs it at a profile.`,
		Example: `  weir run report.js --input '{"day":"2026-11-27"}'
  weir run report.js --as ci
  weir run report.js --resume last`,
		Args: positional(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			source, err := readProgram(a, args[0])
			if err != nil {
				return err
			}
			q := runArgs{Program: source, Resume: resume, Timeout: within.Seconds()}
			if input != "" {
				if q.Input = json.RawMessage(input); !json.Valid(q.Input) {
					return failf(exitUsage, "--input must be JSON, such as '{\"day\":\"2026-11-27\"}'")
				}
			}
			ctx := cmd.Context()
			p := newPerson(a, ctx)
			t.person = p
			c, err := openTarget(a, ctx, t)
			if err != nil {
				return err
			}
			defer c.close()
			calling, end := p.callContext(ctx)
			defer end()
			format := "text"
			if asJSON {
				format = "json"
			}
			r, err := c.ask(calling, metatool.ToolRun, q, format, func(told progress) {
				if !quietly && (a.stderr.screen() || strings.HasPrefix(told.Message, dispatch.WaitsForYes)) {
					tellProgress(a, told)
				}
			})
			if err != nil {
				var refused *gatewayError
				if errors.As(err, &refused) && !quietly {
					showCalls(a, rawjson.Get(refused.Details, "calls"))
				}
				return refuse(a.stdout, p.explain(err), asJSON)
			}
			if !quietly {
				showCalls(a, rawjson.Get(r.Meta[metatool.MetaRun], "calls"))
			}
			if asJSON {
				return printJSON(a.stdout, r.forPrograms())
			}
			return printResult(a, r)
		},
	}
	t.flags(cmd)
	cmd.Flags().StringVar(&t.profile, "profile", "", "run it at this profile of the catalog")
	cmd.Flags().StringVar(&t.as, "as", "", "run it for this caller, the name of a token in auth.tokens, in a gateway of the command's own")
	cmd.Flags().StringVar(&input, "input", "", "the variable input of the program, as JSON")
	cmd.Flags().StringVar(&resume, "resume", "", "go on with this run, or with the last one: last")
	cmd.Flags().DurationVar(&within, "timeout", 0, "end the program after this time, e.g. 20s; default: programs.timeout")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&quietly, "quiet", false, "show no calls")
	return cmd
}

// readProgram reads a program from a file, or from standard input.
func readProgram(a *process, name string) (string, error) {
	in := a.stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return "", failf(exitUsage, "the program cannot be read: %w", err)
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, config.MaxProgram+1))
	switch {
	case err != nil:
		return "", failf(exitUsage, "the program cannot be read: %w", err)
	case len(data) > config.MaxProgram:
		return "", failf(exitUsage, "%s has more than %d bytes, the most of a program; pass data with --input", name, config.MaxProgram)
	}
	return string(data), nil
}

// showCalls prints the calls of a run.
func showCalls(a *process, raw json.RawMessage) {
	var all []calledTool
	if json.Unmarshal(raw, &all) != nil || len(all) == 0 {
		return
	}
	columns := []column{{"TOOL", between}, {"WRITES", whole}, {"OK", whole}, {"ERROR", whole}, {"UNKNOWN", whole}, {"FROM JOURNAL", whole}}
	var rows [][]cell
	for _, t := range all {
		writes := "no"
		if t.Writes {
			writes = "yes"
		}
		row := []cell{{"", oneLine(t.ToolID)}, {"", writes}}
		for _, n := range []int{t.OK, t.Error, t.Unknown, t.FromJournal} {
			row = append(row, cell{"", fmt.Sprint(n)})
		}
		rows = append(rows, row)
	}
	_ = printTable(a.stderr, columns, rows) // the result matters more
}
