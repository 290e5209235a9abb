package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/flow"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/text"
)

// VerbRun is the meta-tool that runs a program.
const VerbRun = "tool_run"

// A Run is the run of a program whose calls the Controls judge. They are judged one after the other, so
// that rules on run.calls and run.writes count each of them, and a person is asked one question at a time:
//
//	call 1 ─▶ judged ─▶ counted ─▶ server
//	call 2 ─▶ waits for its turn ─▶ judged: a person is asked ─▶ yes, for this call or for the next N of its tool
//	call 3 ─▶ waits for its turn ─▶ judged: one of the N
//
// It is safe for concurrent use. A nil Run is no run.
type Run struct {
	// ID is the id of the run, Hash the hash of the program, and Source the program. They never change.
	ID, Hash, Source string
	// Input is the input of the program, nil if there is none. It never changes.
	Input json.RawMessage
	// Most bounds the calls that a person may allow at once.
	Most int
	// ReadOnly says that the program was declared read-only: calls of tools that do not declare themselves so are
	// refused.
	ReadOnly bool
	// Flow knows the values that the program may use as trusted ones; nil: labels are off.
	Flow *flow.Program
	// Asking is called when the wait for a person starts, and its result when that wait ends. It may be nil.
	Asking func() func()

	turn chan struct{} // capacity 1: a call is judged

	mu            sync.Mutex // guards below
	calls, writes int64
	granted       map[grantedTool]int
}

// grantedTool is a tool that a person has allowed, as it was defined then.
type grantedTool struct {
	id, upstream string
	digest       [32]byte
}

func grantedOf(e *catalog.Entry) grantedTool { return grantedTool{e.ID, e.Upstream, e.Digest()} }

// NewRun returns a Run of a program.
func NewRun(id, hash, source string, input json.RawMessage, most int) *Run {
	return &Run{ID: id, Hash: hash, Source: source, Input: input, Most: most, turn: make(chan struct{}, 1), granted: map[grantedTool]int{}}
}

// enter waits for the turn of a call. The caller calls leave once.
func (r *Run) enter(ctx context.Context) (leave func(), err error) {
	if r == nil {
		return func() {}, nil
	}
	select {
	case r.turn <- struct{}{}:
		return sync.OnceFunc(func() { <-r.turn }), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// admits refuses a call of an entry that a read-only program must not make.
func (r *Run) admits(e *catalog.Entry) error {
	if r == nil || !r.ReadOnly || e.ReadOnly {
		return nil
	}
	return result.NewError(result.PermissionDenied, e.ID+" does not declare itself read-only, and the program that calls it is declared so (read_only in programs.saved)")
}

// count counts a call that was admitted.
func (r *Run) count(s Subject) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls++
	if s.Entry == nil || !s.Entry.ReadOnly {
		r.writes++
	}
}

// made returns how many calls were admitted, and how many of them have tools that are not read-only.
func (r *Run) made() runCounts {
	if r == nil {
		return runCounts{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return runCounts{r.calls, r.writes}
}

// runCounts are the calls of a run before the one that is judged.
type runCounts struct{ calls, writes int64 }

// use takes one of the calls of a tool that a person has allowed, and reports whether there was one.
func (r *Run) use(s Subject) bool {
	if r == nil || s.Entry == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	key := grantedOf(s.Entry)
	if r.granted[key] == 0 {
		return false
	}
	r.granted[key]--
	return true
}

// grant records that a person allows n further calls of a tool.
func (r *Run) grant(s Subject, n int) {
	if r == nil || s.Entry == nil || n <= 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.granted[grantedOf(s.Entry)] += min(n, r.Most)
}

// waits says that a person is asked until the returned function is called.
func (r *Run) waits() func() {
	if r == nil || r.Asking == nil {
		return func() {}
	}
	return r.Asking()
}

// shownProgram bounds the program that a person sees, in characters.
const shownProgram = 4096

// describe returns the lines of a question that tell of the run. whole says that they have all of the
// program. Each line of the program has a mark before it, so that none of them looks like a line of weir's own.
func (r *Run) describe(verb string) (lines string, whole bool) {
	if r == nil {
		return "", true
	}
	var b strings.Builder
	if verb != VerbRun {
		n := r.made()
		fmt.Fprintf(&b, "\nA program asks for it (%s): %s before, %s.", r.ID, amount(int(n.calls), "call"), amount(int(n.writes), "write"))
	}
	source := r.Source
	if whole = len(source) <= shownProgram; !whole {
		source = text.Cut(source, shownProgram)
	}
	b.WriteString("\nThe program:")
	for line := range strings.SplitSeq(strings.TrimRight(source, "\n"), "\n") {
		b.WriteString("\n  | " + escapeShown(line, false))
	}
	if !whole {
		b.WriteString("\n  … " + amount(len(r.Source)-len(source), "byte") + " not shown")
	}
	return b.String(), whole
}
