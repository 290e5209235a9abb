package metrics

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/weir-mcp/weir/internal/observe/telemetry"
)

// everyFamily returns the names of all series that a busy gateway shows.
func everyFamily(t *testing.T) map[string]bool {
	t.Helper()
	m := NewMetrics(Totals{Version: "v1",
		Tokens: func() (int64, int64) { return 1, 2 }, Uncounted: func() int64 { return 0 }, Sessions: func() int { return 1 }, HTTPSessions: func() (int64, int64) { return 1, 1 }, Tools: func() int { return 1 }, Spans: func() telemetry.SpanFigures { return telemetry.SpanFigures{} },
		Stream:    func() (sent, lost int64) { return 1, 1 },
		Cluster:   func() ClusterFigures { return ClusterFigures{Nodes: map[string]int{"up": 3, "draining": 1}} },
		Artifacts: func() (int, int64) { return 1, 1 }, Upstreams: func() map[string]UpstreamFigures { return map[string]UpstreamFigures{"a": {"ready", 1}} },
	})
	m.Observe(telemetry.Event{Name: telemetry.ExecuteCompleted, MetaTool: "tool_execute", ToolID: "a:x@1", Upstream: "a", Attempts: 1, Duration: time.Second})
	m.Observe(telemetry.Event{Name: telemetry.ExecuteFailed, MetaTool: "tool_execute", ToolID: "a:x@1", Upstream: "a", Code: "RATE_LIMITED", Scope: "tool_execute/minute"})
	m.Operated(false, "tools/call", "", time.Second)
	m.Operated(true, "tools/call", "tool_error", time.Second)
	m.RequestStarted("a")
	m.RequestEnded("a", time.Second)
	names := map[string]bool{}
	for _, match := range regexp.MustCompile(`(?m)^([a-z_]+)[{ ]`).FindAllStringSubmatch(scrape(t, m), -1) {
		names[match[1]] = true
	}
	return names
}

// TestBoardAndRules: the dashboard and the alerts ask for series that /metrics has.
func TestBoardAndRules(t *testing.T) {
	known := everyFamily(t)
	known["up"] = true // of Prometheus itself
	var queries []string

	var board struct {
		SchemaVersion int
		UID           string
		Panels        []struct {
			ID      int
			Title   string
			Type    string
			Targets []struct{ Expr string }
		}
	}
	data, err := os.ReadFile("../../../docs/grafana/weir.json")
	if err == nil {
		err = json.Unmarshal(data, &board)
	}
	if err != nil || board.SchemaVersion < 39 || board.UID == "" || len(board.Panels) < 10 {
		t.Fatalf("the board: %v, %+v", err, board)
	}
	ids := map[int]bool{}
	for _, p := range board.Panels {
		if ids[p.ID] || p.Title == "" || p.Type == "" || len(p.Targets) == 0 {
			t.Errorf("panel %d: %+v", p.ID, p)
		}
		ids[p.ID] = true
		for _, target := range p.Targets {
			queries = append(queries, target.Expr)
		}
	}

	shown := len(queries)
	var rules struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert       string
				Expr        string
				For         string
				Labels      map[string]string
				Annotations map[string]string
			}
		}
	}
	data, err = os.ReadFile("../../../packaging/prometheus-rules.yml")
	if err == nil {
		err = yaml.Unmarshal(data, &rules)
	}
	if err != nil || len(rules.Groups) == 0 {
		t.Fatalf("the rules: %v", err)
	}
	for _, r := range rules.Groups[0].Rules {
		if r.Alert == "" || r.Labels["severity"] == "" || r.Annotations["summary"] == "" {
			t.Errorf("rule %+v", r)
		}
		if _, err := time.ParseDuration(r.For); r.For != "" && err != nil {
			t.Errorf("%s: for: %v", r.Alert, err)
		}
		queries = append(queries, r.Expr)
	}

	// An operator hears of a cluster in trouble, and sees it.
	for _, series := range []string{"weir_cluster_apart", "weir_cluster_fenced_total", "weir_cluster_broken_requests_total", "weir_cluster_store_write_seconds_total", "weir_stream_events_total"} {
		if !slices.ContainsFunc(queries[shown:], func(q string) bool { return strings.Contains(q, series) }) {
			t.Errorf("no alert asks for %s", series)
		}
	}
	for _, series := range []string{"weir_cluster_nodes", "weir_cluster_store_silent_seconds", "weir_cluster_store_write_seconds_total", "weir_cluster_fenced_total", "weir_stream_events_total"} {
		if !slices.ContainsFunc(queries[:shown], func(q string) bool { return strings.Contains(q, series) }) {
			t.Errorf("no panel shows %s", series)
		}
	}

	name := regexp.MustCompile(`\b(?:weir|process|go|mcp_server|mcp_client)_[a-z_]+|\bup\b`)
	for _, q := range queries {
		found := name.FindAllString(q, -1)
		if len(found) == 0 || strings.Count(q, "(") != strings.Count(q, ")") || strings.Count(q, "{") != strings.Count(q, "}") {
			t.Errorf("%q asks for nothing, or its brackets do not fit", q)
		}
		for _, series := range found {
			if !known[series] {
				t.Errorf("%q: /metrics has no %s", q, series)
			}
		}
	}
}
