package filestore_test

import (
	"bytes"
	"errors"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/store/filestore"
)

// TestDiskFull: while the disk takes no writes, documents are read and changes fail at once, with the cause.
// When it does, changes work without a restart, and nothing that was confirmed is missing.
func TestDiskFull(t *testing.T) {
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	o := filestore.Options{Dir: t.TempDir(), MaxBytes: 16 << 20}
	s, _ := open(t, o)
	defer func() { s.Close() }()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	full := limit
	full.Cur = 512 << 10 // of each file: as if the disk had no more room
	lift := func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
			t.Error(err)
		}
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &full); err != nil {
		t.Fatal(err)
	}
	defer lift()
	value, kept, err := bytes.Repeat([]byte("x"), 50<<10), 0, error(nil)
	for err == nil && kept < 40 {
		if _, err = s.Set(t.Context(), "before."+string(rune('A'+kept)), value, 0, 0); err == nil {
			kept++
		}
	}
	if kept == 0 || !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "its disk takes no writes") || strings.Contains(err.Error(), o.Dir) {
		t.Fatalf("%d documents were kept, and then %v", kept, err)
	}
	count := func() (there int) {
		t.Helper()
		for _, err := range s.List(t.Context(), "before.") {
			if err != nil {
				t.Fatal(err)
			}
			there++
		}
		return there
	}
	if there := count(); there != kept {
		t.Errorf("%d of %d documents are there on the full disk", there, kept)
	}
	lift()
	if _, err := s.Set(t.Context(), "after.a", value, 0, 0); err != nil {
		t.Errorf("with room again: %v", err)
	}
	s.Close()
	s, _ = open(t, o)
	if there := count(); there != kept {
		t.Errorf("%d of %d documents are there after a restart", there, kept)
	}
}
