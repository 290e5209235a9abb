package clients

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/json/splice"
)

// fixtureHome is a Linux machine whose home is testdata/home: three clients with ten servers. Two
// servers are in two clients, three have a secret, one cannot start and one runs in a sandbox.
func fixtureHome(t *testing.T) Environment {
	t.Helper()
	home, err := filepath.Abs("testdata/home")
	if err != nil {
		t.Fatal(err)
	}
	return Environment{OS: "linux", Home: filepath.ToSlash(home), Exists: func(path string) bool {
		_, err := os.Stat(path)
		return err == nil
	}}
}

// readHome detects the clients and reads their servers.
func readHome(t *testing.T, env Environment) []Server {
	t.Helper()
	var all []Server
	for _, f := range Detect(env) {
		for _, file := range f.Files {
			doc, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			servers, _, err := Servers(f.Client, doc, env)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, servers...)
		}
	}
	return all
}

func TestImportOfAHome(t *testing.T) {
	env := fixtureHome(t)
	var ids []string
	for _, f := range Detect(env) {
		ids = append(ids, f.Client.ID)
	}
	if want := []string{"claude-code", "cursor", "vscode"}; !slices.Equal(ids, want) {
		t.Fatalf("found %q, want %q", ids, want)
	}
	all := readHome(t, env)
	if len(all) != 10 {
		t.Fatalf("%d servers, want 10", len(all))
	}
	p := Make(all, Select{}, env)
	var names []string
	for _, s := range p.Servers {
		names = append(names, fmt.Sprintf("%s×%d", s.Name, len(s.From)))
	}
	if want := []string{"time×2", "github×1", "broken×1", "github-cursor×1", "everything×2", "search×1", "notes×1"}; !slices.Equal(names, want) {
		t.Errorf("planned %q, want %q", names, want)
	}
	if len(p.Stay) != 1 || p.Stay[0].Name != "tracker" || !strings.Contains(p.Stay[0].Stay, "sandbox") {
		t.Errorf("these stay: %+v", p.Stay)
	}
	var secrets []string
	for _, s := range p.Secrets {
		secrets = append(secrets, s.Name+" "+s.String()+" "+strings.Join(s.Where, ","))
	}
	want := []string{
		"GITHUB_PERSONAL_ACCESS_TOKEN ghp_…Ab3d (40) github.env.GITHUB_PERSONAL_ACCESS_TOKEN",
		"GITHUB_CURSOR_AUTHORIZATION gith…6789 (44) github-cursor.headers.Authorization",
		"SEARCH_API_KEY sk-0…mnop (29) search.args[3].--api-key",
	}
	if !slices.Equal(secrets, want) {
		t.Errorf("secrets\n%q, want\n%q", secrets, want)
	}
	for _, id := range ids {
		if n := len(p.Moved(id)); n != 3 {
			t.Errorf("%d entries move out of %s, want 3", n, id)
		}
	}

	// Names are stable, and what is in weir.yaml is known on the second run.
	servers := p.ToWeir(Secret.Inline)
	doc, err := splice.Set(nil, splice.YAML, splice.Path{"mcpServers"}, servers)
	if err != nil {
		t.Fatal(err)
	}
	weir := OwnFile()
	existing, _, err := Servers(weir, doc, env)
	if err != nil {
		t.Fatal(err)
	}
	again := Make(all, Select{Existing: existing}, env)
	if len(again.Servers) != 0 || len(again.Known) != 7 || len(again.Moved("cursor")) != 3 {
		t.Errorf("a second import adds %d servers and knows %d", len(again.Servers), len(again.Known))
	}
}

// TestNoSecretInWeirYAML looks for every secret in what an import writes.
func TestNoSecretInWeirYAML(t *testing.T) {
	env := fixtureHome(t)
	p := Make(readHome(t, env), Select{}, env)
	servers := p.ToWeir(Secret.Reference)
	text := fmt.Sprint(servers)
	for _, s := range p.Secrets {
		if strings.Contains(text, s.Value) || !strings.Contains(text, s.Reference()) {
			t.Errorf("%s in %s", s, text)
		}
	}
}

// TestEveryEntryLoads writes the servers of every case into a weir.yaml and reads it as weir does.
func TestEveryEntryLoads(t *testing.T) {
	cases, err := filepath.Glob("testdata/files/*.txtar")
	if err != nil || len(cases) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, path := range cases {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		id, _, _ := strings.Cut(strings.TrimSuffix(filepath.Base(path), ".txtar"), "-v2")
		c, _ := ByID(id)
		_, doc, _ := strings.Cut(string(data), "-- file --\n")
		doc, _, _ = strings.Cut(doc, "-- servers --\n")
		servers, _, err := Servers(c, []byte(doc), machine)
		if err != nil {
			t.Fatal(err)
		}
		answer := func(_, _ string, question splice.Object) (string, bool) {
			return "answer-" + question.Get("id").(string), true
		}
		p := Make(servers, Select{All: true, Projects: true, Answer: answer}, machine)
		for _, s := range p.Secrets {
			if strings.Contains(s.String(), s.Value) {
				t.Errorf("%s: %s shows the secret", id, s)
			}
		}
		entries := p.ToWeir(func(s Secret) string { return "${env:" + s.Name + "}" })
		doc2, err := splice.Set(nil, splice.YAML, splice.Path{"mcpServers"}, entries)
		if err != nil {
			t.Fatal(err)
		}
		cfg, warnings, err := config.Parse("weir.yaml", doc2, config.Options{
			Dir:       "/etc/weir",
			Strict:    true,
			LookupEnv: func(string) (string, bool) { return "value", true },
		})
		if err != nil || len(warnings) > 0 {
			t.Errorf("%s: %v, %v in\n%s", id, err, warnings, doc2)
			continue
		}
		if len(cfg.Servers) != len(p.Servers) {
			t.Errorf("%s: %d servers load of %d", id, len(cfg.Servers), len(p.Servers))
		}
	}
}

func TestSecrets(t *testing.T) {
	p := Make([]Server{
		{Client: "cursor", Name: "db", Transport: Stdio, Command: "npx",
			Args: []string{"postgres://me:hunter2hunter2@db/shop", "--token=abcdefgh12345678", "--header", "Authorization: Bearer abcd1234efgh5678", "--verbose", "--max-tokens", "4096", "$${HOME}"},
			Env:  map[string]string{"MODE": "fast", "GITHUB_TOKEN": "${env:GITHUB_TOKEN}", "MAX_TOKENS": "4096", "AUTH_TYPE": "oauth", "KEY_FILE": "/home/me/key.json", "GOOGLE_APPLICATION_CREDENTIALS": "/home/me/g.json", "PAGER": "ghp_0123456789abcdefghijklmnopqrstuv", "AUTHOR": "me", "X_TOKEN": "pa$${ss}word1"}},
		{Client: "vscode", Name: "db", Transport: HTTP, URL: "https://db.example.com/mcp?api_key=k0123456789abcdef&page=2", Headers: map[string]string{"Authorization": "Bearer abcd1234efgh5678", "X-Token": "other-0123456789"}},
	}, Select{}, machine)
	var got []string
	for _, s := range p.Secrets {
		got = append(got, s.Name+"="+s.Value)
	}
	slices.Sort(got)
	want := []string{"DB_ARG=hunter2hunter2", "DB_TOKEN=abcdefgh12345678", "DB_VSCODE_AUTHORIZATION=abcd1234efgh5678", "DB_VSCODE_URL_API_KEY=k0123456789abcdef", "DB_VSCODE_X_TOKEN=other-0123456789", "PAGER=ghp_0123456789abcdefghijklmnopqrstuv", "X_TOKEN=pa${ss}word1"}
	for _, secret := range []string{"hunter2hunter2", "abcdefgh12345678", "abcd1234efgh5678", "k0123456789abcdef", "other-0123456789", "ghp_0123456789abcdefghijklmnopqrstuv", "pa${ss}word1"} {
		if !slices.ContainsFunc(p.Secrets, func(s Secret) bool { return s.Value == secret }) {
			t.Errorf("%q is no secret of %q", secret, got)
		}
	}
	if len(got) != len(want) {
		t.Errorf("secrets %q, want %d like %q", got, len(want), want)
	}
	if p.Servers[1].Server.URL != "https://db.example.com/mcp?api_key=${secret:DB_VSCODE_URL_API_KEY}&page=2" {
		t.Errorf("the URL is %s", p.Servers[1].Server.URL)
	}
	inline := p.ToWeir(Secret.Inline)
	if text := fmt.Sprint(inline); !strings.Contains(text, "pa$${ss}word1") || strings.Contains(text, "${secret:") {
		t.Errorf("inline: %s", text)
	}
}

func TestNamesAreLegalAndStable(t *testing.T) {
	for in, want := range map[string]string{"a/b~c": "a-b-c", "My Server (new)": "My-Server-new", "__x": "x", "日本": "server", strings.Repeat("n", 80): strings.Repeat("n", 64)} {
		if got := legalName(in); got != want || legalName(got) != got {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
	servers := []Server{
		{Client: "cursor", Name: "GitHub", Transport: HTTP, URL: "https://a.example/mcp"},
		{Client: "zed", Name: "github", Transport: HTTP, URL: "https://b.example/mcp"},
		{Client: "zed", Name: "git hub", Transport: HTTP, URL: "https://a.example/mcp/"},
	}
	p := Make(servers, Select{}, machine)
	if len(p.Servers) != 2 || p.Servers[0].Name != "GitHub" || p.Servers[1].Name != "github-zed" {
		t.Errorf("planned %+v", p.Servers)
	}
}

func TestSameServerWithItsVariablesResolved(t *testing.T) {
	env := machine
	env.Getenv = func(name string) string { return map[string]string{"TOKEN": "abc"}[name] }
	p := Make([]Server{
		{Client: "cursor", Name: "a", Transport: Stdio, Command: "a", Env: map[string]string{"T": "${env:TOKEN}"}},
		{Client: "gemini", Name: "a", Transport: Stdio, Command: "a", Env: map[string]string{"T": "${TOKEN:-}"}},
		{Client: "zed", Name: "a", Transport: Stdio, Command: "a", Env: map[string]string{"T": "abc"}},
		{Client: "zed", Name: "b", Transport: Stdio, Command: "a", Env: map[string]string{"T": "xyz"}},
	}, Select{}, env)
	if len(p.Servers) != 2 || len(p.Servers[0].From) != 3 {
		t.Errorf("planned %+v", p.Servers)
	}
}
