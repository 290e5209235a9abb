package dataplane

import (
	"bytes"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/store/nodestore"
)

// What finds no room in memory goes to a folder that is made then, in private, and
// goes with weir; disk_bytes: 0 has none.
func TestHoldingsSpill(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache) // read on Linux; elsewhere the folder is the user's own
	t.Setenv("HOME", cache)
	t.Setenv("LocalAppData", cache)
	open := func(text string) *Data {
		t.Helper()
		c, _, err := config.Parse("weir.yaml", []byte("mcpServers: {}\nlimits: {memory: 8MB}\n"+text), config.Options{})
		if err != nil {
			t.Fatal(err)
		}
		h, err := Open(c, Needs{
			Log: slog.New(slog.DiscardHandler), Store: nodestore.Memory(slog.New(slog.DiscardHandler)),
			Audited: func(_ *artifact.Local, next http.Handler) http.Handler { return next },
		})
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	result := func(n int) []byte { return bytes.Repeat([]byte{byte('a' + n)}, 3<<20) }
	folders := func() (found []string) {
		_ = filepath.WalkDir(cache, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), "weir-spill-") {
				found = append(found, path)
			}
			return err
		})
		return found
	}

	h := open("")
	var handles []string
	for n := range 3 {
		if n == 1 && len(folders()) > 0 {
			t.Errorf("there is a folder before it is needed: %q", folders())
		}
		a, err := h.Results.Put(t.Context(), "ann", "text/plain", "", result(n))
		if err != nil {
			t.Fatal(err)
		}
		handles = append(handles, a.Handle)
	}
	u, totals := h.Memory.Usage(), h.Results.Totals()
	if u.Kept != 3<<20 || totals.MemoryBytes != 3<<20 || totals.DiskBytes != 6<<20 {
		t.Errorf("%+v, %+v", u, totals)
	}
	if found := folders(); len(found) != 1 {
		t.Errorf("the folders are %q", found)
	} else if info, err := os.Stat(found[0]); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("others can look into it: %v, %v", info, err)
	}
	for n, handle := range handles {
		if _, data, err := h.Results.Get(t.Context(), "ann", handle); err != nil || !bytes.Equal(data, result(n)) {
			t.Errorf("result %d is another: %v", n, err)
		}
	}
	if err := h.Close(); err != nil || len(folders()) > 0 {
		t.Errorf("%v, left are %q", err, folders())
	}

	h = open("artifacts: {disk_bytes: 0}\n")
	defer h.Close()
	if _, err := h.Results.Put(t.Context(), "ann", "text/plain", "", result(0)); err != nil {
		t.Error(err)
	}
	if _, err := h.Results.Put(t.Context(), "ann", "text/plain", "", result(1)); err == nil || !strings.Contains(err.Error(), "artifacts.") {
		t.Errorf("there is room: %v", err)
	}
	if len(folders()) > 0 {
		t.Errorf("there are %q", folders())
	}
}
