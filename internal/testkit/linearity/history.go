package linearity

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"
)

// Never is the return of an operation that has no answer.
const Never = int64(1) << 62

// Operation is one operation of a client.
type Operation struct {
	// Part is the thing that it is about, such as an office. Parts are judged one by one.
	Part string
	// Input and Output belong to the model. They are not changed after Add.
	Input, Output any
	// Call and Return are stamps of the History, or Never.
	Call, Return int64
}

// History has the operations that clients saw. The zero value is empty. It is safe for concurrent
// use.
type History struct {
	clock atomic.Int64

	mu  sync.Mutex // guards ops
	ops []Operation
}

// Now returns a stamp that is later than all stamps before.
func (h *History) Now() int64 { return h.clock.Add(1) }

// Add adds an operation.
func (h *History) Add(op Operation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, op)
}

// Len returns the number of operations.
func (h *History) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.ops)
}

// A Model is a machine that does one operation after the other.
type Model struct {
	// start is the first state of a part. States are comparable.
	start any
	// step returns the state after an operation, and false if the machine would not have given this answer.
	step func(state any, op Operation) (ok bool, next any)
}

// Check returns an error that names a part whose operations have no order in which the model gives the same
// answers. It gives up after a time, which is an error as well.
func (h *History) Check(m Model, most time.Duration) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	parts := map[string][]porcupine.Operation{}
	last := h.clock.Load()
	for _, op := range h.ops {
		if op.Return != Never {
			last = max(last, op.Return)
		}
	}
	for _, op := range h.ops {
		end := op.Return
		if end == Never {
			last++ // after all answers
			end = last
		}
		parts[op.Part] = append(parts[op.Part], porcupine.Operation{Input: op, Output: op.Output, Call: op.Call, Return: end})
	}
	machine := porcupine.Model{
		Init: func() any { return m.start },
		Step: func(state, input, _ any) (bool, any) {
			op, _ := input.(Operation)
			return m.step(state, op)
		},
	}
	for part, ops := range parts {
		switch porcupine.CheckOperationsTimeout(machine, ops, most) {
		case porcupine.Illegal:
			return fmt.Errorf("%s: what clients saw has no order: %s", part, listed(ops))
		case porcupine.Unknown:
			return fmt.Errorf("%s: no order of %d operations was found within %v", part, len(ops), most)
		}
	}
	return nil
}

// listed returns operations as text.
func listed(ops []porcupine.Operation) string {
	out := ""
	for _, one := range ops {
		op, _ := one.Input.(Operation)
		out += fmt.Sprintf("\n  %d to %d: %+v: %v", op.Call, one.Return, op.Input, op.Output)
	}
	return out
}
