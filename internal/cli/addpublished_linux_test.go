package cli

import (
	"crypto/sha256"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// TestAddBundleOfTheRegistry: a server that the registry has as a bundle alone is loaded, checked and
// added. Another file than the registry's document names is not unpacked.
func TestAddBundleOfTheRegistry(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(bundleOf(t, "notes.mcpb", notesManifest, "exec "+fakeBin+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	var loads atomic.Int32
	var registry *httptest.Server
	registry = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sum := sha256.Sum256(data)
		switch {
		case strings.HasSuffix(r.URL.Path, ".mcpb"):
			loads.Add(1)
			_, _ = w.Write(data)
			return
		case strings.Contains(r.URL.Path, "false"):
			sum[0]++
		}
		name := strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/v0.1/servers/"), "/versions/latest")
		fmt.Fprintf(w, `{"server":{"name":%q,"version":"1.0.0","packages":[{"registryType":"mcpb","identifier":"%s/notes.mcpb","fileSha256":"%x","transport":{"type":"stdio"}}]}}`,
			name, registry.URL, sum)
	}))
	t.Cleanup(registry.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: registry.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	h := newHome(t)
	h.env = append(h.env, "SSL_CERT_FILE="+ca)
	h.weir(t, "add", "io.me/false", "--yes", "--registry", registry.URL).want(t, exitUnavailable, "not the published one")
	if found := h.bundles(t); len(found) > 0 {
		t.Fatalf("unpacked: %q", found)
	}
	loads.Store(0)
	h.weir(t, "add", "io.me/notes", "--yes", "--registry", registry.URL).want(t, exitUsage, "--set key=VALUE")
	h.weir(t, "add", "io.me/notes", "--yes", "--registry", registry.URL, "--set", "key="+notesKey).want(t, exitOK, "✓ notes", "by Ann", "not signed", "weir undo")
	if n := loads.Load(); n != 1 {
		t.Errorf("the bundle was loaded %d times", n)
	}
	if found := h.bundles(t); len(found) != 1 || !strings.Contains(h.files(t)[".config/weir/weir.yaml"], filepath.Base(found[0])) {
		t.Errorf("unpacked: %q", found)
	}
	h.weir(t, "undo", "--yes").want(t, exitOK)
	if found := h.bundles(t); len(found) > 0 {
		t.Errorf("undo leaves %q", found)
	}
}
