package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func manCommand(a *process) *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write the manual pages into a folder",
		Long: `Write the manual pages, one for each command, into a folder, which is made where it
is not there. Pages of that name are written over. To read them:

  weir man ~/.local/share/man/man1 && man weir`,
		Args: positional(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return fmt.Errorf("the folder for manual pages cannot be made: %w", err)
			}
			pages := manPages(cmd.Root(), a.version)
			for _, page := range pages {
				if err := os.WriteFile(filepath.Join(args[0], page.name), []byte(page.text), 0o644); err != nil {
					return fmt.Errorf("a manual page cannot be written: %w", err)
				}
			}
			a.note("%d pages in %s", len(pages), args[0])
			return nil
		},
	}
}

// A manPage is a manual page in the man macros of roff, which every man program reads.
type manPage struct{ name, text string }

// manPages returns a page for each command and each help topic, in the order of the help text. They
// have no date: the same version has the same bytes.
func manPages(root *cobra.Command, version string) []manPage {
	var pages []manPage
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Name() == "help" || cmd.Hidden {
			return
		}
		pages = append(pages, manPage{manName(cmd) + ".1", manText(cmd, version)})
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(root)
	return pages
}

// manName returns the name of a command's page: weir-config-check for weir config check.
func manName(cmd *cobra.Command) string {
	return strings.ReplaceAll(cmd.CommandPath(), " ", "-")
}

func manText(cmd *cobra.Command, version string) string {
	var b strings.Builder
	section := func(title, body string) {
		if body != "" {
			b.WriteString(".SH " + title + "\n" + body)
		}
	}
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"weir %s\" \"weir manual\"\n", roffQuoted(strings.ToUpper(manName(cmd))), roff(version))
	section("NAME", fmt.Sprintf("%s \\- %s\n", roff(manName(cmd)), roff(cmd.Short)))
	switch {
	case cmd.Runnable():
		section("SYNOPSIS", ".B "+roffLine(cmd.UseLine())+"\n")
	case cmd.HasSubCommands():
		section("SYNOPSIS", ".B "+roffLine(cmd.CommandPath()+" COMMAND")+"\n")
	}
	if cmd.Long != "" {
		section("DESCRIPTION", roffText(cmd.Long))
	}
	section("COMMANDS", manCommands(cmd))
	section("OPTIONS", manFlags(cmd.LocalFlags()))
	if cmd.Example != "" {
		section("EXAMPLES", roffBlock(cmd.Example))
	}
	if !cmd.HasParent() {
		section("EXIT STATUS", manExitCodes())
	}
	section("SEE ALSO", manSeeAlso(cmd))
	return b.String()
}

func manCommands(cmd *cobra.Command) string {
	var b strings.Builder
	for _, sub := range cmd.Commands() {
		if sub.Name() != "help" && !sub.Hidden {
			fmt.Fprintf(&b, ".TP\n.BR %s (1)\n%s\n", roffLine(manName(sub)), roffLine(sub.Short))
		}
	}
	return b.String()
}

func manFlags(flags *pflag.FlagSet) string {
	var b strings.Builder
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		value, usage := pflag.UnquoteUsage(f)
		if value != "" {
			value = " " + value
		}
		switch f.DefValue {
		case "", "0", "false", "[]":
		default:
			if !strings.Contains(usage, "default") {
				usage += " (default " + f.DefValue + ")"
			}
		}
		fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roffLine(name+value), roffLine(usage))
	})
	return b.String()
}

func manExitCodes() string {
	var b strings.Builder
	for _, e := range exitCodes {
		fmt.Fprintf(&b, ".TP\n.B %d\n%s\n", e.code, roffLine(strings.ReplaceAll(e.description, "`", "")))
	}
	return b.String()
}

func manSeeAlso(cmd *cobra.Command) string {
	if !cmd.HasParent() {
		return "https://github.com/weir\\-mcp/weir\n"
	}
	return ".BR " + roffLine(manName(cmd.Parent())) + " (1)\n"
}

// roffText turns a text of the help into roff: indented lines keep their form, others are filled.
func roffText(text string) string {
	var b strings.Builder
	var kept []string
	flush := func() {
		if len(kept) > 0 {
			b.WriteString(roffBlock(strings.Join(kept, "\n")))
			kept = nil
		}
	}
	for line := range strings.SplitSeq(text, "\n") {
		switch {
		case strings.HasPrefix(line, "  "):
			kept = append(kept, line)
		case strings.TrimSpace(line) == "":
			flush()
			b.WriteString(".PP\n")
		default:
			flush()
			b.WriteString(roffLine(line) + "\n")
		}
	}
	flush()
	return b.String()
}

// roffBlock returns lines that man neither fills nor breaks.
func roffBlock(text string) string {
	var b strings.Builder
	b.WriteString(".PP\n.nf\n")
	for line := range strings.SplitSeq(text, "\n") {
		b.WriteString(roffLine(line) + "\n")
	}
	b.WriteString(".fi\n")
	return b.String()
}

// roffLine escapes a whole line: a line that starts with a dot or a quote would be a macro.
func roffLine(line string) string {
	escaped := roff(line)
	if strings.HasPrefix(escaped, ".") || strings.HasPrefix(escaped, "'") {
		return `\&` + escaped
	}
	return escaped
}

// roffEscapes are the characters that roff reads as its own. A hyphen becomes the minus sign
// of command lines, which a reader can copy.
var roffEscapes = strings.NewReplacer(`\`, `\e`, "-", `\-`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`, "\n", " ")

// roff escapes a text within a line.
func roff(text string) string {
	var b strings.Builder
	for _, r := range roffEscapes.Replace(text) {
		if r < 0x80 {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\[u%04X]`, r) // roff reads bytes
		}
	}
	return b.String()
}

// roffQuoted returns a text as one argument of a macro.
func roffQuoted(text string) string { return `"` + strings.ReplaceAll(roff(text), `"`, `\(dq`) + `"` }
