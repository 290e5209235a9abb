package store

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

const (
	// changeTime bounds all attempts of a Change. The election of a leader fits in.
	changeTime = 12 * time.Second
	// The wait between attempts starts with the first of these and doubles up to the second.
	firstWait, longestWait = 2 * time.Millisecond, time.Second
)

// ErrKeep is returned by the function of a Change that leaves the document as it is.
var ErrKeep = errors.New("the document stays")

// Change replaces a document by what f makes of it: a value and its life, or a nil value for none.
// It starts again with the newest document after a conflict, and after a write whose outcome is not
// known. So f must recognise its own effect, for which it returns ErrKeep. Change ends with an error
// of f, or after 12 seconds, and returns the document as it is then. It waits between attempts, each
// time longer and never as long as others.
func Change(ctx context.Context, d Docs, key string, f func(Doc) (value []byte, ttl time.Duration, err error)) (Doc, error) {
	return ChangeSeen(ctx, d, Doc{Key: key}, f)
}

// ChangeSeen is Change with a document that the caller has seen, which saves the read if it is the newest one. The first
// call of f gets it, unless its Rev is 0. Only a change counts there: f is called again with the newest document if it
// finds nothing to do or returns an error.
func ChangeSeen(ctx context.Context, d Docs, seen Doc, f func(Doc) (value []byte, ttl time.Duration, err error)) (Doc, error) {
	parent, key := ctx, seen.Key
	ctx, cancel := context.WithTimeout(parent, changeTime)
	defer cancel()
	if seen.Rev != 0 {
		if value, ttl, err := f(seen); err == nil && value != nil {
			if rev, err := d.Set(ctx, key, value, seen.Rev, ttl); err == nil {
				return Doc{Key: key, Rev: rev, Value: value}, nil
			}
		}
	}
	for wait := firstWait; ; wait = min(2*wait, longestWait) {
		now, err := change(ctx, d, key, f)
		if errors.Is(err, context.DeadlineExceeded) && parent.Err() == nil {
			return now, ErrUnavailable
		}
		if err == nil || !errors.Is(err, ErrConflict) && !errors.Is(err, ErrUnavailable) {
			return now, err
		}
		select {
		case <-time.After(wait/2 + rand.N(wait)):
		case <-ctx.Done():
			return now, err
		}
	}
}

// change is one attempt of a Change.
func change(ctx context.Context, d Docs, key string, f func(Doc) ([]byte, time.Duration, error)) (Doc, error) {
	now, err := d.Get(ctx, key)
	if err != nil {
		return now, err
	}
	value, ttl, err := f(now)
	switch {
	case errors.Is(err, ErrKeep), err == nil && value == nil && now.Rev == 0:
		return now, nil
	case err != nil:
		return now, err
	case value == nil:
		if err := d.Delete(ctx, key, now.Rev); err != nil {
			return now, err
		}
		return Doc{Key: key}, nil
	}
	rev, err := d.Set(ctx, key, value, now.Rev, ttl)
	if err != nil {
		return now, err
	}
	return Doc{Key: key, Rev: rev, Value: value}, nil
}
