package storetest

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"testing"
	"testing/iotest"
	"time"

	"github.com/weir-mcp/weir/internal/store"
)

// Blobs tests blobs that a puts and b reads. Both may be one. large is the size of the largest one.
func Blobs(t *testing.T, a, b store.Blobs, large int) {
	ctx := t.Context()
	read := func(name string) ([]byte, error) {
		r, err := b.Open(ctx, name)
		if err != nil {
			return nil, err
		}
		data, err := io.ReadAll(r)
		return data, errors.Join(err, r.Close())
	}
	missing := func(name string) {
		t.Helper()
		if _, err := read(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v, want that it is not there", name, err)
		}
	}
	put := func(name string, data []byte, ttl time.Duration) {
		t.Helper()
		if err := a.Put(ctx, name, iotest.HalfReader(bytes.NewReader(data)), ttl); err != nil {
			t.Fatal(err)
		}
	}
	has := func(name string, want []byte) {
		t.Helper()
		if got, err := read(name); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, %v, want %d", name, len(got), err, len(want))
		}
	}
	missing("blob.x")
	data := make([]byte, large)
	for i, sum := 0, sha256.Sum256(nil); i < len(data); i += len(sum) {
		copy(data[i:], sum[:])
		sum = sha256.Sum256(sum[:])
	}
	for _, n := range []int{0, 1, 100, min(large, 300<<10), large} {
		put("blob.x", data[:n], 0)
		has("blob.x", data[:n])
	}
	const short = 3 * time.Second // more than a busy machine takes for the next three requests
	put("blob.short", data[:1000], short)
	put("blob.kept", data[:1000], short)
	put("blob.kept", data[:500], 0)
	has("blob.short", data[:1000])
	time.Sleep(short + 1500*time.Millisecond)
	missing("blob.short")
	has("blob.kept", data[:500])

	if r, err := b.Open(ctx, "blob.x"); err != nil {
		t.Error(err)
	} else if err := r.Close(); err != nil { // a reader may leave
		t.Error(err)
	}
	for range 2 {
		if err := a.Delete(ctx, "blob.x"); err != nil {
			t.Error(err)
		}
		missing("blob.x")
	}
	broken := errors.New("broken")
	if err := a.Put(ctx, "blob.broken", io.MultiReader(bytes.NewReader(data[:min(large, 300<<10)]), iotest.ErrReader(broken)), 0); !errors.Is(err, broken) {
		t.Errorf("a reader that fails: %v", err)
	}
	missing("blob.broken")
	if err := a.Put(ctx, "a b", bytes.NewReader(nil), 0); err == nil {
		t.Error("a name that is no key")
	}
}

// BlobBound tests that a blob over the bound is refused, and leaves nothing.
func BlobBound(t *testing.T, b store.Blobs) {
	if err := b.Put(t.Context(), "blob.huge", io.LimitReader(zeros{}, store.MaxBlob+1), 0); !errors.Is(err, store.ErrFull) {
		t.Errorf("more than the bound: %v", err)
	}
	if _, err := b.Open(t.Context(), "blob.huge"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after it: %v", err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
