package app

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/store/natsserver"
	"github.com/weir-mcp/weir/internal/store/natsstore"
)

// TestImportOlder: the documents of an older build are in the file after the start, with their revisions and
// ends, and are imported once.
func TestImportOlder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	server, err := natsserver.Open(natsserver.Options{Dir: dir, MaxBytes: 64 << 20, Late: true})
	if err != nil {
		t.Fatal(err)
	}
	older, _, err := natsstore.Open(t.Context(), server.Conn(), natsstore.Options{Bucket: storeBucket, Changes: storeChanges, Replicas: 1, MaxBytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	revs := map[string]uint64{}
	for key, ttl := range map[string]time.Duration{"s.a": 0, "s.b": time.Hour, "s.short": time.Second, "s.gone": 0} {
		if revs[key], err = older.Set(t.Context(), key, []byte("value of "+key), 0, ttl); err != nil {
			t.Fatal(err)
		}
	}
	if err := older.Delete(t.Context(), "s.gone", revs["s.gone"]); err != nil {
		t.Fatal(err)
	}
	older.Close()
	server.Close()
	time.Sleep(1100 * time.Millisecond) // the engine counts seconds of the wall clock

	c, _, err := config.Parse("weir.yaml", []byte("store: {at: \"file:"+dir+"\", max_bytes: 64MB}"), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		s, err := OpenStore(t.Context(), c, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		var keys []string
		for doc, err := range s.docs.List(t.Context(), "s.") {
			if err != nil {
				t.Fatal(err)
			}
			keys = append(keys, doc.Key)
			if doc.Rev != revs[doc.Key] || string(doc.Value) != "value of "+doc.Key {
				t.Errorf("%+v, want revision %d", doc, revs[doc.Key])
			}
		}
		if slices.Sort(keys); !slices.Equal(keys, []string{"s.a", "s.b"}) {
			t.Errorf("imported %q", keys)
		}
		s.Close()
		if _, err := os.Stat(filepath.Join(dir, importedFiles)); err != nil {
			t.Error(err)
		}
	}
}
