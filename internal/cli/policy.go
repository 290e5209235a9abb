package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/host/place"
	"github.com/weir-mcp/weir/internal/metatool/tools"
	"github.com/weir-mcp/weir/internal/policy"
)

func policyCommand(a *process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Say what the policy decides about a call, and test it",
		Args:  positional(cobra.NoArgs),
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(policyWhyCommand(a), policyTestCommand(a))
	return cmd
}

// callFlags describe a call that is not made.
type callFlags struct {
	as, call, args        string
	profile               string
	groups, roles, scopes []string
}

func policyWhyCommand(a *process) *cobra.Command {
	var (
		t      target
		q      callFlags
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "why --as PRINCIPAL --call TOOL_ID",
		Short: "Say which rule decides about a call, and why",
		Long: `Say what the policy of a configuration decides about a call: the rule, its line in
the file, the value of each of its conditions, and whether the caller could make
the call with other arguments. The tool's tags and hints are those of the
gateway's catalog. No call is made.

A principal is the name of a token, issuer:subject, or cert:name. The groups,
roles and scopes are those that you give.`,
		Example: `  weir policy why --as ci --call files:delete_file --args '{"path":"a"}'
  weir policy why --as corp:u1 --groups sre,dev --scopes repo:write --call github:merge_pr`,
		Args: positional(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return policyWhy(a, cmd.Context(), t, q, asJSON) },
	}
	t.flags(cmd)
	fl := cmd.Flags()
	fl.StringVar(&q.as, "as", "", "the principal that calls")
	fl.StringVar(&q.call, "call", "", "the tool, or a URI that is read")
	fl.StringVar(&q.args, "args", "", "the arguments, a JSON object")
	fl.StringSliceVar(&q.groups, "groups", nil, "groups of the caller, separated by commas")
	fl.StringSliceVar(&q.roles, "roles", nil, "roles of the caller, separated by commas")
	fl.StringSliceVar(&q.scopes, "scopes", nil, "scopes of the caller's token, separated by commas")
	fl.StringVar(&q.profile, "profile", "", "the profile at whose URL the call is made")
	fl.BoolVar(&asJSON, "json", false, "print JSON")
	_ = cmd.MarkFlagRequired("as")
	_ = cmd.MarkFlagRequired("call")
	return cmd
}

func policyWhy(a *process, ctx context.Context, t target, q callFlags, asJSON bool) error {
	file, err := readPolicy(a, ctx, t.config)
	if err != nil {
		return err
	}
	call := policy.Call{As: q.as, Groups: q.groups, Roles: q.roles, Scopes: q.scopes, Profile: q.profile}
	if q.args != "" {
		var object map[string]json.RawMessage
		if err := json.Unmarshal([]byte(q.args), &object); err != nil || object == nil {
			return failf(exitUsage, "--args must be a JSON object, as {\"path\":\"a\"}")
		}
		call.Args = json.RawMessage(q.args)
	}
	if strings.Contains(q.call, "://") {
		call.URI, call.Known = q.call, true
	} else if call.Tool, call.Known, err = catalogTool(a, ctx, t, q.call); err != nil {
		return err
	}
	if q.profile != "" {
		if err := file.calls.CheckProfile(q.profile); err != nil {
			return failf(exitUsage, "--profile: %w", err)
		}
	}
	answer := file.why(call)
	if asJSON {
		return printJSON(a.stdout, answer)
	}
	return answer.print(a.stdout)
}

// catalogTool returns a tool as a gateway lists it. A tool that it does not list has only a name.
func catalogTool(a *process, ctx context.Context, t target, name string) (tool tools.Tool, known bool, err error) {
	c, err := openTarget(a, ctx, t)
	if err != nil {
		return tool, false, err
	}
	defer c.close()
	list, err := c.findTool(ctx, tools.Query{Name: name, Definitions: true})
	switch {
	case err != nil:
		return tool, false, err
	case len(list.Tools) == 0:
		a.note("%s lists no tool %q: its tags and hints are not known, so rules that deny or ask may match", c.where, name)
		return tools.Tool{ID: name}, false, nil
	}
	return list.Tools[0], true, nil
}

// policyFile is the policy of a configuration, with the places of its rules.
type policyFile struct {
	path  string
	calls *policy.Calls
	rules []config.PolicyRule
	lines []int // of the rules
	whole int   // line of the key policy, or 0
}

func readPolicy(a *process, ctx context.Context, path string) (*policyFile, error) {
	found, err := findConfig(a.lookupEnv, path)
	if err != nil {
		return nil, err
	}
	opts := configOptions(a, ctx)
	opts.Inputs = func(config.Input) (string, bool, error) { return "unknown", true, nil } // only rules are read
	c, _, err := config.Load(found.path, opts)
	if err != nil {
		return nil, err
	}
	f := &policyFile{path: found.path, calls: policy.CallsOf(c), rules: c.Policy.Rules, lines: make([]int, len(c.Policy.Rules))}
	if data, err := place.ReadFile(found.path); err == nil {
		f.locate(data)
	}
	return f, nil
}

// locate finds the lines of the rules.
func (f *policyFile) locate(data []byte) {
	var doc struct {
		Policy struct {
			Default yaml.Node   `yaml:"default"`
			Rules   []yaml.Node `yaml:"rules"`
		} `yaml:"policy"`
	}
	if yaml.Unmarshal(data, &doc) != nil {
		return
	}
	f.whole = doc.Policy.Default.Line
	for i := range min(len(f.lines), len(doc.Policy.Rules)) {
		f.lines[i] = doc.Policy.Rules[i].Line
	}
}

// policyAnswer is how a policy decides about a call, as it is printed.
type policyAnswer struct {
	Action   string      `json:"action"`
	Rule     string      `json:"rule"`
	File     string      `json:"file"`
	Line     int         `json:"line,omitempty"`
	Reason   string      `json:"reason,omitempty"`
	Possible bool        `json:"possible"` // with some arguments
	Scopes   []string    `json:"scopes,omitempty"`
	Hidden   string      `json:"hidden,omitempty"` // why the profile does not show it to the caller
	Tried    []ruleTried `json:"rules"`

	index int
}

// ruleTried is a rule that was looked at.
type ruleTried struct {
	Rule    string            `json:"rule"`
	Line    int               `json:"line,omitempty"`
	Action  string            `json:"action"`
	Observe bool              `json:"observe,omitempty"`
	Tool    bool              `json:"tool"` // it is about the tool
	Parts   map[string]string `json:"conditions,omitempty"`
	Why     map[string]string `json:"why,omitempty"`
	Decides bool              `json:"decides,omitempty"`
}

func ruleName(i int) string {
	switch i {
	case -1:
		return "policy.default"
	case -2:
		return "its spelling"
	}
	return fmt.Sprintf("policy.rules[%d]", i)
}

func (f *policyFile) why(call policy.Call) policyAnswer {
	got := f.calls.Why(call)
	out := policyAnswer{Action: string(got.Action), Rule: ruleName(got.Rule), File: f.path, Line: f.whole, Reason: got.Reason, Possible: got.Possible, Scopes: got.Scopes, Hidden: f.calls.Hidden(call), Tried: []ruleTried{}, index: got.Rule}
	if got.Rule >= 0 {
		out.Line = f.lines[got.Rule]
	}
	for _, t := range got.Tried {
		out.Tried = append(out.Tried, f.tried(t))
	}
	return out
}

func (f *policyFile) tried(t dispatch.Tried) ruleTried {
	one := ruleTried{Rule: ruleName(t.Rule), Line: f.lines[t.Rule], Action: string(t.Action), Observe: t.Observe, Tool: t.Subject, Decides: t.Decisive}
	for _, part := range t.Parts {
		if one.Parts == nil {
			one.Parts, one.Why = map[string]string{}, map[string]string{}
		}
		one.Parts[part.Name] = part.Value.String()
		if part.Why != "" {
			one.Why[part.Name] = part.Why
		}
	}
	return one
}

// partNames are the conditions in the order in which they are printed.
var partNames = []string{"groups", "principals", "roles", "scopes", "profile", "when"}

func (p *policyAnswer) print(to terminal) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, by %s", p.Action, p.Rule)
	if p.Line > 0 {
		fmt.Fprintf(&b, " (%s:%d)", p.File, p.Line)
	}
	if p.Reason != "" {
		fmt.Fprintf(&b, ": %s", p.Reason)
	}
	b.WriteByte('\n')
	for _, t := range p.Tried {
		fmt.Fprintf(&b, "  %s %s:", t.Rule, t.Action)
		switch {
		case t.Decides:
			b.WriteString(" decides")
		case !t.Tool:
			b.WriteString(" is not about this tool")
		case t.Observe:
			b.WriteString(" is only observed")
		default:
			b.WriteString(" does not match")
		}
		for _, name := range partNames {
			if value, set := t.Parts[name]; set {
				fmt.Fprintf(&b, "; %s: %s", name, value)
				if why := t.Why[name]; why != "" {
					fmt.Fprintf(&b, " (%s)", why)
				}
			}
		}
		b.WriteByte('\n')
	}
	if len(p.Scopes) > 0 {
		fmt.Fprintf(&b, "a token with these scopes may: %s\n", strings.Join(p.Scopes, " "))
	}
	if p.Hidden != "" {
		fmt.Fprintf(&b, "it does not exist there: %s\n", p.Hidden)
	}
	if p.Possible {
		b.WriteString("with some arguments the caller may call it\n")
	} else {
		b.WriteString("with no arguments may the caller call it\n")
	}
	_, err := fmt.Fprint(to, to.clean(b.String()))
	return err
}
