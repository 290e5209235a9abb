package demo

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/weir-mcp/weir/internal/config"
)

// TestQuickstartIDs keeps the tool ids written in the quickstart's README true: each names
// a tool there is and ends in the hash of its arguments (spec/gateway §1.3).
func TestQuickstartIDs(t *testing.T) {
	want := map[string]bool{}
	for _, name := range Names() {
		var session *mcp.ClientSession
		if name == "inventory" {
			session, _ = overHTTP(t, name)
		} else {
			session = overStdio(t, name)
		}
		for tool, err := range session.Tools(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			want[name+":"+tool.Name+"#"+argumentsHash(t, tool)] = true
		}
	}
	readme, err := os.ReadFile("../../examples/quickstart/README.md")
	if err != nil {
		t.Fatal(err)
	}
	written := regexp.MustCompile(`'([a-z]+:[a-z_]+#[0-9a-f]*)'`).FindAllSubmatch(readme, -1)
	if len(written) < 4 {
		t.Errorf("%d tool ids in the README, want at least 4", len(written))
	}
	for _, id := range written {
		if !want[string(id[1])] {
			t.Errorf("the README calls %s, which does not exist; there are %v", id[1], want)
		}
	}
}

// TestQuickstartConfig loads the quickstart's file as it is and with the commented servers
// switched on.
func TestQuickstartConfig(t *testing.T) {
	const file = "../../examples/quickstart/weir.yaml"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	options := config.Options{
		LookupEnv:  func(name string) (string, bool) { return "secret", name == "REMOTE_MCP_TOKEN" },
		Executable: func() (string, error) { return "/bin/weir", nil },
		FreePort:   func() (int, error) { return 4711, nil },
	}
	load := func(text []byte, want ...string) map[string]*config.Server {
		t.Helper()
		parsed, warnings, err := config.Parse("weir.yaml", text, options)
		if err != nil || len(warnings) > 0 {
			t.Fatalf("warnings %v, error %v", warnings, err)
		}
		servers := map[string]*config.Server{}
		var names []string
		for _, s := range parsed.Servers {
			servers[s.Name] = s
			names = append(names, s.Name)
		}
		slices.Sort(names)
		slices.Sort(want)
		if !slices.Equal(names, want) {
			t.Fatalf("servers %v, want %v", names, want)
		}
		return servers
	}
	servers := load(text, Names()...)
	for name, s := range servers {
		if s.Command != "/bin/weir" || s.Args[0] != "demo" || s.Args[1] != name {
			t.Errorf("%s: starts %s %v", name, s.Command, s.Args)
		}
	}
	if s := servers["inventory"]; s.URL != "http://127.0.0.1:4711/mcp" || s.Args[3] != "127.0.0.1:4711" {
		t.Errorf("inventory listens on %s and is asked at %s", s.Args[3], s.URL)
	}

	switched := regexp.MustCompile(`(?m)^  # (([a-z]+:|  [a-z]+:| +[A-Z][a-z]+:).*)$`).ReplaceAll(text, []byte("  $1"))
	servers = load(switched, append(Names(), "everything", "filesystem", "memory", "remote")...)
	if got := servers["remote"].Headers["Authorization"].Reveal(); got != "Bearer secret" {
		t.Errorf("the remote server is sent %q", got)
	}
}

func argumentsHash(t *testing.T, tool *mcp.Tool) string {
	t.Helper()
	schema := tool.InputSchema.(map[string]any)
	// The tags' order is the shape's order of keys.
	shape := struct {
		Properties []string `json:"properties"`
		Required   []string `json:"required"`
	}{[]string{}, []string{}}
	properties, _ := schema["properties"].(map[string]any)
	for name := range properties {
		shape.Properties = append(shape.Properties, name)
	}
	required, _ := schema["required"].([]any)
	for _, name := range required {
		shape.Required = append(shape.Required, name.(string))
	}
	slices.Sort(shape.Properties)
	slices.Sort(shape.Required)
	text, err := json.Marshal(shape)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(tool.Name + "\n" + string(text)))
	return hex.EncodeToString(sum[:4])
}
