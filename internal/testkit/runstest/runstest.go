// Package runstest has a runs.Runner for tests of what stands around programs. The executable of the test is
// the worker: its TestMain calls program.RunWorker first.
package runstest

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/program"
	"github.com/weir-mcp/weir/internal/runs"
	"github.com/weir-mcp/weir/internal/store"
)

// limits are enough for every test that looks for no limit.
var limits = runs.Limits{Calls: 100, Parallel: 8, Timeout: 30 * time.Second, Memory: 64 << 20, Output: 64 << 10}

// New returns a Runner over documents. Large results are kept in the store of the test.
func New(t testing.TB, docs store.Docs, kept *artifact.Local) *runs.Runner {
	t.Helper()
	command, err := program.Self()
	if err != nil {
		t.Fatal(err)
	}
	pool := program.NewPool(program.Options{Command: command, Workers: 1})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := pool.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return &runs.Runner{Engine: pool, Limits: limits, Journals: runs.NewJournals(runs.Options{
		Docs: docs, TTL: time.Hour,
		Keep: func(ctx context.Context, principal, profile, mark string, value json.RawMessage) (string, error) {
			a, err := kept.At(profile).Marked(mark).PutDigested(ctx, principal, "application/json", "a call of a program", value, nil)
			return a.Handle, err
		},
		Kept: func(ctx context.Context, principal, profile, handle string) (json.RawMessage, error) {
			_, data, err := kept.Get(ctx, principal, handle)
			return data, err
		},
	})}
}
