package metrics

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/observe/telemetry"
)

// TestOperations: both histograms have the buckets of the conventions, and labels that agents and
// servers cannot make many of.
func TestOperations(t *testing.T) {
	m := NewMetrics(Totals{Spans: func() telemetry.SpanFigures {
		return telemetry.SpanFigures{Sent: 5, Dropped: 4, Failed: 3, Rejected: 2}
	}})
	m.Operated(false, "tools/call", "", 30*time.Millisecond)
	m.Operated(false, "tools/call", "tool_error", 400*time.Second)
	m.Operated(true, "tools/call", "upstream_timeout", time.Second)
	for i := range 1000 {
		m.Operated(false, fmt.Sprintf("method/%d", i), fmt.Sprint(i), time.Second)
	}
	for _, known := range []string{"tool_error", "upstream_protocol", "cancelled", "-32603", "-32003"} { // after the codes that servers chose
		m.Operated(true, "tools/call", known, time.Second)
	}
	page := scrape(t, m)
	for _, line := range []string{
		`mcp_server_operation_duration_seconds_bucket{error_type="",mcp_method_name="tools/call",le="0.02"} 0`,
		`mcp_server_operation_duration_seconds_bucket{error_type="",mcp_method_name="tools/call",le="0.05"} 1`,
		`mcp_server_operation_duration_seconds_bucket{error_type="tool_error",mcp_method_name="tools/call",le="300"} 0`,
		`mcp_server_operation_duration_seconds_count{error_type="tool_error",mcp_method_name="tools/call"} 1`,
		`mcp_client_operation_duration_seconds_sum{error_type="upstream_timeout",mcp_method_name="tools/call"} 1`,
		`mcp_server_operation_duration_seconds_count{error_type="0",mcp_method_name="_OTHER"} 1`,
		`mcp_client_operation_duration_seconds_count{error_type="tool_error",mcp_method_name="tools/call"} 1`,
		`mcp_client_operation_duration_seconds_count{error_type="upstream_protocol",mcp_method_name="tools/call"} 1`,
		`mcp_client_operation_duration_seconds_count{error_type="cancelled",mcp_method_name="tools/call"} 1`,
		`mcp_client_operation_duration_seconds_count{error_type="-32603",mcp_method_name="tools/call"} 1`,
		`mcp_client_operation_duration_seconds_count{error_type="-32003",mcp_method_name="tools/call"} 1`,
		`weir_spans_total{outcome="sent"} 5`, `weir_spans_total{outcome="dropped"} 4`, `weir_spans_total{outcome="failed"} 3`, `weir_spans_total{outcome="rejected"} 2`,
	} {
		if !strings.Contains(page, line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
	if n := strings.Count(page, "mcp_server_operation_duration_seconds_count"); n > maxErrorTypes+3 {
		t.Errorf("%d series", n)
	}
	if allocs := testing.AllocsPerRun(100, func() { m.Operated(false, "tools/call", "", time.Second) }); allocs != 0 {
		t.Errorf("an operation makes %v allocations", allocs)
	}
}
