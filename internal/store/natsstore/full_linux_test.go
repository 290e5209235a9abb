package natsstore_test

import (
	"bytes"
	"context"
	"errors"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/store/natsserver"
	"github.com/weir-mcp/weir/internal/store/natsstore"
)

// TestDiskFull: while the disk takes no writes, documents are read and changes fail soon, with the cause. When it does,
// changes work without a restart, nothing that was confirmed is missing, and follows go on.
func TestDiskFull(t *testing.T) {
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	dir := t.TempDir()
	s, err := natsserver.Open(natsserver.Options{Dir: dir, MaxBytes: 16 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	d, _, err := natsstore.Open(t.Context(), s.Conn(), natsstore.Options{Bucket: "weir", Changes: "weir.test.d", Replicas: 1, MaxBytes: 16 << 20, Writes: s.Writes})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	told := make(chan store.Doc, 64)
	stop, err := d.Follow("after.", func(doc store.Doc) { told <- doc })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()

	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	full := limit
	full.Cur = 256 << 10 // of each file: as if the disk had no more room
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &full); err != nil {
		t.Fatal(err)
	}
	lift := func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
			t.Error(err)
		}
	}
	defer lift()
	value, kept := bytes.Repeat([]byte("x"), 50<<10), 0
	for err == nil && kept < 20 {
		if _, err = d.Set(t.Context(), "before."+string(rune('a'+kept)), value, 0, 0); err == nil {
			kept++
		}
	}
	// A change that waits for the server until its time is over has another error.
	if kept == 0 || !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "its disk takes no writes") || strings.Contains(err.Error(), dir) {
		t.Fatalf("%d documents were kept, and then %v", kept, err)
	}
	count := func() (there int) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) { // it may just be started
			there = 0
			var failed error
			for _, err := range d.List(t.Context(), "before.") {
				if failed = err; err == nil {
					there++
				}
			}
			if failed == nil {
				return there
			}
			if time.Now().After(end) {
				t.Fatal(failed)
			}
		}
	}
	if there := count(); there < kept {
		t.Errorf("%d of %d documents are there on the full disk", there, kept)
	}
	lift()
	for end := time.Now().Add(40 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if _, err = d.Set(t.Context(), "after.a", value, 0, 0); err == nil || errors.Is(err, store.ErrConflict) {
			break
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	if there := count(); there < kept {
		t.Errorf("%d of %d documents are there afterwards", there, kept)
	}
	select {
	case doc := <-told:
		if doc.Key != "after.a" {
			t.Errorf("a change of %s", doc.Key)
		}
	case <-time.After(70 * time.Second): // a minute after a loss at the latest
		t.Error("the change is not told")
	}
	if writes := s.Writes(); writes.Err() != nil {
		t.Errorf("still: %v", context.Cause(writes))
	}
}
