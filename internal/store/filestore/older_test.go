package filestore_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/weir-mcp/weir/internal/store/filestore"
	"github.com/weir-mcp/weir/internal/store/natsstore"
	"github.com/weir-mcp/weir/internal/testkit/natstest"
)

// TestImportOlder: the documents of an older build are in the file after the start, with their revisions and
// ends, and are imported once. A record that a crash has torn was never confirmed.
func TestImportOlder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	s := natstest.Start(t, server.Options{StoreDir: filepath.Join(dir, "nats")})
	older, _, err := natsstore.Open(t.Context(), s.Conn(), natsstore.Options{Bucket: "weir", Changes: "weir.weir.d", Replicas: 1, MaxBytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	set := func(key, value string, rev uint64, ttl time.Duration) uint64 {
		t.Helper()
		rev, err := older.Set(t.Context(), key, []byte(value), rev, ttl)
		if err != nil {
			t.Fatal(err)
		}
		return rev
	}
	type doc struct {
		value string
		rev   uint64
	}
	want := map[string]doc{}
	keep := func(key, value string, rev uint64, ttl time.Duration) {
		want[key] = doc{value, set(key, value, rev, ttl)}
	}
	keep("s.a", "a", 0, 0)
	keep("s.a", "a, changed", want["s.a"].rev, 0)
	keep("s.b", "", 0, time.Hour)
	set("s.short", "x", 0, time.Second)
	gone := set("s.gone", "x", 0, 0)
	if err := older.Delete(t.Context(), "s.gone", gone); err != nil {
		t.Fatal(err)
	}
	gone = set("s.back", "x", 0, 0)
	if err := older.Delete(t.Context(), "s.back", gone); err != nil {
		t.Fatal(err)
	}
	keep("s.back", "again", 0, 0)
	large := string(bytes.Repeat([]byte("x"), 400<<10))
	for i := range 30 { // several blocks, which are compacted
		key := fmt.Sprint("l.", i%5)
		keep(key, large, want[key].rev, 0)
	}
	older.Close()
	s.Close()
	blocks, err := filepath.Glob(filepath.Join(dir, "nats/jetstream/$G/streams/KV_weir/msgs/*.blk"))
	if err != nil || len(blocks) == 0 {
		t.Fatal(blocks, err)
	}
	last, err := os.OpenFile(blocks[len(blocks)-1], os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = last.Write([]byte{200, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24})
	if err := last.Close(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(1100 * time.Millisecond) // s.short ends

	for range 2 {
		s, found, err := filestore.Open(filestore.Options{Dir: dir, MaxBytes: 64 << 20, Existing: true})
		if err != nil || !found {
			t.Fatal(found, err)
		}
		left := len(want)
		for _, prefix := range []string{"s.", "l."} {
			for got, err := range s.List(t.Context(), prefix) {
				if err != nil {
					t.Fatal(err)
				}
				if w, ok := want[got.Key]; !ok || got.Rev != w.rev || string(got.Value) != w.value {
					t.Errorf("%s has revision %d and %d bytes, want %d and %d", got.Key, got.Rev, len(got.Value), w.rev, len(w.value))
				}
				left--
			}
		}
		if left != 0 {
			t.Errorf("%d documents are missing", left)
		}
		s.Close()
		if _, err := os.Stat(filepath.Join(dir, "nats.imported")); err != nil {
			t.Error(err)
		}
	}
}
