package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/setup"
	"github.com/weir-mcp/weir/internal/setup/clients"
)

// errNotAsked is the end of a command that would have to ask if there is no terminal.
func errNotAsked() error {
	return failf(exitUsage, "nothing has changed: there is no terminal to ask at. Pass --yes to make the changes, or --dry-run to only see them")
}

// agree asks whether to go on. Without a terminal the error says so.
func (c *changing) agree(a *process, ctx context.Context, question string) (bool, error) {
	switch {
	case c.dryRun: // also with --yes
		return false, nil
	case c.yes:
		return true, nil
	}
	q, ok := newQuestions(a)
	if !ok {
		return false, errNotAsked()
	}
	answer, err := q.line(ctx, a.stderr.paint(bold, question)+" [Y/n]", false)
	if err != nil {
		return false, fmt.Errorf("nothing has changed: %w", err)
	}
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "" || answer == "y" || answer == "yes", nil
}

// planJSON is a plan for programs.
type planJSON struct {
	Kind    string       `json:"kind"`
	Config  string       `json:"config"`
	Servers []serverJSON `json:"servers"`
	Known   []serverJSON `json:"known"`
	Stay    []stayJSON   `json:"stay"`
	Secrets []secretJSON `json:"secrets"`
	Files   []fileJSON   `json:"files"`
	Notes   []noteJSON   `json:"notes"`
	DryRun  bool         `json:"dry_run"`
	Done    int          `json:"done,omitempty"` // the number of the operation
	Kept    []keptJSON   `json:"kept,omitempty"`
	Exports []string     `json:"exports,omitempty"`
}

type (
	serverJSON struct {
		Name    string   `json:"name"`
		Starts  string   `json:"starts"`
		Clients []string `json:"clients"`
	}
	stayJSON struct {
		Client string `json:"client"`
		Name   string `json:"name"`
		Reason string `json:"reason"`
	}
	secretJSON struct {
		Name  string   `json:"name"`
		Shown string   `json:"shown"`
		Where []string `json:"where"`
	}
	fileJSON struct {
		File   string   `json:"file"`
		Client string   `json:"client,omitempty"`
		New    bool     `json:"new"`
		Adds   []string `json:"adds"`
		Takes  []string `json:"takes"`
		Brings []string `json:"brings"`
	}
	noteJSON struct {
		Client string `json:"client,omitempty"`
		Server string `json:"server,omitempty"`
		Text   string `json:"text"`
		Warn   bool   `json:"warn,omitempty"`
	}
	keptJSON struct {
		Name  string `json:"name"`
		Where string `json:"where"`
	}
)

// asJSON returns a plan for programs.
func asPlanJSON(m *setup.Machine, p *setup.Plan) planJSON {
	out := planJSON{
		Kind: p.Kind, Config: m.Config, Servers: []serverJSON{}, Known: []serverJSON{}, Stay: []stayJSON{}, Secrets: []secretJSON{},
		Files: []fileJSON{}, Notes: []noteJSON{},
	}
	if i := p.Import; i != nil {
		for _, s := range i.Servers {
			out.Servers = append(out.Servers, serverJSON{s.Name, s.Server.Starts(), clientsOf(s)})
		}
		for _, s := range i.Known {
			out.Known = append(out.Known, serverJSON{s.Name, s.Server.Starts(), clientsOf(s)})
		}
		for _, s := range i.Stay {
			out.Stay = append(out.Stay, stayJSON{s.Client, s.Name, s.Stay})
		}
		for _, s := range i.Secrets {
			out.Secrets = append(out.Secrets, secretJSON{p.SecretName(s), s.String(), s.Where})
		}
	}
	for _, f := range p.Files {
		line := fileJSON{File: f.File, New: f.New, Adds: orEmpty(f.Adds), Takes: orEmpty(f.Takes), Brings: orEmpty(f.Brings)}
		if f.Client != nil {
			line.Client = f.Client.ID
		}
		out.Files = append(out.Files, line)
	}
	for _, n := range p.Notes {
		out.Notes = append(out.Notes, noteJSON{n.Client, n.Server, n.Text, n.Warn})
	}
	return out
}

// clientsOf returns the clients whose entries became a server, each once.
func clientsOf(s clients.Planned) []string {
	ids := []string{}
	for _, from := range s.From {
		if !slices.Contains(ids, from.Client) {
			ids = append(ids, from.Client)
		}
	}
	return ids
}

// showPlan prints a plan for a person.
func showPlan(a *process, m *setup.Machine, p *setup.Plan) {
	t := a.stdout
	if i := p.Import; i != nil {
		if len(i.Servers) > 0 {
			heading(t, "Into "+a.tilde(m.Config))
			for _, s := range i.Servers {
				item(t, green, "+", s.Name, s.Server.Starts()+from(clientsOf(s)))
			}
		}
		if len(i.Known) > 0 {
			heading(t, "In weir already")
			for _, s := range i.Known {
				item(t, dim, "=", s.Name, strings.TrimPrefix(from(clientsOf(s)), " · "))
			}
		}
		if len(i.Stay) > 0 {
			heading(t, "Left where it is")
			for _, s := range i.Stay {
				item(t, yellow, "!", s.Name, s.Stay+from([]string{s.Client}))
			}
		}
		if len(i.Secrets) > 0 {
			heading(t, "Secrets")
			for _, s := range i.Secrets {
				item(t, cyan, "*", p.SecretName(s), s.String()+" · "+strings.Join(s.Where, ", "))
			}
		}
	}
	if len(p.Files) > 0 {
		heading(t, "Files")
		for _, f := range p.Files {
			showFile(a, p.Kind, f)
		}
	}
	if len(p.Notes) > 0 {
		heading(t, "Notes")
	}
	for _, n := range slices.SortedStableFunc(slices.Values(p.Notes), func(a, b clients.Note) int { return warned(a) - warned(b) }) {
		style, sign := dim, "i"
		if n.Warn {
			style, sign = yellow, "!"
		}
		item(t, style, sign, strings.Trim(n.Client+": "+n.Server, ": "), n.Text)
	}
}

// warned is the place of a note: warnings come first.
func warned(n clients.Note) int {
	if n.Warn {
		return 0
	}
	return 1
}

// showFile prints the planned change of one file.
func showFile(a *process, kind string, f setup.File) {
	t := a.stdout
	name := a.tilde(f.File)
	if f.New {
		name += " (new)"
	}
	fmt.Fprintln(t, "  "+t.clean(middle(name, t.width-2)))
	takes, brings := "", "as before"
	switch kind {
	case "enable":
		brings = "switched on"
	case "disable":
		takes = "switched off"
	}
	for _, change := range []struct {
		sign, style, what string
		names             []string
	}{{"+", green, "", f.Adds}, {"-", red, takes, f.Takes}, {"+", green, brings, f.Brings}} {
		if len(change.names) > 0 {
			item(t, change.style, "  "+change.sign, strings.Join(change.names, ", "), change.what)
		}
	}
}

// from names the clients that something comes from.
func from(ids []string) string {
	if len(ids) == 0 {
		return ""
	}
	return " · " + strings.Join(ids, ", ")
}

func heading(t terminal, text string) { fmt.Fprintln(t, t.paint(bold, t.clean(text))) }

// item prints a line of a plan: a sign, a name and a text. On a screen the text is wrapped below
// the name if the line is too long.
func item(t terminal, style, sign, name, text string) {
	line := "  " + t.paint(style, sign) + " " + t.clean(name)
	used := 3 + utf8.RuneCountInString(sign) + utf8.RuneCountInString(name)
	text = t.clean(text)
	switch {
	case text == "":
		fmt.Fprintln(t, line)
	case !t.screen() || used+2+utf8.RuneCountInString(text) <= t.width:
		fmt.Fprintln(t, line+"  "+text)
	default:
		fmt.Fprintln(t, line)
		for _, rest := range wrap(text, t.width-6) {
			fmt.Fprintln(t, "      "+rest)
		}
	}
}

// middle shortens a text to n characters by its middle, 0 for no bound: the ends of paths differ.
func middle(text string, n int) string {
	runes := []rune(text)
	if n < 8 || len(runes) <= n {
		return text
	}
	return string(runes[:n/2-1]) + "…" + string(runes[len(runes)-(n-n/2):])
}

// tilde writes the home folder of a path as ~, on a screen.
func (a *process) tilde(path string) string {
	home := a.env("HOME")
	if rest, ok := strings.CutPrefix(path, home+"/"); ok && home != "" && a.stdout.screen() {
		return "~/" + rest
	}
	return path
}

// add notes a finished step.
func (p *planJSON) add(r setup.Result) {
	p.Done = r.Record.N
	for _, s := range r.Secrets {
		p.Kept = append(p.Kept, keptJSON{s.Name, s.Where})
	}
	for _, s := range r.Exports {
		p.Exports = append(p.Exports, s.Name)
	}
}
