package cli

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/weir-mcp/weir/internal/gateway"
)

// TestServeCatalog: a snapshot file is served alone, or beside servers.
func TestServeCatalog(t *testing.T) {
	t.Parallel()
	file, err := filepath.Abs("../../examples/catalog.json")
	if err != nil {
		t.Fatal(err)
	}
	folder := writeConfig(t, "catalog.txt", "not a list")
	s := start(t, folder, "serve", "--catalog", file, "--listen", "127.0.0.1:0")
	weir(t, "ls", "--url", s.url).want(t, exitOK, "catalog", "file")
	closing := s.tool("tickets:close")
	weir(t, "call", closing, "--arg", "id=7", "--url", s.url).want(t, exitTool, "needs an upstream")

	client := sdk.NewClient(&sdk.Implementation{Name: "c", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: s.url, HTTPClient: httpClient(t)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	found := textOf(t, session, "resource_browse", map[string]any{"query": "who is called when"})
	id, _, _ := strings.Cut(found, " ")
	if got := textOf(t, session, "resource_read", map[string]any{"resource_id": id}); !strings.Contains(got, "First line: the person on duty.") {
		t.Errorf("%s: %s", found, got)
	}
	found = textOf(t, session, "prompt_browse", map[string]any{"query": "urgent"})
	id, _, _ = strings.Cut(found, " ")
	if got := textOf(t, session, "prompt_get", map[string]any{"prompt_id": id, "args": map[string]any{"ticket": "Fire!"}}); !strings.Contains(got, "and why?\n\nFire!") {
		t.Errorf("%s: %s", found, got)
	}

	both := serve(t, oneFake, "--catalog", file)
	both.tool("fake:echo")
	both.tool("tickets:close")
	weir(t, "serve", "--catalog", folder).want(t, exitUsage, "catalog.txt")
	weir(t, "serve", "--catalog", filepath.Join(t.TempDir(), "nope.json")).want(t, exitUsage, "nope.json", "cannot be read")
}

// TestPartialCatalog: what is left out of a server's list is told, and not only in the log.
func TestPartialCatalog(t *testing.T) {
	t.Parallel()
	s := serve(t, oneFake)
	weir(t, "call", s.tool("fake:set_tools"), "--arg", "n=20500", "--url", s.url).want(t, exitOK, "done")
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		_, body := get(t, s.base+"/catalog")
		info := decode[gateway.CatalogInfo](t, body)
		if len(info.Partial) == 0 && time.Now().Before(end) {
			continue
		}
		if info.Complete || !slices.Equal(info.Partial, []string{"fake"}) || !strings.Contains(strings.Join(info.Findings, "\n"), "tools/list is cut after 20000 entries: it has more than 20000 entries") {
			t.Errorf("complete %v, partial %v, findings %q", info.Complete, info.Partial, info.Findings[:min(len(info.Findings), 3)])
		}
		break
	}
	if out := weir(t, "ls", "--hash", "--url", s.url).want(t, exitOK); !strings.Contains(out.stderr, "not all that these servers list is served") || !strings.Contains(out.stderr, "fake") {
		t.Errorf("ls --hash: %q", out.stderr)
	}
}

// TestPinnedCatalog: a strict pin refuses another catalog, and ls shows what
// changed and how to pin anew.
func TestPinnedCatalog(t *testing.T) {
	t.Parallel()
	s := serve(t, oneFake)
	echo := s.tool("fake:echo")
	hash := strings.TrimSpace(weir(t, "ls", "--hash", "--url", s.url).want(t, exitOK).stdout)
	if len(hash) != 64 {
		t.Fatalf("hash %q", hash)
	}
	if own := strings.TrimSpace(weir(t, "ls", "--hash", "--config", s.config).want(t, exitOK).stdout); own != hash {
		t.Errorf("another process has the hash %s, not %s", own, hash)
	}
	weir(t, "ls", "--changes", "--url", s.url).want(t, exitOK, "Nothing has changed")

	pinned := serve(t, "pin: {expected_hash: "+hash+", mode: strict}\n"+oneFake)
	pinned.tool("fake:echo")
	weir(t, "call", echo, "--arg", "text=hi", "--url", pinned.url).want(t, exitOK, "hi")
	weir(t, "call", pinned.tool("fake:set_tools"), "--arg", "n=2", "--url", pinned.url).want(t, exitOK, "done")
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if f := weir(t, "ls", "--changes", "--url", pinned.url); strings.Contains(f.stdout, `added tool "tool_0001" of server "fake"`) {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the change is not told")
		}
	}
	refused := weir(t, "call", echo, "--arg", "text=hi", "--url", pinned.url).want(t, exitRefused, "pinned", "pin.expected_hash")
	_, body := get(t, pinned.base+"/catalog")
	info := decode[gateway.CatalogInfo](t, body)
	if info.Pin == nil || info.Pin.Holds || !info.Complete || len(info.Changes) != 2 || strings.Contains(refused.stdout+refused.stderr, info.Hash) {
		t.Errorf("%s\n%s", body, refused.stderr)
	}
	// The operator is told what to pin, and agents are not.
	logged(t, pinned, "hash="+info.Hash, "the catalog is not the one that is pinned", "nothing is executed", `added tool`)
	if code, _ := get(t, pinned.base+"/catalog"); code != http.StatusOK {
		t.Error(code)
	}
	resp, err := httpClient(t).Post(pinned.base+"/catalog", "application/json", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", resp.StatusCode)
	}
	// The operator looks at it and pins anew, while weir runs.
	config, err := os.ReadFile(pinned.config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(pinned.config, []byte(strings.Replace(string(config), hash, info.Hash, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if f := weir(t, "call", echo, "--arg", "text=again", "--url", pinned.url); f.code == exitOK {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the new pin is not applied")
		}
	}
}
