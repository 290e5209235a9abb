package store

import (
	"bytes"
	"context"
	"errors"
	"time"
)

// soleTries bounds how often a Sole repeats a write whose outcome it does not know.
const soleTries = 3

// Sole is a document that only one party writes. It knows the revision, and finds out about writes
// that may have been made. It is for one goroutine at a time.
type Sole struct {
	docs Docs
	key  string
	rev  uint64
}

// NewSole returns the document of a key, whose revision is rev; 0 says that it is not there.
func NewSole(docs Docs, key string, rev uint64) *Sole { return &Sole{docs, key, rev} }

// There reports whether the document has been written.
func (s *Sole) There() bool { return s.rev != 0 }

// Write replaces the document. When it returns nil, the value is kept as the store promises.
func (s *Sole) Write(ctx context.Context, value []byte, ttl time.Duration) (err error) {
	for range soleTries {
		var rev uint64
		if rev, err = s.docs.Set(ctx, s.key, value, s.rev, ttl); err == nil {
			s.rev = rev
			return nil
		}
		if !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrConflict) {
			return err
		}
		// The write may have been made, and a conflict is one with an earlier write of this party.
		doc, failed := s.docs.Get(ctx, s.key)
		if failed != nil {
			continue
		}
		if s.rev = doc.Rev; doc.Rev != 0 && bytes.Equal(doc.Value, value) {
			return nil
		}
	}
	return err
}

// Remove deletes the document. One that is not there is no error.
func (s *Sole) Remove(ctx context.Context) error {
	if s.rev == 0 {
		return nil
	}
	err := s.docs.Delete(ctx, s.key, s.rev)
	if errors.Is(err, ErrConflict) {
		doc, failed := s.docs.Get(ctx, s.key)
		if failed != nil || doc.Rev == 0 {
			return failed
		}
		err = s.docs.Delete(ctx, s.key, doc.Rev)
	}
	if err == nil {
		s.rev = 0
	}
	return err
}
