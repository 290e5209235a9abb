package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/weir-mcp/weir/internal/host/place"
	"github.com/weir-mcp/weir/internal/metatool/tools"
	"github.com/weir-mcp/weir/internal/policy"
)

func policyTestCommand(a *process) *cobra.Command {
	var (
		path   string
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "test FILE",
		Short: "Check the policy against a list of calls and what each must give",
		Long: `Check the policy of a configuration against a list of calls. Each row says who
calls what, and what the policy must decide:

  - {as: corp:u1, groups: [sre], call: github:merge_pr, tool: {destructive: true},
     args: {repo: acme/x}, want: require_approval, rule: 0}

as and want must be set, and call: a tool, or a URI that is read. groups, roles,
scopes, claims, source, profile and args are optional. tool has what its server
says of it: server, tags, read_only, destructive, idempotent, open_world. rule is
the number of the rule that must decide, or default.

No gateway is asked and no call is made. The exit code is 1 if a row fails. Rules
that decided no row are named.`,
		Example: "  weir policy test policy_test.yaml\n  weir policy test policy_test.yaml --config weir.yaml --json",
		Args:    positional(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return policyTest(a, cmd.Context(), path, args[0], asJSON)
		},
	}
	cmd.Flags().StringVar(&path, "config", "", "configuration (default: the one that weir serve finds here)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// policyRow is a call and the decision that the policy must make about it.
type policyRow struct {
	As     string         `yaml:"as"`
	Groups []string       `yaml:"groups"`
	Roles  []string       `yaml:"roles"`
	Scopes []string       `yaml:"scopes"`
	Claims map[string]any `yaml:"claims"`
	Source string         `yaml:"source"`
	// Profile is where the call is made.
	Profile string `yaml:"profile"`
	Call    string `yaml:"call"`
	Tool    struct {
		Server      string   `yaml:"server"`
		Tags        []string `yaml:"tags"`
		ReadOnly    bool     `yaml:"read_only"`
		Destructive bool     `yaml:"destructive"`
		Idempotent  bool     `yaml:"idempotent"`
		OpenWorld   bool     `yaml:"open_world"`
	} `yaml:"tool"`
	Args map[string]any `yaml:"args"`
	Want string         `yaml:"want"`
	Rule string         `yaml:"rule"`

	line int
}

// call returns the call of a row.
func (r *policyRow) call() (policy.Call, error) {
	out := policy.Call{As: r.As, Groups: r.Groups, Roles: r.Roles, Scopes: r.Scopes, Claims: r.Claims, Source: r.Source, Profile: r.Profile, Known: true}
	if r.Args != nil {
		raw, err := json.Marshal(r.Args)
		if err != nil {
			return out, fmt.Errorf("args: %w", err)
		}
		out.Args = raw
	}
	if strings.Contains(r.Call, "://") {
		out.URI = r.Call
		out.Tool.Server = r.Tool.Server
		return out, nil
	}
	out.Tool = tools.Tool{ID: r.Call, Server: r.Tool.Server, Tags: r.Tool.Tags, ReadOnly: r.Tool.ReadOnly, Destructive: r.Tool.Destructive, Idempotent: r.Tool.Idempotent, OpenWorld: r.Tool.OpenWorld}
	return out, nil
}

// readRows reads a list of rows. Unknown keys are errors, because a misspelt one would test another
// call.
func readRows(path string) ([]policyRow, error) {
	data, err := place.ReadFile(path)
	if err != nil {
		return nil, failf(exitUsage, "%w", err)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	var rows []policyRow
	if err := decoder.Decode(&rows); err != nil && !errors.Is(err, io.EOF) {
		return nil, failf(exitUsage, "%s: %w", path, err)
	}
	var nodes []yaml.Node
	if yaml.Unmarshal(data, &nodes) != nil || len(nodes) != len(rows) || len(rows) == 0 {
		return nil, failf(exitUsage, "%s must be a list of calls; weir policy test --help shows one", path)
	}
	for i := range rows {
		r := &rows[i]
		r.line = nodes[i].Line
		switch r.Want {
		case "allow", "deny", "require_approval":
		default:
			return nil, failf(exitUsage, "%s:%d: want must be allow, deny or require_approval, not %q", path, r.line, r.Want)
		}
		if r.As == "" || r.Call == "" {
			return nil, failf(exitUsage, "%s:%d: as and call must be set", path, r.line)
		}
		if _, err := strconv.Atoi(r.Rule); err != nil && r.Rule != "" && r.Rule != "default" {
			return nil, failf(exitUsage, "%s:%d: rule must be the number of a rule, or default, not %q", path, r.line, r.Rule)
		}
	}
	return rows, nil
}

// policyMiss is a row that failed.
type policyMiss struct {
	Line int          `json:"line"`
	Call string       `json:"call"`
	Want string       `json:"want"`
	Rule string       `json:"rule,omitempty"`
	Got  policyAnswer `json:"got"`
}

func policyTest(a *process, ctx context.Context, config, path string, asJSON bool) error {
	file, err := readPolicy(a, ctx, config)
	if err != nil {
		return err
	}
	rows, err := readRows(path)
	if err != nil {
		return err
	}
	out := struct {
		Rows    int          `json:"rows"`
		Missed  []policyMiss `json:"missed"`
		Unused  []string     `json:"never_decided"`
		unlines []int
	}{Rows: len(rows), Missed: []policyMiss{}, Unused: []string{}}
	decided := make([]bool, len(file.rules))
	for i := range rows {
		r := &rows[i]
		call, err := r.call()
		if err != nil {
			return failf(exitUsage, "%s:%d: %w", path, r.line, err)
		}
		got := file.why(call)
		if got.index >= 0 {
			decided[got.index] = true
		}
		byRule := r.Rule == "" || r.Rule == strconv.Itoa(got.index) || r.Rule == "default" && got.index < 0
		if got.Action != r.Want || !byRule {
			out.Missed = append(out.Missed, policyMiss{r.line, r.Call, r.Want, r.Rule, got})
		}
	}
	for i := range file.rules {
		if !decided[i] && !file.rules[i].Observe {
			out.Unused, out.unlines = append(out.Unused, ruleName(i)), append(out.unlines, file.lines[i])
		}
	}
	if asJSON {
		err = printJSON(a.stdout, out)
	} else {
		for _, m := range out.Missed {
			want := m.Want
			if m.Rule != "" {
				want += " by rule " + m.Rule
			}
			if _, err = fmt.Fprintf(a.stdout, "%s:%d: %s: wanted %s, got %s by %s (%s:%d)\n", path, m.Line, a.stdout.clean(m.Call), want, m.Got.Action, m.Got.Rule, file.path, m.Got.Line); err != nil {
				return err
			}
		}
		for i, rule := range out.Unused {
			a.note("%s (%s:%d) decided no row", rule, file.path, out.unlines[i])
		}
		_, err = fmt.Fprintf(a.stdout, "%s, %d missed\n", counted(len(rows), "row"), len(out.Missed))
	}
	if err == nil && len(out.Missed) > 0 {
		return errQuiet(exitTool)
	}
	return err
}
