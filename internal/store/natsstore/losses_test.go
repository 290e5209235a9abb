package natsstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/testkit/natstest"
)

// TestFollowAfterOverflow: changes that find no room in their lane are read again at once, not after a
// minute.
func TestFollowAfterOverflow(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t, server.Options{})
	d, _, err := Open(t.Context(), s.Conn(), Options{Bucket: "weir", Replicas: 1, MaxBytes: 16 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	d.lanes.length = 4
	var seen, calls atomic.Int64
	release := make(chan struct{})
	stop, err := d.Follow("a.", func(doc store.Doc) {
		if calls.Add(1) == 1 {
			<-release
		}
		seen.Store(int64(doc.Rev))
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	last := uint64(0)
	for i := range 50 {
		if last, err = d.Set(t.Context(), fmt.Sprintf("a.%d", i), []byte("x"), 0, 0); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	close(release)
	for seen.Load() < int64(last) {
		if time.Since(began) > 20*time.Second {
			t.Fatalf("the last change was not seen after %v: %d of %d", time.Since(began), seen.Load(), last)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// TestFollowDuringLosses: follows read again although further messages are lost all the time.
func TestFollowDuringLosses(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t, server.Options{})
	d, _, err := Open(t.Context(), s.Conn(), Options{Bucket: "weir", Replicas: 1, MaxBytes: 16 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var seen atomic.Uint64
	stop, err := d.Follow("a.", func(doc store.Doc) { seen.Store(doc.Rev) })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	d.lanes.mu.RLock()
	for sub := range d.lanes.subs { // all messages are lost
		if err := sub.Unsubscribe(); err != nil {
			t.Error(err)
		}
	}
	d.lanes.mu.RUnlock()
	over := make(chan struct{})
	var losses sync.WaitGroup
	losses.Go(func() {
		for {
			select {
			case d.slow <- struct{}{}:
			case <-over:
				return
			}
		}
	})
	defer losses.Wait()
	defer close(over)
	rev := uint64(0)
	began := time.Now()
	for range 10 {
		if rev, err = d.Set(t.Context(), "a.1", []byte("x"), rev, 0); err != nil {
			t.Fatal(err)
		}
		for ; seen.Load() != rev; time.Sleep(5 * time.Millisecond) {
			if time.Since(began) > 30*time.Second {
				t.Fatal("the changes were not seen")
			}
		}
	}
}

// TestBlobsLeaveNothing: a Put that breaks off leaves no parts, and those that a killed process has left are
// removed later.
func TestBlobsLeaveNothing(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t, server.Options{})
	b, err := OpenBlobs(t.Context(), s.Conn(), Options{Bucket: "blobs", Replicas: 1, MaxBytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	messages := func() uint64 {
		info, err := b.stream.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return info.State.Msgs
	}
	broken := func() io.Reader {
		return io.MultiReader(strings.NewReader(strings.Repeat("x", 10*chunkBytes)), reader(func([]byte) (int, error) { return 0, errors.New("broken off") }))
	}
	for range 5 {
		if err := b.Put(t.Context(), "one", broken(), 0); err == nil {
			t.Fatal("no error")
		}
	}
	if n := messages(); n != 0 {
		t.Errorf("%d parts of blobs that broke off", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := b.Put(ctx, "one", io.MultiReader(strings.NewReader(strings.Repeat("x", 20*chunkBytes)), reader(func([]byte) (int, error) { cancel(); return 0, io.EOF })), 0); err == nil {
		t.Error("no error")
	}
	if n := messages(); n != 0 {
		t.Errorf("%d parts of a blob whose caller is gone", n)
	}
	// A process that is killed removes nothing.
	d := description{Name: "two", NUID: "killed"}
	if err := b.send(t.Context(), &d, strings.NewReader("left behind"), 0); err != nil {
		t.Fatal(err)
	}
	if err := b.Put(t.Context(), "kept", strings.NewReader("kept"), 0); err != nil {
		t.Fatal(err)
	}
	if b.sweep(t.Context(), time.Hour); messages() != 3 {
		t.Errorf("%d messages, want 3: the parts are young", messages())
	}
	if b.sweep(t.Context(), 0); messages() != 2 {
		t.Errorf("%d messages, want the 2 of the blob that is kept", messages())
	}
	r, err := b.Open(t.Context(), "kept")
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(r); err != nil || string(text) != "kept" {
		t.Errorf("%q %v", text, err)
	}
}

type reader func([]byte) (int, error)

func (r reader) Read(p []byte) (int, error) { return r(p) }
