package cli

import (
	"bufio"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/search/selection"
)

// Limits on ids from standard input.
const (
	maxSelectIDs  = 10_000
	maxSelectLine = 4 << 10 // bytes
)

func selectCommand(a *process) *cobra.Command {
	var (
		t              target
		query, path    string
		variant, check string
		k              int
	)
	cmd := &cobra.Command{
		Use:   "select [ID...]",
		Short: "Bound a model's choice among tools",
		Long: `Bound a model's choice among tools: print the JSON Schema that lets it name
only one of some ids, or check what it has named. The ids are the arguments, the
lines of standard input where the only argument is -, or what the gateway finds
for --query or has at --path.

With --check, the named id is accepted where it is exact, repaired where only
white space or case differ or where it is the beginning of exactly one id, and
else rejected (exit code 4). What is ambiguous is rejected.`,
		Example: `  weir select a:b@1 a:c@1 --variant openai
  weir select --query "read a file" --top-k 5 --variant anthropic
  weir select a:b@1 a:c@1 --check A:B@1`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, err := selectIDs(a, cmd, t, args, browseArgs{Query: query, Path: path}, k)
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("check") {
				if len(ids) == 0 {
					return failf(exitUsage, "%w", selection.ErrNoCandidates)
				}
				s := selection.Validate(check, ids)
				if err := printJSON(a.stdout, s); err != nil {
					return err
				}
				if !s.OK() {
					return errQuiet(exitRefused)
				}
				return nil
			}
			schema, err := selection.Schema(ids, selection.Variant(variant))
			if err != nil {
				return failf(exitUsage, "%w", err)
			}
			return printJSON(a.stdout, schema)
		},
	}
	t.flags(cmd)
	cmd.Flags().StringVar(&query, "query", "", "choose among the tools that the gateway finds")
	cmd.Flags().StringVar(&path, "path", "", "choose among the tools at a path, such as /files")
	cmd.Flags().IntVarP(&k, "top-k", "k", metatool.DefaultTopK, fmt.Sprintf("most tools of --query, up to %d", metatool.MaxTopK))
	cmd.Flags().StringVar(&variant, "variant", string(selection.JSONSchema), "form of the schema: json_schema, openai or anthropic")
	oneOf(cmd, "variant", string(selection.JSONSchema), string(selection.OpenAI), string(selection.Anthropic))
	cmd.Flags().StringVar(&check, "check", "", "check this id instead of printing the schema")
	cmd.MarkFlagsMutuallyExclusive("query", "path")
	cmd.MarkFlagsMutuallyExclusive("variant", "check")
	return cmd
}

// selectIDs returns the ids to choose from.
func selectIDs(a *process, cmd *cobra.Command, t target, args []string, find browseArgs, k int) ([]string, error) {
	asked := find.Query != "" || find.Path != ""
	switch {
	case asked && len(args) > 0:
		return nil, failf(exitUsage, "give ids, or --query or --path, not both")
	case asked:
		if find.Query != "" {
			if k < 1 || k > metatool.MaxTopK {
				return nil, failf(exitUsage, "--top-k %d: it must be from 1 to %d", k, metatool.MaxTopK)
			}
			find.TopK = k
		}
		c, err := openTarget(a, cmd.Context(), t)
		if err != nil {
			return nil, err
		}
		defer c.close()
		offered, err := c.browse(cmd.Context(), find)
		if err != nil {
			return nil, err
		}
		var ids []string
		noteMissed(a, offered)
		for _, found := range offered.cards {
			if found.Kind != string(primitive.KindInternal) {
				ids = append(ids, found.ID)
			}
		}
		return ids, nil
	case len(args) == 1 && args[0] == "-":
		var ids []string
		lines := bufio.NewScanner(a.stdin)
		lines.Buffer(make([]byte, 0, 256), maxSelectLine)
		for lines.Scan() {
			id := strings.TrimSpace(lines.Text())
			if id == "" {
				continue
			}
			if ids = append(ids, id); len(ids) > maxSelectIDs {
				return nil, failf(exitUsage, "standard input holds more than %d ids", maxSelectIDs)
			}
		}
		if err := lines.Err(); err != nil {
			if errors.Is(err, bufio.ErrTooLong) {
				return nil, failf(exitUsage, "standard input holds a line of more than %d bytes: it is no id", maxSelectLine)
			}
			return nil, fmt.Errorf("reading ids: %w", err)
		}
		return ids, nil
	}
	return args, nil
}
