package cluster

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/cluster/clusterkey"
	"github.com/weir-mcp/weir/internal/store"
)

// TestUpgrade: a connection of another protocol goes over the peer link, and a node without that protocol says so.
func TestUpgrade(t *testing.T) {
	docs, bus := store.NewMemory(store.MemoryOptions{}), store.NewMemoryBus()
	key, err := clusterkey.Parse("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=")
	if err != nil {
		t.Fatal(err)
	}
	trust := clusterkey.NewAuthority("n", key, nil, nil).TLS()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var nodes []*Node
	for _, name := range []string{"a", "b"} {
		n, err := Start(t.Context(), Options{Docs: docs, Bus: bus, Name: name, URL: "https://" + l.Addr().String(), TLS: trust})
		if err != nil {
			t.Fatal(err)
		}
		defer n.Close(context.Background())
		nodes = append(nodes, n)
	}
	a, b := nodes[0], nodes[1]
	for end := time.Now().Add(20 * time.Second); a.Gone(b.Inc()); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("b is not known at a")
		}
	}
	from := make(chan string, 1)
	link := b.Serve(l, trust, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path != "/talk" {
			http.NotFound(w, req)
			return
		}
		conn, err := TakeOver(w, req, "talk")
		if err != nil {
			return
		}
		_, inc, _ := Caller(req.Context())
		from <- inc
		_, _ = io.Copy(conn, conn)
		_ = conn.Close()
	}))
	defer link.Shutdown(context.Background())
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	conn, err := Upgrade(ctx, a, b.Inc(), "/talk", "talk")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if inc := <-from; inc != a.Inc() {
		t.Errorf("the connection came from %q", inc)
	}
	heard := make([]byte, 5)
	if _, err := conn.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, heard); err != nil || string(heard) != "hello" {
		t.Errorf("%q, %v", heard, err)
	}
	for path, want := range map[string]string{"/other": "404", "/talk": "426"} {
		if _, err := Upgrade(ctx, a, b.Inc(), path, "another"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	for end := time.Now().Add(20 * time.Second); b.Gone(a.Inc()); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a is not known at b")
		}
	}
	if _, err := Upgrade(ctx, b, a.Inc(), "/talk", "talk"); err == nil || !strings.Contains(err.Error(), "421") {
		t.Errorf("a URL where another node answers: %v", err)
	}
	if _, err := Upgrade(ctx, a, "aaaaaa", "/talk", "talk"); !errors.Is(err, errNotSent) {
		t.Errorf("a node that is not there: %v", err)
	}
	over, end := context.WithCancel(ctx)
	end()
	if _, err := Upgrade(over, a, b.Inc(), "/talk", "talk"); err == nil {
		t.Error("a dial whose context is over has succeeded")
	}
}
