package clients_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/setup/clients"
)

// A client's servers move behind weir, and weir takes their place.
func Example() {
	env := clients.Environment{OS: "linux", Home: "/home/me", Exists: func(path string) bool { return path == "/home/me/.cursor/mcp.json" }}
	doc := []byte(`{"mcpServers": {"github": {"url": "https://api.githubcopilot.com/mcp/", "headers": {"Authorization": "Bearer ghp_0123456789abcdefghijklmnopqrstuvAb3d"}}}}`)

	how := clients.How{URL: "http://127.0.0.1:8088/mcp"}
	for _, found := range clients.Detect(env) {
		servers, _, err := clients.Servers(found.Client, doc, env)
		if err != nil {
			fmt.Println(err)
			return
		}
		plan := clients.Make(servers, clients.Select{How: how}, env)
		for _, secret := range plan.Secrets {
			fmt.Println("secret:", secret)
		}
		entries := plan.ToWeir(clients.Secret.Reference)
		fmt.Println("weir.yaml:", entries[0].Key, entries[0].Value)

		edits, err := found.Client.Connect(doc, how, plan.Moved(found.Client.ID), env)
		if err != nil {
			fmt.Println(err)
			return
		}
		after, _, err := found.Client.Apply(doc, edits)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(found.Target + ": " + strings.TrimSpace(string(after)))
	}

	// Output:
	// secret: ghp_…Ab3d (40)
	// weir.yaml: github [{url https://api.githubcopilot.com/mcp/} {headers [{Authorization Bearer ${secret:GITHUB_AUTHORIZATION}}]}]
	// /home/me/.cursor/mcp.json: {"mcpServers": {"weir": {"url": "http://127.0.0.1:8088/mcp"}}}
}

// TestTable checks what commands rely on in every line of the table.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range clients.All() {
		if seen[c.ID] || c.ID == "" || c.ID == clients.OwnFile().ID || c.Name == "" {
			t.Errorf("the id %q is empty or there twice", c.ID)
		}
		seen[c.ID] = true
		if same, ok := clients.ByID(c.ID); !ok || same != c {
			t.Errorf("%s is not found by its id", c.ID)
		}
		for _, os := range []string{"linux", "darwin", "windows"} {
			home := map[string]string{"linux": "/home/me", "darwin": "/Users/me", "windows": `C:\Users\me`}[os]
			file := c.DefaultFile(clients.Environment{OS: os, Home: home})
			if (file == "") != c.Pasted() {
				t.Errorf("%s has the file %q on %s", c.ID, file, os)
			}
			if file != "" && (!strings.HasPrefix(file, home) || strings.ContainsAny(file[len(home):], "$~*|") || os == "windows" && strings.Contains(file, "/")) {
				t.Errorf("%s has the file %q on %s", c.ID, file, os)
			}
		}
		text, link, err := c.Snippet(clients.How{Command: []string{"/usr/bin/weir"}})
		if err != nil || !strings.Contains(text, "attach") || !strings.Contains(text, c.ID) {
			t.Errorf("%s: the snippet is %q, the link %q: %v", c.ID, text, link, err)
		}
		if c.Reload < clients.Restart || c.Reload > clients.Live || c.Proof < clients.Hearsay || c.Proof > clients.Run {
			t.Errorf("%s: reload %d, proof %d", c.ID, c.Reload, c.Proof)
		}
	}
	if len(seen) < 38 {
		t.Errorf("only %d clients", len(seen))
	}
}

// TestEmptyFiles connects clients that have an empty file, or none.
func TestEmptyFiles(t *testing.T) {
	env := clients.Environment{OS: "linux", Home: "/home/me"}
	for _, id := range []string{"cursor", "vscode", "amp", "opencode", "codex", "vibe", "goose", "continue", "hermes"} {
		c, _ := clients.ByID(id)
		for _, doc := range []string{"", "\n", "\ufeff", "{}", "{\r\n}\r\n"} {
			if strings.Contains(doc, "{") && c.Format.String() == "TOML" {
				continue
			}
			servers, _, err := clients.Servers(c, []byte(doc), env)
			if err != nil || len(servers) > 0 {
				t.Errorf("%s: %q has %v, %v", id, doc, servers, err)
			}
			edits, err := c.Connect([]byte(doc), clients.How{URL: "http://127.0.0.1:8088/mcp"}, nil, env)
			if err != nil {
				t.Fatal(err)
			}
			out, _, err := c.Apply([]byte(doc), edits)
			if err != nil {
				t.Errorf("%s: %q: %v", id, doc, err)
				continue
			}
			servers, _, err = clients.Servers(c, out, env)
			if err != nil || len(servers) != 1 || servers[0].Name != "weir" || servers[0].Transport == clients.Stdio {
				t.Errorf("%s: %q becomes %q: %v, %v", id, doc, out, servers, err)
			}
		}
	}
}
