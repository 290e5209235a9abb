package metrics

import (
	"compress/gzip"
	"fmt"
	"io"
	"math"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/weir-mcp/weir/internal/observe/telemetry"
)

func scrape(t testing.TB, m *Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

func TestMetrics(t *testing.T) {
	m := NewMetrics(Totals{Version: "v1",
		Tokens: func() (int64, int64) { return 10, 1000 }, Uncounted: func() int64 { return 1 }, Sessions: func() int { return 2 }, Tools: func() int { return 3 },
		Artifacts: func() (int, int64) { return 4, 5000 }, Upstreams: func() map[string]UpstreamFigures {
			return map[string]UpstreamFigures{"a": {"ready", 2}, "b": {"failed", 0}}
		},
	})
	execute := func(e telemetry.Event) {
		e.MetaTool = "tool_execute"
		m.Observe(e)
	}
	execute(telemetry.Event{Name: telemetry.ExecuteCompleted, ToolID: "a:x@1", Upstream: "a", Attempts: 3, Duration: 20 * time.Millisecond})
	execute(telemetry.Event{Name: telemetry.ExecuteCompleted, ToolID: "a:x@1", Upstream: "a", Attempts: 1, IsError: true})
	execute(telemetry.Event{Name: telemetry.ExecuteCacheHit, ToolID: "a:x@1", Upstream: "a"})
	execute(telemetry.Event{Name: telemetry.ExecuteDryRun, ToolID: "a:x@1", Upstream: "a"})
	execute(telemetry.Event{Name: telemetry.ExecuteFailed, ToolID: "a:x@1", Upstream: "a", Code: "RATE_LIMITED", Scope: "tool_execute/minute"})
	execute(telemetry.Event{Name: telemetry.ExecuteFailed, ToolID: "a:x@1", Upstream: "a", Code: "RATE_LIMITED", Scope: "tool:a:x@1/session"})
	execute(telemetry.Event{Name: telemetry.ExecuteFailed, Code: "HYDRATE_FAILED"})
	passed := func(e telemetry.Event) {
		e.Name, e.Method, e.Upstream = telemetry.PassthroughCompleted, "tools/call", "a"
		m.Observe(e)
	}
	passed(telemetry.Event{ToolID: "a:x#0badcafe"})
	passed(telemetry.Event{ToolID: "a:x@1#0badcafe", IsError: true})
	passed(telemetry.Event{ToolID: "a:x#0badcafe", Unread: true})
	passed(telemetry.Event{Code: "UPSTREAM_TIMEOUT"})
	m.Observe(telemetry.Event{Name: telemetry.PassthroughCompleted, Method: "resources/read", Upstream: "a"})
	m.RequestStarted("a")
	m.RequestStarted("a")
	m.RequestEnded("a", 3*time.Second)
	m.Observe(telemetry.Event{Name: "browse.failed", MetaTool: "tool_browse", Code: "PATH_INVALID"})
	m.Observe(telemetry.Event{Name: telemetry.CatalogRefresh, Upstream: "a"})
	m.Observe(telemetry.Event{Name: telemetry.CatalogLoaded})
	m.Observe(telemetry.Event{Name: "something.else"})
	got := scrape(t, m)
	for _, want := range []string{
		`weir_calls_total{outcome="ok",tool="a:x",upstream="a"} 2`, `weir_calls_total{outcome="tool_error",tool="a:x",upstream="a"} 2`,
		`weir_calls_total{outcome="unread",tool="a:x",upstream="a"} 1`, `weir_calls_total{outcome="UPSTREAM_TIMEOUT",tool="",upstream="a"} 1`,
		`weir_upstream_requests_in_flight{upstream="a"} 1`, `weir_upstream_request_duration_seconds_bucket{upstream="a",le="2.5"} 0`, `weir_upstream_request_duration_seconds_bucket{upstream="a",le="5"} 1`,
		`weir_upstream_restarts_total{upstream="a"} 2`, `weir_upstream_restarts_total{upstream="b"} 0`, `weir_build_info{goversion="` + runtime.Version() + `",version="v1"} 1`,
		`weir_calls_total{outcome="cache_hit",tool="a:x",upstream="a"} 1`, `weir_calls_total{outcome="dry_run",tool="a:x",upstream="a"} 1`,
		`weir_calls_total{outcome="RATE_LIMITED",tool="a:x",upstream="a"} 2`, `weir_calls_total{outcome="HYDRATE_FAILED",tool="",upstream=""} 1`,
		`weir_upstream_attempts_total{upstream="a"} 4`, `weir_cache_hits_total 1`, `weir_dry_runs_total 1`,
		`weir_quota_breaches_total{meta_tool="tool_execute",window="minute"} 1`, `weir_quota_breaches_total{meta_tool="tool_execute",window="session"} 1`,
		`weir_errors_total{code="PATH_INVALID",meta_tool="tool_browse"} 1`, `weir_request_duration_seconds_count{meta_tool="tool_execute"} 7`,
		`weir_request_duration_seconds_bucket{meta_tool="tool_execute",le="0.025"} 7`, `weir_catalog_refreshes_total{upstream="a"} 1`,
		`weir_tokens_read_total 10`, `weir_tokens_raw_total 1000`, `weir_tokens_uncounted_results_total 1`, `weir_sessions 2`, `weir_tools 3`,
		`weir_artifacts 4`, `weir_artifacts_bytes 5000`, `weir_upstream_state{state="ready",upstream="a"} 1`, `weir_upstream_state{state="failed",upstream="b"} 1`, `go_goroutines`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is missing in\n%s", want, got)
		}
	}
}

// Tool ids and names of upstreams come from outside: what is too many of them
// is one.
func TestMetricsBoundLabels(t *testing.T) {
	upstreams := map[string]UpstreamFigures{}
	for i := range 3 * maxLabels {
		upstreams[fmt.Sprint("u", i)] = UpstreamFigures{"ready", 1}
	}
	m := NewMetrics(Totals{Version: "v1", Upstreams: func() map[string]UpstreamFigures { return upstreams }})
	for i := range 3 * maxLabels {
		m.Observe(telemetry.Event{Name: telemetry.ExecuteCompleted, MetaTool: "tool_execute", ToolID: fmt.Sprint("a:t", i), Upstream: fmt.Sprint("u", i)})
	}
	got := scrape(t, m)
	if n := strings.Count(got, "weir_calls_total{"); n > maxLabels+1 {
		t.Errorf("%d series", n)
	}
	if !strings.Contains(got, fmt.Sprintf(`weir_calls_total{outcome="ok",tool="other",upstream="other"} %d`, 2*maxLabels)) || !strings.Contains(got, fmt.Sprintf(`weir_upstream_state{state="ready",upstream="other"} %d`, 2*maxLabels)) {
		t.Error("what is too many was not counted")
	}
}

// TestMetricsPassTheLint: names, units and help texts are those that Prometheus wants.
func TestMetricsPassTheLint(t *testing.T) {
	m := NewMetrics(Totals{Version: "v1",
		Tokens: func() (int64, int64) { return 10, 1000 }, Uncounted: func() int64 { return 1 }, Sessions: func() int { return 2 }, Tools: func() int { return 3 },
		Artifacts: func() (int, int64) { return 4, 5000 }, Upstreams: func() map[string]UpstreamFigures { return map[string]UpstreamFigures{"a": {"ready", 1}} },
	})
	m.Observe(telemetry.Event{Name: telemetry.ExecuteCacheHit, MetaTool: "tool_execute", ToolID: "a:x@1", Upstream: "a", Attempts: 1, Code: "RATE_LIMITED", Scope: "tool_execute/minute"})
	m.Observe(telemetry.Event{Name: telemetry.CatalogRefresh, Upstream: "a"})
	m.RequestStarted("a")
	m.RequestEnded("a", time.Second)
	problems, err := promlint.New(strings.NewReader(scrape(t, m))).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "weir_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

// TestToolLabelOutlivesItsSchema: the series of a tool goes on where the hash of its id
// changes.
func TestToolLabelOutlivesItsSchema(t *testing.T) {
	m := NewMetrics(Totals{Version: "v1"})
	for i := range 100 {
		m.Observe(telemetry.Event{Name: telemetry.ExecuteCompleted, MetaTool: "tool_execute", ToolID: fmt.Sprintf("a:x#%08x", i), Upstream: "a"})
	}
	if got := scrape(t, m); !strings.Contains(got, `weir_calls_total{outcome="ok",tool="a:x",upstream="a"} 100`) || strings.Count(got, "weir_calls_total{") != 1 {
		t.Error("each schema has a series of its own")
	}
}

func TestMetricsWithoutTotals(t *testing.T) {
	m := NewMetrics(Totals{Version: "v1"})
	scrape(t, m)
}

// TestRuntimeMetricsAreThoseOfPrometheus: dashboards for Go programs find every metric and every label that Prometheus' own client
// has, with the same type.
func TestRuntimeMetricsAreThoseOfPrometheus(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	ours, err := parser.TextToMetricFamilies(strings.NewReader(scrape(t, NewMetrics(Totals{Version: "v1"}))))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range families {
		got := ours[want.GetName()]
		switch {
		case got == nil && runtime.GOOS != "linux" && strings.HasPrefix(want.GetName(), "process_"):
		case got == nil || got.GetType() != want.GetType() || len(got.GetMetric()) != len(want.GetMetric()):
			t.Errorf("%v, want %v", got, want)
		case strings.HasPrefix(want.GetName(), "process_") && want.GetType() == dto.MetricType_GAUGE:
			a, b := got.GetMetric()[0].GetGauge().GetValue(), want.GetMetric()[0].GetGauge().GetValue()
			if math.Abs(a-b) > b/2 {
				t.Errorf("%s: %v, want about %v", want.GetName(), a, b)
			}
		}
	}
}

// TestMetricsEscape: a label's value comes from outside, and the page stays one that Prometheus reads.
func TestMetricsEscape(t *testing.T) {
	m := NewMetrics(Totals{Version: "v1"})
	const name = "a\"b\\c\nd\xff"
	m.RequestStarted(name)
	m.RequestEnded(name, time.Second)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(scrape(t, m)))
	if err != nil {
		t.Fatal(err)
	}
	took := families["weir_upstream_request_duration_seconds"].GetMetric()
	if len(took) != 1 || took[0].GetLabel()[0].GetValue() != "a\"b\\c\nd\uFFFD" || took[0].GetHistogram().GetSampleCount() != 1 || took[0].GetHistogram().GetSampleSum() != 1 {
		t.Errorf("%v", took)
	}
}

// TestMetricsCompressed: a scraper that takes gzip gets it.
func TestMetricsCompressed(t *testing.T) {
	m := NewMetrics(Totals{Version: "v1"})
	r := httptest.NewRequest("GET", "/metrics", nil)
	r.Header.Set("Accept-Encoding", "gzip")
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, r)
	z, err := gzip.NewReader(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	page, err := io.ReadAll(z)
	if err != nil || !strings.Contains(string(page), "weir_cache_hits_total 0") || w.Header().Get("Content-Encoding") != "gzip" {
		t.Errorf("%v, %s", err, page)
	}
}

func BenchmarkObserve(b *testing.B) {
	m := NewMetrics(Totals{Version: "v1"})
	e := telemetry.Event{Name: telemetry.ExecuteCompleted, MetaTool: "tool_execute", ToolID: "a:x@1", Upstream: "a", Attempts: 1}
	b.ReportAllocs()
	for b.Loop() {
		m.Observe(e)
	}
}
