package program_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/program"
	"github.com/weir-mcp/weir/internal/program/wire"
)

// fakeWorker is a worker that an attacker has taken over: it writes the frames that it likes.
func fakeWorker(mode string) {
	write := func(kind wire.Kind, id uint32, head, body string) {
		if wire.Write(os.Stdout, kind, id, []byte(head), []byte(body)) != nil {
			os.Exit(3)
		}
	}
	version := `{"version":1}`
	if mode == "version" {
		version = `{"version":99}`
	}
	write(wire.Ready, 0, version, "")
	in := bufio.NewReader(os.Stdin)
	h, err := wire.Read(in, 1<<30)
	if err == nil {
		_, err = io.CopyN(io.Discard, in, int64(h.Head+h.Body))
	}
	if err != nil {
		os.Exit(2)
	}
	switch mode {
	case "dead":
		os.Exit(7)
	case "storm":
		for i := range uint32(1000) {
			write(wire.Call, i, `{"tool":"hang"}`, `{}`)
		}
	case "bytes":
		_, _ = os.Stdout.WriteString("HTTP/1.1 200 OK\r\n\r\n")
	case "huge":
		_, _ = os.Stdout.Write(wire.Header{Kind: wire.End, Body: 1<<32 - 1}.Append(nil))
	case "huge head":
		_, _ = os.Stdout.Write(wire.Header{Kind: wire.Fail, Head: 1<<32 - 1}.Append(nil))
	case "promise":
		_, _ = os.Stdout.Write(wire.Header{Kind: wire.End, Body: 1 << 20}.Append(nil))
		os.Exit(0)
	case "promise of arguments":
		_, _ = os.Stdout.Write(wire.Header{Kind: wire.Call, Head: 2, Body: 1 << 20}.Append(nil))
		_, _ = os.Stdout.WriteString("{}")
		os.Exit(0)
	case "again":
		write(wire.Ready, 0, version, "")
	case "answer":
		write(wire.Answer, 1, "", "1")
	case "text":
		write(wire.End, 0, "", "not JSON")
	case "failure":
		write(wire.Fail, 0, "not JSON", "")
	case "request":
		write(wire.Call, 1, "not JSON", "{}")
	case "code":
		write(wire.Fail, 0, `{"code":"ANY","message":"`+strings.Repeat("x", 60_000)+`","line":-7,"column":-1}`, "")
	case "line":
		write(wire.Log, 0, "", strings.Repeat("x", 1<<20))
	case "log":
		for range 10_000 {
			write(wire.Log, 0, "", strings.Repeat("x", 100))
		}
		write(wire.End, 0, "", "1")
	case "deaf":
		for i := range uint32(4) {
			write(wire.Call, i, `{"tool":"large"}`, `{}`)
		}
	}
	time.Sleep(time.Minute)
}

// TestFake: a worker that does not keep to its protocol ends its own run, with a clear error.
func TestFake(t *testing.T) {
	t.Parallel()
	self, err := program.Self()
	if err != nil {
		t.Fatal(err)
	}
	large := json.RawMessage(`"` + strings.Repeat("x", 4<<20) + `"`)
	for mode, want := range map[string]program.Code{
		"version": program.Unavailable, "dead": program.Crashed, "storm": program.Crashed, "bytes": program.Crashed,
		"huge": program.Crashed, "huge head": program.Crashed, "promise": program.Crashed, "promise of arguments": program.Crashed,
		"again": program.Crashed, "answer": program.Crashed, "text": program.Crashed, "failure": program.Crashed,
		"request": program.Crashed, "code": "ANY", "line": program.Crashed, "log": "", "deaf": program.Timeout, "silent": program.Timeout,
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			p := newPool(t, program.Options{Command: []string{self[0], "fake-worker", mode}, Limits: program.Limits{Output: 10 << 10}})
			h := &host{call: func(ctx context.Context, c program.Call) (json.RawMessage, error) {
				if c.Tool == "large" {
					return large, nil
				}
				<-ctx.Done()
				return nil, ctx.Err()
			}}
			limits := program.Limits{Timeout: 30 * time.Second}
			if want == program.Timeout {
				limits.Timeout = 200 * time.Millisecond
			}
			got, err := p.Run(context.Background(), program.Program{Limits: limits}, h)
			var e *program.Error
			if want == "" && err != nil || want != "" && (!errors.As(err, &e) || e.Code != want) {
				t.Errorf("= %s, %v; want %s", got.Value, err, want)
			}
			if size := len(strings.Join(got.Log, "")); size > 11<<10 || mode == "log" && size < 10_000 {
				t.Errorf("a log of %d bytes", size)
			}
		})
	}
}

// TestMemory: arguments and results are counted for the caller. Where there is no room, the program ends.
func TestMemory(t *testing.T) {
	t.Parallel()
	p := newPool(t, program.Options{})
	account := memory.NewPool(memory.Options{Limit: 8 << 20, Wait: 50 * time.Millisecond, Dir: t.TempDir()})
	defer account.Close()
	seen := int64(0)
	h := &host{call: func(_ context.Context, c program.Call) (json.RawMessage, error) {
		seen = account.Usage().Memory
		return json.RawMessage("1"), nil
	}}
	run := func(source string) (program.Outcome, func(), error) {
		ctx, scope := memory.WithScope(t.Context())
		scope.Count(account, "principal ", "ann")
		got, err := p.Run(ctx, program.Program{Source: source}, h)
		return got, scope.End, err
	}
	got, end, err := run(`return "x".repeat(1e6)`)
	if err != nil || len(got.Value) != 1_000_002 || account.Usage().Memory < 1_000_000 {
		t.Errorf("a result of %d bytes, %d counted, %v", len(got.Value), account.Usage().Memory, err)
	}
	end()
	_, end, err = run(`for (let i = 0; i < 50; i++) await call("t", {text: "x".repeat(5e5)})`)
	if err != nil || seen < 500_000 {
		t.Errorf("calls with 25 MB of arguments in 8 MB: %v, %d counted", err, seen)
	}
	if left := account.Usage().Memory; left > 0 {
		t.Errorf("%d bytes are counted after the calls", left)
	}
	end()
	if left := account.Usage().Memory; left > 0 {
		t.Errorf("%d bytes are counted after the runs", left)
	}
	full := memory.NewPool(memory.Options{Limit: 1 << 20, Wait: 50 * time.Millisecond})
	defer full.Close()
	account = full
	_, end, err = run(`return "x".repeat(4e6)`)
	if e := (*program.Error)(nil); !errors.As(err, &e) || e.Code != program.Memory {
		t.Errorf("a result of 4 MB in an account of 1 MB: %v", err)
	}
	end()
}
