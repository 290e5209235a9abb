package artifact_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/s2sp/table"
)

// ofSize is a table of n bytes.
func ofSize(t testing.TB, n int) *table.Table {
	t.Helper()
	// Between the brackets of the array.
	return rowsOf(t, `[{"a":"`+strings.Repeat("x", n-len(`{"a":""}`))+`"}]`)
}

func claimable(t *testing.T, s *artifact.Local, tokens ...artifact.Token) {
	t.Helper()
	for i, tok := range tokens {
		c, err := s.Claim(t.Context(), tok.Value)
		if err != nil {
			t.Errorf("token %d: %v", i, err)
			continue
		}
		if tab, err := c.Table(table.DetectOptions{}); err != nil || tab.Len() != 1 {
			t.Errorf("token %d: %v", i, err)
		}
		c.Close()
	}
}

// What waits behind a token stays until it is spent or its time is over: handles
// make room for it, and where they do not suffice it is refused.
func TestTokensKeepTheirRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := artifact.NewMemory(artifact.Options{MaxBytes: 1000, TokenTTL: time.Minute})
		defer s.Close()
		put := func(n int) (string, error) {
			a, err := s.Put(t.Context(), "ann", "", "", []byte(strings.Repeat("h", n)))
			return a.Handle, err
		}
		deposit := func(n int) (artifact.Token, error) {
			return s.Deposit(t.Context(), "ann", "", ofSize(t, n), 0)
		}
		held, err := put(600)
		if err != nil {
			t.Fatal(err)
		}
		first, err := deposit(400) // beside the handle
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.Get(t.Context(), "ann", held); err != nil {
			t.Errorf("the handle is gone: %v", err)
		}
		second, err := deposit(400) // in its place
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.Get(t.Context(), "ann", held); !errors.Is(err, artifact.ErrEvicted) {
			t.Errorf("the handle: %v", err)
		}
		for name, more := range map[string]func() error{
			"a deposit": func() error { _, err := deposit(201); return err },
			"a handle":  func() error { _, err := put(201); return err },
		} {
			err := more()
			if !errors.Is(err, artifact.ErrFull) || !strings.HasPrefix(err.Error(), "no room") || !strings.Contains(err.Error(), "artifacts.max_bytes") {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := deposit(1001); !errors.Is(err, artifact.ErrTooLarge) || !strings.HasPrefix(err.Error(), "no room") || !strings.Contains(err.Error(), "artifacts.max_bytes") {
			t.Errorf("larger than all: %v", err)
		}
		if _, err := s.Deposit(t.Context(), "bob", "", ofSize(t, 900), 0); err != nil {
			t.Errorf("another principal: %v", err)
		}
		claimable(t, s, first, second)
		if _, err := put(200); err != nil {
			t.Errorf("what is left: %v", err)
		}
		c, err := s.Claim(t.Context(), first.Value)
		if err != nil {
			t.Fatal(err)
		}
		c.Spend()
		c.Close()
		third, err := deposit(600) // of the spent one, and of the handle
		if err != nil {
			t.Fatal(err)
		}
		claimable(t, s, second, third)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := s.Totals(); got != (artifact.Totals{}) {
			t.Errorf("after their time: %+v", got)
		}
	})
}

// A token for a handle keeps it, from eviction and from its age.
func TestOfferedHandlesStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := artifact.NewMemory(artifact.Options{MaxBytes: 1000, MaxCount: 2, TTL: time.Minute})
		defer s.Close()
		a, err := s.Put(t.Context(), "ann", "", "", []byte(`[{"a":1}]`))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Second)
		tok, err := s.Offer(t.Context(), "ann", a.Handle, 5*time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 5 {
			if _, err := s.Put(t.Context(), "ann", "", "", []byte(fmt.Sprint(strings.Repeat("x", 600), i))); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(4 * time.Minute)
		synctest.Wait()
		claimable(t, s, tok)
		second, err := s.Put(t.Context(), "ann", "", "", []byte(`[{"a":2}]`))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Offer(t.Context(), "ann", second.Handle, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Put(t.Context(), "ann", "", "", []byte("third")); !errors.Is(err, artifact.ErrFull) || !strings.Contains(err.Error(), "artifacts.max_count") {
			t.Errorf("each handle is offered: %v", err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if _, _, err := s.Get(t.Context(), "ann", a.Handle); !errors.Is(err, artifact.ErrExpired) {
			t.Errorf("after the token's end: %v", err)
		}
	})
}

// Where there are files, a deposit that finds no room goes there, whatever its
// size, and no handle gives way.
func TestDepositsBeyondTheirRoom(t *testing.T) {
	write := func(t *testing.T, s *artifact.Local, n int) (artifact.Token, error) {
		w := s.NewTable("ann", "", table.Options{})
		for _, row := range ofSize(t, n).Rows() {
			if err := w.Append(row); err != nil {
				w.Abort()
				return artifact.Token{}, err
			}
		}
		return w.Deposit(0)
	}
	give := func(t *testing.T, s *artifact.Local, n int) (artifact.Token, error) {
		return s.Deposit(t.Context(), "ann", "", ofSize(t, n), 0)
	}
	configured := func(dir string) artifact.Options { return artifact.Options{Dir: dir} }
	standard := func(dir string) artifact.Options {
		return artifact.Options{DefaultDir: func() (string, error) { return dir, nil }}
	}
	for name, c := range map[string]struct {
		deposit func(*testing.T, *artifact.Local, int) (artifact.Token, error)
		options func(dir string) artifact.Options
	}{
		"Deposit": {give, configured}, "TableWriter": {write, configured},
		"Deposit, default folder": {give, standard}, "TableWriter, default folder": {write, standard},
	} {
		t.Run(name, func(t *testing.T) {
			dir, deposit := t.TempDir(), c.deposit
			opts := c.options(dir)
			opts.MaxBytes, opts.DiskBytes = 1000, 8000
			s := openLocal(t, opts)
			defer s.Close()
			a, err := s.Put(t.Context(), "ann", "", "", []byte(strings.Repeat("h", 700)))
			if err != nil {
				t.Fatal(err)
			}
			var tokens []artifact.Token
			for _, n := range []int{200, 400, 5000} {
				tok, err := deposit(t, s, n)
				if err != nil {
					t.Fatal(err)
				}
				tokens = append(tokens, tok)
			}
			if files := spilled(t, dir); len(files) != 4 { // data and index of two
				t.Errorf("files %v", files)
			}
			if got := s.Usage("ann"); got.Bytes > 1000 {
				t.Errorf("usage %+v", got)
			}
			claimable(t, s, tokens...)
			if _, _, err := s.Get(t.Context(), "ann", a.Handle); err != nil {
				t.Errorf("the handle gave way: %v", err)
			}
			// The disk is full: the handle does, where that is enough.
			if _, err := deposit(t, s, 4000); !errors.Is(err, artifact.ErrFull) || !strings.Contains(err.Error(), "artifacts.disk_bytes") || strings.Contains(err.Error(), dir) {
				t.Errorf("a full disk: %v", err)
			}
			for _, tok := range tokens {
				c, err := s.Claim(t.Context(), tok.Value)
				if err != nil {
					t.Fatal(err)
				}
				c.Spend()
				c.Close()
			}
			if got := s.Totals(); got.DiskBytes != 0 || got.Count != 1 {
				t.Errorf("after all were spent: %+v", got)
			}
			if got := s.Usage("ann"); got != (artifact.Usage{Count: 1, Bytes: 700}) {
				t.Errorf("usage %+v", got)
			}
		})
	}
	s := openLocal(t, artifact.Options{Dir: t.TempDir(), MaxBytes: 1000, DiskBytes: 100})
	defer s.Close()
	if _, err := s.Put(t.Context(), "ann", "", "", []byte(strings.Repeat("h", 700))); err != nil {
		t.Fatal(err)
	}
	tok, err := give(t, s, 900)
	if err != nil {
		t.Fatalf("the disk is full, and a handle could give way: %v", err)
	}
	claimable(t, s, tok)
}

// Errors name bounds as those know them who set them.
func TestSettingsInErrors(t *testing.T) {
	s := artifact.NewMemory(artifact.Options{MaxBytes: 10, Setting: func(key string) string { return "Options<" + key + ">" }})
	defer s.Close()
	if _, err := s.Put(t.Context(), "ann", "", "", make([]byte, 11)); err == nil || !strings.Contains(err.Error(), "Options<max_bytes>") || strings.Contains(err.Error(), "artifacts.") {
		t.Errorf("%v", err)
	}
}

// What a disk refuses is told without its folders: an agent reads it.
func TestDiskErrorsHaveNoPath(t *testing.T) {
	dir := t.TempDir()
	s := openLocal(t, artifact.Options{Dir: dir, MemoryBytes: 1})
	defer func() { _ = s.Close() }() // there is nothing left to remove
	own, err := filepath.Glob(filepath.Join(dir, "weir-spill-*"))
	if err != nil || len(own) != 1 {
		t.Fatal(own, err)
	}
	if err := os.RemoveAll(own[0]); err != nil {
		t.Fatal(err)
	}
	for what, put := range map[string]func() error{
		"a result": func() error { _, err := s.Put(t.Context(), "ann", "", "", make([]byte, 100)); return err },
		"a table":  func() error { _, err := s.Deposit(t.Context(), "ann", "", ofSize(t, 100), 0); return err },
	} {
		if err := put(); err == nil || strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "no such file") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
