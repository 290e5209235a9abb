package credentials

import (
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/signin/oauth"
	"github.com/weir-mcp/weir/internal/signin/vault"
	"github.com/weir-mcp/weir/internal/upstream"
)

// TestTextsOfPages stores credentials as a page does: calls have them at once, each those of its caller.
func TestTextsOfPages(t *testing.T) {
	t.Parallel()
	c, _, err := config.Parse("weir.yaml", []byte(`
auth: {tokens: [{name: ann, sha256: 2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881}, {name: bob, sha256: 3d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881, agents: [wiki]}]}
mcpServers:
  jira: {url: "https://jira.example.com/mcp", credentials: user, headers: {Authorization: "Bearer ${user:jira}", X-Team: "${user:team}"}}
  wiki: {url: "https://wiki.example.com/mcp"}
`), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	store := vault.NewMemory(nil)
	s := New(store, func() *config.Config { return c }, func(string) {}, nil)
	s.Serve("https://weir.example.com")
	pages, ann, bob := s.Texts(), &identity.Identity{Principal: "ann"}, &identity.Identity{Principal: "bob"}
	read := func(principal string) string {
		text, err := s.Text(t.Context(), "jira", "jira", upstream.Owner{Principal: principal})
		if err != nil {
			return err.Error()
		}
		return text
	}
	if got := read("ann"); !strings.Contains(got, "open https://weir.example.com/connect/jira or run `weir credentials set jira") {
		t.Errorf("before: %s", got)
	}
	for range 2 { // the second replaces the first
		for _, name := range []string{"jira", "team"} {
			if err := pages.Keep(t.Context(), ann, "jira", name, " "+name+"-of-ann\r\n"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := read("ann"); got != "jira-of-ann" || !s.SignedIn("jira", "ann") || s.Holder("jira", "") != "ann" {
		t.Errorf("the text is %q", got)
	}
	all, err := pages.Names(t.Context(), ann, "jira")
	if err != nil || len(all) != 2 || !all[0].Stored || all[0].Name != "jira" {
		t.Errorf("the credentials: %v, %v", all, err)
	}
	if all, err := pages.Names(t.Context(), ann, "wiki"); err != nil || all != nil {
		t.Errorf("a server without any: %v, %v", all, err)
	}
	for name, err := range map[string]error{
		"a caller who may not call": pages.Keep(t.Context(), bob, "jira", "jira", "x"),
		"another name":              pages.Keep(t.Context(), ann, "jira", "wiki", "x"),
		"no principal":              pages.Keep(t.Context(), &identity.Identity{Principal: oauth.Shared}, "jira", "jira", "x"),
		"nothing":                   pages.Keep(t.Context(), ann, "jira", "jira", " "),
		"two lines":                 pages.Keep(t.Context(), ann, "jira", "jira", "a\nb"),
		"too much":                  pages.Keep(t.Context(), ann, "jira", "jira", strings.Repeat("x", maxKept+1)),
	} {
		if err == nil {
			t.Errorf("%s is stored", name)
		}
	}
	if entries, err := store.List(t.Context()); err != nil || len(entries) != 2 {
		t.Errorf("the store has %d records: %v", len(entries), err)
	}
	for range 2 { // also where it is gone
		if err := pages.Remove(t.Context(), ann, "jira", "jira"); err != nil {
			t.Error(err)
		}
	}
	if got := read("ann"); !strings.Contains(got, "weir credentials set jira --as ann") || s.SignedIn("jira", "ann") {
		t.Errorf("after the removal: %q", got)
	}
}
