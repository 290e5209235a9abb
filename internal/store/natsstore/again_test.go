package natsstore

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// TestAgain: a read is answered soon after the servers have a leader, although they answer no request of
// before. An answer that is late counts, and an error that is an answer ends the read.
func TestAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		leader := began.Add(5 * time.Second)
		silent := func(ctx context.Context) (int, error) {
			if time.Now().Before(leader) {
				<-ctx.Done()
				return 0, ctx.Err()
			}
			return 7, nil
		}
		got, err := again(t.Context(), time.Minute, silent)
		if took := time.Since(leader); got != 7 || err != nil || took > longestUnanswered {
			t.Errorf("%d, %v, %v after there was a leader", got, err, took)
		}

		began = time.Now()
		slow := func(ctx context.Context) (int, error) {
			select {
			case <-time.After(3 * time.Second):
				return 7, nil
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}
		if got, err = again(t.Context(), time.Minute, slow); got != 7 || err != nil || time.Since(began) > 4*time.Second {
			t.Errorf("of a slow server: %d, %v after %v", got, err, time.Since(began))
		}

		refused := func(context.Context) (int, error) { time.Sleep(time.Second); return 0, jetstream.ErrMsgNotFound }
		if _, err = again(t.Context(), time.Minute, refused); !errors.Is(err, jetstream.ErrMsgNotFound) {
			t.Error(err)
		}

		began, leader = time.Now(), time.Now().Add(time.Hour)
		if _, err = again(t.Context(), 5*time.Second, silent); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 5*time.Second {
			t.Errorf("without a leader: %v after %v", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		began = time.Now()
		if _, err = again(ctx, 5*time.Second, silent); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 100*time.Millisecond {
			t.Errorf("with a short end: %v after %v", err, time.Since(began))
		}
	})
}
