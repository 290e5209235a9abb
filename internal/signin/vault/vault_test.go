package vault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/testkit/leak"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("VAULT_TEST_COUNT_IN"); dir != "" {
		count(dir, 50)
		return
	}
	leak.Main(m)
}

func keysOf(t testing.TB, texts ...string) func(bool) (*Keys, error) {
	t.Helper()
	return func(bool) (*Keys, error) { return NewKeys(texts) }
}

const (
	oldKey = "an old key of 24 letters"
	newKey = "a new key of 24 letters."
)

// TestStores is the contract: both stores pass it.
func TestStores(t *testing.T) {
	stores := map[string]func(*testing.T) Store{
		"memory": func(*testing.T) Store { return NewMemory(nil) },
		"file":   func(t *testing.T) Store { return NewFile(filepath.Join(t.TempDir(), "creds"), keysOf(t, newKey)) },
	}
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			t.Run("records", func(t *testing.T) { testRecords(t, open(t)) })
			t.Run("races", func(t *testing.T) { testRaces(t, open(t)) })
			t.Run("locks", func(t *testing.T) { testLocks(t, open(t)) })
			t.Run("bounds", func(t *testing.T) { testBounds(t, open(t)) })
		})
	}
}

func testRecords(t *testing.T, s Store) {
	ctx := t.Context()
	id := ID{Kind: Token, Principal: "corp:1", Server: "github"}
	first, second := Record{"https://a", []byte("one")}, Record{"https://b", []byte("two")}
	if _, err := s.Get(ctx, id); !errors.Is(err, ErrMissing) {
		t.Errorf("Get of none: %v", err)
	}
	if err := s.Delete(ctx, id); !errors.Is(err, ErrMissing) {
		t.Errorf("Delete of none: %v", err)
	}
	if err := s.Swap(ctx, id, second, first); !errors.Is(err, ErrChanged) {
		t.Errorf("Swap of a record that is not there: %v", err)
	}
	if err := s.Swap(ctx, id, Record{}, first); err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []Record{{}, second, {"https://b", first.Data}, {"https://a", second.Data}} {
		if err := s.Swap(ctx, id, wrong, second); !errors.Is(err, ErrChanged) {
			t.Errorf("Swap expecting %q of %s: %v", wrong.Data, wrong.Issuer, err)
		}
	}
	if err := s.Swap(ctx, id, first, second); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Get(ctx, id); err != nil || !got.equal(second) {
		t.Errorf("Get = %q of %s, %v", got.Data, got.Issuer, err)
	}
	// The store keeps no slice of its callers, and hands out none of its own.
	got, _ := s.Get(ctx, id)
	got.Data[0], second.Data[0] = 'X', 'Y'
	if again, _ := s.Get(ctx, id); string(again.Data) != "two" {
		t.Errorf("a caller changed the record: %q", again.Data)
	}
	for _, other := range []ID{{Kind: Client, Issuer: "https://a"}, {Kind: Token, Principal: "corp:2", Server: "github"}, {Kind: Token, Principal: "corp:1", Server: "a"}} {
		if err := s.Swap(ctx, other, Record{}, first); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := s.List(ctx)
	var listed []string
	for _, e := range entries {
		listed = append(listed, fmt.Sprint(e.Kind, e.Server, e.Principal, e.Issuer, e.IssuedBy))
		if time.Since(e.Changed) > time.Minute {
			t.Errorf("%v changed at %s", e.ID, e.Changed)
		}
	}
	want := "clienthttps://ahttps://a tokenacorp:1https://a tokengithubcorp:1https://b tokengithubcorp:2https://a"
	if strings.Join(listed, " ") != want || err != nil {
		t.Errorf("List = %s, %v", listed, err)
	}
	if err := s.Delete(ctx, id); err != nil {
		t.Error(err)
	}
	if _, err := s.Get(ctx, id); !errors.Is(err, ErrMissing) {
		t.Errorf("Get after Delete: %v", err)
	}
}

// add increments the number in a record.
func add(ctx context.Context, s Store, id ID) error {
	for {
		old, err := s.Get(ctx, id)
		if err != nil && !errors.Is(err, ErrMissing) {
			return err
		}
		n, _ := strconv.Atoi(string(old.Data))
		err = s.Swap(ctx, id, old, Record{"https://a", []byte(strconv.Itoa(n + 1))})
		if !errors.Is(err, ErrChanged) {
			return err
		}
	}
}

func testRaces(t *testing.T, s Store) {
	id := ID{Kind: Token, Server: "s"}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 10 {
				if err := add(t.Context(), s, id); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if got, err := s.Get(t.Context(), id); err != nil || string(got.Data) != "40" {
		t.Errorf("40 increments make %q, %v", got.Data, err)
	}
}

func testLocks(t *testing.T, s Store) {
	id, other := ID{Kind: Token, Server: "s"}, ID{Kind: Token, Server: "other"}
	unlock, err := s.Lock(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	free, err := s.Lock(t.Context(), other)
	if err != nil {
		t.Fatal(err)
	}
	free()
	if err := s.Swap(t.Context(), id, Record{}, Record{"i", []byte("x")}); err != nil {
		t.Errorf("Swap while the record is locked: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.Lock(ctx, id); err == nil {
		t.Error("two have the lock")
	}
	unlock()
	again, err := s.Lock(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	again()
}

func testBounds(t *testing.T, s Store) {
	id := ID{Kind: Token, Server: "s"}
	long := strings.Repeat("x", maxText+1)
	for name, c := range map[string]struct {
		id ID
		r  Record
	}{
		"no kind": {ID{Server: "s"}, Record{"i", []byte("x")}},
		"server":  {ID{Kind: Token, Server: long}, Record{"i", []byte("x")}},
		"issuer":  {id, Record{long, []byte("x")}},
		"data":    {id, Record{"i", make([]byte, maxData+1)}},
		"empty":   {id, Record{}},
	} {
		if err := s.Swap(t.Context(), c.id, Record{}, c.r); err == nil {
			t.Errorf("%s is stored", name)
		}
	}
	most := Record{strings.Repeat("\x01", maxText), make([]byte, maxData)}
	if err := s.Swap(t.Context(), id, Record{}, most); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Get(t.Context(), id); err != nil || !got.equal(most) {
		t.Errorf("the largest record: %v", err)
	}
}

// TestMovedRecordDoesNotOpen copies the record of one principal to another one, and changes each of
// its clear texts.
func TestMovedRecordDoesNotOpen(t *testing.T) {
	ctx := t.Context()
	f := NewFile(filepath.Join(t.TempDir(), "creds"), keysOf(t, newKey))
	mine, theirs := ID{Kind: Token, Principal: "me", Server: "s"}, ID{Kind: Token, Principal: "them", Server: "s"}
	if err := f.Swap(ctx, mine, Record{}, Record{"https://a", []byte("hunter22")}); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(f.path(mine))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(data), "hunter22") {
		t.Error("the file has the secret in the clear")
	}
	for _, text := range []string{string(data), strings.Replace(string(data), `"me"`, `"them"`, 1)} {
		if err := os.WriteFile(f.path(theirs), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if r, err := f.Get(ctx, theirs); !errors.Is(err, ErrClosed) {
			t.Errorf("the record of another principal opens: %q, %v", r.Data, err)
		}
	}
	var e envelope
	if err := json.Unmarshal(data, &e); err != nil {
		t.Fatal(err)
	}
	e.IssuedBy = "https://b"
	changed, _ := json.Marshal(e)
	if err := os.WriteFile(f.path(mine), changed, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Get(ctx, mine); !errors.Is(err, ErrClosed) {
		t.Errorf("a record of another issuer opens: %v", err)
	}
	if err := f.Swap(ctx, mine, Record{}, Record{"x", []byte("y")}); !errors.Is(err, ErrClosed) {
		t.Errorf("a record that does not open was replaced: %v", err)
	}
	if err := f.Delete(ctx, mine); err != nil {
		t.Errorf("a record that does not open stays: %v", err)
	}
}

// TestRekey moves records to a new key, after which the old one is not needed.
func TestRekey(t *testing.T) {
	ctx, dir := t.Context(), filepath.Join(t.TempDir(), "creds")
	id := ID{Kind: Token, Principal: "p", Server: "s"}
	if err := NewFile(dir, keysOf(t, oldKey)).Swap(ctx, id, Record{}, Record{"i", []byte("x")}); err != nil {
		t.Fatal(err)
	}
	if _, err := NewFile(dir, keysOf(t, newKey)).Get(ctx, id); !errors.Is(err, ErrClosed) {
		t.Errorf("a wrong key: %v", err)
	}
	both := NewFile(dir, keysOf(t, newKey, oldKey))
	for _, want := range []int{1, 0} {
		if n, err := both.Rekey(ctx); n != want || err != nil {
			t.Errorf("Rekey = %d, %v, want %d", n, err, want)
		}
	}
	if got, err := NewFile(dir, keysOf(t, newKey)).Get(ctx, id); err != nil || string(got.Data) != "x" {
		t.Errorf("after Rekey: %q, %v", got.Data, err)
	}
	if _, err := NewFile(dir, keysOf(t, oldKey)).Rekey(ctx); !errors.Is(err, ErrClosed) {
		t.Errorf("Rekey without the key of a record: %v", err)
	}
}

func TestKeys(t *testing.T) {
	if _, err := NewKeys(nil); err == nil {
		t.Error("a store without a key")
	}
	_, err := NewKeys([]string{newKey, "short pw"})
	if err == nil || !strings.Contains(err.Error(), "keys[1]") || strings.Contains(err.Error(), "short pw") {
		t.Errorf("err = %v", err)
	}
	if a, b := NewKey(), NewKey(); a == b || len(a) < 32 {
		t.Errorf("random keys %q, %q", a, b)
	}
	if text := fmt.Sprintf("%v %+v %#v", Record{"i", []byte("hunter22")}, &Record{"i", []byte("hunter22")}, Record{"i", []byte("hunter22")}); strings.Contains(text, "hunter22") || strings.Contains(text, "104") {
		t.Errorf("a record prints its data: %s", text)
	}
}

// TestFileModes looks at what other users of the machine could read.
func TestFileModes(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no file modes")
	}
	dir := filepath.Join(t.TempDir(), "creds")
	f := NewFile(dir, keysOf(t, newKey))
	id := ID{Kind: Token, Server: "s"}
	if err := f.Swap(t.Context(), id, Record{}, Record{"i", []byte("x")}); err != nil {
		t.Fatal(err)
	}
	unlock, err := f.Lock(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, _ error) error {
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %o", path, info.Mode().Perm())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Get(t.Context(), id); err == nil {
		t.Error("a folder in which others may write is trusted")
	}
}

// count is the body of a child process.
func count(dir string, n int) {
	var err error
	for range n {
		if err == nil {
			err = add(context.Background(), NewFile(dir, func(bool) (*Keys, error) { return NewKeys([]string{newKey}) }), ID{Kind: Token, Server: "count"})
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// TestSwapAcrossProcesses has three processes count in one record.
func TestSwapAcrossProcesses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "creds")
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), "VAULT_TEST_COUNT_IN="+dir)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	wg.Wait()
	got, err := NewFile(dir, keysOf(t, newKey)).Get(t.Context(), ID{Kind: Token, Server: "count"})
	if err != nil || string(got.Data) != "150" {
		t.Errorf("150 increments make %q, %v", got.Data, err)
	}
}

// TestKeyIsMadeWhenNeeded has a store without a key, until the first record is sealed.
func TestKeyIsMadeWhenNeeded(t *testing.T) {
	var key string
	source := func(create bool) (*Keys, error) {
		if key == "" && create {
			key = NewKey()
		}
		if key == "" {
			return nil, nil
		}
		return NewKeys([]string{key})
	}
	f := NewFile(filepath.Join(t.TempDir(), "creds"), source)
	id := ID{Kind: Token, Server: "s"}
	if _, err := f.Get(t.Context(), id); !errors.Is(err, ErrMissing) || key != "" {
		t.Errorf("Get made a key %q, %v", key, err)
	}
	if err := f.Swap(t.Context(), id, Record{}, Record{"i", []byte("x")}); err != nil {
		t.Fatal(err)
	}
	key = "" // it was lost
	if _, err := NewFile(f.dir, source).Get(t.Context(), id); !errors.Is(err, ErrClosed) {
		t.Errorf("without the key: %v", err)
	}
}
