package cli

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/metatool/tools"
)

func showCommand(a *process) *cobra.Command {
	var (
		t      target
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "show TOOL_ID",
		Short: "Show what a tool takes, and an example call",
		Long: `Show a tool: its signature in one line, what it does, its parameters with types,
allowed values and defaults, and a call to start from. Nothing is run.

` + shortIDHelp,
		Example: `  weir show create_note
  weir show 'inventory:check_stock#322945ee' --json`,
		Args:              positional(cobra.ExactArgs(1)),
		ValidArgsFunction: completeID(a, &t),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := openTarget(a, cmd.Context(), t)
			if err != nil {
				return err
			}
			defer c.close()
			list, err := c.findTool(cmd.Context(), tools.Query{Name: args[0], Definitions: true})
			switch {
			case err != nil:
				return err
			case len(list.Tools) == 0:
				return failf(exitRefused, "%s has no tool %q: find one with weir search, or list all with weir ls --tools", c.where, args[0])
			case asJSON:
				return printJSON(a.stdout, list.Tools[0])
			}
			return printTool(a.stdout, &list.Tools[0])
		},
	}
	t.flags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the definition as JSON")
	return cmd
}

// maxText bounds the width of running text.
const maxText = 80

// printTool prints a tool for people.
func printTool(to terminal, t *tools.Tool) error {
	width := maxText
	if to.screen() {
		width = min(width, to.width)
	}
	params := paramsOf(t.InputSchema)
	var b strings.Builder
	line := func(format string, args ...any) { b.WriteString(fmt.Sprintf(format, args...) + "\n") }
	line("%s", to.paint(bold, to.legible(signature(t.Name, params))))
	about := []string{t.ID, "server " + t.Server}
	if hints := hintsOf(t.Annotations); hints != "" {
		about = append(about, hints)
	}
	line("%s", to.paint(dim, to.legible(strings.Join(about, " · "))))
	if t.Listed != nil {
		line("%s", to.paint(dim, to.legible(overridden(t))))
	}
	if t.Description != "" {
		line("")
		for paragraph := range strings.Lines(strings.TrimSpace(t.Description)) {
			paragraph = strings.TrimRight(paragraph, "\r\n")
			indent := paragraph[:len(paragraph)-len(strings.TrimLeft(paragraph, " "))]
			if strings.TrimSpace(paragraph) == "" {
				line("")
				continue
			}
			for _, text := range wrap(to.legible(paragraph), width-len(indent)) {
				line("%s%s", indent, text)
			}
		}
	}
	if len(params) > 0 {
		line("\n%s", to.paint(bold, "Parameters:"))
	}
	for _, p := range params {
		line("  %s  %s", to.paint(cyan, to.legible(p.name)), to.legible(p.facts()))
		for _, text := range wrap(to.legible(p.description), width-6) {
			line("      %s", text)
		}
	}
	line("\n%s\n  %s", to.paint(bold, "Example:"), to.legible(exampleCall(t.Short, params)))
	_, err := fmt.Fprint(to, b.String())
	return err
}

// overridden says how the server defines a tool that the configuration changes.
func overridden(t *tools.Tool) string {
	text := "overridden; the server's definition: " + signature(rawjson.Text(rawjson.Get(t.Listed, "name")), paramsOf(rawjson.Get(t.Listed, "inputSchema")))
	if description := rawjson.Text(rawjson.Get(t.Listed, "description")); description != t.Description {
		text += " · " + oneLine(strings.TrimSpace(description))
	}
	return text
}

// facts describes the values of a parameter: integer, required, 1 to 100, default 10.
func (p *param) facts() string {
	facts := []string{p.typeText()}
	if p.required {
		facts = append(facts, "required")
	}
	number := func(key string) string { return string(rawjson.Get(p.schema, key)) }
	switch least, most := number("minimum"), number("maximum"); {
	case least != "" && most != "":
		facts = append(facts, least+" to "+most)
	case least != "":
		facts = append(facts, "at least "+least)
	case most != "":
		facts = append(facts, "at most "+most)
	}
	if format := rawjson.Text(rawjson.Get(p.schema, "format")); format != "" {
		facts = append(facts, format)
	}
	if value := p.initial(); value != nil {
		facts = append(facts, "default "+compact(value))
	}
	return oneLine(strings.Join(facts, ", "))
}

// hintsOf returns the hints of a server about a tool's effects.
func hintsOf(annotations json.RawMessage) string {
	switch {
	case string(rawjson.Get(annotations, "readOnlyHint")) == "true":
		return "only reads"
	case string(rawjson.Get(annotations, "destructiveHint")) == "true":
		return "may destroy something"
	}
	return ""
}
