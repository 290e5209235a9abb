package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-mcp/weir/internal/gateway"
	"github.com/weir-mcp/weir/internal/gateway/result"
)

func callCommand(a *process) *cobra.Command {
	var (
		t       target
		pairs   []string
		whole   string
		output  string
		agent   string
		columns string
		mode    string
	)
	cmd := &cobra.Command{
		Use:   "call TOOL_ID [--arg NAME=VALUE ... | --json ARGS]",
		Short: "Run a tool by its id",
		Long: `Run a tool by its id, as weir search and weir browse print it, and print the
result as an agent would get it. A long result is described and kept: its handle
is for weir view.

Arguments are given one by one or as one JSON object:
  --arg NAME=VALUE   read as the tool's schema asks: a text, a number, true or
                     false; given several times, a list
  --arg NAME:=JSON   exactly this JSON
  --json ARGS        '{"name": …}', @FILE, or - for standard input

--json without ARGS, like --output json, prints the result for programs: the
envelope with status, facts, artifacts and views. An error of the gateway is
printed as JSON, too.

With --agent NAME the tool is one of that agent, by its own name, and the result
is the agent's as it is: nothing is held back. A tool that is answered with a
task is waited for. Without --url, the router is that of $ROUTER_HOST and
$ROUTER_PORT; $AGENT_TOKEN takes the place of $WEIR_TOKEN.`,
		Example: `  weir call 'notes:create_note#e44e4acc' --arg title=Weir --arg text='A low dam.'
  weir call 'inventory:check_stock#322945ee' --json '{"sku":"BIK-001"}' -o json
  weir call --agent stock count --arg sku=BIK-001`,
		Args: positional(cobra.RangeArgs(1, 2)),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return completeToolIDs(a, cmd.Context(), t, word), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			id, rest := splitCall(args)
			if id == "" {
				return failf(exitUsage, "which tool? Usage: %s", cmd.UseLine())
			}
			if whole == noValue {
				if whole = rest; whole == "" {
					output = "json"
				}
			} else if rest != "" {
				return failf(exitUsage, "weir call runs one tool, and %q is one too many; arguments go behind --json or --arg", rest)
			}
			if output != "text" && output != "json" {
				return failf(exitUsage, "--output %q: it must be text or json", output)
			}
			given, err := parseToolArgs(pairs, whole, a.stdin)
			if err != nil {
				return err
			}
			if agent != "" {
				if t.config != "" {
					return failf(exitUsage, "--agent and --config: an agent is behind a weir that runs, at --url")
				}
				return callAgent(a, cmd.Context(), t, agent, id, given, output)
			}
			what := executeArgs{ToolID: id, Domains: columns, Mode: mode}
			return callTool(a, cmd.Context(), t, what, given, output)
		},
	}
	t.flags(cmd)
	cmd.Flags().StringVar(&agent, "agent", "", "the tool is one of this agent, by its own name")
	cmd.Flags().StringVar(&columns, "columns", "", "of a result that is a table, print these columns only, and a resource_url for the others (abstract_domains)")
	cmd.Flags().StringVar(&mode, "mode", "", "with --columns: async (the default) or sync")
	cmd.Flags().StringArrayVar(&pairs, "arg", nil, "an argument, NAME=VALUE or NAME:=JSON; may be repeated")
	optional(cmd, &whole, "json", "all arguments as JSON: `ARGS`, @FILE or -; without a value: print JSON")
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	oneOf(cmd, "output", "text", "json")
	oneOf(cmd, "mode", "async", "sync")
	return cmd
}

// splitCall separates the tool id from JSON arguments. JSON that is not joined to --json with "="
// is a positional argument. An id begins with a letter, JSON does not.
func splitCall(args []string) (id, rest string) {
	for _, arg := range args {
		isID := arg != "" && arg != "-" && arg[0] != '{' && arg[0] != '@'
		switch {
		case isID && id == "":
			id = arg
		default:
			rest = arg
		}
	}
	return id, rest
}

// executeArgs are the arguments of tool_execute.
type executeArgs struct {
	ToolID string          `json:"tool_id"`
	Args   json.RawMessage `json:"args"`

	Domains string `json:"abstract_domains,omitempty"`
	Mode    string `json:"mode,omitempty"`
}

func callTool(a *process, ctx context.Context, t target, what executeArgs, given toolArgs, output string) error {
	c, err := openTarget(a, ctx, t)
	if err != nil {
		return err
	}
	defer c.close()
	stop := a.spin("running " + what.ToolID)
	defer stop()
	var tell func(progress)
	if a.stderr.screen() {
		tell = func(p progress) {
			stop()
			tellProgress(a, p)
		}
	}
	r, err := c.execute(ctx, what, given, output, tell)
	stop()
	if err != nil {
		if output == "text" {
			return c.withParameters(ctx, err)
		}
		return refuse(a, err, true)
	}
	if output == "json" {
		err = printJSON(a.stdout, r.forPrograms())
	} else {
		err = printResult(a, r)
	}
	if err != nil {
		return err
	}
	switch handles := r.handles(); {
	case len(handles) == 0:
	case c.own:
		a.note("The handle ends with this command. To use weir view, run weir serve --config %s and call the tool there.", c.where)
	case a.stderr.screen():
		a.note("To read more: weir view %s (see weir help selectors)", handles[0])
	}
	if r.IsError {
		return errQuiet(exitTool)
	}
	return nil
}

// refuse returns err. If output is JSON, it first prints the gateway's error.
func refuse(a *process, err error, asJSON bool) error {
	var refused *gatewayError
	if asJSON && errors.As(err, &refused) {
		if printed := printJSON(a.stdout, refused.raw); printed != nil {
			return printed
		}
	}
	return err
}

// withParameters adds the tool's parameters to an error about arguments.
func (c *client) withParameters(ctx context.Context, err error) error {
	var refused *gatewayError
	if !errors.As(err, &refused) || refused.Code != result.ArgsInvalid {
		return err
	}
	if text := parametersText(c.schemaIn(ctx, refused)); text != "" {
		return fmt.Errorf("%w\n%s", err, text)
	}
	return err
}

// execute runs a tool. It guesses the types of arguments given one by one, and reads them by the
// schema if the guess does not fit; see toolArgs.
func (c *client) execute(ctx context.Context, what executeArgs, given toolArgs, format string, tell func(progress)) (*toolResult, error) {
	guess, err := given.json(nil)
	if err != nil {
		return nil, err
	}
	what.Args = guess
	r, err := c.ask(ctx, gateway.ToolExecute, what, format, tell)
	var refused *gatewayError
	if given.whole != nil || !errors.As(err, &refused) || refused.Code != result.ArgsInvalid {
		return r, err
	}
	schema := c.schemaIn(ctx, refused)
	if schema == nil {
		return r, err
	}
	typed, typeErr := given.json(schema)
	if typeErr != nil || string(typed) == string(guess) {
		return r, err
	}
	what.Args = typed
	return c.ask(ctx, gateway.ToolExecute, what, format, tell)
}

// schemaIn returns the schema in an ARGS_INVALID error, nil if there is none. It fetches a schema
// that was too large for the error with tool_view.
func (c *client) schemaIn(ctx context.Context, e *gatewayError) json.RawMessage {
	var details struct {
		Schema json.RawMessage `json:"schema"`
		Handle string          `json:"schema_handle"`
	}
	if json.Unmarshal(e.Details, &details) != nil {
		return nil
	}
	if details.Schema != nil || details.Handle == "" {
		return details.Schema
	}
	properties := json.RawMessage(`{"type":"json_keys","keys":["properties"]}`)
	r, err := c.ask(ctx, gateway.ToolView, viewArgs{details.Handle, properties}, "text", nil)
	if err != nil || len(r.Content) == 0 || !json.Valid([]byte(r.Content[0].Text)) {
		return nil
	}
	return json.RawMessage(r.Content[0].Text)
}

// tellProgress shows one progress notification.
func tellProgress(a *process, p progress) {
	text := fmt.Sprintf("%g", p.Progress)
	if p.Total > 0 {
		text = fmt.Sprintf("%g/%g", p.Progress, p.Total)
	}
	if p.Message != "" {
		text += " " + strings.Join(strings.Fields(p.Message), " ")
	}
	a.note("… %s", cut(text, a.stderr.width-3))
}

// forPrograms returns the JSON for programs: the envelope, or the whole result if it has no
// envelope.
func (r *toolResult) forPrograms() json.RawMessage {
	if len(r.Structured) > 0 {
		return r.Structured
	}
	return r.raw
}

// handles returns the handles of the parts that were held back.
func (r *toolResult) handles() []string {
	var envelope struct {
		Artifacts []struct{ Handle string }
	}
	raw := r.Meta[result.MetaEnvelope]
	if raw == nil {
		raw = r.Structured
	}
	if raw == nil || json.Unmarshal(raw, &envelope) != nil {
		return nil
	}
	var handles []string
	for _, artifact := range envelope.Artifacts {
		handles = append(handles, artifact.Handle)
	}
	return handles
}

// printResult prints a result: texts unchanged, and one line for each other part. On a screen it
// indents JSON. A tool's error text goes to stderr.
func printResult(a *process, r *toolResult) error {
	out := a.stdout
	if r.IsError {
		out = a.stderr
	}
	for _, p := range r.Content {
		var text string
		switch p.Type {
		case "text":
			text = p.Text
			if out.screen() {
				text = indented(text)
			}
		case "image", "audio":
			text = fmt.Sprintf("[%s, %s, %s]", p.Type, p.MimeType, sizeText(len(p.Data)/4*3))
		case "resource_link":
			text = fmt.Sprintf("[resource %s %s]", p.Name, p.URI)
		default:
			text = fmt.Sprintf("[%s: print it with --output json]", p.Type)
		}
		if !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		if _, err := fmt.Fprint(out, out.clean(text)); err != nil {
			return err
		}
	}
	return nil
}

// indented returns a text for people: JSON arrays and objects are indented, other texts are
// unchanged.
func indented(text string) string {
	trimmed := strings.TrimSpace(text)
	if trimmed == "" || trimmed[0] != '{' && trimmed[0] != '[' || strings.Contains(trimmed, "\n") {
		return text
	}
	var out bytes.Buffer
	if json.Indent(&out, []byte(trimmed), "", "  ") != nil {
		return text
	}
	return out.String()
}

// completeToolIDs lists the ids with a prefix, for shell completion. It asks a running gateway
// only, because the Tab key must not start servers.
func completeToolIDs(a *process, ctx context.Context, t target, word string) []cobra.Completion {
	if t.config != "" {
		return nil
	}
	var err error
	if t.url, t.token, err = runningURL(a, ctx, t); err != nil || t.url == "" || probeGateway(ctx, t.url, t.token) == nil {
		return nil
	}
	c, err := openTarget(a, ctx, t)
	if err != nil {
		return nil
	}
	defer c.close()
	all, err := c.allCards(ctx)
	if err != nil {
		return nil
	}
	var ids []cobra.Completion
	for _, card := range all.cards {
		if strings.HasPrefix(card.ID, word) {
			ids = append(ids, cobra.CompletionWithDesc(card.ID, cut(card.Description, 60)))
		}
	}
	return ids
}
