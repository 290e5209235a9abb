package metatool

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/audit"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/search/feedback"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/tables"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/internal/testkit/runstest"
)

// TestSteps: the order of the steps of a call, with everything configured, is that of testdata/steps.txt.
func TestSteps(t *testing.T) {
	var got strings.Builder
	for _, mode := range []Mode{ModeGateway, ModeProxy, ModePlain} {
		_, log, _ := calltest.NewAudit(t, audit.FormFull, false)
		h := newHarness(t, Options{
			Mode: mode, TolerantArgs: true, ExposeHydrate: true, Cache: dispatch.CacheOptions{ReadOnly: true}, Retry: dispatch.RetryPolicy{MaxAttempts: 2}, Audit: log, Hooks: calltest.NewDetector(t, "never", true, true).Set,
			Tables:       tables.Options{BaseURL: func() (string, error) { return "http://127.0.0.1:1", nil }, Fetches: func(string) bool { return true }, Refusals: new(tables.Refusals)},
			Learned:      feedback.New(feedback.Options{Docs: store.NewMemory(store.MemoryOptions{})}),
			CheckHeaders: func(context.Context, json.RawMessage, json.RawMessage) error { return nil },
		})
		runner := runstest.New(t, store.NewMemory(store.MemoryOptions{}), h.Store)
		runner.SavedAt = "weir"
		h.change(func(o *Options) { o.Programs = runner })
		for _, way := range h.g.Steps(mode) {
			fmt.Fprintf(&got, "%s %s: %s\n", mode, cmp.Or(way.Tool, "NAME"), strings.Join(way.Steps, ", "))
		}
	}
	want, err := os.ReadFile("testdata/steps.txt")
	if err != nil || got.String() != string(want) {
		t.Errorf("%v, got:\n%s", err, got.String())
	}
}
