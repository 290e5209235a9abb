package clients

import (
	"slices"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/json/splice"
)

// restricted is a server of a client that lets some tools through.
func restricted(client string, include, exclude []string) Server {
	return Server{Client: client, Name: "files", Transport: Stdio, Command: "files", IncludeTools: include, ExcludeTools: exclude}
}

// TestNoClientReachesMoreThanBefore: clients that share a server may let different tools through. What
// weir offers is what each of them let through, in any order of the clients.
func TestNoClientReachesMoreThanBefore(t *testing.T) {
	for _, c := range []struct {
		name             string
		entries          []Server
		include, exclude []string
		stay             bool
	}{
		{name: "one has all", entries: []Server{restricted("claude-code", nil, nil), restricted("codex", []string{"read", "list"}, nil)}, include: []string{"read", "list"}},
		{name: "both name some", entries: []Server{restricted("gemini", []string{"read", "write"}, nil), restricted("codex", []string{"read", "list"}, nil)}, include: []string{"read"}},
		{name: "both exclude some", entries: []Server{restricted("gemini", nil, []string{"write"}), restricted("qwen", nil, []string{"move"})}, exclude: []string{"write", "move"}},
		{name: "some and without", entries: []Server{restricted("codex", []string{"read", "write"}, nil), restricted("gemini", nil, []string{"write"})}, include: []string{"read", "write"}, exclude: []string{"write"}},
		{name: "nothing in common", entries: []Server{restricted("codex", []string{"read"}, nil), restricted("gemini", []string{"write"}, nil), restricted("claude-code", nil, nil)}, stay: true},
	} {
		for range 2 {
			slices.Reverse(c.entries)
			p := Make(c.entries, Select{}, machine)
			if c.stay {
				if len(p.Servers) != 0 || len(p.Stay) != len(c.entries) {
					t.Errorf("%s: %d move, %d stay", c.name, len(p.Servers), len(p.Stay))
				}
				continue
			}
			if len(p.Servers) != 1 || !sameSet(p.Servers[0].Server.IncludeTools, c.include) || !sameSet(p.Servers[0].Server.ExcludeTools, c.exclude) {
				t.Errorf("%s: planned %+v", c.name, p.Servers)
			}
			if len(p.Notes) == 0 || !p.Notes[0].Warn {
				t.Errorf("%s: no warning in %+v", c.name, p.Notes)
			}
		}
	}
}

func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// TestClientOfANarrowerEntry: a client whose entry lets fewer tools through than weir's server is named,
// and one that lets through as many is not.
func TestClientOfANarrowerEntry(t *testing.T) {
	existing := []Server{{Name: "files", Transport: Stdio, Command: "files", ExcludeTools: []string{"move"}}}
	p := Make([]Server{
		restricted("codex", []string{"read"}, nil), restricted("gemini", nil, []string{"write"}),
		restricted("cursor", nil, nil), restricted("qwen", nil, []string{"move"}),
	}, Select{Existing: existing}, machine)
	var named []string
	for _, s := range p.Narrower {
		named = append(named, s.Client)
	}
	if !slices.Equal(named, []string{"codex", "gemini"}) {
		t.Errorf("narrower are %q", named)
	}
	if len(p.Known) != 1 || len(p.Known[0].From) != 4 || len(p.Known[0].Server.IncludeTools) != 0 {
		t.Errorf("known is %+v", p.Known)
	}
}

// TestListOfToolsThatLetsNoneThrough: an empty list of tools is none, but for Goose; a list that weir
// cannot read is not all.
func TestListOfToolsThatLetsNoneThrough(t *testing.T) {
	for _, c := range []struct {
		client, doc string
		moves       bool
	}{
		{"codex", "[mcp_servers.a]\ncommand = \"a\"\nenabled_tools = []\n", false},
		{"gemini", `{"mcpServers": {"a": {"command": "a", "includeTools": []}}}`, false},
		{"gemini", `{"mcpServers": {"a": {"command": "a", "includeTools": "read"}}}`, false},
		{"gemini", `{"mcpServers": {"a": {"command": "a", "excludeTools": {"x": 1}}}}`, false},
		{"gemini", `{"mcpServers": {"a": {"command": "a", "excludeTools": []}}}`, true},
		{"copilot-cli", `{"mcpServers": {"a": {"type": "local", "command": "a", "tools": []}}}`, false},
		{"copilot-cli", `{"mcpServers": {"a": {"type": "local", "command": "a", "tools": ["*"]}}}`, true},
		{"goose", "extensions:\n  a: {name: a, type: stdio, cmd: a, available_tools: []}\n", true},
	} {
		client, _ := ByID(c.client)
		servers, _, err := Servers(client, []byte(c.doc), machine)
		if err != nil || len(servers) != 1 {
			t.Fatalf("%s: %+v, %v", c.doc, servers, err)
		}
		if moves := servers[0].Stay == ""; moves != c.moves || len(servers[0].IncludeTools) > 0 {
			t.Errorf("%s: moves is %t (%s)", c.doc, moves, servers[0].Stay)
		}
	}
}

// TestAnswers: an answer is asked for once, that to a password becomes a secret, a default needs none, and
// a server whose question has no answer stays.
func TestAnswers(t *testing.T) {
	question := func(id string, more ...splice.Member) splice.Object {
		return append(splice.Object{{Key: "id", Value: id}, {Key: "type", Value: "promptString"}}, more...)
	}
	password := splice.Member{Key: "password", Value: true}
	server := func(name string, inputs ...splice.Object) Server {
		s := Server{Client: "vscode", Name: name, Transport: HTTP, URL: "https://" + name + ".example/mcp", Headers: map[string]string{}, Inputs: inputs}
		for _, q := range inputs {
			s.Headers["X-"+q.Get("id").(string)] = "v=${input:" + q.Get("id").(string) + "} $${input:" + q.Get("id").(string) + "}"
		}
		return s
	}
	asked := 0
	p := Make([]Server{
		server("a", question("gh", password), question("org")), server("b", question("gh", password)),
		server("c", question("zone", splice.Member{Key: "default", Value: "eu"})), server("d", question("none", password)), server("e"),
	}, Select{Answer: func(client, _ string, q splice.Object) (string, bool) {
		asked++
		answer, ok := map[string]string{"gh": "ghp_0123456789abcdefghij", "org": "acme${x}"}[q.Get("id").(string)]
		return answer, ok && client == "vscode"
	}}, machine)
	if asked != 4 {
		t.Errorf("asked %d times", asked)
	}
	if len(p.Stay) != 1 || p.Stay[0].Name != "d" || !strings.Contains(p.Stay[0].Stay, `"none"`) {
		t.Errorf("stay: %+v", p.Stay)
	}
	if len(p.Secrets) != 1 || p.Secrets[0].Name != "GH" || p.Secrets[0].Value != "ghp_0123456789abcdefghij" || len(p.Secrets[0].Where) != 2 {
		t.Errorf("secrets: %+v", p.Secrets)
	}
	want := map[string]string{"X-gh": "v=${secret:GH} $${input:gh}", "X-org": "v=acme$${x} $${input:org}", "X-zone": "v=eu $${input:zone}"}
	for _, planned := range p.Servers {
		for name, value := range planned.Server.Headers {
			if value != want[name] {
				t.Errorf("%s: %s is %q", planned.Name, name, value)
			}
		}
	}
	if len(p.Servers) != 4 || len(p.Moved("vscode")) != 4 {
		t.Errorf("%d move", len(p.Servers))
	}
	if alone := Make([]Server{server("a", question("gh", password))}, Select{}, machine); len(alone.Servers) != 0 || len(alone.Stay) != 1 {
		t.Errorf("without a person: %+v", alone.Servers)
	}
}
