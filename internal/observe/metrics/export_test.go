package metrics

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/observe/otlphttp"
	"github.com/weir-mcp/weir/internal/observe/telemetry"
	"github.com/weir-mcp/weir/internal/testkit/tracetest"
)

// TestExport: a collector gets the figures of /metrics, all of them, with the names of OpenTelemetry's conventions where
// there are some.
func TestExport(t *testing.T) {
	m := NewMetrics(Totals{Version: "9", Tools: func() int { return 3 }, Artifacts: func() (int, int64) { return 1, 5 }})
	m.Observe(telemetry.Event{Name: telemetry.ExecuteCompleted, MetaTool: "tool_execute", ToolID: "a:b@1", Upstream: "a", Duration: 3 * time.Millisecond, Attempts: 2})
	m.RequestStarted("a")
	m.Operated(false, "tools/call", "", 30*time.Millisecond)
	m.Operated(false, "tools/call", "", time.Hour)
	m.Operated(true, "tools/call", "tool_error", time.Millisecond)
	c := tracetest.New(t)
	x := m.NewExporter(ExportOptions{Version: "9", Instance: "i"})
	to := otlphttp.Endpoint{URL: c.URL + "/v1/metrics", Headers: map[string]string{"x-key": "k"}, Timeout: 10 * time.Second}
	if err := x.Configure(to, 10*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); c.Exports() < 2 && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
	}
	m.RequestEnded("a", time.Second)
	x.Close(t.Context()) // sends once more
	got := c.Points()
	for name, want := range map[string]tracetest.Point{
		"weir_calls_total{outcome=ok,tool=a:b,upstream=a}": {Kind: "counter", Value: 1},
		"weir_upstream_attempts_total{upstream=a}":         {Kind: "counter", Value: 2},
		"weir_upstream_requests_in_flight{upstream=a}":     {Kind: "gauge"},
		"weir_tools{}":           {Kind: "gauge", Value: 3},
		"weir_artifacts_bytes{}": {Kind: "gauge", Value: 5, Unit: "By"},
		"mcp.server.operation.duration{mcp.method.name=tools/call}": {Kind: "histogram", Unit: "s", Value: 3600.03, Count: 2,
			Bounds: operationBuckets, Buckets: slices.Concat([]uint64{0, 0, 1}, make([]uint64, 11), []uint64{1})},
		"mcp.client.operation.duration{error.type=tool_error,mcp.method.name=tools/call}": {Kind: "histogram", Unit: "s", Value: .001, Count: 1,
			Bounds: operationBuckets, Buckets: append([]uint64{1}, make([]uint64, 14)...)},
	} {
		if !reflect.DeepEqual(got[name], want) {
			t.Errorf("%s: %+v, want %+v", name, got[name], want)
		}
	}
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		found := 0
		for name := range got {
			if strings.HasPrefix(name, conventional(f.GetName())+"{") {
				found++
			}
		}
		if found != len(f.GetMetric()) {
			t.Errorf("%s has %d series, and %d were sent", f.GetName(), len(f.GetMetric()), found)
		}
	}
	if c.Header().Get("X-Key") != "k" {
		t.Errorf("headers %v", c.Header())
	}
}

// answering answers by itself, and notes when.
type answering struct {
	began  time.Time
	times  []time.Duration
	answer func(n int) (status int, retryAfter string) // status 0 hangs
}

func (c *answering) RoundTrip(r *http.Request) (*http.Response, error) {
	status, wait := c.answer(len(c.times))
	c.times = append(c.times, time.Since(c.began))
	if status == 0 {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Header: http.Header{"Retry-After": {wait}}, Body: io.NopCloser(strings.NewReader("{}"))}, nil
}

// TestExportTimes: one export an interval, none before the time that the endpoint names, one at the end, and one line of
// the log for each change.
func TestExportTimes(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		name   string
		answer func(n int) (int, string)
		want   []time.Duration
		log    []string
	}{
		{"taken", func(int) (int, string) { return 200, "" }, []time.Duration{60 * s, 120 * s, 180 * s, 200 * s}, nil},
		{"busy", func(n int) (int, string) { return []int{503, 200, 200}[n], "70" }, []time.Duration{60 * s, 180 * s, 200 * s}, []string{"lost", "again"}},
		{"refused", func(int) (int, string) { return 404, "" }, []time.Duration{60 * s, 120 * s, 180 * s, 200 * s}, []string{"lost"}},
		{"silent", func(int) (int, string) { return 0, "" }, []time.Duration{60 * s, 120 * s, 180 * s, 200 * s}, []string{"lost"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log strings.Builder
				e := &answering{began: time.Now(), answer: c.answer}
				x := NewMetrics(Totals{}).NewExporter(ExportOptions{Transport: e, Logger: slog.New(slog.NewTextHandler(&log, nil))})
				if err := x.Configure(otlphttp.Endpoint{URL: "https://a.example/v1/metrics", Timeout: 5 * s}, time.Minute); err != nil {
					t.Fatal(err)
				}
				time.Sleep(200 * s)
				ctx, cancel := context.WithTimeout(t.Context(), s)
				defer cancel()
				x.Close(ctx)
				x.Close(ctx)
				if took := time.Since(e.began); took > 201*s || !slices.Equal(e.times, c.want) {
					t.Errorf("exports at %v, the end after %v", e.times, took)
				}
				var said []string
				for line := range strings.Lines(log.String()) {
					for _, word := range []string{"lost", "again"} {
						if strings.Contains(line, word) {
							said = append(said, word)
						}
					}
				}
				if !slices.Equal(said, c.log) {
					t.Errorf("the log: %s", log.String())
				}
			})
		})
	}
}

// TestExportChanges: another endpoint gets the figures from then on, and a slow one does not hold that up.
func TestExportChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &answering{began: time.Now(), answer: func(int) (int, string) { return 0, "" }}
		x := NewMetrics(Totals{}).NewExporter(ExportOptions{Transport: e})
		to := otlphttp.Endpoint{URL: "https://a.example/v1/metrics", Timeout: time.Hour}
		if err := errors.Join(x.Configure(to, time.Minute), x.Configure(to, time.Minute)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(90 * time.Second) // an export hangs
		if err := x.Configure(otlphttp.Endpoint{}, 0); err != nil || time.Since(e.began) != 90*time.Second {
			t.Errorf("%v after %v", err, time.Since(e.began))
		}
		time.Sleep(time.Hour)
		x.Close(t.Context())
		if len(e.times) != 1 {
			t.Errorf("exports at %v", e.times)
		}
		if err := x.Configure(to, time.Minute); err != nil || x.running != nil {
			t.Errorf("a closed Exporter sends: %v", err)
		}
	})
}
