package cli

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	embedded "github.com/weir-mcp/weir"
)

// documentedPaths returns the paths of the tables "what a running gateway serves" of the documents, with a name in each
// place that takes one.
func documentedPaths(t *testing.T) (paths []string) {
	t.Helper()
	for _, file := range []string{"../../docs/cli.md", "../../docs/agents.md", "../../docs/signin-clients.md"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for line := range strings.Lines(string(text)) {
			cell, ok := strings.CutPrefix(line, "| `/")
			if !ok {
				continue
			}
			cell, _, _ = strings.Cut("`/"+cell, " |")
			for _, path := range regexp.MustCompile("`(/[^`]*)`").FindAllStringSubmatch(cell, -1) {
				paths = append(paths, path[1])
				found++
			}
		}
		if found == 0 {
			t.Errorf("%s has no table of paths", file)
		}
	}
	slices.Sort(paths)
	names := strings.NewReplacer("PROFILE", "some", "NAME", "files", "{agent}", "files", "{name}", "files", "TOKEN", "none", "HANDLE", "none", "…", "none")
	for i, path := range paths {
		paths[i] = names.Replace(path)
	}
	return slices.Compact(paths)
}

// TestRoutesOfBothFronts: each path that the documents name is served by weir serve and by a gateway within another
// program, and answers alike.
func TestRoutesOfBothFronts(t *testing.T) {
	t.Parallel()
	config := `mode: gateway
public_url: https://weir.example.com
mcpServers:
  files: {command: "%FAKE%"}
hub: {}
profiles:
  some: {include: ["files:*"]}
auth:
  accounts: [{name: bob, password: "$argon2id$v=19$m=65536,t=3,p=1$c2FsdHNhbHRzYWx0c2FsdA$aGFzaGhhc2hoYXNoaGFzaGhhc2hoYXNoaGFzaGhhc2g"}]
  server: {people: accounts}
  tokens: [{name: ann, sha256: ` + fmt.Sprintf("%x", sha256.Sum256([]byte(routesToken))) + `, operator: true}]
`
	s := serve(t, config)
	c, err := embedded.Load(s.config)
	if err != nil {
		t.Fatal(err)
	}
	g, err := embedded.New(t.Context(), c, embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(g)
	t.Cleanup(func() {
		if err := g.Shutdown(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
		front.Close()
	})
	ask := func(method, url string) (status int, body string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = "weir.example.com"
		r.Header.Set("Authorization", "Bearer "+routesToken)
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatalf("%s %s: %v", method, url, err)
		}
		defer resp.Body.Close()
		if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
			return resp.StatusCode, "" // a stream has no end
		}
		text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
	}
	_, nothing := ask("GET", s.base+"/no-such-path")
	if !strings.Contains(nothing, `"error":"not found"`) {
		t.Fatalf("an unknown path answers %s", nothing)
	}
	paths := documentedPaths(t)
	if len(paths) < 40 {
		t.Errorf("the documents name %d paths: %q", len(paths), paths)
	}
	for _, path := range paths {
		if path == "/oauth/backchannel-logout" {
			continue // needs auth.login, and so a provider: TestLogoutsAtAnyNode of package gateway
		}
		for _, method := range []string{"GET", "POST"} {
			served, body := ask(method, s.base+path)
			within, other := ask(method, front.URL+path)
			if served != within {
				t.Errorf("%s %s: %d by weir serve, %d within a program", method, path, served, within)
			}
			if strings.Contains(body, `"page":"/"`) || strings.Contains(other, `"page":"/"`) {
				t.Errorf("%s %s is no route: %s", method, path, body)
			}
		}
	}
}

const routesToken = "the-token-of-ann-who-asks-each-path"
