package artifact_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/artifact"
	docs "github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/testkit/storetest"
	"github.com/weir-mcp/weir/s2sp/table"
)

// shelf is what outlasts a store under test.
type shelf struct {
	docs *storetest.Faults
	dir  string
}

func newShelf(t *testing.T) *shelf {
	t.Helper()
	return &shelf{&storetest.Faults{Docs: docs.NewMemory(docs.MemoryOptions{})}, t.TempDir()}
}

// open opens a store as the next process does. The one before it may still be open: a process that is
// killed closes nothing.
func (h *shelf) open(t *testing.T, opts artifact.Options) *artifact.Local {
	t.Helper()
	opts.Shelf, opts.Secret = &artifact.Shelf{Docs: h.docs, Dir: h.dir, Late: true}, []byte("the same in each process")
	s := openLocal(t, opts)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// left returns how many documents and files there are.
func (h *shelf) left(t *testing.T) (documents, files int) {
	t.Helper()
	for _, err := range h.docs.List(t.Context(), "r.") {
		if err != nil {
			t.Fatal(err)
		}
		documents++
	}
	entries, err := os.ReadDir(h.dir)
	if err != nil {
		t.Fatal(err)
	}
	return documents, len(entries)
}

func (h *shelf) want(t *testing.T, n int) {
	t.Helper()
	if documents, files := h.left(t); documents != n || files != n {
		t.Errorf("%d documents and %d files, want %d", documents, files, n)
	}
}

// bubble runs a test with a clock of its own, and ends its stores before the bubble.
func bubble(t *testing.T, f func(t *testing.T)) { t.Helper(); synctest.Test(t, f) }

// TestShelfRestores: the next process has each artifact with its bytes, its owner, its place and its
// age, whether the one before was killed or closed.
func TestShelfRestores(t *testing.T) {
	for _, how := range []string{"killed", "closed"} {
		t.Run(how, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				h := newShelf(t)
				s := h.open(t, artifact.Options{TTL: time.Hour})
				text, err := s.Put(t.Context(), "ann", "text/plain", "notes:read", []byte("long"))
				if err != nil {
					t.Fatal(err)
				}
				here, err := s.At("work").Put(t.Context(), "ann", "application/json", "db:rows", []byte(`[{"a":1},{"a":2}]`))
				if err != nil {
					t.Fatal(err)
				}
				w := s.NewTable("bob", "db:all", table.Options{})
				if err := w.Append([]byte(`{"b":1}`)); err != nil {
					t.Fatal(err)
				}
				rows, err := w.Commit(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(40 * time.Minute)
				again, err := s.Put(t.Context(), "ann", "text/markdown", "notes:again", []byte("long"))
				if err != nil || again.Handle != text.Handle {
					t.Fatal(again, err)
				}
				before := s.Usage("ann")
				if how == "closed" {
					if err := s.Close(); err != nil {
						t.Fatal(err)
					}
				}
				s = h.open(t, artifact.Options{TTL: time.Hour})
				h.want(t, 3)
				if now := s.Usage("ann"); now != before {
					t.Errorf("usage %+v, was %+v", now, before)
				}
				got, data, err := s.Get(t.Context(), "ann", text.Handle)
				if err != nil || string(data) != "long" || !got.Expires.Equal(again.Expires) || got.MediaType != "text/markdown" || got.Label != "notes:again" || got.ContentHash != text.ContentHash {
					t.Errorf("%+v, %q, %v; was %+v", got, data, err, again)
				}
				for _, who := range []string{"bob", ""} {
					if _, _, err := s.Get(t.Context(), who, text.Handle); !errors.Is(err, artifact.ErrUnknown) {
						t.Errorf("%q reads what is ann's: %v", who, err)
					}
				}
				if _, err := s.At("home").Open(t.Context(), "ann", here.Handle); !errors.Is(err, artifact.ErrUnknown) {
					t.Errorf("another place reads it: %v", err)
				}
				l, err := s.At("work").Open(t.Context(), "ann", here.Handle)
				if err != nil {
					t.Fatal(err)
				}
				if tab, err := l.Table(table.DetectOptions{}); err != nil || tab.Len() != 2 {
					t.Errorf("the table: %v, %v", tab, err)
				}
				l.Close()
				l, err = s.Open(t.Context(), "bob", rows.Handle)
				if err != nil {
					t.Fatal(err)
				}
				if tab, err := l.Table(table.DetectOptions{}); err != nil || tab.Len() != 1 || !slices.Contains(tab.Columns(), "b") {
					t.Errorf("the committed table: %v, %v", tab, err)
				}
				l.Close()
				s = h.open(t, artifact.Options{TTL: time.Hour})
				if same, err := s.Put(t.Context(), "bob", "application/x-ndjson", "db:all", []byte(string(mustRead(t, s, "bob", rows.Handle)))); err != nil || same.Handle != rows.Handle {
					t.Errorf("the same bytes have another handle: %+v, %v", same, err)
				}
				s = h.open(t, artifact.Options{TTL: time.Hour})
				if l, err = s.Open(t.Context(), "bob", rows.Handle); err != nil {
					t.Fatal(err)
				}
				if tab, err := l.Table(table.DetectOptions{}); err != nil || tab.Len() != 1 {
					t.Errorf("the committed table after another restart: %v, %v", tab, err)
				}
				l.Close()
				time.Sleep(21 * time.Minute) // an hour after the first Put
				if _, _, err := s.Get(t.Context(), "ann", here.Handle); !errors.Is(err, artifact.ErrExpired) {
					t.Errorf("it outlives its age: %v", err)
				}
				if _, _, err := s.Get(t.Context(), "ann", text.Handle); err != nil {
					t.Errorf("what was renewed has the old age: %v", err)
				}
				time.Sleep(2 * time.Hour)
				synctest.Wait()
				h.want(t, 0)
				if all := s.Totals(); all != (artifact.Totals{}) {
					t.Errorf("bytes are left: %+v", all)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func mustRead(t *testing.T, s *artifact.Local, principal, handle string) []byte {
	t.Helper()
	_, data, err := s.Get(t.Context(), principal, handle)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestShelfBounds: bounds hold over a restart. What made room is gone for good, and a lower bound
// keeps the newest.
func TestShelfBounds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := newShelf(t)
		s := h.open(t, artifact.Options{MaxCount: 3})
		var handles []string
		for i := range 5 {
			time.Sleep(time.Second)
			a, err := s.Put(t.Context(), "ann", "", "", fmt.Appendf(nil, "%04d", i))
			if err != nil {
				t.Fatal(err)
			}
			handles = append(handles, a.Handle)
		}
		h.want(t, 3)
		there := func(s *artifact.Local, first int) {
			t.Helper()
			for i, handle := range handles {
				if _, _, err := s.Get(t.Context(), "ann", handle); (err == nil) != (i >= first) {
					t.Errorf("artifact %d: %v", i, err)
				}
			}
		}
		there(h.open(t, artifact.Options{MaxCount: 3}), 2)
		there(h.open(t, artifact.Options{MaxCount: 2}), 3)
		h.want(t, 2)
		s = h.open(t, artifact.Options{MaxBytes: 7})
		there(s, 4)
		h.want(t, 1)
		if _, err := s.Put(t.Context(), "ann", "", "", []byte("1234567")); err != nil {
			t.Error(err)
		}
		h.want(t, 1)
		s = h.open(t, artifact.Options{DiskBytes: 10})
		if _, err := s.Put(t.Context(), "bob", "", "", []byte("1234")); !errors.Is(err, artifact.ErrFull) || !strings.Contains(err.Error(), "artifacts.disk_bytes") {
			t.Errorf("beyond the bound of the disk: %v", err)
		}
		if _, err := s.Put(t.Context(), "bob", "", "", []byte("123")); err != nil {
			t.Error(err)
		}
		h.want(t, 2)
		there(h.open(t, artifact.Options{DiskBytes: 2}), 9)
		h.want(t, 0)
	})
}

// TestShelfTorn: what a killed process left half is removed, and damaged bytes are never handed out.
func TestShelfTorn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := newShelf(t)
		s := h.open(t, artifact.Options{})
		put := func(data string) artifact.Artifact {
			a, err := s.Put(t.Context(), "ann", "", "", []byte(data))
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
		file := func(data string) string {
			entries, err := os.ReadDir(h.dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				path := filepath.Join(h.dir, e.Name())
				if got, err := os.ReadFile(path); err == nil && string(got) == data {
					return path
				}
			}
			t.Fatalf("no file has %q", data)
			return ""
		}
		whole, cut, changed, gone := put("whole"), put("cut short"), put("changed"), put("without its file")
		for _, err := range []error{
			os.Truncate(file("cut short"), 3), os.WriteFile(file("changed"), []byte("chanced"), 0o600), os.Remove(file("without its file")),
			os.WriteFile(filepath.Join(h.dir, "0123"), []byte("of a call that was not answered"), 0o600),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		s = h.open(t, artifact.Options{})
		h.want(t, 2)
		if got := mustRead(t, s, "ann", whole.Handle); string(got) != "whole" {
			t.Errorf("%q", got)
		}
		for _, a := range []artifact.Artifact{cut, changed, gone} {
			if _, data, err := s.Get(t.Context(), "ann", a.Handle); !errors.Is(err, artifact.ErrUnknown) {
				t.Errorf("%q, %v", data, err)
			}
		}
		if a := put("changed"); a.Handle != changed.Handle { // run again
			t.Errorf("%+v", a)
		}
		if got := mustRead(t, s, "ann", changed.Handle); string(got) != "changed" {
			t.Errorf("after it was put again: %q", got)
		}
	})
}

// TestShelfDamagedTables: bytes that are damaged, or gone, while a store has them are never handed out,
// and rows that are written again take their place.
func TestShelfDamagedTables(t *testing.T) {
	const row = `{"a":1}`
	ways := map[string]func(path string) error{
		"changed": func(path string) error { return os.WriteFile(path, []byte(`{"a":2}`+"\n"), 0o600) },
		"gone":    os.Remove,
	}
	for name, damage := range ways {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				h := newShelf(t)
				commit := func(s *artifact.Local) artifact.Artifact {
					w := s.NewTable("ann", "db:all", table.Options{})
					if err := w.Append([]byte(row)); err != nil {
						t.Fatal(err)
					}
					a, err := w.Commit(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					return a
				}
				first := h.open(t, artifact.Options{})
				a := commit(first)
				broken := func() *artifact.Local { // the next process, whose file is damaged while it runs
					s := h.open(t, artifact.Options{})
					entries, err := os.ReadDir(h.dir)
					if err != nil || len(entries) != 1 {
						t.Fatal(entries, err)
					}
					if err := damage(filepath.Join(h.dir, entries[0].Name())); err != nil {
						t.Fatal(err)
					}
					return s
				}
				s := broken()
				if again := commit(s); again.Handle != a.Handle {
					t.Errorf("%+v, was %+v", again, a)
				}
				if got := mustRead(t, s, "ann", a.Handle); string(got) != row+"\n" {
					t.Errorf("after it was written again: %q", got)
				}
				h.want(t, 1)
				s = broken()
				token, err := s.Offer(t.Context(), "ann", a.Handle, 0)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := s.Claim(t.Context(), token.Value); !errors.Is(err, artifact.ErrUnknown) || !errors.Is(err, artifact.ErrToken) {
					t.Errorf("claimed: %v", err)
				}
				h.want(t, 0)
				commit(s)
				s = broken()
				if _, _, err := s.Get(t.Context(), "ann", a.Handle); !errors.Is(err, artifact.ErrUnknown) {
					t.Errorf("opened: %v", err)
				}
				h.want(t, 0)
			})
		})
	}
}

// full is a store without room for another document.
type full struct{ docs.Docs }

func (full) Set(context.Context, string, []byte, uint64, time.Duration) (uint64, error) {
	return 0, fmt.Errorf("%w: insufficient storage", docs.ErrFull)
}

// TestFullShelf: the error of a result that a full store cannot keep names the setting that mends it.
func TestFullShelf(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := newShelf(t)
		h.docs.Docs = full{h.docs.Docs}
		s := h.open(t, artifact.Options{})
		if _, err := s.Put(t.Context(), "ann", "", "", []byte("new")); !errors.Is(err, artifact.ErrFull) || !strings.Contains(err.Error(), "store.max_bytes") {
			t.Errorf("in a full store: %v", err)
		}
	})
}

// TestShelfFaults: an artifact that the store cannot keep has no handle and leaves nothing, and one
// whose write was confirmed late is there.
func TestShelfFaults(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := newShelf(t)
		s := h.open(t, artifact.Options{})
		old, err := s.Put(t.Context(), "ann", "", "", []byte("old"))
		if err != nil {
			t.Fatal(err)
		}
		h.docs.Cut(true)
		if _, err := s.Put(t.Context(), "ann", "", "", []byte("new")); !errors.Is(err, artifact.ErrFull) || !strings.Contains(err.Error(), "does not answer") {
			t.Errorf("without a store: %v", err)
		}
		if _, err := s.Put(t.Context(), "ann", "", "", []byte("old")); !errors.Is(err, artifact.ErrFull) {
			t.Errorf("renewed without a store: %v", err)
		}
		if got := mustRead(t, s, "ann", old.Handle); string(got) != "old" {
			t.Errorf("%q", got)
		}
		if use := s.Usage("ann"); use != (artifact.Usage{Count: 1, Bytes: 3}) {
			t.Errorf("%+v", use)
		}
		h.docs.Cut(false)
		h.want(t, 1)
		next := storetest.ApplyThenFail
		h.docs.Next = func() storetest.Fault { now := next; next = storetest.None; return now }
		late, err := s.Put(t.Context(), "ann", "", "", []byte("late"))
		if err != nil {
			t.Fatal(err)
		}
		if got := mustRead(t, h.open(t, artifact.Options{}), "ann", late.Handle); string(got) != "late" {
			t.Errorf("%q", got)
		}
	})
}

// TestShelfTogether: of many calls at the same time, with a store that fails now and then, the next
// process has what was acknowledged last, and nothing else is left.
func TestShelfTogether(t *testing.T) {
	h := newShelf(t)
	var mu sync.Mutex // guards n
	n := 0
	h.docs.Next = func() storetest.Fault {
		mu.Lock()
		defer mu.Unlock()
		if n++; n%5 == 0 {
			return storetest.Fault(n / 5 % 5)
		}
		return storetest.None
	}
	s := h.open(t, artifact.Options{MaxCount: 4})
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for i := range 50 {
				if _, err := s.Put(t.Context(), "ann", "", "", fmt.Appendf(nil, "%d", (i*7+g)%9)); err != nil && !errors.Is(err, artifact.ErrFull) {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	h.docs.Next = nil
	held := s.List("ann")
	if len(held) == 0 {
		t.Fatal("nothing was kept")
	}
	next := h.open(t, artifact.Options{MaxCount: 4})
	for _, a := range held {
		got, _, err := next.Get(t.Context(), "ann", a.Handle)
		if err != nil || got.ContentHash != a.ContentHash {
			t.Errorf("%s: %v", a.Handle, err)
		}
	}
	h.want(t, len(held))
}
