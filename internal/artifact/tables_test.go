package artifact_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/s2sp/table"
)

// store is the store under test.
type store = *artifact.Local

func TestTables(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		testTables(t, func(_ *testing.T, opts artifact.Options) store { return artifact.NewMemory(opts) })
	})
	t.Run("files", func(t *testing.T) {
		testTables(t, func(t *testing.T, opts artifact.Options) store {
			opts.Dir, opts.MemoryBytes = t.TempDir(), 1
			return openLocal(t, opts)
		})
	})
	t.Run("files soon", func(t *testing.T) {
		testTables(t, func(t *testing.T, opts artifact.Options) store {
			opts.Dir, opts.MemoryBytes = t.TempDir(), 300
			return openLocal(t, opts)
		})
	})
}

func rowsOf(t testing.TB, data string) *table.Table {
	t.Helper()
	tab, err := table.Index([]byte(data), table.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

const threeRows = `[{"a":1,"b":"x"},{"a":2},{"a":12345678901234567890,"_row_id":7}]`

func testTables(t *testing.T, open func(t *testing.T, opts artifact.Options) store) {
	bubble := func(name string, opts artifact.Options, f func(t *testing.T, s store)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := open(t, opts)
				f(t, s)
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				if got := s.Totals(); got != (artifact.Totals{}) {
					t.Errorf("a closed store holds %+v", got)
				}
			})
		})
	}
	deposit := func(t *testing.T, s store, ttl time.Duration) artifact.Token {
		t.Helper()
		tok, err := s.Deposit(t.Context(), "ann", "weather:get_alerts", rowsOf(t, threeRows), ttl)
		if err != nil {
			t.Fatal(err)
		}
		return tok
	}
	read := func(t *testing.T, l *artifact.Lease) string {
		t.Helper()
		tab, err := l.Table(table.DetectOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return string(tab.View().WithRowID().AppendJSON(nil))
	}
	const wantRows = `[{"_row_id":0,"a":1,"b":"x"},{"_row_id":1,"a":2},{"_row_id":2,"a":12345678901234567890,"_row_id_data":7}]`

	bubble("who knows a token can tell, without taking it", artifact.Options{}, func(t *testing.T, s store) {
		tok := deposit(t, s, time.Minute)
		check := func(when, token string, want error) {
			t.Helper()
			if err := s.Check(token); !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", when, err, want)
			}
		}
		check("a token", tok.Value, nil)
		check("the same again", tok.Value, nil)
		for _, wrong := range []string{"", "x", tok.Value + "A"} {
			check("no token", wrong, artifact.ErrToken)
		}
		c, err := s.Claim(t.Context(), tok.Value)
		if err != nil {
			t.Fatal(err)
		}
		check("claimed", tok.Value, artifact.ErrToken)
		c.Close()
		check("given back", tok.Value, nil)
		time.Sleep(time.Minute)
		check("expired", tok.Value, artifact.ErrToken)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		check("closed", tok.Value, artifact.ErrClosed)
	})

	bubble("a token works once", artifact.Options{}, func(t *testing.T, s store) {
		tok := deposit(t, s, 0)
		if other := deposit(t, s, 0); other.Value == tok.Value || len(tok.Value) != 43 {
			t.Errorf("tokens %q and %q, want two of 256 bits", tok.Value, other.Value)
		}
		if want := time.Now().Add(10 * time.Minute); !tok.Expires.Equal(want) {
			t.Errorf("expires %v, want %v", tok.Expires, want)
		}
		c, err := s.Claim(t.Context(), tok.Value)
		if err != nil {
			t.Fatal(err)
		}
		if got := read(t, c.Lease); got != wantRows {
			t.Errorf("rows %s, want %s", got, wantRows)
		}
		if _, err := s.Claim(t.Context(), tok.Value); !errors.Is(err, artifact.ErrToken) {
			t.Errorf("claimed twice: %v", err)
		}
		c.Spend()
		if got := read(t, c.Lease); got != wantRows {
			t.Errorf("after Spend: %s", got)
		}
		c.Close()
		c.Close()
		if _, err := s.Claim(t.Context(), tok.Value); !errors.Is(err, artifact.ErrToken) {
			t.Errorf("claimed after it was spent: %v", err)
		}
		if got := s.Totals(); got.Count != 1 || got.Tokens != 1 {
			t.Errorf("what was deposited is still there: %+v", got)
		}
		for _, wrong := range []string{"", "x", tok.Value + "A", strings.ToUpper(tok.Value)} {
			if _, err := s.Claim(t.Context(), wrong); !errors.Is(err, artifact.ErrToken) {
				t.Errorf("Claim(%q) = %v", wrong, err)
			}
		}
	})

	bubble("a claim that is not spent gives the token back", artifact.Options{}, func(t *testing.T, s store) {
		tok := deposit(t, s, 0)
		for range 3 {
			c, err := s.Claim(t.Context(), tok.Value)
			if err != nil {
				t.Fatal(err)
			}
			c.Close()
		}
	})

	bubble("one of a thousand wins", artifact.Options{}, func(t *testing.T, s store) {
		tok := deposit(t, s, 0)
		var won atomic.Int32
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() {
				c, err := s.Claim(t.Context(), tok.Value)
				if err != nil {
					if !errors.Is(err, artifact.ErrToken) {
						t.Error(err)
					}
					return
				}
				won.Add(1)
				c.Spend()
				c.Close()
			})
		}
		wg.Wait()
		if won.Load() != 1 {
			t.Errorf("%d of 1000 won", won.Load())
		}
	})

	bubble("a token expires without traffic", artifact.Options{TTL: time.Hour}, func(t *testing.T, s store) {
		tok := deposit(t, s, time.Minute)
		long := deposit(t, s, 0)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := s.Totals(); got.Tokens != 1 || got.Count != 1 {
			t.Errorf("a minute later there are %+v", got)
		}
		if _, err := s.Claim(t.Context(), tok.Value); !errors.Is(err, artifact.ErrToken) {
			t.Errorf("expired: %v", err)
		}
		time.Sleep(9 * time.Minute)
		synctest.Wait()
		if got := s.Totals(); got != (artifact.Totals{}) {
			t.Errorf("ten minutes later there are %+v", got)
		}
		if _, err := s.Claim(t.Context(), long.Value); !errors.Is(err, artifact.ErrToken) {
			t.Errorf("expired: %v", err)
		}
	})

	bubble("a slow reader reads on", artifact.Options{}, func(t *testing.T, s store) {
		tok := deposit(t, s, time.Minute)
		c, err := s.Claim(t.Context(), tok.Value)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if got := s.Totals(); got.Tokens != 0 || got.Count != 0 || got.MemoryBytes+got.DiskBytes == 0 {
			t.Errorf("while it reads there are %+v", got)
		}
		if got := read(t, c.Lease); got != wantRows {
			t.Errorf("after expiry: %s", got)
		}
		c.Close()
		if got := s.Totals(); got != (artifact.Totals{}) {
			t.Errorf("after the reader %+v are left", got)
		}
		if _, err := s.Claim(t.Context(), tok.Value); !errors.Is(err, artifact.ErrToken) {
			t.Errorf("given back after expiry: %v", err)
		}
	})

	bubble("a handle is read many times and offered", artifact.Options{TTL: time.Minute, TokenTTL: time.Hour}, func(t *testing.T, s store) {
		a, err := s.Put(t.Context(), "ann", "application/json", "l", []byte(`{"result":`+threeRows+`}`))
		if err != nil {
			t.Fatal(err)
		}
		before := s.Totals()
		for range 3 {
			l, err := s.Open(t.Context(), "ann", a.Handle)
			if err != nil {
				t.Fatal(err)
			}
			if got := read(t, l); got != wantRows {
				t.Errorf("rows %s", got)
			}
			if data, err := l.Bytes(t.Context()); err != nil || string(data) != `{"result":`+threeRows+`}` {
				t.Errorf("bytes %s, %v", data, err)
			}
			l.Close()
			l.Close()
		}
		if got := s.Totals(); got.DiskBytes != before.DiskBytes || got.MemoryBytes < before.MemoryBytes {
			t.Errorf("reading changed %+v to %+v", before, got)
		}
		first, err := s.Offer(t.Context(), "ann", a.Handle, 0)
		if err != nil {
			t.Fatal(err)
		}
		second, err := s.Offer(t.Context(), "ann", a.Handle, 0)
		if err != nil {
			t.Fatal(err)
		}
		c, err := s.Claim(t.Context(), first.Value)
		if err != nil {
			t.Fatal(err)
		}
		c.Spend()
		c.Close()
		if l, err := s.Open(t.Context(), "ann", a.Handle); err != nil {
			t.Errorf("a spent token took the artifact along: %v", err)
		} else {
			l.Close()
		}
		if _, err := s.Offer(t.Context(), "bob", a.Handle, 0); !errors.Is(err, artifact.ErrUnknown) {
			t.Errorf("offered by another: %v", err)
		}
		time.Sleep(time.Hour - time.Second) // the artifact stays as long as its token
		synctest.Wait()
		if c, err := s.Claim(t.Context(), second.Value); err != nil {
			t.Errorf("the token went with the artifact: %v", err)
		} else {
			c.Close()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if _, err := s.Claim(t.Context(), second.Value); !errors.Is(err, artifact.ErrToken) {
			t.Errorf("the token outlived its time: %v", err)
		}
		if _, err := s.Open(t.Context(), "ann", a.Handle); !errors.Is(err, artifact.ErrExpired) {
			t.Errorf("error %v, want expired", err)
		}
	})

	bubble("no table", artifact.Options{}, func(t *testing.T, s store) {
		a, err := s.Put(t.Context(), "ann", "text/plain", "l", []byte("a,b\n1,2\n"))
		if err != nil {
			t.Fatal(err)
		}
		l, err := s.Open(t.Context(), "ann", a.Handle)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if _, err := l.Table(table.DetectOptions{}); !errors.Is(err, table.ErrNotTable) {
			t.Errorf("error %v", err)
		}
		tab, err := l.Table(table.DetectOptions{CSV: true})
		if err != nil || tab.Len() != 1 {
			t.Errorf("as CSV: %v, %v", tab, err)
		}
		if _, err := l.Table(table.DetectOptions{}); !errors.Is(err, table.ErrNotTable) {
			t.Errorf("what other options found is used: %v", err)
		}
	})

	bubble("written row by row", artifact.Options{MaxBytes: 12 << 20}, func(t *testing.T, s store) {
		write := func() *artifact.TableWriter {
			w := s.NewTable("ann", "l", table.Options{})
			for i := range 50_000 {
				if err := w.Append(fmt.Appendf(nil, `{"n":%d,"text":"%s"}`, i, strings.Repeat("x", 90))); err != nil {
					t.Fatal(err)
				}
			}
			if w.Len() != 50_000 {
				t.Errorf("%d rows", w.Len())
			}
			return w
		}
		a, err := write().Commit(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		again, err := write().Commit(t.Context())
		if err != nil || again.Handle != a.Handle || a.MediaType != "application/x-ndjson" {
			t.Errorf("the same rows: %+v and %+v, %v", a, again, err)
		}
		if got := s.Usage("ann"); got != (artifact.Usage{Count: 1, Bytes: a.SizeBytes}) {
			t.Errorf("usage %+v, artifact %+v", got, a)
		}
		_, data, err := s.Get(t.Context(), "ann", a.Handle)
		if err != nil || int64(len(data)) != a.SizeBytes || bytes.Count(data, []byte("\n")) != 50_000 {
			t.Errorf("%d bytes, %v", len(data), err)
		}
		put, err := s.Put(t.Context(), "ann", "application/x-ndjson", "l", data)
		if err != nil || put.Handle != a.Handle || put.ContentHash != a.ContentHash {
			t.Errorf("put as bytes: %+v, %v", put, err)
		}
		l, err := s.Open(t.Context(), "ann", a.Handle)
		if err != nil {
			t.Fatal(err)
		}
		tab, err := l.Table(table.DetectOptions{})
		if err != nil || tab.Len() != 50_000 || string(tab.Cell(49_999, "n")) != "49999" {
			t.Errorf("table %v", err)
		}
		l.Close()
		tok, err := write().Deposit(time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		c, err := s.Claim(t.Context(), tok.Value)
		if err != nil {
			t.Fatal(err)
		}
		if tab, err := c.Table(table.DetectOptions{}); err != nil || string(tab.Cell(7, "n")) != "7" {
			t.Errorf("deposited: %v", err)
		}
		c.Spend()
		c.Close()
	})

	bubble("a writer that is given up leaves nothing", artifact.Options{MaxBytes: 6 << 20, DiskBytes: 12 << 20}, func(t *testing.T, s store) {
		w := s.NewTable("ann", "l", table.Options{})
		row := []byte(`{"text":"` + strings.Repeat("x", 1<<20) + `"}`)
		var err error
		for err == nil {
			err = w.Append(row)
		}
		// What finds room in files is not bounded by MaxBytes.
		if inFiles := errors.Is(err, artifact.ErrFull) && w.Len() > 6; !inFiles && (!errors.Is(err, artifact.ErrTooLarge) || w.Len() != 5) {
			t.Errorf("after %d rows: %v", w.Len(), err)
		}
		w.Abort()
		w.Abort()
		if _, err := w.Commit(t.Context()); err == nil {
			t.Error("committed after Abort")
		}
		if err := w.Append(row); err == nil {
			t.Error("appended after Abort")
		}
		if got := s.Totals(); got != (artifact.Totals{}) {
			t.Errorf("left %+v", got)
		}
	})

	bubble("tokens are bounded, and none is dropped", artifact.Options{MaxTokens: 3, MaxCount: 2}, func(t *testing.T, s store) {
		var tokens []artifact.Token
		for range 3 {
			tokens = append(tokens, deposit(t, s, 0))
		}
		a, err := s.Put(t.Context(), "ann", "", "", []byte(threeRows))
		if err != nil {
			t.Fatal(err)
		}
		for name, more := range map[string]func() error{
			"Deposit":       func() error { _, err := s.Deposit(t.Context(), "ann", "", rowsOf(t, threeRows), 0); return err },
			"Offer":         func() error { _, err := s.Offer(t.Context(), "ann", a.Handle, 0); return err },
			"DepositSource": func() error { _, err := s.DepositSource(t.Context(), "ann", "", &source{}, 0); return err },
			"a writer": func() error {
				w := s.NewTable("ann", "", table.Options{})
				if err := w.Append([]byte(`{"a":1}`)); err != nil {
					return err
				}
				_, err := w.Deposit(0)
				return err
			},
		} {
			if err := more(); !errors.Is(err, artifact.ErrFull) || !strings.Contains(err.Error(), "no room") {
				t.Errorf("%s: %v", name, err)
			}
		}
		for i := range 5 { // handles make room for each other, and take none of tokens
			if _, err := s.Put(t.Context(), "ann", "", "", []byte{byte(i)}); err != nil {
				t.Fatal(err)
			}
		}
		for i, tok := range tokens {
			c, err := s.Claim(t.Context(), tok.Value)
			if err != nil {
				t.Fatalf("token %d: %v", i, err)
			}
			c.Spend()
			c.Close()
		}
		if got := s.Totals(); got.Tokens != 0 || got.Count != 2 {
			t.Errorf("left %+v", got)
		}
		deposit(t, s, 0)
	})

	bubble("a lease outlives the store", artifact.Options{}, func(t *testing.T, s store) {
		a, err := s.Put(t.Context(), "ann", "", "", []byte(threeRows))
		if err != nil {
			t.Fatal(err)
		}
		l, err := s.Open(t.Context(), "ann", a.Handle)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if got := read(t, l); got != wantRows {
			t.Errorf("rows %s", got)
		}
		l.Close()
		if _, err := s.Claim(t.Context(), "x"); !errors.Is(err, artifact.ErrClosed) {
			t.Errorf("Claim: %v", err)
		}
		if _, err := s.Open(t.Context(), "ann", a.Handle); !errors.Is(err, artifact.ErrClosed) {
			t.Errorf("Open: %v", err)
		}
		if _, err := s.Deposit(t.Context(), "ann", "", rowsOf(t, threeRows), 0); err == nil {
			t.Error("deposited in a closed store")
		}
		if _, err := s.Offer(t.Context(), "ann", a.Handle, 0); !errors.Is(err, artifact.ErrClosed) {
			t.Errorf("Offer: %v", err)
		}
	})
}

func spilled(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if want := map[bool]os.FileMode{true: 0o700, false: 0o600}[d.IsDir()]; path != dir && info.Mode().Perm() != want {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		if name := filepath.Base(path); strings.HasPrefix(name, "data-") || strings.HasPrefix(name, "index-") {
			names = append(names, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "below", "artifacts")
		s := openLocal(t, artifact.Options{Dir: dir, MemoryBytes: 10, DiskBytes: 100, TTL: time.Minute})
		put := func(data string) error {
			_, err := s.Put(t.Context(), "ann", "", "", []byte(data))
			return err
		}
		if err := put("12345678"); err != nil {
			t.Fatal(err)
		}
		if got := spilled(t, dir); len(got) != 0 {
			t.Errorf("there is room in memory, and %v", got)
		}
		for _, data := range []string{"abcd", strings.Repeat("x", 90)} {
			if err := put(data); err != nil {
				t.Fatal(err)
			}
		}
		if got := s.Totals(); got != (artifact.Totals{Count: 3, MemoryBytes: 8, DiskBytes: 94}) {
			t.Errorf("totals %+v", got)
		}
		if got := spilled(t, dir); len(got) != 2 {
			t.Errorf("files %v, want two", got)
		}
		if err := put("1234567"); !errors.Is(err, artifact.ErrFull) || !strings.Contains(err.Error(), "artifacts.disk_bytes") {
			t.Errorf("full: %v", err)
		}
		time.Sleep(time.Minute + time.Second)
		synctest.Wait()
		if got := spilled(t, dir); len(got) != 0 {
			t.Errorf("expired files are there: %v", got)
		}
		if got := s.Totals(); got != (artifact.Totals{}) {
			t.Errorf("totals %+v", got)
		}
		if err := put(strings.Repeat("y", 50)); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 { // the lock
			t.Errorf("left after Close: %v, %v", entries, err)
		}
	})
}

func TestFilesOfTheDead(t *testing.T) {
	dir := t.TempDir()
	dead := filepath.Join(dir, "weir-spill-dead")
	other := filepath.Join(dir, "not-ours")
	for _, d := range []string{dead, other} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(d, "data-1"), []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	living := openLocal(t, artifact.Options{Dir: dir, MemoryBytes: 1})
	if _, err := living.Put(t.Context(), "ann", "", "", []byte("mine")); err != nil {
		t.Fatal(err)
	}
	second := openLocal(t, artifact.Options{Dir: dir, MemoryBytes: 1})
	if _, err := os.Stat(dead); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what a dead process left is there: %v", err)
	}
	if _, err := os.Stat(other); err != nil {
		t.Errorf("what is not ours is gone: %v", err)
	}
	if got := spilled(t, dir); len(got) != 2 {
		t.Errorf("files %v: those of a living store must stay", got)
	}
	for _, s := range []*artifact.Local{second, living} {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := artifact.Open(artifact.Options{Dir: file}); err == nil || !strings.Contains(err.Error(), "artifacts.dir") {
		t.Errorf("a file as directory: %v", err)
	}
}

// What a process holds otherwise takes room from results: they go to files, or are
// refused where there are none.
func TestRoomIsShared(t *testing.T) {
	pool := memory.NewPool(memory.Options{Limit: 1000})
	other := pool.Account("other")
	s := openLocal(t, artifact.Options{Dir: t.TempDir(), Room: pool.Account("results")})
	put := func(s *artifact.Local, fill string) error {
		_, err := s.Put(t.Context(), "ann", "text/plain", "x", []byte(strings.Repeat(fill, 300)))
		return err
	}
	if err := put(s, "a"); err != nil || pool.Usage().Kept != 300 {
		t.Errorf("%v, %+v", err, pool.Usage())
	}
	if !other.Keep(200) {
		t.Fatal("there is no room")
	}
	if err := put(s, "b"); err != nil || s.Totals().DiskBytes != 300 || pool.Usage().Kept != 500 {
		t.Errorf("%v, %+v, %+v", err, s.Totals(), pool.Usage())
	}
	bare := artifact.NewMemory(artifact.Options{Room: pool.Account("results")})
	defer bare.Close()
	if err := put(bare, "c"); !errors.Is(err, artifact.ErrFull) || !strings.Contains(err.Error(), "limits.memory") {
		t.Errorf("%v", err)
	}
	if err := s.Close(); err != nil || pool.Usage().Kept != 200 {
		t.Errorf("in the end there is %+v, %v", pool.Usage(), err)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	s := artifact.NewMemory(artifact.Options{MemoryBytes: 10})
	defer s.Close()
	if _, err := s.Put(t.Context(), "ann", "", "", []byte("12345678")); err != nil {
		t.Fatal(err)
	}
	_, err := s.Put(t.Context(), "bob", "", "", []byte("123"))
	if !errors.Is(err, artifact.ErrFull) || !strings.Contains(err.Error(), "artifacts.dir") {
		t.Errorf("error %v", err)
	}
	w := s.NewTable("bob", "", table.Options{})
	if err := w.Append([]byte(`{"a":1}`)); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Deposit(0); !errors.Is(err, artifact.ErrFull) {
		t.Errorf("error %v", err)
	}
	if got := s.Totals(); got != (artifact.Totals{Count: 1, MemoryBytes: 8}) {
		t.Errorf("totals %+v", got)
	}
}

func BenchmarkClaim(b *testing.B) {
	s := artifact.NewMemory(artifact.Options{MaxTokens: 1 << 20})
	defer s.Close()
	a, err := s.Put(b.Context(), "ann", "", "", []byte("x"))
	if err != nil {
		b.Fatal(err)
	}
	b.Run("spent", func(b *testing.B) {
		for b.Loop() {
			tok, err := s.Offer(b.Context(), "ann", a.Handle, 0)
			if err != nil {
				b.Fatal(err)
			}
			c, err := s.Claim(b.Context(), tok.Value)
			if err != nil {
				b.Fatal(err)
			}
			c.Spend()
			c.Close()
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "checks/s")
	})
	b.Run("unknown", func(b *testing.B) {
		for b.Loop() {
			if _, err := s.Claim(b.Context(), "no such token, which has forty-three letters"); err == nil {
				b.Fatal("claimed")
			}
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "checks/s")
	})
}
