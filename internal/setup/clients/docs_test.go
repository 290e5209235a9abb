package clients

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestDocs keeps docs/clients.md what the table says.
func TestDocs(t *testing.T) {
	const name = "../../../docs/clients.md"
	old, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(old), "<!-- generated: clients -->\n")
	_, after, closed := strings.Cut(rest, "<!-- end -->")
	if !ok || !closed {
		t.Fatalf("%s has no generated part", name)
	}
	text := before + "<!-- generated: clients -->\n" + describeAll(t) + "<!-- end -->" + after
	switch {
	case text == string(old):
	case *update:
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s is not what the table says: run go test ./internal/setup/clients -run TestDocs -update", name)
	}
}

// describeAll returns a part for each client.
func describeAll(t *testing.T) string {
	var b strings.Builder
	homes := []Environment{{OS: "linux", Home: "~"}, {OS: "darwin", Home: "~"}, {OS: "windows", Home: "%USERPROFILE%"}}
	windows := func(name string) string {
		return map[string]string{"APPDATA": "%APPDATA%", "LOCALAPPDATA": "%LOCALAPPDATA%"}[name]
	}
	homes[2].Getenv = windows
	for _, c := range All() {
		fmt.Fprintf(&b, "### %s\n\nid `%s`; known from: %s.\n\n", c.Name, c.ID, c.Proof)
		rows := map[string]string{}
		for _, env := range homes {
			var files []string
			for _, template := range c.templates(env.OS) {
				files = append(files, "`"+env.path(template)+"`")
			}
			rows[env.OS] = strings.Join(files, ", ")
		}
		b.WriteString("| | |\n| --- | --- |\n")
		row := func(what, text string) {
			if text != "" {
				fmt.Fprintf(&b, "| %s | %s |\n", what, text)
			}
		}
		if rows["linux"] == rows["darwin"] {
			row("file, Linux and macOS", rows["linux"])
		} else {
			row("file, Linux", rows["linux"])
			row("file, macOS", rows["darwin"])
		}
		row("file, Windows", rows["windows"])
		if c.Pasted() {
			row("file", "none: paste the entry")
		}
		var project []string
		for _, file := range c.Project {
			project = append(project, "`"+file+"`")
		}
		row("of a project, left alone", strings.Join(project, ", "))
		row("weir's entry", "`"+members(withName(c, entryName, c.Entry(gateway)))+"` at `"+c.key.String()+"`, in "+c.Format.String())
		if c.HTTP() {
			row("or", "`"+members(withName(c, entryName, c.Entry(How{Command: []string{"weir"}})))+"`")
		}
		row("after a change", c.Reload.Advice())
		row("note", c.Quirk)
		b.WriteString("\n")
	}
	return strings.ReplaceAll(b.String(), "\r", "")
}

// TestSnippets reads what a user is told to paste, and each link.
func TestSnippets(t *testing.T) {
	for _, c := range All() {
		text, link, err := c.Snippet(gateway)
		if err != nil {
			t.Errorf("%s: %v", c.ID, err)
			continue
		}
		servers, _, err := Servers(c, []byte(text), machine)
		if err != nil || len(servers) != 1 || !gateway.IsOurs(servers[0]) {
			t.Errorf("%s: the snippet is not read as weir: %v, %v\n%s", c.ID, servers, err, text)
		}
		if (c.link != nil) != strings.Contains(link, "mcp") || strings.ContainsAny(link, " \n\"{") {
			t.Errorf("%s: link %q", c.ID, link)
		}
	}
}
