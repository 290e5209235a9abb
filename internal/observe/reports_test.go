package observe

import (
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/host/place"
	"github.com/weir-mcp/weir/internal/observe/metrics"
	"github.com/weir-mcp/weir/internal/observe/telemetry"
)

// TestReports: one event reaches each report once.
func TestReports(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.jsonl")
	events, err := telemetry.OpenEventLog(path, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	var streamed, audited int
	r := NewReports(ReportNeeds{
		Log: slog.New(slog.DiscardHandler), Version: "1", Instance: "i", Clean: func(s string) string { return s }, Events: events,
		Totals: metrics.Totals{
			Tokens: func() (read, raw int64) { return 0, 0 }, Uncounted: func() int64 { return 0 }, Sessions: func() int { return 0 },
			Artifacts: func() (count int, bytes int64) { return 0, 0 }, Upstreams: func() map[string]metrics.UpstreamFigures { return nil }, Tools: func() int { return 0 },
		},
		Stream: func(telemetry.Event) { streamed++ }, Audit: func(telemetry.Event) { audited++ },
	})
	r.Tell(telemetry.Event{Time: time.Now(), Name: telemetry.ExecuteCompleted, MetaTool: "tool_execute", Principal: "ann", ToolID: "s:count"})
	page := httptest.NewRecorder()
	r.Metrics.Handler().ServeHTTP(page, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	if streamed != 1 || audited != 1 || !strings.Contains(page.Body.String(), `tool_execute`) {
		t.Errorf("streamed %d, audited %d\n%s", streamed, audited, page.Body)
	}
	r.Trace.Close(t.Context())
	r.Close(t.Context())
	text, err := place.ReadFile(path)
	if err != nil || strings.Count(string(text), "\n") != 1 || !strings.Contains(string(text), "s:count") {
		t.Errorf("%s, %v", text, err)
	}
}
