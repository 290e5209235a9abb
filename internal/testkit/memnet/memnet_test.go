package memnet_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/testkit/memnet"
)

func pair(t *testing.T, l *memnet.Listener) (near, far net.Conn) {
	t.Helper()
	accepted := make(chan net.Conn, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			t.Error(err)
		}
		accepted <- c
	}()
	near, err := l.DialContext(t.Context(), "tcp", "anywhere:80")
	if err != nil {
		t.Fatal(err)
	}
	return near, <-accepted
}

func TestConversation(t *testing.T) {
	near, far := pair(t, memnet.New())
	go func() {
		_, _ = near.Write([]byte("hello"))
		_ = near.Close()
	}()
	if got, err := io.ReadAll(far); err != nil || string(got) != "hello" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestCutTellsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memnet.New()
		near, far := pair(t, l)
		l.Cut()
		if _, err := near.Write([]byte("lost")); err != nil {
			t.Errorf("write: %v", err)
		}
		if err := near.Close(); err != nil {
			t.Error(err)
		}
		if _, err := near.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read of a closed end: %v", err)
		}
		_ = far.SetReadDeadline(time.Now().Add(time.Hour))
		began := time.Now()
		if _, err := far.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != time.Hour {
			t.Errorf("the other end learned after %v: %v", time.Since(began), err)
		}
	})
}

func TestClose(t *testing.T) {
	l := memnet.New()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept: %v", err)
	}
	if _, err := l.DialContext(context.Background(), "tcp", "x"); !errors.Is(err, net.ErrClosed) {
		t.Errorf("DialContext: %v", err)
	}
}

func TestDoor(t *testing.T) {
	l := memnet.New()
	door := l.Door()
	if err := errors.Join(door.Close(), door.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := door.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a closed door: %v", err)
	}
	near, far := pair(t, l) // The network is still there.
	if err := errors.Join(near.Close(), far.Close()); err != nil {
		t.Error(err)
	}
}
