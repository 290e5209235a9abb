package mcpregistry_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/setup/mcpregistry"
)

// TestBundle: a bundle is loaded once and checked, one that is another file is not kept, and the cache
// has a bound.
func TestBundle(t *testing.T) {
	loads := 0
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		loads++
		if r.URL.Path == "/gone" {
			w.WriteHeader(http.StatusGone)
			return
		}
		if r.URL.Path == "/short" {
			w.Header().Set("Content-Length", "1000")
		}
		fmt.Fprint(w, "the bundle "+r.URL.Path)
	}))
	defer s.Close()
	dir := t.TempDir()
	c := client(t, mcpregistry.Options{HTTP: s.Client(), CacheDir: dir})
	sum := func(path string) string {
		sum := sha256.Sum256([]byte("the bundle " + path))
		return hex.EncodeToString(sum[:])
	}
	for _, tc := range []struct{ path, sum, want string }{
		{"/other", sum("/a"), "is not the published one"},
		{"/a", "", "no SHA-256"},
		{"/a", "../../../x", "no SHA-256"},
		{"/gone", sum("/a"), "410 Gone"},
		{"/short", sum("/short"), "cannot be loaded"},
	} {
		if file, err := c.Bundle(t.Context(), mcpregistry.Bundle{URL: s.URL + tc.path, SHA256: tc.sum}); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %s, %v, want %q", tc.path, file, err, tc.want)
		}
	}
	files := func() int {
		all, err := filepath.Glob(filepath.Join(dir, "bundles", "*"))
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	if n := files(); n != 0 {
		t.Errorf("%d files are left of bundles that were not loaded", n)
	}
	load := func(path string) string {
		t.Helper()
		file, err := c.Bundle(t.Context(), mcpregistry.Bundle{URL: s.URL + path, SHA256: strings.ToUpper(sum(path))})
		if err != nil {
			t.Fatal(err)
		}
		if data, err := os.ReadFile(file); err != nil || string(data) != "the bundle "+path {
			t.Errorf("%q, %v", data, err)
		}
		return file
	}
	file, before := load("/a"), loads
	if load("/a"); loads != before {
		t.Error("it is loaded again")
	}
	if err := os.WriteFile(file, []byte("another"), 0o600); err != nil {
		t.Fatal(err)
	}
	if load("/a"); loads != before+1 {
		t.Error("a changed file of the cache is used")
	}
	for n := range 6 {
		load(fmt.Sprintf("/%d", n))
	}
	if n := files(); n != 4 {
		t.Errorf("%d bundles are kept", n)
	}
}
