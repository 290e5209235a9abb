package stdio

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/mcp"
)

// answering starts a child that answers requests by their order with what script
// prints, and returns a connection to it.
func answering(t *testing.T, pool *memory.Pool, most int, script string) *mcp.Conn {
	t.Helper()
	return answeringTo(t, pool, most, script, nil)
}

// answeringTo is answering, and h gets what the program tells outside of calls.
func answeringTo(t *testing.T, pool *memory.Pool, most int, script string, h mcp.Handler) *mcp.Conn {
	t.Helper()
	p, err := Start(Command{
		Name: `upstream "big"`, Path: "/bin/sh", Args: []string{"-c", script}, Grace: time.Second,
		Room: pool.Account("big"), MaxMessage: most, MaxKey: "mcpServers.big.max_response",
	})
	if err != nil {
		t.Fatal(err)
	}
	conn := mcp.NewConn(p, mcp.ConnOptions{Name: `upstream "big"`, Client: true, Handler: h})
	t.Cleanup(func() { conn.Close() })
	return conn
}

// fill prints n bytes.
func fill(n int) string { return fmt.Sprintf(`head -c %d /dev/zero | tr '\0' x`, n) }

// A large response waits in a file, whatever order its members have, and reaches
// its call; small ones of other calls are not behind it.
func TestLargeResponse(t *testing.T) {
	for name, frame := range map[string][2]string{
		"id first": {`{"jsonrpc":"2.0","id":1,"result":{"text":"`, `"}}`},
		"id last":  {`{"result":{"text":"`, `"},"jsonrpc":"2.0","id":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			pool := memory.NewPool(memory.Options{Limit: 64 << 20, SpillAt: 1 << 20, Dir: t.TempDir(), Linger: -1})
			defer pool.Close()
			const size = 5 << 20
			conn := answering(t, pool, 32<<20, `read a; printf '%s' '`+frame[0]+`'; `+fill(size)+`; echo '`+frame[1]+`'; cat >/dev/null`)
			ctx, scope := memory.WithScope(t.Context())
			result, err := conn.Call(ctx, "tools/call", nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			if want := `{"text":"` + strings.Repeat("x", size) + `"}`; string(result) != want {
				t.Fatalf("%d bytes came, want %d", len(result), len(want))
			}
			if u := pool.Usage(); u.Disk < size || u.Memory < size {
				t.Errorf("it is held as %+v", u)
			}
			scope.End()
			if u := pool.Usage(); u.Disk != 0 || u.Memory != 0 {
				t.Errorf("in the end there is %+v", u)
			}
		})
	}
}

// A response over the bound is an error of its call, which names what to raise. The
// child lives on, and so do the other calls.
func TestOverlongResponseEndsItsCallAlone(t *testing.T) {
	pool := memory.NewPool(memory.Options{Limit: 64 << 20, SpillAt: 1 << 20, Dir: t.TempDir(), Linger: -1})
	defer pool.Close()
	conn := answering(t, pool, 2<<20, `read a; printf '{"result":{"text":"'; `+fill(5<<20)+`; echo '"},"jsonrpc":"2.0","id":1}'; read a; echo '{"jsonrpc":"2.0","id":2,"result":{}}'; cat >/dev/null`)
	_, err := conn.Call(t.Context(), "tools/call", nil, nil)
	if k, _ := mcp.KindOf(err); k != mcp.KindUpstreamProtocol || !strings.Contains(err.Error(), "more than 2097152 bytes") || !strings.Contains(err.Error(), "raise mcpServers.big.max_response") || !errors.Is(err, mcp.ErrAnswered) {
		t.Errorf("%v", err)
	}
	if result, err := conn.Call(t.Context(), "tools/call", nil, nil); err != nil || string(result) != "{}" {
		t.Errorf("the next call: %s, %v", result, err)
	}
	if u := pool.Usage(); u.Disk != 0 || u.Memory != 0 {
		t.Errorf("in the end there is %+v", u)
	}
}

// Where there is no room, its call is told, and the child lives on.
func TestNoRoomEndsItsCallAlone(t *testing.T) {
	pool := memory.NewPool(memory.Options{Limit: 4 << 20, SpillAt: 1 << 20, Wait: 10 * time.Millisecond})
	conn := answering(t, pool, 32<<20, `read a; printf '{"jsonrpc":"2.0","id":1,"result":{"text":"'; `+fill(8<<20)+`; echo '"}}'; read a; echo '{"jsonrpc":"2.0","id":2,"result":{}}'; cat >/dev/null`)
	_, err := conn.Call(t.Context(), "tools/call", nil, nil)
	if k, _ := mcp.KindOf(err); k != mcp.KindMemory || !strings.Contains(err.Error(), "limits.memory") {
		t.Errorf("%v", err)
	}
	if result, err := conn.Call(t.Context(), "tools/call", nil, nil); err != nil || string(result) != "{}" {
		t.Errorf("the next call: %s, %v", result, err)
	}
	if u := pool.Usage(); u.Memory != 0 {
		t.Errorf("in the end there is %+v", u)
	}
}

// A call that is given up before its large response has come leaves nothing
// behind.
func TestLargeResponseOfNobody(t *testing.T) {
	pool := memory.NewPool(memory.Options{Limit: 64 << 20, SpillAt: 1 << 20, Dir: t.TempDir(), Linger: -1})
	defer pool.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	begun := mcp.HandlerFunc(func(context.Context, *mcp.Request) (json.RawMessage, error) { cancel(); return nil, nil })
	conn := answeringTo(t, pool, 32<<20, `read a; echo '{"jsonrpc":"2.0","method":"begun"}'; read b; printf '{"jsonrpc":"2.0","id":1,"result":{"text":"'; `+fill(3<<20)+`; echo '"}}'; echo '{"jsonrpc":"2.0","id":2,"result":{}}'; cat >/dev/null`, begun)
	if _, err := conn.Call(ctx, "tools/call", nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if result, err := conn.Call(t.Context(), "tools/call", nil, nil); err != nil || string(result) != "{}" {
		t.Errorf("the next call: %s, %v", result, err)
	}
	if u := pool.Usage(); u.Disk != 0 || u.Memory != 0 {
		t.Errorf("in the end there is %+v", u)
	}
}

// What is counted of a response in memory is given back with its call.
func TestCountedResponse(t *testing.T) {
	pool := memory.NewPool(memory.Options{Limit: 64 << 20})
	line := `{"jsonrpc":"2.0","id":1,"result":{"text":"` + strings.Repeat("x", 1<<20) + `"}}` + "\n"
	stream := NewStream(strings.NewReader(line), io.Discard, 32<<20, nil)
	stream.Count(pool.Account("big"))
	data, block, err := stream.ReadBlock()
	if err != nil || string(data) != strings.TrimSpace(line) {
		t.Fatalf("%d bytes, %v", len(data), err)
	}
	if u := pool.Usage(); u.Memory < 1<<20 {
		t.Errorf("held is %+v", u)
	}
	block.Release()
	if u := pool.Usage(); u.Memory != 0 {
		t.Errorf("in the end there is %+v", u)
	}
}
