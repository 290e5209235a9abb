package natsstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/store/natsstore"
	"github.com/weir-mcp/weir/internal/testkit/leak"
	"github.com/weir-mcp/weir/internal/testkit/natstest"
	"github.com/weir-mcp/weir/internal/testkit/storetest"
)

func TestMain(m *testing.M) { leak.Main(m) }

// open returns a store over a folder, and its end.
func open(t *testing.T, dir string, maxBytes int64) (d *natsstore.Docs, found bool, end func()) {
	t.Helper()
	s := natstest.Start(t, server.Options{StoreDir: dir, SyncAlways: true})
	var err error
	d, found, err = natsstore.Open(t.Context(), s.Conn(), natsstore.Options{Bucket: "weir", Changes: "weir.test.d", Replicas: 1, MaxBytes: maxBytes})
	if err != nil {
		t.Fatal(err)
	}
	return d, found, func() { d.Close(); s.Close() }
}

// TestContract: documents in a stream of one server in this process.
func TestContract(t *testing.T) {
	t.Parallel()
	d, found, end := open(t, t.TempDir(), 16<<20)
	defer end()
	if found {
		t.Error("a bucket was there before there was one")
	}
	storetest.Contract(t, d)
	storetest.Follow(t, d, d)
	storetest.Change(t, d)
}

// TestBusAndBlobs: messages and blobs of one server in this process.
func TestBusAndBlobs(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t, server.Options{})
	bus := natsstore.NewBus(s.Conn())
	defer bus.Close()
	storetest.Bus(t, bus, bus)
	blobs, err := natsstore.OpenBlobs(t.Context(), s.Conn(), natsstore.Options{Bucket: "weir_blobs", Replicas: 1, MaxBytes: 256 << 20})
	if err != nil {
		t.Fatal(err)
	}
	storetest.Blobs(t, blobs, blobs, 8<<20)
	storetest.BlobBound(t, blobs)
}

// TestReopen: confirmed documents are there after a restart of the server.
func TestReopen(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	d, _, end := open(t, dir, 16<<20)
	rev, err := d.Set(t.Context(), "a.b", []byte("kept"), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	end()
	if _, err := d.Get(t.Context(), "a.b"); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a store that has ended: %v", err)
	}
	d, found, end := open(t, dir, 16<<20)
	defer end()
	if doc, err := d.Get(t.Context(), "a.b"); err != nil || !found || doc.Rev != rev || string(doc.Value) != "kept" {
		t.Errorf("%+v, %v, %v", doc, found, err)
	}
}

// TestOpenWritesNothing: the start over a folder whose documents are as configured writes no description of them, so it
// works on a full disk. A configuration that has changed is written.
func TestOpenWritesNothing(t *testing.T) {
	dir := t.TempDir()
	written := func() time.Time {
		t.Helper()
		info, err := os.Stat(filepath.Join(dir, "jetstream", "$G", "streams", "KV_weir", "meta.inf"))
		if err != nil {
			t.Fatal(err)
		}
		return info.ModTime()
	}
	_, _, end := open(t, dir, 16<<20)
	end()
	first := written()
	_, found, end := open(t, dir, 16<<20)
	if again := written(); !found || !again.Equal(first) {
		t.Errorf("found %v, written at %v and again at %v", found, first, again)
	}
	end()
	_, _, end = open(t, dir, 17<<20)
	defer end()
	if written().Equal(first) {
		t.Error("another bound was not written")
	}
}

// TestFull: at the bound, changes fail and nothing that is there goes.
func TestFull(t *testing.T) {
	d, _, end := open(t, t.TempDir(), 1<<20)
	defer end()
	value := bytes.Repeat([]byte("x"), 100<<10)
	kept := 0
	for i := range 20 {
		_, err := d.Set(t.Context(), fmt.Sprintf("k.%d", i), value, 0, 0)
		if errors.Is(err, store.ErrFull) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		kept++
	}
	there := 0
	for _, err := range d.List(t.Context(), "k.") {
		if err != nil {
			t.Fatal(err)
		}
		there++
	}
	if kept == 0 || kept == 20 || there != kept {
		t.Errorf("%d documents were confirmed and %d are there", kept, there)
	}
	// Room is made by what goes.
	doc, err := d.Get(t.Context(), "k.0")
	if err == nil {
		err = d.Delete(t.Context(), doc.Key, doc.Rev)
	}
	if err == nil {
		_, err = d.Set(t.Context(), "k.new", value, 0, 0)
	}
	if err != nil {
		t.Error(err)
	}
}
