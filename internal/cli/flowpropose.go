package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/flow/propose"
	"github.com/weir-mcp/weir/internal/metatool/tools"
)

func flowProposeCommand(a *process) *cobra.Command {
	var (
		t      target
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "propose",
		Short: "Print a first flow section for the tools of the configured servers",
		Long: `Print a flow section to start from, made of the tools that the servers list: which
of them are sinks, which of their arguments are sensitive, whose results are
trusted, and which values of results a program may use. Each rule has its reason.

The rules are made of names, descriptions, schemas and hints, which the servers
have written. Read them line by line before you copy them into weir.yaml. Nothing
is changed by this command.`,
		Example: "  weir flow propose\n  weir flow propose --json > flow.json",
		Args:    positional(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := openTarget(a, cmd.Context(), t)
			if err != nil {
				return err
			}
			defer c.close()
			return flowPropose(cmd.Context(), c, a.stdout, asJSON)
		},
	}
	t.flags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON: the section, and the reason of each rule")
	return cmd
}

func flowPropose(ctx context.Context, c *client, to terminal, asJSON bool) error {
	all, err := c.definitionsOfAll(ctx)
	if err != nil {
		return err
	}
	list := make([]propose.Tool, len(all))
	for i, t := range all {
		namespace, _, _ := strings.Cut(t.Short, ":")
		list[i] = propose.Tool{
			ID: t.Short, Namespace: namespace, Server: t.Server, Name: t.Name, Description: t.Description,
			InputSchema: t.InputSchema, OutputSchema: t.OutputSchema, ReadOnly: t.ReadOnly, OpenWorld: t.OpenWorld,
		}
	}
	p := propose.For(list)
	if asJSON {
		return printJSON(to, proposalJSON(p))
	}
	if _, err = fmt.Fprintf(to, "# Proposed by weir flow propose for %s, of the servers' own words: read each rule.\n", counted(p.Tools, "tool")); err != nil {
		return err
	}
	for line := range strings.Lines(p.String()) {
		if _, err = fmt.Fprintln(to, to.legible(strings.TrimSuffix(line, "\n"))); err != nil {
			return err
		}
	}
	return nil
}

// definitionsOfAll returns all tools of the catalog with their definitions.
func (c *client) definitionsOfAll(ctx context.Context) ([]tools.Tool, error) {
	list, err := c.tools(ctx, tools.Query{})
	if err == nil && list.Total == 0 {
		// A gateway that has just started may not have listed its servers. Browsing waits for them.
		if _, browseErr := c.browse(ctx, browseArgs{Path: "/"}); browseErr == nil {
			list, err = c.tools(ctx, tools.Query{})
		}
	}
	switch {
	case err != nil:
		return nil, err
	case list.Total > len(list.Tools):
		return nil, failf(exitRefused, "%s has %d tools, more than one proposal can have (%d): ask for one of fewer servers with --config", c.where, list.Total, len(list.Tools))
	}
	for i, t := range list.Tools {
		whole, err := c.tools(ctx, tools.Query{Name: t.ID, Definitions: true})
		if err != nil {
			return nil, err
		}
		for _, one := range whole.Tools {
			if one.ID == t.ID {
				list.Tools[i] = one
			}
		}
	}
	return list.Tools, nil
}

// A proposedRule is a rule of a proposal in JSON.
type proposedRule struct {
	Tool      string   `json:"tool,omitempty"`
	Namespace string   `json:"namespace,omitempty"`
	Integrity string   `json:"integrity,omitempty"`
	Kind      string   `json:"kind,omitempty"`
	Sensitive []string `json:"sensitive,omitempty"`
	Types     []string `json:"types,omitempty"`
}

// proposedReason is why a proposal has a rule.
type proposedReason struct {
	Rule   string `json:"rule"`
	Reason string `json:"reason"`
}

// proposedFlow is a proposal in JSON. Flow is a section of a configuration.
type proposedFlow struct {
	Tools int `json:"tools"`
	Flow  struct {
		Mode       config.FlowMode `json:"mode"`
		Label      []proposedRule  `json:"label"`
		Sinks      []proposedRule  `json:"sinks"`
		Declassify []proposedRule  `json:"declassify"`
	} `json:"flow"`
	Reasons []proposedReason `json:"reasons"`
}

func proposalJSON(p propose.Proposal) proposedFlow {
	out := proposedFlow{Tools: p.Tools, Reasons: []proposedReason{}}
	why := func(list string, i int, reason string) {
		out.Reasons = append(out.Reasons, proposedReason{fmt.Sprintf("flow.%s[%d]", list, i), reason})
	}
	f := &out.Flow
	f.Mode, f.Label, f.Sinks, f.Declassify = config.FlowAsk, []proposedRule{}, []proposedRule{}, []proposedRule{}
	for i, l := range p.Labels {
		f.Label = append(f.Label, proposedRule{Tool: l.Tool, Namespace: l.Namespace, Integrity: l.Integrity})
		why("label", i, l.Why)
	}
	for i, s := range p.Sinks {
		f.Sinks = append(f.Sinks, proposedRule{Tool: s.Tool, Kind: s.Kind, Sensitive: s.Sensitive})
		why("sinks", i, s.Why)
	}
	for i, d := range p.Declassify {
		f.Declassify = append(f.Declassify, proposedRule{Tool: d.Tool, Types: d.Types})
		why("declassify", i, d.Why)
	}
	return out
}
