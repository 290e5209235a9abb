package clients

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/json/splice"
)

var update = flag.Bool("update", false, "write what the cases give into their files, and docs/clients.md")

// machine is a Linux machine with nothing on it.
var machine = Environment{OS: "linux", Home: "/home/me", Exists: func(string) bool { return false }}

var gateway = How{URL: "http://127.0.0.1:8088/mcp", Command: []string{"weir"}}

// TestFiles reads and connects a file of every client, as its vendor's documents show one. A case
// has four parts: file, what is read of it (servers), and the file after weir connect and after weir
// disconnect, without the servers that come back. The file after undo is compared with the first.
func TestFiles(t *testing.T) {
	cases, err := filepath.Glob("testdata/files/*.txtar")
	if err != nil || len(cases) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	seen := map[string]bool{}
	for _, path := range cases {
		id, _, _ := strings.Cut(strings.TrimSuffix(filepath.Base(path), ".txtar"), "-v2")
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			c, ok := ByID(id)
			if !ok {
				t.Fatalf("there is no client %q", id)
			}
			seen[id] = true
			_, doc, _ := strings.Cut(string(data), "-- file --\n")
			doc, _, _ = strings.Cut(doc, "-- servers --\n")
			got := "-- file --\n" + doc + walk(t, c, doc)
			switch {
			case got == string(data):
			case *update:
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			default:
				t.Errorf("got:\n%s\nwant:\n%s", got, data)
			}
		})
	}
	for _, c := range All() {
		if !c.Pasted() && !seen[c.ID] {
			t.Errorf("%s has no case in testdata/files", c.ID)
		}
	}
}

// walk returns the parts of a case after its file.
func walk(t *testing.T, c *Client, doc string) string {
	t.Helper()
	var b strings.Builder
	servers, notes, err := Servers(c, []byte(doc), machine)
	if err != nil {
		t.Fatal(err)
	}
	b.WriteString("-- servers --\n")
	for _, s := range servers {
		describe(&b, s)
	}
	for _, n := range notes {
		fmt.Fprintf(&b, "note: %s: %s\n", n.Server, n.Text)
	}
	var moved []Server
	for _, s := range servers {
		if s.Stay == "" && !s.Disabled && s.Project == "" {
			moved = append(moved, s)
		}
	}
	edits, err := c.Connect([]byte(doc), gateway, moved, machine)
	if err != nil {
		t.Fatal(err)
	}
	connected, cuts, err := c.Apply([]byte(doc), edits)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := c.Connect(connected, gateway, moved, machine); err != nil || len(again) != 0 {
		t.Errorf("a second connect gives %v, %v", again, err)
	}
	fmt.Fprintf(&b, "-- connected --\n%s", line(connected))
	edits, err = c.Disconnect(connected, gateway, machine)
	if err != nil || len(edits) != 1 {
		t.Fatalf("disconnect gives %v, %v", edits, err)
	}
	disconnected, _, err := c.Apply(connected, edits)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&b, "-- disconnected --\n%s", line(disconnected))
	back := disconnected
	for _, cut := range slices.Backward(cuts) {
		if back, err = splice.Restore(back, c.Format, cut); err != nil {
			t.Fatal(err)
		}
	}
	was, err := splice.Decode([]byte(doc), c.Format)
	if err != nil {
		t.Fatal(err)
	}
	is, err := splice.Decode(back, c.Format)
	if err != nil {
		t.Fatal(err)
	}
	if !sameTree(was, is) {
		t.Errorf("after disconnect and restore the file is\n%s", back)
	}
	attached, err := c.Connect([]byte(doc), How{Command: []string{"/usr/bin/weir"}}, nil, machine)
	if err != nil {
		t.Fatal(err)
	}
	out, _, err := c.Apply([]byte(doc), attached)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := c.Disconnect(out, How{}, machine); err != nil || len(again) != 1 {
		t.Errorf("the command of weir attach is not recognised: %v, %v in\n%s", again, err, out)
	}
	if !bytes.Contains(out, []byte("attach")) || !bytes.Contains(out, []byte(c.ID)) {
		t.Errorf("no weir attach --client %s in\n%s", c.ID, out)
	}
	return b.String()
}

// line returns a text that ends a line.
func line(text []byte) string {
	if bytes.HasSuffix(text, []byte("\n")) {
		return string(text)
	}
	return string(text) + "\n"
}

// sameTree compares two documents without the order of members.
func sameTree(a, b any) bool {
	switch x := a.(type) {
	case splice.Object:
		y, ok := b.(splice.Object)
		return ok && len(x) == len(y) && !slices.ContainsFunc(x, func(m splice.Member) bool { return !sameTree(m.Value, y.Get(m.Key)) })
	case []any:
		y, ok := b.([]any)
		return ok && slices.EqualFunc(x, y, sameTree)
	}
	return a == b
}

func describe(b *strings.Builder, s Server) {
	fmt.Fprintf(b, "%s: %s", s.Name, s.Transport)
	show := func(key string, v any) {
		if text := fmt.Sprint(v); text != "" && text != "[]" && text != "map[]" && text != "false" && text != "0s" {
			fmt.Fprintf(b, " %s=%q", key, text)
		}
	}
	show("command", s.Command)
	if len(s.Args) > 0 {
		fmt.Fprintf(b, " args=%q", s.Args)
	}
	show("env", s.Env)
	show("env_file", s.EnvFile)
	show("cwd", s.Cwd)
	show("url", s.URL)
	show("headers", s.Headers)
	if s.OAuth != nil {
		fmt.Fprintf(b, " oauth=%q", fmt.Sprintf("%+v", *s.OAuth))
	}
	show("include", s.IncludeTools)
	show("exclude", s.ExcludeTools)
	show("timeout", s.Timeout)
	show("inputs", s.Inputs)
	show("disabled", s.Disabled)
	show("project", s.Project)
	show("stay", s.Stay)
	b.WriteString("\n")
}

func sprint(v any) string { return fmt.Sprint(v) }
