package store

import (
	"context"
	"io"
	"time"
)

// MaxBlob bounds one blob.
const MaxBlob = 64 << 20

// Blobs keeps bytes that are too many for a document. All methods may be called concurrently.
type Blobs interface {
	// Put keeps what r gives under a name, which is formed as a key, in place of what was there. A
	// reader sees a blob whole or not at all. After ttl the blob is gone; 0 keeps it for good. More
	// than MaxBlob bytes are ErrFull.
	Put(ctx context.Context, name string, r io.Reader, ttl time.Duration) error
	// Open returns the bytes of a blob, which the caller closes. One that is not there is
	// fs.ErrNotExist. A blob that is replaced or goes while it is read ends with an error, never
	// with bytes of another.
	Open(ctx context.Context, name string) (io.ReadCloser, error)
	// Delete removes a blob. One that is not there is no error.
	Delete(ctx context.Context, name string) error
}

// NoBlobs keeps nothing: each Put succeeds, and no blob is there.
type NoBlobs struct{}

var _ Blobs = NoBlobs{}

// Put implements Blobs.
func (NoBlobs) Put(context.Context, string, io.Reader, time.Duration) error { return nil }

// Open implements Blobs.
func (NoBlobs) Open(_ context.Context, name string) (io.ReadCloser, error) { return nil, NoBlob(name) }

// Delete implements Blobs.
func (NoBlobs) Delete(context.Context, string) error { return nil }
