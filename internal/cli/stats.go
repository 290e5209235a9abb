package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-mcp/weir/internal/observe"
	"github.com/weir-mcp/weir/internal/result/usage"
)

func statsCommand(a *process) *cobra.Command {
	var (
		t      target
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Show what calls cost, in tokens",
		Long: `Show what calls cost: the tokens (cl100k_base) that agents read, and those
that they would have read without the gateway: the definitions of all tools, once
for a session that lists or browses them, and results whole. For each open session
and in all. SAVED is below zero where the gateway cost more than it saved, as with
a few small tools.
With auth.tokens in the configuration it is the caller's own sessions. In a cluster
it is the sum of all nodes, or with --node what one of them counts.`,
		Example: "  weir stats --url http://127.0.0.1:8088/mcp",
		Args:    positional(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			at, token, err := askedGateway(a, cmd.Context(), t)
			if err != nil {
				return err
			}
			s := &observe.ClusterStats{}
			if err := fetchBeside(cmd.Context(), at, token, atNode("stats", t.node), s); err != nil {
				return err
			}
			if asJSON {
				return printJSON(a.stdout, s)
			}
			return printStats(a, s)
		},
	}
	t.runningFlags(cmd)
	t.nodeFlag(a, cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printStats(a *process, s *observe.ClusterStats) error {
	row := func(session, principal string, u usage.Usage) []cell {
		number := func(n int64) cell { return cell{"", strconv.FormatInt(n, 10)} }
		return []cell{{cyan, session}, {"", principal}, number(u.Calls), number(u.Failed), number(u.Tokens.Read), number(u.Tokens.Raw), {"", saved(u.Tokens)}}
	}
	var rows [][]cell
	for _, one := range s.Sessions {
		rows = append(rows, row(one.Session, one.Principal, one.Usage))
	}
	rows = append(rows, row("total", "", s.Total))
	if err := printTable(a.stdout, []column{{"SESSION", between}, {"PRINCIPAL", between}, {"CALLS", whole}, {"FAILED", whole}, {"READ", whole}, {"RAW", spare}, {"SAVED", whole}}, rows); err != nil {
		return err
	}
	a.note("tokens of %s since %s", s.Encoding, s.Since.Local().Format(time.DateTime))
	if len(s.Nodes) > 1 {
		a.note("the sum of %s", oneLine(strings.Join(s.Nodes, ", ")))
	}
	if len(s.Silent) > 0 {
		a.note("without %s: no answer within two seconds. Try again.", oneLine(strings.Join(s.Silent, ", ")))
	}
	if n := s.Total.Pending; n > 0 {
		a.note("%d results are still being counted", n)
	}
	if n := s.Total.Estimated; n > 0 {
		a.note("the tokens of %d large results are estimated from samples", n)
	}
	if n := s.Total.Uncounted; n > 0 {
		a.note("%d results were too many to be counted", n)
	}
	return nil
}

// saved describes how many tokens the gateway saved.
func saved(t usage.Tokens) string {
	if t.Raw == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f%%", 100*(1-float64(t.Read)/float64(t.Raw)))
}
