package telemetry_test

import (
	"os"
	"time"

	"github.com/weir-mcp/weir/internal/observe/metrics"
	"github.com/weir-mcp/weir/internal/observe/telemetry"
)

// Events go to a log and to the metrics.
func Example() {
	log := telemetry.NewEventLog(os.Stdout, nil)
	metrics := metrics.NewMetrics(metrics.Totals{})
	tell := telemetry.Fan(log.Write, metrics.Observe)
	tell(telemetry.Event{
		Time: time.Date(2026, 7, 28, 10, 0, 0, 0, time.UTC), Name: telemetry.ExecuteCompleted, MetaTool: "tool_execute",
		ToolID: "files:read@1", Upstream: "files", Duration: 12 * time.Millisecond, Attempts: 1,
	})
	// Output:
	// {"time":"2026-07-28T10:00:00Z","event":"execute.completed","meta_tool":"tool_execute","tool_id":"files:read@1","upstream":"files","duration_ms":12,"attempts":1}
}
