package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/metatool/tools"
)

// tryTools bounds the tools that weir try offers for a query.
const tryTools = 9

func tryCommand(a *process) *cobra.Command {
	var t target
	var show bool
	cmd := &cobra.Command{
		Use:   "try [QUERY|TOOL_ID]",
		Short: "Run a tool, asked for argument by argument",
		Long: `Find a tool, ask for its arguments one by one, and run it. At the end it prints the
"weir call" that does the same. It needs a terminal.

What is no tool's name is a query; without either it lists what there is.`,
		Example: `  weir try "storm warnings"
  weir try inventory:check_stock`,
		Args:              positional(cobra.ArbitraryArgs),
		ValidArgsFunction: completeID(a, &t),
		RunE: func(cmd *cobra.Command, args []string) error {
			p := newPerson(a, cmd.Context())
			if p.keyboard == nil {
				return failf(exitUsage, "weir try asks, and there is no terminal: weir show tells what a tool takes, weir call runs it")
			}
			t.person = p
			c, err := openTarget(a, cmd.Context(), t)
			if err != nil {
				return err
			}
			defer c.close()
			return tryTool(a, cmd.Context(), c, strings.Join(args, " "), show)
		},
	}
	t.flags(cmd)
	cmd.Flags().BoolVar(&show, "dry-run", false, "print the weir call, and run nothing")
	return cmd
}

// tryTool finds a tool, asks for its arguments, and runs it.
func tryTool(a *process, ctx context.Context, c *client, words string, dry bool) error {
	tool, err := chooseTool(a.stderr, ctx, c, words)
	if err != nil {
		return err
	}
	params := paramsOf(tool.InputSchema)
	if err := printSignature(a.stderr, tool, params); err != nil {
		return err
	}
	given, err := askArguments(ctx, c.person, params)
	if err != nil {
		return err
	}
	if !dry {
		out, done, err := callOutput{form: formText}.open(a)
		if err != nil {
			return err
		}
		r := &callRequest{id: tool.ID, what: executeArgs{ToolID: tool.ID}, given: toolArgs{whole: given.object()}}
		if err := done(execute(a, ctx, c, r, out)); err != nil {
			a.note("%s", given.command(tool.Short))
			return err
		}
	}
	_, err = fmt.Fprintln(a.stderr, a.stderr.clean(given.command(tool.Short)))
	return err
}

// printSignature shows a tool in two lines.
func printSignature(stderr terminal, tool *tools.Tool, params []param) error {
	about, _, _ := strings.Cut(strings.TrimSpace(tool.Description), "\n")
	_, err := fmt.Fprintf(stderr, "%s\n%s\n", stderr.paint(bold, stderr.clean(signature(tool.Name, params))), stderr.paint(dim, stderr.clean(about)))
	return err
}

// chooseTool returns the tool that the words name, or lets the person choose among those that they
// find.
func chooseTool(stderr terminal, ctx context.Context, c *client, words string) (*tools.Tool, error) {
	if words != "" && !strings.Contains(words, " ") {
		list, err := c.findTool(ctx, tools.Query{Name: words, Definitions: true})
		if err == nil && len(list.Tools) == 1 {
			return &list.Tools[0], nil
		}
	}
	offered, err := c.offered(ctx, words)
	if err != nil {
		return nil, err
	}
	if len(offered) == 0 {
		return nil, failf(exitRefused, "%s has no tool for %q", c.where, words)
	}
	for i, found := range offered {
		about, _, _ := strings.Cut(found.Description, "\n")
		fmt.Fprintf(stderr, "  %d  %s\n", i+1, cut(stderr.clean(found.ID+"  "+about), stderr.width-6))
	}
	for {
		answer, err := c.person.keyboard.line(ctx, stderr.paint(bold, "Which one?")+" [1]", false)
		if err != nil {
			return nil, err
		}
		n := 1
		if answer = strings.TrimSpace(answer); answer != "" {
			if n, err = strconv.Atoi(answer); err != nil || n < 1 || n > len(offered) {
				fmt.Fprintln(stderr, "That is none of the numbers.")
				continue
			}
		}
		list, err := c.findTool(ctx, tools.Query{Name: offered[n-1].ID, Definitions: true})
		if err == nil && len(list.Tools) == 0 {
			err = failf(exitRefused, "%s is gone", offered[n-1].ID)
		}
		if err != nil {
			return nil, err
		}
		return &list.Tools[0], nil
	}
}

// offered returns the tools for a query, or the first ones without a query.
func (c *client) offered(ctx context.Context, query string) ([]card, error) {
	var all *browsed
	var err error
	if query == "" {
		all, err = c.allCards(ctx)
	} else {
		all, err = c.browse(ctx, browseArgs{Query: query, TopK: tryTools})
	}
	if err != nil {
		return nil, err
	}
	tools := slices.DeleteFunc(all.cards, func(found card) bool { return found.Kind != string(primitive.KindTool) })
	return tools[:min(len(tools), tryTools)], nil
}

// A tried is the arguments that a person gave, in the order of the questions.
type tried []struct {
	name  string
	value json.RawMessage
}

// askArguments asks for each parameter, the required ones first.
func askArguments(ctx context.Context, p *person, params []param) (given tried, err error) {
	params = slices.Clone(params)
	slices.SortStableFunc(params, func(a, b param) int {
		switch {
		case a.required == b.required:
			return 0
		case a.required:
			return -1
		}
		return 1
	})
	for _, parameter := range params {
		value, err := askArgument(ctx, p, &parameter)
		if errors.Is(err, io.EOF) {
			return nil, failf(exitInterrupted, "nothing was run")
		}
		if err != nil {
			return nil, err
		}
		if value != nil {
			given = append(given, struct {
				name  string
				value json.RawMessage
			}{parameter.name, value})
		}
	}
	return given, nil
}

// askArgument asks for one parameter. The value is nil if it is left out.
func askArgument(ctx context.Context, p *person, parameter *param) (json.RawMessage, error) {
	f, err := readField(parameter.name, parameter.schema)
	if err == nil {
		f.required = parameter.required
		return p.field(ctx, &f)
	}
	screen := p.a.stderr
	if parameter.description != "" {
		fmt.Fprintln(screen, "  "+screen.paint(dim, screen.clean(oneLine(parameter.description))))
	}
	label := fmt.Sprintf("%s (%s, as JSON):", parameter.name, parameter.facts())
	for {
		answer, err := p.keyboard.line(ctx, screen.paint(bold, screen.clean(label)), false)
		switch answer = strings.TrimSpace(answer); {
		case err != nil:
			return nil, err
		case answer == "" && !parameter.required:
			return nil, nil
		case json.Valid([]byte(answer)):
			return json.RawMessage(answer), nil
		case parameter.many() && answer != "" && !strings.ContainsAny(answer, `[{"`):
			return listOf(answer), nil
		}
		fmt.Fprintln(screen, "  it must be JSON, such as "+screen.clean(compact(parameter.example())))
	}
}

// listOf is a list of texts, which were typed with commas.
func listOf(answer string) json.RawMessage {
	out := []byte{'['}
	for i, word := range strings.Split(answer, ",") {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, quote(strings.TrimSpace(word))...)
	}
	return append(out, ']')
}

// object returns the arguments as JSON.
func (t tried) object() json.RawMessage {
	out := []byte{'{'}
	for i, one := range t {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(out, quote(one.name)...), ':')
		out = append(out, one.value...)
	}
	return append(out, '}')
}

// command returns the weir call with the same arguments.
func (t tried) command(id string) string {
	words := []string{"weir", "call", shellQuote(id)}
	for _, one := range t {
		if one.value[0] == '"' {
			words = append(words, "--arg", shellQuote(one.name+"="+rawjson.Text(one.value)))
		} else {
			words = append(words, "--arg", shellQuote(one.name+":="+compact(one.value)))
		}
	}
	return strings.Join(words, " ")
}
