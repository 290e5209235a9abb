package audit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// bytesOf returns the bytes of a log's segments.
func bytesOf(t *testing.T, dir string) (sum int64) {
	t.Helper()
	list, err := segments(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		info, err := os.Stat(s.path)
		if err != nil {
			t.Fatal(err)
		}
		sum += info.Size()
	}
	return sum
}

// syncEach writes records, each by itself.
func syncEach(t *testing.T, l *Log, n int) {
	t.Helper()
	for range n {
		if err := l.Sync(context.Background(), &Record{Kind: Begin, Principal: "ci"}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestMaxTotal: the oldest segments go, the rest verifies, and a smaller bound applies at the next
// start. The newest segment stays although it alone is over the bound.
func TestMaxTotal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		const most = 32 << 10
		l := openLog(t, Options{Dir: dir, Required: true, MaxTotal: most})
		for range 30 {
			syncEach(t, l, 10)
			synctest.Wait()
			// The record that tells of a deletion, and its signature, come after a write.
			if sum := bytesOf(t, dir); sum > most {
				t.Fatalf("%d bytes, the bound is %d", sum, most)
			}
		}
		if sum := bytesOf(t, dir); sum < most/2 {
			t.Errorf("%d bytes are left of %d", sum, most)
		}
		l.Close()
		report, err := Verify(dir, trusted(t))
		if err != nil || report.First == 1 || !strings.Contains(fmt.Sprint(report.Notes), "were deleted by size") {
			t.Errorf("%+v, %v", report, err)
		}
		list, _ := segments(dir)
		l = openLog(t, Options{Dir: dir, MaxTotal: 100})
		l.Close()
		after, _ := segments(dir)
		if len(after) != 1 || after[0].n <= list[len(list)-1].n {
			t.Errorf("segments %v after %v", after, list)
		}
		if r, err := Verify(dir, trusted(t)); err != nil || r.First <= report.Last {
			t.Errorf("%+v, %v", r, err)
		}
		// The deletion of the oldest file by a stranger is not explained.
		l = openLog(t, Options{Dir: dir, MaxTotal: most, Required: true})
		syncEach(t, l, 30)
		l.Close()
		if list, _ = segments(dir); len(list) < 2 {
			t.Fatalf("segments %v", list)
		}
		if err := os.Remove(list[0].path); err != nil {
			t.Fatal(err)
		}
		if _, err := Verify(dir, trusted(t)); err == nil {
			t.Error("a removed file passes")
		}
	})
}

// fullDisk is a segment of a disk that may have no room.
type fullDisk struct {
	file
	full *atomic.Bool
}

func (f fullDisk) WriteAt(p []byte, off int64) (int, error) {
	if f.full.Load() {
		return 0, errors.New("no space left on device")
	}
	return f.file.WriteAt(p, off)
}

// TestMaxTotalOfAFullDisk: with MaxTotal, too, a required log refuses calls while the disk is full,
// and no file goes whose deletion cannot be recorded.
func TestMaxTotalOfAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		var full atomic.Bool
		l := openLog(t, Options{Dir: dir, Required: true, MaxTotal: 16 << 10, open: func(path string) (file, error) {
			f, err := openFile(path)
			return fullDisk{f, &full}, err
		}})
		syncEach(t, l, 60)
		synctest.Wait()
		before, _ := segments(dir)
		full.Store(true)
		for range 60 {
			if err := l.Sync(context.Background(), &Record{Kind: Begin}); !errors.Is(err, errUnavailable) {
				t.Fatalf("error %v", err)
			}
		}
		if after, _ := segments(dir); len(before) < 3 || len(after) < len(before) {
			t.Errorf("segments %v, before %v", after, before)
		}
		full.Store(false)
		time.Sleep(2 * retryAfter)
		syncEach(t, l, 60)
		l.Close()
		if r, err := Verify(dir, trusted(t)); err != nil || bytesOf(t, dir) > 18<<10 {
			t.Errorf("%+v, %v, %d bytes", r, err, bytesOf(t, dir))
		}
	})
}
