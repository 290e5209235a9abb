package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/web"
	"github.com/weir-mcp/weir/internal/web/api"
)

func configShowCommand(a *process) *cobra.Command {
	var asJSON, origins, set bool
	var path string
	cmd := &cobra.Command{
		Use:   "show [KEY...]",
		Short: "Print the configuration in effect: each key, its value and where it comes from",
		Long: `Read a configuration as "weir serve" would and print every key with the value
that is in effect, defaults included. KEY narrows the list to keys that start with it,
such as http or mcpServers.files. Secrets are ***. Nothing is started, and no
command of inputs runs.`,
		Example: "  weir config show --origins mcpServers.files\n  weir config show --set --origins",
		RunE: func(cmd *cobra.Command, args []string) error {
			return showConfig(a, cmd.Context(), path, args, set, origins, asJSON)
		},
	}
	cmd.Flags().StringVar(&path, "config", "", "configuration file (default: as weir serve finds it)")
	cmd.Flags().BoolVar(&origins, "origins", false, "say where each value comes from: the file and its line, a variable, a flag or the default")
	cmd.Flags().BoolVar(&set, "set", false, "leave defaults out")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func showConfig(a *process, ctx context.Context, path string, keys []string, set, origins, asJSON bool) error {
	found, err := findConfig(a.lookupEnv, path)
	if err != nil {
		return err
	}
	opts := configOptions(a, ctx)
	opts.Inputs = unasked
	c, warnings, err := config.Load(found.path, opts)
	if of := ofAgent(found.path, err); of != nil {
		warnings, err = nil, of
	}
	warn(a.stderr, warnings)
	if err != nil {
		return err
	}
	all := web.Settings(c, keys, set)
	if len(all) == 0 && len(keys) > 0 {
		return failf(exitUsage, "no key with a value starts with %s: weir config show lists all", strings.Join(keys, " or "))
	}
	if asJSON {
		return printJSON(a.stdout, struct {
			File     string        `json:"file"`
			Settings []api.Setting `json:"settings"`
		}{found.path, all})
	}
	columns := []column{{"KEY", between}, {"VALUE", ending}}
	if origins {
		columns = append(columns, column{"FROM", ending})
	}
	rows := make([][]cell, len(all))
	for i, one := range all {
		rows[i] = []cell{{"", one.Key}, {"", valueText(one.Value)}}
		if origins {
			rows[i] = append(rows[i], cell{dim, one.Source})
		}
	}
	return printTable(a.stdout, columns, rows)
}

// unasked answers inputs without a question and without a command.
func unasked(in config.Input) (string, bool, error) {
	switch in.Type {
	case config.InputCommand:
		return "(output of " + filepath.Base(in.Command) + ")", true, nil
	case config.InputPick:
		return "", false, nil
	}
	if in.Default != nil {
		return "", false, nil
	}
	return "(asked for)", true, nil
}

// valueText writes a value for people: texts as they are, lists as JSON.
func valueText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case []string:
		raw, _ := json.Marshal(v) // of texts
		return string(raw)
	}
	return fmt.Sprint(v)
}
