package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
)

// Phase is a part of the way of a call. A step of a phase stands outside of the steps of later phases:
//
//	Account ▶ Answer ▶ Name ▶ Find ▶ Shape ▶ Split ▶ Mend ▶ Check ▶ Admit ▶ DryRun ▶ Fill ▶ Reuse ▶ Record ▶ Settle ▶ server
//	Account ◀ Answer ◀ ────── ◀ Shape ◀ Split ◀ ───────────────────────── ◀ Fill ◀ Reuse ◀ ────── ◀ Settle ◀ ┘
type Phase uint8

// The phases of a call.
const (
	PhaseAccount Phase = iota // after the call, tokens, events and the audit log
	PhaseAnswer               // after the call, an error becomes a result, and secrets are removed
	PhaseName                 // the arguments of the meta-tool; the handle of a task in place of a tool
	PhaseFind                 // the entry of the catalog
	PhaseShape                // after the call, the result becomes text for an agent
	PhaseSplit                // which columns of the result the agent reads
	PhaseMend                 // repairs of the arguments; a few rows in place of references
	PhaseCheck                // the arguments against the schema
	PhaseAdmit                // pin, policy, approval, quota, leaks and hooks; gives the pass
	PhaseDryRun               // ends a dry run
	PhaseFill                 // rows and bodies go into the arguments; URLs are spent
	PhaseReuse                // the cache, and equal calls in flight
	PhaseRecord               // the audit log, before the call reaches its server
	PhaseSettle               // after the call, a task is waited for, and hooks judge the result
)

// Step is the work of one part of the gateway in a call. Its functions are called concurrently, for
// different calls.
type Step struct {
	Phase Phase
	// Name is the name of the step for operators.
	Name string
	// Before works on a call on the way to its server. If it returns ErrAnswered, Call.Reply is the answer. After
	// ErrAnswered or another error, neither the later steps nor the server get the call. It may be nil.
	Before func(ctx context.Context, c *Call) error
	// After works on the outcome of a call whose Before has returned nil: Call.Reply, or err, with which
	// Reply is nil. It may replace Reply, and the error that it returns takes the place of err. After also
	// runs if a later step has panicked; err then says so. It may be nil.
	After func(ctx context.Context, c *Call, err error) error
}

// ErrAnswered says that a step has answered a call with Call.Reply. The step returns it.
var ErrAnswered = errors.New("the call is answered")

// errPanic is the outcome of a call during which a step has panicked. The panic goes on after the
// steps have run.
var errPanic = errors.New("the call has panicked")

// Sender makes the answer to which the steps of a Pipeline lead: it sends the call to its server, or answers it itself.
// The error is an *Error, or the context's error if the agent has disconnected.
type Sender struct {
	Names []string // for operators, the outermost first
	Send  func(ctx context.Context, c *Call) (json.RawMessage, error)
}

// Pipeline is the way of the calls of one meta-tool:
//
//	Before of the first step ▶ … ▶ Before of the last step ▶ Sender
//	After of the first step  ◀ … ◀ After of the last step  ◀─────┘
//
// It is safe for concurrent use.
type Pipeline struct {
	steps []Step
	send  Sender
}

// New returns the Pipeline of steps in the order of their phases. Steps of the same phase keep their order.
func New(send Sender, steps ...Step) *Pipeline {
	steps = slices.Clone(steps)
	slices.SortStableFunc(steps, func(a, b Step) int { return int(a.Phase) - int(b.Phase) })
	return &Pipeline{steps, send}
}

// Names returns the names of the steps and of the Sender, in the order of the way to the server.
func (p *Pipeline) Names() []string {
	names := make([]string, 0, len(p.steps)+len(p.send.Names))
	for i := range p.steps {
		names = append(names, p.steps[i].Name)
	}
	return append(names, p.send.Names...)
}

// Run returns the answer to a call. The error is the Sender's, or one of a step.
func (p *Pipeline) Run(ctx context.Context, c *Call) (json.RawMessage, error) {
	passed := 0 // the steps whose After has to run
	ended := false
	defer func() {
		if !ended {
			p.abandon(ctx, c, passed)
		}
	}()
	err := error(nil)
	for passed < len(p.steps) && err == nil {
		if before := p.steps[passed].Before; before != nil {
			if err = before(ctx, c); err != nil {
				break
			}
		}
		passed++
	}
	switch err {
	case nil:
		c.Reply, err = p.send.Send(ctx, c)
	case ErrAnswered:
		err = nil
	}
	for passed > 0 {
		if err != nil {
			c.Reply = nil
		}
		passed-- // an After that panics is not run again
		if after := p.steps[passed].After; after != nil {
			err = after(ctx, c, err)
		}
	}
	ended = true
	if err != nil {
		return nil, err
	}
	return c.Reply, nil
}

// abandon runs the After of the first n steps of a call that has panicked. A further panic does not
// keep the others from running.
func (p *Pipeline) abandon(ctx context.Context, c *Call, n int) {
	if n == 0 {
		return
	}
	defer p.abandon(ctx, c, n-1)
	c.Reply = nil
	if after := p.steps[n-1].After; after != nil {
		_ = after(ctx, c, errPanic)
	}
}
