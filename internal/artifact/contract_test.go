package artifact_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/artifact"
)

// testStore is the contract of a store, in memory or with files; open
// makes one with the given bounds, whose clock is time.Now of the test's
// bubble.
func testStore(t *testing.T, open func(t *testing.T, opts artifact.Options) *artifact.Local) {
	bubble := func(name string, opts artifact.Options, f func(t *testing.T, s *artifact.Local)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := open(t, opts)
				defer func() {
					if err := s.Close(); err != nil {
						t.Errorf("Close: %v", err)
					}
				}()
				f(t, s)
			})
		})
	}
	put := func(t *testing.T, s *artifact.Local, principal, data string) artifact.Artifact {
		t.Helper()
		a, err := s.Put(t.Context(), principal, "text/plain", "label", []byte(data))
		if err != nil {
			t.Fatalf("Put(%q): %v", data, err)
		}
		return a
	}
	get := func(t *testing.T, s *artifact.Local, principal, handle string) (string, error) {
		t.Helper()
		_, data, err := s.Get(t.Context(), principal, handle)
		return string(data), err
	}
	usage := func(t *testing.T, s *artifact.Local, principal string, want artifact.Usage) {
		t.Helper()
		if got := s.Usage(principal); got != want {
			t.Errorf("Usage(%s) = %+v, want %+v", principal, got, want)
		}
	}

	bubble("what was put is got", artifact.Options{TTL: time.Minute}, func(t *testing.T, s *artifact.Local) {
		data := []byte("a\x00b\xff")
		a, err := s.Put(t.Context(), "ann", "application/octet-stream", "disk:read#1", data)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(data)
		want := artifact.Artifact{Handle: a.Handle, MediaType: "application/octet-stream", SizeBytes: 4, Label: "disk:read#1",
			ContentHash: hex.EncodeToString(sum[:]), Created: time.Now(), Expires: time.Now().Add(time.Minute)}
		if a != want {
			t.Errorf("Put = %+v, want %+v", a, want)
		}
		data[0] = 'X' // the store has its own copy
		got, raw, err := s.Get(t.Context(), "ann", a.Handle)
		if err != nil || string(raw) != "a\x00b\xff" || got != a {
			t.Errorf("Get = %+v, %q, %v", got, raw, err)
		}
	})

	bubble("a handle is a keyed hash", artifact.Options{}, func(t *testing.T, s *artifact.Local) {
		a := put(t, s, "ann", "same")
		if b := put(t, s, "ann", "same"); b.Handle != a.Handle {
			t.Errorf("same bytes, same principal: %s and %s", a.Handle, b.Handle)
		}
		if b := put(t, s, "ann", "other"); b.Handle == a.Handle {
			t.Error("other bytes share a handle")
		}
		if b := put(t, s, "bob", "same"); b.Handle == a.Handle {
			t.Error("another principal shares a handle")
		}
		if strings.Contains(a.Handle, a.ContentHash[:8]) {
			t.Error("the handle gives the content hash away")
		}
		usage(t, s, "ann", artifact.Usage{Count: 2, Bytes: 9})
		usage(t, s, "bob", artifact.Usage{Count: 1, Bytes: 4})
	})

	bubble("a handle is useless to others", artifact.Options{}, func(t *testing.T, s *artifact.Local) {
		a := put(t, s, "ann", "private")
		_, err := get(t, s, "bob", a.Handle)
		_, never := get(t, s, "bob", "art_never")
		if !errors.Is(err, artifact.ErrUnknown) || !errors.Is(never, artifact.ErrUnknown) {
			t.Fatalf("errors %v and %v, want unknown", err, never)
		}
		if strings.ReplaceAll(err.Error(), a.Handle, "H") != strings.ReplaceAll(never.Error(), "art_never", "H") {
			t.Errorf("the error tells an existing handle from another:\n%v\n%v", err, never)
		}
	})

	bubble("age", artifact.Options{TTL: time.Minute}, func(t *testing.T, s *artifact.Local) {
		old := put(t, s, "ann", "old")
		time.Sleep(30 * time.Second)
		young := put(t, s, "ann", "young")
		if got, err := get(t, s, "ann", old.Handle); err != nil || got != "old" {
			t.Fatalf("Get = %q, %v", got, err)
		}
		time.Sleep(30 * time.Second) // reading does not make it younger
		synctest.Wait()
		_, err := get(t, s, "ann", old.Handle)
		if !errors.Is(err, artifact.ErrExpired) || errors.Is(err, artifact.ErrUnknown) {
			t.Errorf("error %v, want expired", err)
		}
		if err == nil || !strings.Contains(err.Error(), "1m0s") || !strings.Contains(err.Error(), old.Handle) {
			t.Errorf("error %v does not name the handle and the age", err)
		}
		usage(t, s, "ann", artifact.Usage{Count: 1, Bytes: 5})
		if again := put(t, s, "ann", "old"); again.Handle != old.Handle {
			t.Errorf("handle %s after expiry, %s before", again.Handle, old.Handle)
		}
		if got, err := get(t, s, "ann", old.Handle); err != nil || got != "old" {
			t.Errorf("Get after a new Put = %q, %v", got, err)
		}
		time.Sleep(20 * time.Second)
		put(t, s, "ann", "young") // putting it again does
		time.Sleep(20 * time.Second)
		if _, err := get(t, s, "ann", young.Handle); err != nil {
			t.Errorf("renewed artifact: %v", err)
		}
	})

	bubble("a principal's count", artifact.Options{MaxCount: 3}, func(t *testing.T, s *artifact.Local) {
		var h []string
		for i := range 3 {
			h = append(h, put(t, s, "ann", fmt.Sprint("data", i)).Handle)
		}
		other := put(t, s, "bob", "x")
		if _, err := get(t, s, "ann", h[0]); err != nil { // now the most recently used
			t.Fatal(err)
		}
		put(t, s, "ann", "data3")
		if _, err := get(t, s, "ann", h[1]); !errors.Is(err, artifact.ErrEvicted) {
			t.Errorf("error %v, want evicted", err)
		}
		for _, handle := range []string{h[0], h[2]} {
			if _, err := get(t, s, "ann", handle); err != nil {
				t.Errorf("%s: %v", handle, err)
			}
		}
		if _, err := get(t, s, "bob", other.Handle); err != nil {
			t.Errorf("another principal paid: %v", err)
		}
		usage(t, s, "ann", artifact.Usage{Count: 3, Bytes: 15})
	})

	bubble("a principal's bytes", artifact.Options{MaxBytes: 10}, func(t *testing.T, s *artifact.Local) {
		put(t, s, "ann", "1234")
		put(t, s, "ann", "5678")
		put(t, s, "ann", "1234") // there already: costs nothing
		usage(t, s, "ann", artifact.Usage{Count: 2, Bytes: 8})
		put(t, s, "ann", "abcdefg")
		usage(t, s, "ann", artifact.Usage{Count: 1, Bytes: 7})
		put(t, s, "ann", "0123456789")
		usage(t, s, "ann", artifact.Usage{Count: 1, Bytes: 10})
		_, err := s.Put(t.Context(), "ann", "", "", make([]byte, 11))
		if !errors.Is(err, artifact.ErrTooLarge) || !strings.Contains(err.Error(), "max_bytes") {
			t.Errorf("error %v, want too large", err)
		}
		usage(t, s, "ann", artifact.Usage{Count: 1, Bytes: 10})
		empty := put(t, s, "ann", "")
		if got, err := get(t, s, "ann", empty.Handle); err != nil || got != "" {
			t.Errorf("empty artifact: %q, %v", got, err)
		}
	})

	bubble("many at once", artifact.Options{MaxCount: 8, MaxBytes: 100, TTL: time.Second}, func(t *testing.T, s *artifact.Local) {
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				for i := range 200 {
					data := bytes.Repeat([]byte{byte(i)}, i%20)
					principal := fmt.Sprint("p", g%3)
					a, err := s.Put(t.Context(), principal, "", "", data)
					if err != nil {
						t.Error(err)
						return
					}
					_, got, err := s.Get(t.Context(), principal, a.Handle)
					if err == nil && !bytes.Equal(got, data) {
						t.Errorf("Get gives %d bytes, want %d", len(got), len(data))
					}
					if u := s.Usage(principal); u.Count > 8 || u.Bytes > 100 {
						t.Errorf("over bounds: %+v", u)
					}
				}
			})
		}
		wg.Wait()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		for g := range 3 {
			usage(t, s, fmt.Sprint("p", g), artifact.Usage{})
		}
	})

	bubble("closed", artifact.Options{}, func(t *testing.T, s *artifact.Local) {
		a := put(t, s, "ann", "x")
		for range 2 {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := get(t, s, "ann", a.Handle); !errors.Is(err, artifact.ErrClosed) {
			t.Errorf("Get: %v", err)
		}
		if _, err := s.Put(t.Context(), "ann", "", "", nil); !errors.Is(err, artifact.ErrClosed) {
			t.Errorf("Put: %v", err)
		}
		usage(t, s, "ann", artifact.Usage{})
	})
}
