package artifact

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/s2sp/table"
)

// TestPlaces: at a place the artifacts of others are as unknown as those that never were, also once
// they have expired, and the bounds are the principal's.
func TestPlaces(t *testing.T) { synctest.Test(t, testPlaces) }

func testPlaces(t *testing.T) {
	s := NewMemory(Options{TTL: time.Minute})
	defer s.Close()
	handles := map[string]string{}
	for _, place := range []string{"", "a", "b"} {
		a, err := s.At(place).Put(t.Context(), "ann", "text/plain", "x", []byte("the same"))
		if err != nil {
			t.Fatal(err)
		}
		handles[place] = a.Handle
	}
	if u := s.Usage("ann"); u.Count != 3 || len(s.List("ann")) != 3 {
		t.Errorf("%+v, %d listed", u, len(s.List("ann")))
	}
	check := func(gone error) {
		t.Helper()
		for of, handle := range handles {
			for _, at := range []string{"", "a", "b"} {
				want := ErrUnknown
				if at == "" || at == of {
					want = gone
				}
				l, err := s.At(at).Open(t.Context(), "ann", handle)
				if !errors.Is(err, want) {
					t.Errorf("of %q at %q: %v, want %v", of, at, err, want)
				}
				if err == nil {
					l.Close()
				}
			}
		}
	}
	check(nil)
	time.Sleep(time.Minute)
	check(ErrExpired)
}

// TestCountedRows: rows that the writer has counted are listed before the artifact is read as a table.
func TestCountedRows(t *testing.T) {
	s := NewMemory(Options{})
	defer s.Close()
	for text, rows := range map[string]int{`[{"a":1},{"a":2}]`: 2, `"text"`: 0} {
		digest := DigestOf([]byte(text))
		digest.Rows = rows
		a, err := s.At("").PutDigested(t.Context(), text, "application/json", "x", []byte(text), digest)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.List(text)[0]; got.Table != (rows > 0) || got.Rows != rows || got.Columns != nil {
			t.Errorf("%s is listed as %+v", text, got)
		}
		l, err := s.At("").Open(t.Context(), text, a.Handle)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Table(table.DetectOptions{}); (err == nil) != (rows > 0) {
			t.Errorf("%s: %v", text, err)
		}
		if got := s.List(text)[0]; got.Rows != rows || len(got.Columns) != min(rows, 1) {
			t.Errorf("%s is listed as %+v after it was read", text, got)
		}
		l.Close()
	}
}
