package config

import (
	"slices"
	"testing"
)

// TestSecretsByPlace: what stands where secrets stand is one, and only a value of env
// that says nothing by its name or its look is no credential.
func TestSecretsByPlace(t *testing.T) {
	c, _, err := Parse("weir.yaml", []byte(`
hubs: {far: {url: "https://hub.example/u/Hu8x9QpL0vT7mN2bQ8", office: o, token: hub-token}}
search: {embedding: {url: "https://e.example/v1?api_key=embed-key", model: m}}
mcpServers:
  query: {url: "https://mcp.example/mcp?tavilyApiKey=query-value&mode=read-only"}
  path: {url: "https://mcp.example/s/Zk3x9QpL0vT7mN2bQ8/mcp"}
  args: {command: x, args: [--token, args-value, --api-key=args-other, --verbose, "postgres://ann:args-pass@db/x"]}
  variable: {command: x, args: [--secret, "${UNTELLING}"], env: {PROJECT: production, GITHUB_TOKEN: some-words, RANDOM: a1b2c3d4e5f6}}
  header: {url: "https://h.example/mcp", headers: {X-Api-Key: "Bearer header-value"}}
`), Options{LookupEnv: func(name string) (string, bool) { return "from-variable", name == "UNTELLING" }})
	if err != nil {
		t.Fatal(err)
	}
	certain := []string{"Hu8x9QpL0vT7mN2bQ8", "hub-token", "embed-key", "query-value", "Zk3x9QpL0vT7mN2bQ8", "args-value", "args-other", "args-pass", "from-variable", "some-words", "a1b2c3d4e5f6", "header-value"}
	for _, secret := range append([]string{"production"}, certain...) {
		if !slices.Contains(c.Secrets(), secret) {
			t.Errorf("%q is no secret: %q", secret, c.Secrets())
		}
	}
	for _, secret := range certain {
		if !slices.Contains(c.Credentials(), secret) {
			t.Errorf("%q is no credential: %q", secret, c.Credentials())
		}
	}
	for _, plain := range []string{"production", "read-only", "--verbose"} {
		if slices.Contains(c.Credentials(), plain) {
			t.Errorf("%q is a credential", plain)
		}
	}
}
