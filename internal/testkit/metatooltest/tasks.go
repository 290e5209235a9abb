package metatooltest

import (
	"testing"

	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
)

// TaskHarness is a client of a gateway over one calltest.TaskServer.
type TaskHarness struct {
	*Harness
	*calltest.TaskClient
}

// NewTasks returns a harness over a server whose calls become tasks. The default of tasks.Options.Wait is
// calltest.TasksWait.
func NewTasks(t testing.TB, s *calltest.TaskServer, opts metatool.Options) *TaskHarness {
	t.Helper()
	if opts.Tasks.Wait == 0 {
		opts.Tasks.Wait = calltest.TasksWait
	}
	h := New(t, opts)
	return &TaskHarness{h, h.Tasks(t, s)}
}

// Kept returns the State of a gateway that has just started over a store.
func Kept(t testing.TB, d store.Docs) *metatool.State {
	t.Helper()
	s := metatool.NewState()
	if err := s.Keep(t.Context(), d, nil); err != nil {
		t.Fatal(err)
	}
	return s
}
