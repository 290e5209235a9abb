package artifact

import (
	"errors"
	"testing"
	"time"
)

// TestPlaces: at a place the artifacts of others are as unknown as those that never were, also once
// they have expired, and the bounds are the principal's.
func TestPlaces(t *testing.T) {
	now := time.Unix(1000, 0)
	s := NewMemory(Options{Now: func() time.Time { return now }, TTL: time.Minute})
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
	now = now.Add(time.Hour)
	check(ErrExpired)
}
