package embedding

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// slow answers after a while, or fails.
type slow struct {
	takes time.Duration
	fails error
	calls int
}

func (s *slow) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	s.calls++
	select {
	case <-time.After(s.takes):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if s.fails != nil {
		return nil, s.fails
	}
	out := make([][]float32, len(texts))
	for i, text := range texts {
		out[i] = []float32{float32(len(text)), 1}
	}
	return out, nil
}

func TestSteady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := &slow{takes: time.Second}
		s := NewSteady(next, 2*time.Second)
		for range 3 {
			if out, err := s.Embed(t.Context(), []string{"ship"}); err != nil || fmt.Sprint(out) != "[[4 1]]" {
				t.Fatalf("%v, %v", out, err)
			}
		}
		if next.calls != 1 {
			t.Errorf("one query asked %d times", next.calls)
		}
		// Only so many are kept, and those that were used last.
		for i := range maxQueries {
			if _, err := s.Embed(t.Context(), []string{fmt.Sprint("query ", i)}); err != nil {
				t.Fatal(err)
			}
		}
		if _, ok := s.known.Get("ship"); ok || s.known.Len() != maxQueries {
			t.Errorf("%d are kept", s.known.Len())
		}

		next.takes = time.Minute
		before := time.Now()
		if _, err := s.Embed(t.Context(), []string{"slow"}); err == nil || !strings.Contains(err.Error(), "within 2s") || time.Since(before) != 2*time.Second {
			t.Errorf("a query: %v after %s", err, time.Since(before))
		}
		calls := next.calls
		for _, texts := range [][]string{{"other"}, {"a", "b"}} {
			if _, err := s.Embed(t.Context(), texts); !errors.Is(err, errPaused) {
				t.Errorf("%q right after a failure: %v", texts, err)
			}
		}
		if _, err := s.Embed(t.Context(), []string{"query 500"}); err != nil || next.calls != calls {
			t.Errorf("what is known needs no endpoint: %v", err)
		}
		time.Sleep(pause)
		next.takes, next.fails = 0, errors.New("boom")
		if _, err := s.Embed(t.Context(), []string{"other"}); !errors.Is(err, next.fails) {
			t.Errorf("after the pause: %v", err)
		}
		time.Sleep(pause)
		next.fails = nil
		if _, err := s.Embed(t.Context(), []string{"other"}); err != nil {
			t.Errorf("after the next pause: %v", err)
		}

		// A caller who goes away is no failure.
		next.takes = time.Second
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := s.Embed(ctx, []string{"gone"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if _, err := s.Embed(t.Context(), []string{"next"}); err != nil {
			t.Error(err)
		}
	})
}
