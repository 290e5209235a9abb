package passthrough_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/passthrough"
	"github.com/weir-mcp/weir/internal/testkit/fakemcp"
	"github.com/weir-mcp/weir/mcp"
)

// taskRecords is an Auditor that notes begins and ends.
type taskRecords struct {
	mu   sync.Mutex // guards the fields below
	full bool
	got  []string
}

func (*taskRecords) Enabled() bool { return true }

func (a *taskRecords) Begin(_ context.Context, upstream string, r *mcp.Request) (passthrough.Recorded, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.full {
		return nil, mcp.Errorf(mcp.KindAuditUnavailable, "the disk is full")
	}
	a.got = append(a.got, fmt.Sprintf("%s %s %s", upstream, r.Method, r.Params))
	return taskRecord{a}, nil
}

// taken returns what was noted since the last time.
func (a *taskRecords) taken() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	got := a.got
	a.got = nil
	return got
}

type taskRecord struct{ *taskRecords }

func (r taskRecord) Ended(result json.RawMessage, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, fmt.Sprintf("result: %t, error: %t", result != nil, err != nil))
}

func (taskRecord) Pieces() io.Writer { return nil }
func (taskRecord) Passed()           {}
func (taskRecord) Unread()           {}

// TestTaskRouteIsRecorded: requests about a task without a message have a begin and an end, of agent
// servers and of others. While no record can be written, they are refused.
func TestTaskRouteIsRecorded(t *testing.T) {
	a := &taskRecords{}
	audited := func(_ *config.Server, o *passthrough.Options) { o.Audit = a }
	e, _ := startAgent(t, audited)
	ask := func(method, task string, status int, want ...string) {
		t.Helper()
		res := e.do(e.request(t.Context(), method, "/mcps/fake/task?taskId="+task, ""))
		if got := a.taken(); res.status != status || !slices.Equal(got, want) {
			t.Errorf("%s %s: %d %s, recorded %q, want %d and %q", method, task, res.status, res.body, got, status, want)
		}
	}
	ask(http.MethodGet, "t-1", 200, `fake tasks/result {"taskId":"t-1"}`, "result: true, error: false")
	ask(http.MethodDelete, "t-1", 200, `fake tasks/cancel {"taskId":"t-1"}`, "result: true, error: false")
	ask(http.MethodGet, "t-2", 404, `fake tasks/result {"taskId":"t-2"}`, "result: true, error: true")
	ask(http.MethodPut, "t-1", 405)
	a.full = true
	ask(http.MethodDelete, "t-1", 503)
	a.full = false

	e = ways[0].start(t, fakemcp.Config{}, audited).ready()
	a.taken()
	ask(http.MethodGet, "t-3", 404, `fake tasks/result {"taskId":"t-3"}`, "result: false, error: true")
}
