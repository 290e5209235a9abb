package cluster

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/store"
)

// linked returns two nodes in one process, of which b serves its peer link with a handler.
func linked(t *testing.T, handler http.Handler) (a, b *Node) {
	t.Helper()
	docs, bus := store.NewMemory(store.MemoryOptions{}), store.NewMemoryBus()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	join := func(name, url string) *Node {
		n, err := Start(t.Context(), Options{Docs: docs, Bus: bus, Name: name, URL: url})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	b = join("b", "https://"+l.Addr().String())
	a = join("a", "")
	link := b.Serve(l, nil, handler)
	for deadline := time.Now().Add(20 * time.Second); a.Gone(b.Inc()); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the nodes do not see each other")
		}
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		a.link.Close()
		a.Close(ctx)
		link.Shutdown(ctx)
		b.Close(ctx)
	})
	return a, b
}

// TestForwardTellsWhereFrom: the other node sees the address of the client, not that of the node in between, also
// where a proxy hides it. A request of the node itself comes from nowhere.
func TestForwardTellsWhereFrom(t *testing.T) {
	a, b := linked(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.RemoteAddr+" "+r.Header.Get("X-Forwarded-For"))
	}))
	forward := func(r *http.Request) string {
		t.Helper()
		w := httptest.NewRecorder()
		if err := Forward(a, b.Inc(), w, r); err != nil {
			t.Fatal(err)
		}
		return w.Body.String()
	}
	r := httptest.NewRequest(http.MethodGet, "/x", nil)
	r.RemoteAddr = "203.0.113.7:4321"
	if got := forward(r); got != "203.0.113.7:4321 " {
		t.Errorf("a client at 203.0.113.7 comes from %q", got)
	}
	r.Header.Set("X-Forwarded-For", "192.0.2.1")
	if got := forward(r); got != "203.0.113.7:4321 192.0.2.1" {
		t.Errorf("a client behind a proxy comes from %q", got)
	}
	r.RemoteAddr = ""
	r.Header.Del("X-Forwarded-For")
	if got := forward(r); got != " " {
		t.Errorf("a request of the node itself comes from %q", got)
	}
}

// TestForwardedLinesComeAtOnce: events and lines of JSON of another node reach the client as they are written, not when
// the buffer of the entry node is full.
func TestForwardedLinesComeAtOnce(t *testing.T) {
	for _, kind := range []string{"text/event-stream", "application/x-ndjson"} {
		read := make(chan struct{})
		a, b := linked(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", kind)
			_, _ = io.WriteString(w, "a line\n")
			_ = http.NewResponseController(w).Flush() // the client finds the line missing
			select {
			case <-read:
			case <-r.Context().Done():
			}
		}))
		front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := Forward(a, b.Inc(), w, r); err != nil {
				t.Error(err)
			}
		}))
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, front.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := front.Client().Do(r)
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		line := make([]byte, len("a line\n"))
		if _, err := io.ReadFull(resp.Body, line); err != nil {
			t.Errorf("%s: %q, %v", kind, line, err)
		}
		close(read)
		_ = resp.Body.Close()
		cancel()
		front.Close()
	}
}

// TestForwardedCallRunsOnce: a call whose node has got it is not sent again by the connection, although the client
// calls it repeatable: weir does not know whether the tool is.
func TestForwardedCallRunsOnce(t *testing.T) {
	var runs atomic.Int32
	a, b := linked(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			return
		}
		if key := r.Header.Get("Idempotency-Key") + r.Header.Get("X-Idempotency-Key"); key != "k1k2" {
			t.Errorf("the keys are %q", key)
		}
		runs.Add(1)
		panic(http.ErrAbortHandler) // as a node that is killed
	}))
	if err := Forward(a, b.Inc(), httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/x", nil)); err != nil {
		t.Fatal(err) // the connection is used again
	}
	r := httptest.NewRequest(http.MethodPost, "/x", strings.NewReader("{}"))
	r.Header.Set("Idempotency-Key", "k1")
	r.Header.Set("X-Idempotency-Key", "k2")
	err := Forward(a, b.Inc(), httptest.NewRecorder(), r)
	if err == nil || NotSent(err) || errors.Is(err, context.Canceled) {
		t.Errorf("a call that broke off: %v", err)
	}
	if got := runs.Load(); got != 1 {
		t.Errorf("the call ran %d times", got)
	}
}

// TestTunnelEndsWithSilence: an upgraded connection ends when its node falls silent, and does not wait for the
// client to notice.
func TestTunnelEndsWithSilence(t *testing.T) {
	a, b := linked(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nhello")
		t.Cleanup(func() { _ = conn.Close() }) // it stays open, as that of a process that is stopped
	}))
	ended := make(chan struct{})
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		if err := Forward(a, b.Inc(), w, r); err != nil {
			t.Error(err)
		}
	}))
	defer front.Close()
	client, err := net.Dial("tcp", front.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	_ = client.SetDeadline(time.Now().Add(20 * time.Second))
	_, _ = io.WriteString(client, "GET /x HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
	got := make([]byte, 0, 1<<10)
	for !strings.HasSuffix(string(got), "hello") {
		count, err := client.Read(got[len(got):cap(got)])
		if err != nil {
			t.Fatal(err)
		}
		got = got[:len(got)+count]
	}
	a.health.mu.Lock()
	w := a.health.watches[b.Inc()]
	w.dead() // as keepWatch does after three silences
	a.health.mu.Unlock()
	if _, err := io.ReadAll(client); err != nil {
		t.Errorf("the client still waits: %v", err)
	}
	_ = client.Close()
	<-ended
}
