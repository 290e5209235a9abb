package natsstore_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/weir-mcp/weir/internal/store/natsstore"
	"github.com/weir-mcp/weir/internal/testkit/natstest"
)

// TestDialRefuses: a URL that cannot be read is said at once, without its password.
func TestDialRefuses(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for name, s := range map[string]natsstore.Servers{
		"a host": {URLs: []string{"nats://ann:pass-word@a b:4222"}},
		"a port": {URLs: []string{"nats://ann:pass-word@127.0.0.1:1", "nats://ann:pass-word@127.0.0.1:port"}},
	} {
		conn, err := natsstore.Dial(ctx, s)
		if err == nil {
			conn.Close()
			t.Errorf("%s: connected", name)
		} else if strings.Contains(err.Error(), "pass-word") {
			t.Errorf("%s: a password in %v", name, err)
		}
		if conn, err := natsstore.DialLater(s); err == nil {
			conn.Close()
			t.Errorf("%s: will be connected", name)
		} else if strings.Contains(err.Error(), "pass-word") {
			t.Errorf("%s: a password in %v", name, err)
		}
	}
	if ctx.Err() != nil {
		t.Error("it tried until the end")
	}
	// Servers that are not there are waited for.
	short, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer stop()
	if _, err := natsstore.Dial(short, natsstore.Servers{URLs: []string{"nats://127.0.0.1:1"}}); err == nil || short.Err() == nil {
		t.Errorf("it gave up: %v", err)
	}
}

// TestLook: what is wrong with servers is told apart, without a password.
func TestLook(t *testing.T) {
	at := natstest.Start(t, server.Options{Username: "ann", Password: "pass-word"}).At()
	for name, one := range map[string]struct {
		of   natsstore.Servers
		want error
		text string
	}{
		"as it should be":  {natsstore.Servers{URLs: []string{"nats://ann:pass-word@" + at}}, nil, ""},
		"a wrong password": {natsstore.Servers{URLs: []string{"nats://ann:wrong-word@" + at}}, nil, "NATS refuses the credentials of this node (nats: "},
		"no TLS":           {natsstore.Servers{URLs: []string{"tls://ann:pass-word@" + at}}, nil, "by TLS (nats: "},
		"no file":          {natsstore.Servers{URLs: []string{"nats://" + at}, CA: "/no/such/file"}, os.ErrNotExist, "/no/such/file"},
		"away":             {natsstore.Servers{URLs: []string{"nats://ann:pass-word@127.0.0.1:1"}}, natsstore.ErrAway, "the network"},
	} {
		wait := 20 * time.Second
		if one.want == natsstore.ErrAway {
			wait = 300 * time.Millisecond // it asks until the end
		}
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		err := natsstore.Look(ctx, one.of)
		cancel()
		if (err != nil) != (one.text != "") || one.want != nil && !errors.Is(err, one.want) || err != nil && (!strings.Contains(err.Error(), one.text) || strings.Contains(err.Error(), "-word")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// lockedBuffer is a buffer for several goroutines.
type lockedBuffer struct {
	mu   sync.Mutex // guards below
	text strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// TestDialAfterRefusals: a NATS that refuses the client for a while, because its credentials change, does not end the
// connection for good.
func TestDialAfterRefusals(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	const refusals = 5
	again := make(chan struct{}) // closed when the client is taken once more
	served := make(chan struct{})
	go func() {
		defer close(served)
		for i := 0; ; i++ {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprintf(conn, "INFO {\"server_id\":\"x\",\"version\":\"2.12.0\",\"proto\":1,\"headers\":true,\"max_payload\":1048576,\"auth_required\":true}\r\n")
			in := bufio.NewReader(conn)
			for line := ""; line != "PING"; line = strings.TrimSpace(line) {
				if line, err = in.ReadString('\n'); err != nil {
					break
				}
			}
			if 0 < i && i <= refusals {
				fmt.Fprintf(conn, "-ERR 'Authorization Violation'\r\n")
				conn.Close()
				continue
			}
			fmt.Fprintf(conn, "PONG\r\n")
			if i == 0 {
				conn.Close() // the server ends
				continue
			}
			defer conn.Close()
			close(again)
			return
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var told lockedBuffer
	log := slog.New(slog.NewTextHandler(&told, nil))
	conn, err := natsstore.Dial(ctx, natsstore.Servers{URLs: []string{"nats://ann:pass-word@" + l.Addr().String()}, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		select {
		case <-again:
			<-served
			if text := told.String(); strings.Count(text, "\n") != 1 || strings.Contains(text, "pass-word") {
				t.Errorf("the log of %d refusals:\n%s", refusals, text)
			}
			return
		default:
		}
		if conn.IsClosed() || time.Now().After(end) {
			t.Fatalf("the connection is %v after refusals: %v", conn.Status(), conn.LastError())
		}
	}
}
