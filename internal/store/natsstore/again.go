package natsstore

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	// unanswered is how long a read waits before its request is sent once more, and longestUnanswered the
	// longest such wait: each one is half as long again as the one before.
	unanswered        = 400 * time.Millisecond
	longestUnanswered = time.Second
)

// again makes a read, within a time if ctx has no end of its own. It sends the request once more after each
// such wait, and returns the first answer. Without that, a read that comes while the servers elect their
// leader waits until its end, although they have had a leader for seconds: they do not answer what came
// before. The requests of a server that is slow stay under way, so their answers count as well.
func again[T any](ctx context.Context, within time.Duration, read func(ctx context.Context) (T, error)) (T, error) {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, within)
		defer cancel()
	}
	// Most reads are answered here, without a goroutine.
	attempt, cancel := context.WithTimeout(ctx, unanswered)
	got, err := read(attempt)
	late := isLate(err) && attempt.Err() != nil
	cancel()
	if !late || ctx.Err() != nil {
		return got, err
	}
	type answer struct {
		got T
		err error
	}
	var all sync.WaitGroup
	defer all.Wait()
	ctx, cancel = context.WithCancel(ctx) // ends the others when one is answered
	defer cancel()
	answers := make(chan answer)
	for wait := unanswered; ; wait = min(3*wait/2, longestUnanswered) {
		all.Go(func() {
			got, err := read(ctx)
			select {
			case answers <- answer{got, err}:
			case <-ctx.Done():
			}
		})
		for timer := time.After(wait); timer != nil; {
			select {
			case a := <-answers:
				if !isLate(a.err) {
					return a.got, a.err
				}
			case <-timer:
				timer = nil
			case <-ctx.Done():
				return got, ctx.Err()
			}
		}
	}
}

// isLate reports whether an error says that there was no answer in time.
func isLate(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout)
}
