package backend

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/weir-mcp/weir/internal/seal"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/store/natsstore"
	"github.com/weir-mcp/weir/internal/testkit/natstest"
	"github.com/weir-mcp/weir/internal/testkit/storetest"
)

// TestOpen: each store that can be configured keeps the contract of documents, carries messages and has a key.
func TestOpen(t *testing.T) {
	key, err := seal.NewKey("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "state")
	at := natstest.Start(t, server.Options{})
	for name, one := range map[string]struct {
		c     Config
		lasts store.Lasts
	}{
		"memory": {Config{}, store.Process},
		"file":   {Config{Dir: dir, MaxBytes: 64 << 20}, store.Machine},
		"nats":   {Config{Servers: natsstore.Servers{URLs: []string{"nats://" + at.At()}}, Cluster: "weir", Key: key, Replicas: 1, MaxBytes: 64 << 20, Copies: true}, store.Cluster},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			open := func() store.Store {
				s, err := Open(t.Context(), one.c)
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			s := open()
			if s.Lasts() != one.lasts {
				t.Errorf("lasts %v", s.Lasts())
			}
			storetest.Contract(t, s)
			storetest.Follow(t, s, s)
			storetest.Bus(t, s.Bus(), s.Bus())
			if _, keeps := s.Blobs().(store.NoBlobs); keeps {
				if err := s.Blobs().Put(t.Context(), "one", strings.NewReader("x"), 0); err != nil {
					t.Error(err)
				}
				if _, err := s.Blobs().Open(t.Context(), "one"); err == nil {
					t.Error("a store without copies has one")
				}
			} else {
				storetest.Blobs(t, s.Blobs(), s.Blobs(), 1<<20)
			}
			sealed := s.Key().Seal("x", []byte("plain"), nil)
			s.Close()
			again := open()
			defer again.Close()
			_, opens := again.Key().Open("x", sealed, nil)
			if outlasts := one.lasts != store.Process; opens != outlasts {
				t.Errorf("the key of before opens: %v, want %v", opens, outlasts)
			}
		})
	}
}

// TestLater: a shared store that does not answer is there at once, says that it does not answer, and comes when its
// servers do.
func TestLater(t *testing.T) {
	t.Parallel()
	key, err := seal.NewKey("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8")
	if err != nil {
		t.Fatal(err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := free.Addr().(*net.TCPAddr).Port
	_ = free.Close()
	s, err := Open(t.Context(), Config{
		Servers: natsstore.Servers{URLs: []string{"nats://" + free.Addr().String()}}, Cluster: "weir", Key: key, Replicas: 1, MaxBytes: 64 << 20, Copies: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Get(t.Context(), "one"); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("without servers: %v", err)
	}
	natstest.Start(t, server.Options{Port: port})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for rev := uint64(0); ; {
		if rev == 0 {
			rev, err = s.Set(ctx, "one", []byte("x"), 0, 0)
		}
		if rev != 0 {
			err = s.Blobs().Put(ctx, "one", strings.NewReader("x"), 0)
		}
		if err == nil {
			return
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			t.Fatal(err)
		}
	}
}
