package filestore_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/store/filestore"
	"github.com/weir-mcp/weir/internal/testkit/leak"
	"github.com/weir-mcp/weir/internal/testkit/storetest"
)

func TestMain(m *testing.M) { leak.Main(m) }

func open(t testing.TB, o filestore.Options) (*filestore.Store, bool) {
	t.Helper()
	s, found, err := filestore.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return s, found
}

// TestContract: documents in a file are documents of a store, confirmed early or late.
func TestContract(t *testing.T) {
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprintf("late %t", late), func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				s, found := open(t, filestore.Options{Dir: dir, MaxBytes: 16 << 20, Late: late})
				defer s.Close()
				if found {
					t.Error("documents were there before there were any")
				}
				storetest.Contract(t, s)
				storetest.Follow(t, s, s)
				storetest.Change(t, s)
			})
		})
	}
}

// TestReopen: what was confirmed is there after a restart with its revision, what was deleted or has ended is
// not, and one process at a time has the folder.
func TestReopen(t *testing.T) {
	for _, late := range []bool{false, true} {
		o := filestore.Options{Dir: filepath.Join(t.TempDir(), "state"), MaxBytes: 16 << 20, Late: late}
		s, _ := open(t, o)
		rev, err := s.Set(t.Context(), "a.b", []byte("kept"), 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		gone, err := s.Set(t.Context(), "a.gone", nil, 0, 0)
		if err == nil {
			err = s.Delete(t.Context(), "a.gone", gone)
		}
		if err == nil {
			_, err = s.Set(t.Context(), "a.short", nil, 0, store.MinTTL)
		}
		if err == nil {
			_, err = s.Set(t.Context(), "a.long", nil, 0, time.Hour)
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := filestore.Open(o); err == nil || !strings.Contains(err.Error(), "another weir uses "+o.Dir) {
			t.Errorf("a second process: %v", err)
		}
		s.Close()
		time.Sleep(store.MinTTL)
		o.Existing = true
		s, found := open(t, o)
		var keys []string
		for doc, err := range s.List(t.Context(), "a.") {
			if err != nil {
				t.Fatal(err)
			}
			keys = append(keys, doc.Key)
		}
		if doc, err := s.Get(t.Context(), "a.b"); err != nil || doc.Rev != rev || string(doc.Value) != "kept" || !found || len(keys) != 2 {
			t.Errorf("%+v, %v, found %t, keys %q", doc, err, found, keys)
		}
		if next, err := s.Set(t.Context(), "a.new", nil, 0, 0); err != nil || next <= rev {
			t.Errorf("a later revision is %d after %d, %v", next, rev, err)
		}
		s.Close()
	}
}

// TestLost: a folder that should have documents and has none is not taken for a new one.
func TestLost(t *testing.T) {
	if _, _, err := filestore.Open(filestore.Options{Dir: t.TempDir(), Existing: true}); !errors.Is(err, filestore.ErrLost) {
		t.Errorf("%v", err)
	}
}

// TestBroken: a file that is no store is named, and stays.
func TestBroken(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "weir.db")
	if err := os.WriteFile(path, bytes.Repeat([]byte("x"), 64<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := filestore.Open(filestore.Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("%v", err)
	}
	if info, err := os.Stat(path); err != nil || info.Size() != 64<<10 {
		t.Errorf("%v, %v", info, err)
	}
}

// TestFull: the bound counts what is there, and documents that have ended make room.
func TestFull(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s, _ := open(t, filestore.Options{Dir: dir, MaxBytes: 10 << 10})
		defer s.Close()
		value := make([]byte, 3<<10)
		for _, key := range []string{"a.1", "a.2", "a.3"} {
			if _, err := s.Set(t.Context(), key, value, 0, time.Minute); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.Set(t.Context(), "a.4", value, 0, 0); !errors.Is(err, store.ErrFull) {
			t.Errorf("a fourth: %v", err)
		}
		time.Sleep(2 * time.Minute)
		for _, key := range []string{"a.4", "a.5", "a.6"} {
			if _, err := s.Set(t.Context(), key, value, 0, 0); err != nil {
				t.Errorf("%s after the first have ended: %v", key, err)
			}
		}
	})
}

func BenchmarkSet(b *testing.B) {
	for _, late := range []bool{false, true} {
		b.Run(fmt.Sprintf("late=%t", late), func(b *testing.B) {
			s, _ := open(b, filestore.Options{Dir: b.TempDir(), MaxBytes: 1 << 30, Late: late})
			defer s.Close()
			value := make([]byte, 500)
			rev := uint64(0)
			for b.Loop() {
				var err error
				if rev, err = s.Set(b.Context(), "a.b", value, rev, 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
