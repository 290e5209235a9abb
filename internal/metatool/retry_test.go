package metatool

import (
	"slices"
	"testing"

	"github.com/weir-mcp/weir/internal/dispatch"
)

// With one attempt nothing is there that repeats.
func TestRetryOffByDefault(t *testing.T) {
	for attempts, want := range map[int]bool{0: false, 1: false, 2: true} {
		h := newHarness(t, Options{Retry: dispatch.RetryPolicy{MaxAttempts: attempts}})
		names := h.g.faces.of[ModeGateway].meta.tools[ToolExecute].Names()
		if got := slices.Contains(names, "retry"); got != want {
			t.Errorf("%d attempts: %v", attempts, names)
		}
	}
}
