package store

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"time"
)

// MemoryBlobs is Blobs that last as long as the process. Tests of rooms use it.
type MemoryBlobs struct {
	mu    sync.Mutex // guards below
	blobs map[string]blob
}

type blob struct {
	data    []byte
	expires time.Time // zero: never
}

var _ Blobs = (*MemoryBlobs)(nil)

// NewMemoryBlobs returns an empty MemoryBlobs.
func NewMemoryBlobs() *MemoryBlobs { return &MemoryBlobs{blobs: map[string]blob{}} }

// Put implements Blobs.
func (m *MemoryBlobs) Put(ctx context.Context, name string, r io.Reader, ttl time.Duration) error {
	if err := CheckKey(name, false); err != nil {
		return err
	}
	data, err := io.ReadAll(io.LimitReader(r, MaxBlob+1))
	switch {
	case err != nil:
		return err
	case len(data) > MaxBlob:
		return TooLarge(name)
	case ctx.Err() != nil:
		return ctx.Err()
	}
	b := blob{data: data}
	if ttl > 0 {
		b.expires = time.Now().Add(max(ttl, MinTTL))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.blobs[name] = b
	return nil
}

// TooLarge returns the error for a blob of more than MaxBlob bytes.
func TooLarge(name string) error {
	return fmt.Errorf("store: the blob %.60q has more than %d bytes: %w", name, MaxBlob, ErrFull)
}

// Open implements Blobs.
func (m *MemoryBlobs) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	if err := CheckKey(name, false); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	b, ok := m.blobs[name]
	if ok && !b.expires.IsZero() && !time.Now().Before(b.expires) {
		delete(m.blobs, name)
		ok = false
	}
	if !ok {
		return nil, NoBlob(name)
	}
	return io.NopCloser(bytes.NewReader(b.data)), nil
}

// NoBlob returns the error for a blob that is not there.
func NoBlob(name string) error { return fmt.Errorf("store: the blob %.60q: %w", name, fs.ErrNotExist) }

// Delete implements Blobs.
func (m *MemoryBlobs) Delete(ctx context.Context, name string) error {
	if err := CheckKey(name, false); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.blobs, name)
	return ctx.Err()
}
