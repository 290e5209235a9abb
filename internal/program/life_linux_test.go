package program_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/program"
)

// workers lists the workers of this process.
func workers(t *testing.T) []int {
	t.Helper()
	var found []int
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		stat, _ := os.ReadFile("/proc/" + entry.Name() + "/stat") // it may have ended
		_, rest, _ := strings.Cut(string(stat), ") ")
		if f := strings.Fields(rest); len(f) < 2 || f[0] == "Z" || f[1] != strconv.Itoa(os.Getpid()) {
			continue
		}
		if line, _ := os.ReadFile("/proc/" + entry.Name() + "/cmdline"); strings.Contains(string(line), "program-worker") {
			found = append(found, pid)
		}
	}
	return found
}

// phases are programs that are in one place when something happens to them.
var phases = map[string]string{
	"in a loop":             `log("here"); for (;;) ;`,
	"in a call":             `log("here"); await call("hang")`,
	"in several calls":      `log("here"); await Promise.all([call("hang"), call("hang"), call("hang")])`,
	"after its return":      `call("hang"); log("here"); return 1`,
	"after its error":       `call("hang"); log("here"); throw new Error("no")`,
	"while it takes memory": `log("here"); const a = []; for (let i = 0; ; i++) a[i % 100] = "x".repeat(1e4 + i % 7)`,
	"while it logs":         `for (;;) log("here")`,
	"while it calls":        `log("here"); for (;;) await call("t")`,
}

// runTo runs a program, and calls then when it has logged its first line.
func runTo(t *testing.T, p *program.Pool, source string, then func(cancel context.CancelFunc)) (hung, ended int, err error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	h := &hanging{here: make(chan struct{}, 1)}
	done := make(chan error, 1)
	go func() {
		_, err := p.Run(ctx, program.Program{Source: source, Limits: program.Limits{Calls: 1e6, Timeout: time.Minute}}, h)
		done <- err
	}()
	<-h.here
	time.Sleep(20 * time.Millisecond) // so that it is in its phase
	then(cancel)
	select {
	case err = <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("the run does not end")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.hung, h.ended, err
}

// hanging is a host whose tool hangs until its context ends.
type hanging struct {
	host
	here        chan struct{}
	hung, ended int
}

func (h *hanging) Log(string) {
	select {
	case h.here <- struct{}{}:
	default:
	}
}

func (h *hanging) Call(ctx context.Context, c program.Call) (json.RawMessage, error) {
	if c.Tool != "hang" {
		return json.RawMessage("1"), nil
	}
	h.mu.Lock()
	h.hung++
	h.mu.Unlock()
	<-ctx.Done()
	h.mu.Lock()
	h.ended++
	h.mu.Unlock()
	return nil, ctx.Err()
}

// TestCancel: a cancelled run ends at once in each phase, and so do its calls.
func TestCancel(t *testing.T) {
	p := newPool(t, program.Options{})
	for name, source := range phases {
		start := time.Now()
		hung, ended, err := runTo(t, p, source, func(cancel context.CancelFunc) { start = time.Now(); cancel() })
		if !errors.Is(err, context.Canceled) || hung != ended {
			t.Errorf("%s: %v; %d calls, %d ended", name, err, hung, ended)
		}
		if d := time.Since(start); d > 2*time.Second {
			t.Errorf("%s: the run ended after %v", name, d)
		}
	}
}

// TestKill: a worker that is killed ends its own run in each phase, and the next program runs.
func TestKill(t *testing.T) {
	p := newPool(t, program.Options{Workers: 1})
	for name, source := range phases {
		hung, ended, err := runTo(t, p, source, func(context.CancelFunc) {
			for _, pid := range workers(t) {
				if worker, err := os.FindProcess(pid); err == nil { // also the warm ones
					_ = worker.Kill()
				}
			}
		})
		var e *program.Error
		if !errors.As(err, &e) || e.Code != program.Crashed || !strings.Contains(e.Message, "killed") || hung != ended {
			t.Errorf("%s: %v; %d calls, %d ended", name, err, hung, ended)
		}
		got, err := p.Run(t.Context(), program.Program{Source: "return 1"}, &host{})
		if err != nil || string(got.Value) != "1" {
			t.Errorf("%s: the next program: %s, %v", name, got.Value, err)
		}
	}
}

// TestClose: programs end with their Pool, and no worker is left.
func TestClose(t *testing.T) {
	self, err := command()
	if err != nil {
		t.Fatal(err)
	}
	p := program.NewPool(program.Options{Command: self})
	_, _, err = runTo(t, p, `log("here"); await call("hang")`, func(context.CancelFunc) {
		if err := p.Close(t.Context()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	if !errors.Is(err, program.ErrClosed) {
		t.Errorf("run: %v", err)
	}
	if left := workers(t); len(left) > 0 {
		t.Errorf("workers %v are left", left)
	}
	soon, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := p.Close(soon); err != nil {
		t.Errorf("closed again: %v", err)
	}
}

// TestIdle: warm workers end when there are no programs.
func TestIdle(t *testing.T) {
	p := newPool(t, program.Options{Idle: 300 * time.Millisecond})
	if _, err := p.Run(t.Context(), program.Program{Source: "return 1"}, &host{}); err != nil {
		t.Fatal(err)
	}
	for start := time.Now(); len(workers(t)) > 0; time.Sleep(20 * time.Millisecond) {
		if time.Since(start) > 10*time.Second {
			t.Fatal("workers stay")
		}
	}
	if got, err := p.Run(t.Context(), program.Program{Source: "return 2"}, &host{}); err != nil || string(got.Value) != "2" {
		t.Errorf("after that: %s, %v", got.Value, err)
	}
}

// resident returns the memory of this process in bytes.
func resident(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

// TestFlat: programs that take memory, log and call without an end leave the memory of the gateway as it is, and other
// programs as fast.
func TestFlat(t *testing.T) {
	p := newPool(t, program.Options{Limits: program.Limits{Calls: 1000}})
	one := func() time.Duration {
		start := time.Now()
		if _, err := p.Run(t.Context(), program.Program{Source: `return (await call("t")).args`}, &host{}); err != nil {
			t.Fatal(err)
		}
		return time.Since(start)
	}
	one()
	before, alone := resident(t), one()
	most, slowest := before, time.Duration(0)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, source := range []string{
			`const a = []; for (;;) a.push(new Uint8Array(1e6))`, `for (;;) log("x".repeat(1e5))`,
			`const all = []; for (;;) all.push(new Promise(() => {}))`, `for (let i = 0; ; i++) await call("t", {i, text: "x".repeat(1e4)})`,
			`return "x".repeat(3e7)`,
		} {
			_, _ = p.Run(context.Background(), program.Program{Source: source, Limits: program.Limits{Timeout: 500 * time.Millisecond}}, &forgetful{})
		}
	}()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
			most, slowest = max(most, resident(t)), max(slowest, one())
		}
	}
	t.Logf("memory %d MB, at most %d; another program alone %v, at most %v", before>>20, most>>20, alone, slowest)
	bound := int64(150 << 20) // of it, a value of 30 MB takes 80
	if raced {
		bound *= 4 // the detector keeps a shadow of what is read
	}
	if grown := most - before; grown > bound {
		t.Errorf("the gateway grew by %d MB", grown>>20)
	}
	if slowest > 10*time.Second {
		t.Errorf("another program took %v", slowest)
	}
}

// forgetful is a host that keeps nothing.
type forgetful struct{ host }

func (*forgetful) Call(context.Context, program.Call) (json.RawMessage, error) {
	return json.RawMessage("1"), nil
}

func (*forgetful) Log(string) {}
