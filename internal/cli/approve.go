package cli

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-mcp/weir/internal/policy/approval"
	"github.com/weir-mcp/weir/internal/web/api"
)

func approveCommand(a *process) *cobra.Command {
	var t target
	var d api.Decision
	var deny, list, asJSON, yes bool
	cmd := &cobra.Command{
		Use:   "approve [ID]",
		Short: "Approve calls that wait for a yes",
		Long: `Approve calls that wait for a yes: calls under require_approval of the policy whose
client cannot ask a person. They wait for policy.approval_wait, 5 minutes by default.

Without an ID it asks about the calls that wait, one by one; without a terminal, or
with --list, it lists them. What will run is shown with each argument, its length, and
both ends of what is too long. A call of which not everything is shown is approved
only with --unseen.

A program that makes many calls (tool_run) asks at the first one. --calls allows it as
many calls of this tool in its run, whatever their arguments.`,
		Example: `  weir approve
  weir approve k3x7qa --yes
  weir approve k3x7qa --deny --reason "not on a Friday"`,
		Args: positional(cobra.MaximumNArgs(1)),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return completeApprovals(a, cmd.Context(), t, args), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && (yes || deny || d.Reason != "" || d.Unseen || d.Calls != 0) {
				return failf(exitUsage, "--yes, --deny, --reason, --unseen and --calls are about one call: give its ID")
			}
			if yes && deny {
				return failf(exitUsage, "--yes approves the call and --deny refuses it: give one of them")
			}
			ctx := cmd.Context()
			o, err := findOperator(a, ctx, t)
			if err != nil {
				return err
			}
			if len(args) == 1 {
				d.Decision = api.DecisionApprove
				if deny {
					d.Decision = api.DecisionDeny
				}
				c, err := o.decide(ctx, args[0], d)
				if err == nil && asJSON {
					return printJSON(a.stdout, c)
				}
				if err == nil {
					a.note("%s", decided(d, c))
				}
				return err
			}
			var all api.Approvals
			if err := o.get(ctx, "approvals", &all); err != nil {
				return err
			}
			if len(all.Silent) > 0 {
				a.note("Calls may also wait at %s: no answer within two seconds. Try again.", oneLine(strings.Join(all.Silent, ", ")))
			}
			keyboard, there := newQuestions(a)
			switch {
			case asJSON:
				return printJSON(a.stdout, all.Approvals)
			case len(all.Approvals) == 0 && len(all.Silent) > 0:
				a.note("No call waits for a yes at the other gateways.")
				return nil
			case len(all.Approvals) == 0:
				a.note("No call waits for a yes.")
				return nil
			case list || !there:
				for _, c := range all.Approvals {
					showApproval(a.stdout, c)
				}
				return nil
			}
			return askApprovals(a, ctx, o, keyboard, all.Approvals)
		},
	}
	t.operatorFlags(cmd)
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "approve the call of this ID, as is done without it: nothing is asked")
	cmd.Flags().BoolVar(&deny, "deny", false, "refuse the call")
	cmd.Flags().StringVar(&d.Reason, "reason", "", "tell the agent why")
	cmd.Flags().BoolVar(&d.Unseen, "unseen", false, "approve although not all of the arguments are shown")
	cmd.Flags().IntVar(&d.Calls, "calls", 0, "allow the program that asks so many calls of this tool, this one included")
	cmd.Flags().BoolVar(&list, "list", false, "list the calls and ask nothing")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// decide sends a decision and returns the call that it is about.
func (o *operator) decide(ctx context.Context, id string, d api.Decision) (c approval.Call, err error) {
	return c, o.post(ctx, "approvals/"+url.PathEscape(id), d, &c)
}

// decided returns the line about a decision.
func decided(d api.Decision, c approval.Call) string {
	if d.Decision == api.DecisionDeny {
		return "denied: " + oneLine(c.Tool)
	}
	return "approved: " + oneLine(c.Tool)
}

// showApproval prints a call that waits: its question, who asks, and for how long yet.
func showApproval(out terminal, c approval.Call) {
	who := oneLine(c.Principal)
	if c.Client != "" {
		who += " with " + oneLine(c.Client)
	}
	if c.Node != "" {
		who += " at " + oneLine(c.Node)
	}
	left := max(0, time.Until(c.Until)).Round(time.Second)
	fmt.Fprintf(out, "%s  %s\n", out.paint(cyan, c.ID), out.paint(dim, out.clean(fmt.Sprintf("asked by %s, waits %s more", who, left))))
	for line := range strings.Lines(c.Message) {
		fmt.Fprintln(out, "  "+out.clean(strings.TrimRight(line, "\n")))
	}
	fmt.Fprintln(out)
}

// askApprovals asks a person about calls, one by one.
func askApprovals(a *process, ctx context.Context, o *operator, keyboard *questions, calls []approval.Call) error {
	for _, c := range calls {
		showApproval(a.stderr, c)
		d := api.Decision{Unseen: c.Partly}
		prompt, yes := "Allow it? y: yes, n: no, Enter: leave it waiting", "y"
		if c.Partly { // a habit must not approve arguments that are not shown
			prompt, yes = "Not everything is shown. Allow it? yes in full: yes, n: no, Enter: leave it waiting", "yes"
		}
		if c.Calls > 1 {
			prompt += fmt.Sprintf(", a number up to %d: as many calls of this tool in its run", c.Calls)
		}
		for answered := false; !answered; {
			answer, err := keyboard.line(ctx, a.stderr.paint(bold, prompt), false)
			if err != nil {
				return err
			}
			n, number := strconv.Atoi(strings.TrimSpace(answer))
			switch answer = strings.ToLower(strings.TrimSpace(answer)); {
			case number == nil && !c.Partly && n >= 1 && n <= c.Calls:
				d.Decision, d.Calls = api.DecisionApprove, n
			case answer == yes, answer == "yes":
				d.Decision = api.DecisionApprove
			case answer == "n", answer == "no":
				d.Decision = api.DecisionDeny
			}
			answered = d.Decision != "" || answer == ""
		}
		if d.Decision == "" {
			continue
		}
		switch done, err := o.decide(ctx, c.ID, d); {
		case exitCode(err) == exitRefused: // it waits no longer
			a.note("%v", err)
		case err != nil:
			return err
		default:
			a.note("%s", decided(d, done))
		}
	}
	return nil
}

// completeTimeout bounds the wait of a completion.
const completeTimeout = 300 * time.Millisecond

// completeApprovals returns the ids of the calls that wait at the running gateway.
func completeApprovals(a *process, ctx context.Context, t target, args []string) (ids []cobra.Completion) {
	if len(args) > 0 {
		return nil
	}
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, completeTimeout)
	defer cancel()
	o, err := findOperator(a, ctx, t)
	if err != nil {
		return nil
	}
	var all api.Approvals
	if o.get(ctx, "approvals", &all) != nil {
		return nil
	}
	for _, c := range all.Approvals {
		ids = append(ids, cobra.CompletionWithDesc(c.ID, cut(oneLine(c.Tool), 60)))
	}
	return ids
}
