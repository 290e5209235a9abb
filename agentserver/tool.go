package agentserver

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"github.com/weir-mcp/weir/internal/host/child"
	"github.com/weir-mcp/weir/mcp"
)

// Tool is one tool of an agent. In a configuration it is a command; [Func] makes one from a
// function.
type Tool struct {
	Name, Title, Description string
	// InputSchema is JSON Schema of an object; any object where nil.
	InputSchema json.RawMessage
	// OutputSchema and Annotations are listed unchanged; may be nil.
	OutputSchema, Annotations json.RawMessage
	// Async tools are answered at once with the id of a task.
	Async bool
	// Timeout bounds the execution, from its start: Options.Timeout where zero,
	// or an hour for an async tool.
	Timeout time.Duration
	// Priority takes precedence over the order of arrival in the queue, from -8 to 8. Every eighth
	// task that starts is the one that has waited longest.
	Priority int
	// Idempotent says that an interrupted task of an async tool is started again, three times at
	// most. The default is false: its effects are unknown, so it has failed.
	Idempotent bool

	run    runner
	source string // its origin, for messages
	err    error  // the fault that makes it unusable
}

// defaultAsyncTimeout bounds async tools that name no timeout.
const defaultAsyncTimeout = time.Hour

// Call is one execution of a function. Write adds to the task's log.
type Call struct {
	Tool      string
	Principal string // the caller
	TaskID    string // "" if the caller waits for the result
	// Metadata holds the caller's _meta and the caller's identity.
	Metadata json.RawMessage
	io.Writer

	input  json.RawMessage // the arguments
	line   []byte          // the input of a command
	keeper *child.Keeper   // starts commands; nil for one of the command's own
	peer   mcp.Peer        // the waiting caller; nil for a task
	token  json.RawMessage // the caller's progress token; nil if it has none
}

// Progress reports progress to a waiting caller that has requested it. total is 0 if it is unknown,
// message may be empty.
func (c *Call) Progress(ctx context.Context, progress, total float64, message string) error {
	if c.peer == nil || c.token == nil {
		return nil
	}
	params, err := marshal(struct {
		Token    json.RawMessage `json:"progressToken"`
		Progress float64         `json:"progress"`
		Total    float64         `json:"total,omitempty"`
		Message  string          `json:"message,omitempty"`
	}{c.token, progress, total, message})
	if err != nil {
		return err
	}
	return c.peer.Notify(ctx, "notifications/progress", params)
}

// runner executes a tool, or reads a resource or prompt.
type runner interface {
	// run returns the output. A *failure is the tool's own error and becomes the tool's result; any
	// other error is the server's.
	run(ctx context.Context, c *Call) (output, error)
}

// output is the result of a runner.
type output struct {
	text []byte          // as printed
	json json.RawMessage // the structured form, an object; nil if there is none
}

// failure is the error of a tool that ran and failed.
type failure struct {
	message string // for the caller; the tool's last line if there is one
	exit    int    // exit status, or -1
	signal  string // that ended it
	reason  string // the bound that ended it: "output", "memory"
	out     []byte // its output up to then
}

// Error implements error.
func (f *failure) Error() string { return f.message }

type callKey struct{}

// CallOf returns the execution that ctx belongs to, nil outside of one.
func CallOf(ctx context.Context) *Call {
	c, _ := ctx.Value(callKey{}).(*Call)
	return c
}
