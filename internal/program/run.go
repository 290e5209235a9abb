package program

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/program/wire"
)

// grace is how much longer than its time a worker may run: it interrupts the program itself, and knows the line.
const grace = 500 * time.Millisecond

// A run is one program in its worker.
type run struct {
	pool    *Pool
	worker  *process
	program Program
	limits  Limits
	host    Host

	requests sync.WaitGroup
	started  bool // the worker has sent something
	log      []string
	logged   int64
	cut      int

	mu     sync.Mutex // guards below
	flying int        // requests at the host
	err    error      // of a Stop
}

// serve runs the program. It ends the worker, for which it does not wait.
func (r *run) serve(ctx context.Context) (Outcome, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer r.pool.refill()
	defer r.pool.bury(r.worker)
	defer r.requests.Wait()
	defer cancel()
	defer context.AfterFunc(ctx, r.worker.kill)()

	value, err := r.exchange(ctx, cancel)
	r.mu.Lock()
	stopped := r.err
	r.mu.Unlock()
	if r.cut > 0 {
		r.log = append(r.log, fmt.Sprintf("… %d more lines: the log of a program has at most %d bytes", r.cut, r.limits.Output))
	}
	outcome := Outcome{Value: value, Log: r.log}
	switch {
	case stopped != nil:
		return outcome, stopped
	case ctx.Err() != nil: // its last calls may have ended with it
		return outcome, r.pool.ended(ctx, "did not stop by itself")
	}
	return outcome, err
}

// exchange sends the program and handles the frames of its worker until the last one.
func (r *run) exchange(ctx context.Context, cancel context.CancelFunc) (json.RawMessage, error) {
	if size := int64(len(r.program.Source) + len(r.program.Input)); size > r.limits.Memory {
		return nil, &Error{Code: Memory, Message: fmt.Sprintf("the program and its input have %d bytes, at most %d", size, r.limits.Memory)}
	}
	head, err := json.Marshal(wire.Begin{Source: len(r.program.Source), Calls: r.limits.Calls, Parallel: r.limits.Parallel,
		Memory: r.limits.Memory, Output: r.limits.Output, Millis: r.limits.Timeout.Milliseconds()})
	if err != nil {
		return nil, err
	}
	body := append([]byte(r.program.Source), r.program.Input...)
	if err := r.worker.write(wire.Start, 0, head, body); err != nil {
		return nil, r.crash()
	}
	for {
		h, err := wire.Read(r.worker.r, r.limits.Memory)
		if err != nil {
			return nil, r.broken(err)
		}
		if !r.started {
			r.started = true
			r.pool.refill() // and not earlier: the start of a worker takes the processor of this one
		}
		head := make([]byte, h.Head)
		if _, err := io.ReadFull(r.worker.r, head); err != nil {
			return nil, r.crash()
		}
		switch h.Kind {
		case wire.Call, wire.Find, wire.Open:
			var request wire.Request
			if err := json.Unmarshal(head, &request); err != nil || !r.enter() {
				return nil, r.protocol("a request that cannot be")
			}
			body, release, err := r.body(ctx, h.Body)
			if err != nil {
				return nil, err
			}
			r.requests.Go(func() {
				defer release()
				r.answer(ctx, cancel, h, request, body)
			})
		case wire.Log:
			if err := r.line(h.Body); err != nil {
				return nil, err
			}
		case wire.End:
			value, err := r.value(ctx, h.Body)
			if err == nil && !json.Valid(value) {
				return nil, r.protocol("a result that is not JSON")
			}
			return value, err
		case wire.Fail:
			var f wire.Failure
			if err := json.Unmarshal(head, &f); err != nil {
				return nil, r.protocol("an error that cannot be read")
			}
			return nil, r.failure(f)
		default:
			return nil, r.protocol(fmt.Sprintf("a frame of kind %d", h.Kind))
		}
	}
}

// body reads the body of a request. It is counted for the caller of ctx, and valid until release.
func (r *run) body(ctx context.Context, n int) (body json.RawMessage, release func(), err error) {
	if n <= memory.Free {
		body, err = r.small(n)
		return body, func() {}, err
	}
	b := memory.Owner(ctx).NewBuffer(ctx, r.limits.Memory)
	err = b.Fill(io.LimitReader(r.worker.r, int64(n)), int64(n))
	if err == nil && b.Len() < int64(n) {
		b.Drop()
		return nil, nil, r.crash()
	}
	if err != nil {
		b.Drop()
		return nil, nil, r.noRoom("the arguments of a call", err)
	}
	block, err := b.Block()
	if err != nil {
		return nil, nil, r.noRoom("the arguments of a call", err)
	}
	if body, err = block.Open(ctx); err != nil {
		block.Release()
		return nil, nil, r.noRoom("the arguments of a call", err)
	}
	return body, block.Release, nil
}

// value reads the result. It is counted for the call of ctx, and valid as long as its memory.Scope.
func (r *run) value(ctx context.Context, n int) (json.RawMessage, error) {
	if n <= memory.Free {
		return r.small(n)
	}
	value, err := memory.Make(ctx, nil, func(w io.Writer) error {
		_, err := io.CopyN(w, r.worker.r, int64(n))
		return err
	})
	if errors.Is(err, io.EOF) {
		return nil, r.crash()
	}
	if err != nil {
		return nil, r.noRoom("the result of the program", err)
	}
	return value, nil
}

func (r *run) small(n int) (json.RawMessage, error) {
	body := make([]byte, n)
	if _, err := io.ReadFull(r.worker.r, body); err != nil {
		return nil, r.crash()
	}
	return body, nil
}

// noRoom is the error of bytes for which the gateway has no room.
func (r *run) noRoom(what string, err error) error {
	if full := (*memory.Error)(nil); errors.As(err, &full) {
		return &Error{Code: Memory, Message: what + ": " + err.Error()}
	}
	return &Error{Code: Crashed, Message: fmt.Sprintf("the program ended: %s cannot be read: %v", what, err)}
}

// line reads a line of the log. The worker has counted it; a worker that counts wrong is cut here.
func (r *run) line(n int) error {
	if r.logged += int64(n); n > memory.Free && r.logged > r.limits.Output {
		return r.protocol("more lines of log than it may")
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(r.worker.r, text); err != nil {
		return r.crash()
	}
	if r.logged > r.limits.Output {
		r.cut++
		return nil
	}
	line := strings.ToValidUTF8(string(text), "?")
	r.log = append(r.log, line)
	r.host.Log(line)
	return nil
}

// enter counts a request. It reports false if there are more at once than the worker may send.
func (r *run) enter() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flying++
	return r.flying <= r.limits.Parallel
}

func (r *run) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flying--
}

// answer asks the host and sends its answer to the worker.
func (r *run) answer(ctx context.Context, cancel context.CancelFunc, h wire.Header, q wire.Request, body json.RawMessage) {
	value, err := r.ask(ctx, h.Kind, q, body)
	if s := (*stop)(nil); errors.As(err, &s) {
		r.mu.Lock()
		if r.err == nil {
			r.err = s.err
		}
		r.mu.Unlock()
		cancel()
		return
	}
	if err == nil && int64(len(value)) > r.limits.Memory {
		err = &ToolError{Code: string(Memory), Message: fmt.Sprintf("the result has %d bytes, and the memory of the program %d", len(value), r.limits.Memory)}
	}
	kind := wire.Answer
	if err != nil {
		kind, value = wire.Refuse, refusal(err)
	} else if len(value) == 0 {
		value = json.RawMessage("null")
	}
	r.leave()
	if ctx.Err() != nil {
		return
	}
	_ = r.worker.write(kind, h.ID, nil, value) // exchange sees that the worker has ended
}

func (r *run) ask(ctx context.Context, kind wire.Kind, q wire.Request, body json.RawMessage) (json.RawMessage, error) {
	switch kind {
	case wire.Find:
		return r.host.Find(ctx, q.Tool, body)
	case wire.Open:
		return r.host.Open(ctx, q.Tool, body)
	}
	return r.host.Call(ctx, Call{N: q.N, Tool: q.Tool, Server: q.Server, Name: q.Name, Args: body, Again: q.Again, Line: q.Line})
}

// refusal is an error of the host for the program.
func refusal(err error) json.RawMessage {
	var t *ToolError
	if !errors.As(err, &t) {
		t = &ToolError{Code: "INTERNAL", Message: err.Error()}
	}
	if len(t.Details) > 0 && !json.Valid(t.Details) {
		t = &ToolError{Code: t.Code, Message: t.Message, Retryable: t.Retryable}
	}
	body, err := json.Marshal(t)
	if err != nil {
		return json.RawMessage(`{"code":"INTERNAL","message":"an error that cannot be shown","retryable":false}`)
	}
	return body
}

// failure is the error of a program as its worker tells it.
func (r *run) failure(f wire.Failure) *Error {
	e := &Error{Code: Code(f.Code), Message: f.Message, Line: max(f.Line, 0), Column: max(f.Column, 0)}
	if f.Tool != nil {
		e.Tool = &ToolError{Code: f.Tool.Code, Message: f.Tool.Message, Retryable: f.Tool.Retryable}
		if f.Tool.Details != nil {
			e.Tool.Details, _ = json.Marshal(f.Tool.Details) // it was read from JSON
		}
	}
	e.Source = sourceLine(r.program.Source, e.Line)
	return e
}

// maxLine bounds the line of a program in an error, in bytes.
const maxLine = 200

func sourceLine(source string, line int) string {
	if line < 1 {
		return ""
	}
	for range line - 1 {
		_, rest, ok := strings.Cut(source, "\n")
		if !ok {
			return ""
		}
		source = rest
	}
	text, _, _ := strings.Cut(source, "\n")
	text = strings.TrimSpace(text)
	if len(text) > maxLine {
		text = strings.ToValidUTF8(text[:maxLine], "") + "…"
	}
	return text
}

// broken is the error of a frame that could not be read.
func (r *run) broken(err error) error {
	if errors.Is(err, wire.ErrFrame) {
		return r.protocol(err.Error())
	}
	return r.crash()
}

// protocol ends a worker that does what no worker does.
func (r *run) protocol(what string) error {
	r.worker.kill()
	r.pool.o.Log.Warn("the worker of a program broke its protocol and is ended", "sent", what)
	return &Error{Code: Crashed, Message: "the program ended: its worker sent " + what}
}

// crash is the error of a worker that has ended before its program.
func (r *run) crash() error {
	select {
	case <-r.worker.gone:
	case <-time.After(grace):
		r.worker.kill()
		<-r.worker.gone
	}
	said := []byte(r.worker.said.String())
	r.pool.o.Log.Warn("the worker of a program ended", "how", r.worker.how(), "stderr", string(said))
	if bytes.Contains(said, []byte("out of memory")) || bytes.Contains(said, []byte("cannot allocate memory")) {
		return &Error{Code: Memory, Message: "the program ended: it took more memory than its worker may have"}
	}
	return &Error{Code: Crashed, Message: "the program ended: its worker ended (" + r.worker.how() + ")"}
}
