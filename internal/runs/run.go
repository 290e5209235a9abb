package runs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/program"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/mcp"
)

// An Engine runs programs; *program.Pool is one.
type Engine interface {
	Run(ctx context.Context, p program.Program, h program.Host) (program.Outcome, error)
}

// Limits bound one run.
type Limits struct {
	Calls, Parallel int
	Timeout         time.Duration
	Memory, Output  int64
}

// A Tool is a tool that a program calls.
type Tool struct {
	ID                   string
	ReadOnly, Idempotent bool // by the hints of its server
}

// An Answer is the answer to a call of a tool.
type Answer struct {
	Value json.RawMessage
	// Mark is of the label of the value; see package flow.
	Mark string
	// Err is the failure of the call. An *program.ToolError is the program's to catch.
	Err error
	// Ran says of a failure that the tool may have run: the call was sent, and no server refused it.
	Ran bool
}

// A Gateway makes the calls of one program. Its methods may run concurrently.
type Gateway interface {
	// Resolve finds the tool of a call, of those that exist for the caller.
	Resolve(ctx context.Context, call program.Call) (Tool, error)
	// Call calls a tool as tool_execute does. It calls sending once the call is admitted, before it is sent;
	// after an error of sending it sends nothing, and returns that error.
	Call(ctx context.Context, tool Tool, args json.RawMessage, sending func(ctx context.Context) error) Answer
	// Find and Open are as in program.Host.
	Find(ctx context.Context, query string, options json.RawMessage) (json.RawMessage, error)
	Open(ctx context.Context, handle string, selector json.RawMessage) (json.RawMessage, error)
	// Called is told of each call before it is made, with its number from 1.
	Called(ctx context.Context, n int, tool string)
}

// A Request asks for a run.
type Request struct {
	Principal, Profile string
	// Tool is the tool that runs the program, for texts, and Fixed says that its caller cannot change the program.
	Tool  string
	Fixed bool
	// ReadOnly is as in dispatch.Run.
	ReadOnly bool
	Source   string
	Input    json.RawMessage
	// Resume is the id of an earlier run to go on with, or "last"; "" starts a new one.
	Resume string
	// Timeout shortens Limits.Timeout; 0 does not.
	Timeout time.Duration
	// Asks says that a person may be asked, which may take longer.
	Asks bool
}

// A Runner makes runs. It is safe for concurrent use.
type Runner struct {
	Engine   Engine
	Journals *Journals
	Limits   Limits
	Memory   *memory.Pool // nil sets no bound
	// Saved are the programs that are tools, by their names at the server SavedAt.
	SavedAt string
	Saved   map[string]Saved
}

// A Run is a run that has been admitted to start. Its owner calls Do, or Drop.
type Run struct {
	*dispatch.Run
	by      *Runner
	request Request
	journal *journal

	mu     sync.Mutex // guards below
	made   int        // calls that were not answered by the journal
	report report
}

// Start prepares a run, and takes over the journal of the run that it goes on with.
func (r *Runner) Start(ctx context.Context, q Request) (*Run, error) {
	var of *journal
	if q.Resume == "" {
		of = r.Journals.begin(q.Principal, q.Profile)
	} else {
		var err error
		if of, err = r.Journals.resume(ctx, q.Principal, q.Profile, q.Resume); err != nil {
			return nil, err
		}
	}
	run := dispatch.NewRun(of.id, HashOf(q.Source), q.Source, q.Input, r.Limits.Calls)
	run.ReadOnly = q.ReadOnly
	return &Run{Run: run, by: r, request: q, journal: of}, nil
}

// HashOf returns the hash of a program as records and definitions have it.
func HashOf(source string) string {
	sum := sha256.Sum256([]byte(source))
	return "sha256:" + hex.EncodeToString(sum[:16])
}

// Drop gives up a run that Do was not called for.
func (r *Run) Drop() { r.journal.of.leave(r.journal.key) }

// Do runs the program. A failure of the program is a *result.Error of code ProgramFailed.
func (r *Run) Do(ctx context.Context, to Gateway) (program.Outcome, error) {
	limits := r.by.Limits
	if r.request.Timeout > 0 {
		limits.Timeout = min(limits.Timeout, r.request.Timeout)
	}
	room := r.by.Memory.Hold("principal ", r.request.Principal)
	defer room.Release()
	if err := room.Grow(ctx, limits.Memory); err != nil {
		r.Drop()
		if full := mcp.NoRoom("the memory of a program", err); full != err {
			return program.Outcome{}, dispatch.Classify(ctx, "", full)
		}
		return program.Outcome{}, err
	}
	timed, clock := newClock(ctx, limits.Timeout+lateEnd)
	defer clock.stop()
	r.Asking = clock.pause
	engineTime := limits.Timeout // the engine knows the line at which the time is over
	if r.request.Asks {
		engineTime = noTimeout
	}
	h := &host{run: r, to: to, most: limits.Calls}
	out, err := r.by.Engine.Run(timed, program.Program{
		Source: r.request.Source, Input: r.request.Input,
		Limits: program.Limits{Calls: limits.Calls + r.journal.earlier(), Parallel: limits.Parallel, Memory: limits.Memory, Output: limits.Output, Timeout: engineTime},
	}, h)
	if err != nil && ctx.Err() == nil && errors.Is(context.Cause(timed), errTime) {
		err = &program.Error{Code: program.Timeout, Message: fmt.Sprintf("the program has not ended within %s", limits.Timeout)}
	}
	kept := r.journal.end(ctx, err == nil)
	if err != nil {
		return out, r.failure(ctx, err, out.Log, kept)
	}
	return out, nil
}

// noTimeout is the timeout of the engine where the clock of the run has to end it before.
const noTimeout = 24 * time.Hour

// lateEnd is how much later the clock ends a run than the engine.
const lateEnd = time.Second

// earlier returns how many calls the journal may answer.
func (r *journal) earlier() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.head.Calls)
}

// host gives the requests of a program to the gateway.
type host struct {
	run  *Run
	to   Gateway
	most int
}

var _ program.Host = (*host)(nil)

// Call implements program.Host.
func (h *host) Call(ctx context.Context, call program.Call) (json.RawMessage, error) {
	r := h.run
	tool, err := h.to.Resolve(ctx, call)
	if err != nil {
		return nil, h.thrown(err)
	}
	known, err := r.journal.open(ctx, tool, call.Args, call.Again)
	switch {
	case errors.Is(err, errUnsure):
		return nil, &program.ToolError{Code: string(result.OutcomeUnknown), Message: fmt.Sprintf(
			"an earlier run was cut during this call of %s, which may have run; look at its effect, and pass {again: true} as the third argument of call to make it again", tool.ID)}
	case err != nil:
		return nil, program.Stop(err)
	case known.value != nil:
		r.note(tool, replayed)
		r.Flow.Replayed(known.mark, call.Args, known.value)
		return known.value, nil
	}
	n, ok := r.next(h.most)
	if !ok {
		err := r.journal.finish(ctx, known.n, failed, labelled{})
		return nil, errors.Join(err, program.Stop(&program.Error{Code: program.TooMany, Line: call.Line, Message: fmt.Sprintf("the program has made %d calls, the most of one run (programs.calls)", h.most)}))
	}
	h.to.Called(ctx, n, tool.ID)
	var lost error // of the journal: the call is not sent
	answer := h.to.Call(ctx, tool, call.Args, func(ctx context.Context) error {
		lost = r.journal.sending(ctx, known.n)
		return lost
	})
	if lost != nil {
		return nil, program.Stop(lost)
	}
	state, outcome := done, ran
	switch {
	case answer.Err != nil && answer.Ran && !tool.ReadOnly:
		state, outcome = unsure, unclear
	case answer.Err != nil:
		state, outcome = failed, erred
	}
	err = r.journal.finish(ctx, known.n, state, labelled{answer.Value, answer.Mark})
	r.note(tool, outcome)
	switch {
	case answer.Err != nil:
		return nil, h.thrown(answer.Err)
	case err != nil:
		return nil, program.Stop(err)
	}
	return answer.Value, nil
}

// next counts a call that is made. It returns its number, and false if there are too many.
func (r *Run) next(most int) (n int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.made >= most {
		return 0, false
	}
	r.made++
	return r.made, true
}

// thrown returns an error as a program gets it. The end of the run is none that it can catch.
func (h *host) thrown(err error) error {
	var own *result.Error
	if tool := (*program.ToolError)(nil); errors.As(err, &tool) || !errors.As(err, &own) {
		return err
	}
	return &program.ToolError{Code: string(own.Code), Message: own.Message, Retryable: own.Retryable(), Details: own.Details}
}

// Find implements program.Host.
func (h *host) Find(ctx context.Context, query string, options json.RawMessage) (json.RawMessage, error) {
	out, err := h.to.Find(ctx, query, options)
	if err != nil {
		return nil, h.thrown(err)
	}
	return out, nil
}

// Open implements program.Host.
func (h *host) Open(ctx context.Context, handle string, selector json.RawMessage) (json.RawMessage, error) {
	out, err := h.to.Open(ctx, handle, selector)
	if err != nil {
		return nil, h.thrown(err)
	}
	return out, nil
}

// Log implements program.Host. The lines are in the outcome of the run.
func (h *host) Log(string) {}
