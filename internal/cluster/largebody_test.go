package cluster

import (
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// zeros is a body of zeros that is made while it is read.
type zeros struct{ left int }

// Read implements io.Reader.
func (z *zeros) Read(p []byte) (int, error) {
	if z.left == 0 {
		return 0, io.EOF
	}
	n := min(len(p), z.left)
	clear(p[:n])
	z.left -= n
	return n, nil
}

// TestForwardKeepsNoLargeBody: a body of 10 MB goes to the other node as it comes. The first byte is there before the
// last one is sent, and all of it allocates less than a tenth.
func TestForwardKeepsNoLargeBody(t *testing.T) {
	const size = 10 << 20
	var got atomic.Int64
	began := make(chan struct{}, 1)
	a, b := linked(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		buf := make([]byte, 32<<10)
		if n, _ := io.ReadFull(r.Body, buf[:1]); n == 1 {
			got.Add(1)
			select {
			case began <- struct{}{}:
			default:
			}
		}
		for {
			n, err := r.Body.Read(buf)
			got.Add(int64(n))
			if err != nil {
				return
			}
		}
	}))
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := Forward(a, b.Inc(), w, r); err != nil {
			t.Error(err)
		}
	}))
	defer front.Close()
	send := func(body io.Reader) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, front.URL, body)
		if err != nil {
			t.Fatal(err)
		}
		r.ContentLength = size
		got.Store(0)
		resp, err := front.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK || got.Load() != size {
			t.Fatalf("status %d, %d bytes of %d", resp.StatusCode, got.Load(), size)
		}
	}
	in, out := io.Pipe()
	go func() {
		_, _ = io.CopyN(out, &zeros{128 << 10}, 128<<10)
		select {
		case <-began:
		case <-time.After(20 * time.Second):
			t.Error("the other node gets nothing before the body is complete")
		}
		_, _ = io.CopyN(out, &zeros{size}, size-128<<10)
		_ = out.Close()
	}()
	send(in)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	send(&zeros{size})
	runtime.ReadMemStats(&after)
	allocated := after.TotalAlloc - before.TotalAlloc
	t.Logf("a body of %d bytes allocates %d bytes", size, allocated)
	if allocated > size/10 {
		t.Errorf("a body of %d bytes allocates %d bytes at client and two nodes", size, allocated)
	}
}
