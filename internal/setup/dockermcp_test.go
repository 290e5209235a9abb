package setup

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/setup/clients"
)

// environmentOf is a machine whose home is a folder of the test.
func environmentOf(home string) clients.Environment {
	return clients.Environment{
		OS: "linux", Home: home, Getenv: func(string) string { return "" },
		Exists: func(path string) bool { _, err := os.Stat(path); return err == nil },
		Names: func(folder string) (names []string) {
			entries, _ := os.ReadDir(folder)
			for _, e := range entries {
				names = append(names, e.Name())
			}
			return names
		},
	}
}

// TestDockerServers reads the files of the toolkit as it writes them.
func TestDockerServers(t *testing.T) {
	m := &Machine{Env: environmentOf("testdata/docker")}
	s, ok := m.DockerServers()
	if !ok || s.Err != nil {
		t.Fatal(ok, s.Err)
	}
	const run = "docker run -i --rm --init --security-opt no-new-privileges "
	want := map[string]string{
		"duckduckgo":      run + "mcp/duckduckgo@sha256:aaaa",
		"git":             run + "-v /home/me/a b:/home/me/a b -v /src:/src mcp/git",
		"filesystem":      run + "-v /data:/data mcp/filesystem /data",
		"elasticsearch":   "stays: its secret elasticsearch.api_key is in the toolkit's store, which weir cannot read: give ES_API_KEY to weir add elasticsearch",
		"quiet":           run + "--network none -e MODE -e TEXT -u 1000 mcp/quiet --level=3 MODE=ro TEXT=$${X}",
		"linear":          "https://mcp.linear.app/sse sse",
		"stripe":          "stays: its secrets are in the toolkit's store; weir add stripe https://mcp.stripe.com --header \"Name: value\"",
		"curl":            "stays: its tools are containers of their own, which only the toolkit runs",
		"gone":            "stays: no catalog of the toolkit on this machine describes it",
		"hostile":         "stays: volumes in its catalog would be an option of docker",
		"clever":          "stays: volumes in its catalog uses \"mount_as:/x:ro\", which only the toolkit knows",
		"mine":            run + "me/mine:1",
		"github-official": "stays: its secret github.personal_access_token is in the toolkit's store, which weir cannot read: give GITHUB_PERSONAL_ACCESS_TOKEN to weir add github-official",
	}
	for _, server := range s.Servers {
		got := strings.Join(append([]string{server.Command}, server.Args...), " ")
		for _, name := range []string{"MODE", "TEXT"} {
			if server.Env[name] != "" {
				got += " " + name + "=" + server.Env[name]
			}
		}
		switch {
		case server.Stay != "":
			got = "stays: " + server.Stay
		case server.URL != "":
			got = server.URL + " " + string(server.Transport)
		}
		if got != want[server.Name] {
			t.Errorf("%s:\n got %s\nwant %s", server.Name, got, want[server.Name])
		}
		if delete(want, server.Name); server.Name == "duckduckgo" && !slices.Equal(server.IncludeTools, []string{"search"}) {
			t.Errorf("the tools of duckduckgo are %q", server.IncludeTools)
		}
	}
	for name := range want {
		t.Errorf("%s is not found", name)
	}
	if _, ok := (&Machine{Env: environmentOf(t.TempDir())}).DockerServers(); ok {
		t.Error("a home without Docker has the toolkit")
	}
	broken := t.TempDir()
	if err := os.MkdirAll(filepath.Join(broken, ".docker", "mcp"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(broken, ".docker", "mcp", "registry.yaml"), []byte("registry: [\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, ok := (&Machine{Env: environmentOf(broken)}).DockerServers(); !ok || s.Err == nil || !strings.Contains(s.Err.Error(), "registry.yaml") {
		t.Errorf("a broken registry.yaml: %t, %v", ok, s.Err)
	}
}
