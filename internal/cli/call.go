package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/result"
)

// A callRequest is one run of weir call.
type callRequest struct {
	target target
	id     string // as the person named the tool
	server string // the tool is one of this server, by its own name
	given  toolArgs
	what   executeArgs
	output callOutput
	within time.Duration // the time for the result; 0 sets no bound
}

// run makes the call within its time and writes the result.
func (r *callRequest) run(a *process, ctx context.Context) (err error) {
	if r.within > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.within)
		defer cancel()
	}
	if r.server != "" {
		err = callServer(a, ctx, r)
	} else {
		err = callTool(a, ctx, r)
	}
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) && !errors.As(err, new(errQuiet)) {
		return failf(exitUnavailable, "%s has no result after %s and was cancelled; --timeout allows more", r.id, r.within)
	}
	return err
}

func callCommand(a *process) *cobra.Command {
	var (
		r       callRequest
		pairs   []string
		whole   string
		form    outputFlags
		columns string
		mode    string
	)
	cmd := &cobra.Command{
		Use:   "call TOOL_ID [--arg NAME=VALUE ... | --json ARGS]",
		Short: "Run a tool",
		Long: `Run a tool and print the result as an agent would get it. A long result is
described and kept: its handle is for weir view and weir get.

` + shortIDHelp + ` weir show says what a tool takes.

Arguments are given one by one or as one JSON object:
  --arg NAME=VALUE   read as the tool's schema asks: a text, a number, true or
                     false; given several times, a list
  --arg NAME:=JSON   exactly this JSON
  --json ARGS        '{"name": …}', @FILE, or - for standard input

For scripts, nothing is held back:
  --raw              the texts of the result as they are, one after the other;
                     pictures, sounds and other files as their bytes
  -o FILE            the picture, sound or other file of the result (further ones
                     as FILE-2, FILE-3, …), its texts to standard output; or, of a
                     result of texts alone, the texts
  --json             without ARGS: the result as the server answered it, with
                     content and structuredContent; an error of the gateway is
                     printed as JSON, too
  --envelope         what the gateway tells of the result, as JSON: status, facts,
                     handles of what was kept, views

A tool may ask something, and a policy may want a person's approval. At a terminal
you are asked. Elsewhere an approval is waited for: see weir approve.

A tool that runs as a task is waited for until it ends, however long that is.
Ctrl-C and --timeout cancel the call, and its task with it.

With --server NAME the tool is one of that server or agent, by its own name, and
is called through the router at /mcps/NAME/mcp: nothing is held back. Without
--url, the router is that of $ROUTER_HOST and $ROUTER_PORT, else the gateway that
runs; $AGENT_TOKEN takes the place of $WEIR_TOKEN.`,
		Example: `  weir call create_note --arg title=Weir --arg text='A low dam.'
  weir call 'inventory:check_stock#322945ee' --json '{"sku":"BIK-001"}' --raw | jq .quantity
  weir call screenshot --arg url=https://example.com -o page.png
  weir call --server stock count --arg sku=BIK-001`,
		Args:              positional(cobra.RangeArgs(1, 2)),
		ValidArgsFunction: completeID(a, &r.target),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, rest := splitCall(args)
			if id == "" {
				return failf(exitUsage, "which tool? Usage: %s", cmd.UseLine())
			}
			asJSON := false
			if whole == noValue {
				if whole = rest; whole == "" {
					asJSON = true
				}
			} else if rest != "" {
				return failf(exitUsage, "weir call runs one tool, and %q is one too many; arguments go behind --json or --arg", rest)
			}
			var err error
			if r.output, err = form.read(asJSON); err != nil {
				return err
			}
			if r.given, err = parseToolArgs(pairs, whole, a.stdin); err != nil {
				return err
			}
			r.id, r.what = id, executeArgs{Domains: columns, Mode: mode}
			return r.run(a, cmd.Context())
		},
	}
	r.target.flags(cmd)
	cmd.Flags().StringVar(&r.server, "server", "", "the tool is one of this server or agent, by its own name")
	cmd.Flags().StringVar(&r.server, "agent", "", "the old name of --server")
	_ = cmd.Flags().MarkHidden("agent") // it exists
	cmd.Flags().StringVar(&columns, "columns", "", "of a result that is a table, print these columns only, and a resource_url for the others (abstract_domains)")
	cmd.Flags().StringVar(&mode, "mode", "", "with --columns: async (the default) or sync")
	cmd.Flags().StringArrayVar(&pairs, "arg", nil, "an argument, NAME=VALUE or NAME:=JSON; may be repeated")
	cmd.Flags().DurationVar(&r.within, "timeout", 0, "cancel the call if it has no result after this time, e.g. 90s; default: wait until it ends")
	optional(cmd, &whole, "json", "all arguments as JSON: `ARGS`, @FILE or -; without a value: print the whole result as JSON")
	form.add(cmd)
	oneOf(cmd, "mode", "async", "sync")
	completeFlag(cmd, "arg", func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		id, _ := splitCall(args)
		if id == "" {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return completeArgs(a, cmd.Context(), r.target, id, pairs, word), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	})
	return cmd
}

// splitCall separates the tool id from JSON arguments. JSON that is not joined to --json with "="
// is a positional argument. An id starts with a letter, JSON does not.
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

// callTool runs a tool through the gateway.
func callTool(a *process, ctx context.Context, r *callRequest) error {
	p := newPerson(a, ctx)
	r.target.person = p
	c, err := openTarget(a, ctx, r.target)
	if err != nil {
		return err
	}
	defer c.close()
	if r.what.ToolID, err = c.resolve(ctx, r.id); err != nil {
		return err
	}
	out, done, err := r.output.open(a)
	if err != nil {
		return err
	}
	return done(execute(a, ctx, c, r, out))
}

// execute runs the tool of a request and writes its result.
func execute(a *process, ctx context.Context, c *client, r *callRequest, out *resultWriter) error {
	stop := a.spin("running " + r.what.ToolID)
	defer stop()
	c.person.pause = stop
	said := ""
	tell := func(p progress) {
		switch {
		case a.stderr.screen():
			stop()
			tellProgress(a, p)
		case strings.HasPrefix(p.Message, dispatch.WaitsForYes) && p.Message != said:
			said = p.Message
			a.note("The call %s", said)
		}
	}
	calling, end := c.person.callContext(ctx)
	defer end()
	answer, err := c.execute(calling, r.what, r.given, r.output.wire(), tell)
	if err == nil {
		answer, err = c.awaitResult(a, calling, answer, r.output.wire(), tell)
	}
	stop()
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err = c.person.explain(err); !r.output.program() {
			return c.withParameters(ctx, err)
		}
		return refuse(a.stdout, err, true)
	}
	err = out.write(answer)
	switch handles := answer.handles(); {
	case r.output.wire() == "raw" || len(handles) == 0:
	case c.own:
		a.note("The handle ends with this command. To use weir view, run weir serve --config %s and call the tool there.", c.where)
	case a.stderr.screen():
		a.note("To read more: weir view %s (see weir help selectors); the whole: weir get %s", handles[0], handles[0])
	}
	if ctx.Err() != nil {
		return ctx.Err() // the question of a call was interrupted
	}
	return err
}

// refuse returns err. If output is JSON, it first prints the gateway's error.
func refuse(stdout terminal, err error, asJSON bool) error {
	var refused *gatewayError
	if asJSON && errors.As(err, &refused) {
		if printed := printJSON(stdout, refused.raw); printed != nil {
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
	r, err := c.ask(ctx, metatool.ToolExecute, what, format, tell)
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
	return c.ask(ctx, metatool.ToolExecute, what, format, tell)
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
	r, err := c.ask(ctx, metatool.ToolView, viewArgs{details.Handle, properties}, "text", nil)
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
			text = fmt.Sprintf("[%s, %s, %s: -o FILE saves it]", p.Type, p.MimeType, sizeText(len(p.Data)/4*3))
		case "resource_link":
			text = fmt.Sprintf("[resource %s %s]", p.Name, p.URI)
		default:
			text = fmt.Sprintf("[%s: print it with --json]", p.Type)
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
