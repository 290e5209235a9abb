package audit

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestNextSegmentFails: records go to the full segment while a new one cannot begin, and to a new one
// once it can.
func TestNextSegmentFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		var full atomic.Bool
		tries := 0
		l := openLog(t, Options{Dir: dir, Required: true, MaxBytes: 2 << 10, open: func(path string) (file, error) {
			if tries++; full.Load() {
				return nil, errors.New("too many open files")
			}
			return openFile(path)
		}})
		full.Store(true)
		add := func(n int) {
			for range n {
				if err := l.Sync(context.Background(), &Record{Kind: Begin, Principal: "ci"}); err != nil {
					t.Fatal(err)
				}
			}
		}
		add(30)
		if list, _ := segments(dir); len(list) != 1 || l.Lost() != 0 || tries != 2 {
			t.Errorf("segments %v, %d lost, %d tries", list, l.Lost(), tries)
		}
		full.Store(false)
		time.Sleep(2 * retryAfter)
		add(1)
		if list, _ := segments(dir); len(list) != 2 {
			t.Errorf("segments %v", list)
		}
		l.Close()
		if r, err := Verify(dir, trusted(t)); err != nil || len(r.Notes) != 0 {
			t.Errorf("%+v, %v", r, err)
		}
	})
}
