package metrics

import (
	"math"
	"strconv"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/observe/otlphttp"
)

// conventions are the names that OpenTelemetry's conventions have for metrics and labels, where these are not those of
// the page for Prometheus.
var conventions = map[string]string{
	"mcp_server_operation_duration_seconds": "mcp.server.operation.duration",
	"mcp_client_operation_duration_seconds": "mcp.client.operation.duration",
	"mcp_method_name":                       "mcp.method.name",
	"error_type":                            "error.type",
}

func conventional(name string) string {
	if known, ok := conventions[name]; ok {
		return known
	}
	return name
}

// unitOf returns the unit of a metric as UCUM has it, "" for numbers of things.
func unitOf(name string) string {
	switch name = strings.TrimSuffix(name, "_total"); {
	case strings.HasSuffix(name, "_seconds"):
		return "s"
	case strings.HasSuffix(name, "_bytes"):
		return "By"
	}
	return ""
}

// encoder writes metrics as OTLP has them in JSON: 64-bit numbers as texts.
type encoder struct {
	out    []byte
	points int
	began  time.Time // since when sums count, where they do not say it
	now    string
}

// nano returns a time as OTLP has it.
func nano(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }

// family appends a metric with its data points.
func (e *encoder) family(f *dto.MetricFamily) {
	if len(f.GetMetric()) == 0 {
		return
	}
	e.out = rawjson.AppendString(append(e.out, `{"name":`...), conventional(f.GetName()))
	e.out = rawjson.AppendString(append(e.out, `,"description":`...), f.GetHelp())
	if unit := unitOf(f.GetName()); unit != "" {
		e.out = rawjson.AppendString(append(e.out, `,"unit":`...), unit)
	}
	kind, end := `,"gauge":{"dataPoints":[`, `]}}`
	switch f.GetType() {
	case dto.MetricType_COUNTER:
		kind, end = `,"sum":{"dataPoints":[`, `],"aggregationTemporality":2,"isMonotonic":true}}`
	case dto.MetricType_HISTOGRAM:
		kind, end = `,"histogram":{"dataPoints":[`, `],"aggregationTemporality":2}}`
	case dto.MetricType_SUMMARY:
		kind = `,"summary":{"dataPoints":[`
	}
	e.out = append(e.out, kind...)
	for i, m := range f.GetMetric() {
		if i > 0 {
			e.out = append(e.out, ',')
		}
		e.point(m)
	}
	e.out = append(e.out, end...)
}

// point appends one data point.
func (e *encoder) point(m *dto.Metric) {
	e.points++
	e.out = append(e.out, `{"attributes":[`...)
	first := true
	for _, label := range m.GetLabel() {
		if label.GetValue() == "" { // none, for Prometheus
			continue
		}
		if !first {
			e.out = append(e.out, ',')
		}
		first = false
		e.out = otlphttp.AppendAttribute(e.out, conventional(label.GetName()), label.GetValue())
	}
	e.out = append(append(append(e.out, `],"timeUnixNano":"`...), e.now...), '"')
	switch {
	case m.Counter != nil:
		e.since(createdOr(m.Counter.GetCreatedTimestamp(), e.began))
		e.number(`,"asDouble":`, m.Counter.GetValue())
	case m.Gauge != nil:
		e.number(`,"asDouble":`, m.Gauge.GetValue())
	case m.Untyped != nil:
		e.number(`,"asDouble":`, m.Untyped.GetValue())
	case m.Histogram != nil:
		e.histogram(m.Histogram)
	case m.Summary != nil:
		e.summary(m.Summary)
	}
	e.out = append(e.out, '}')
}

// since appends the time from which a sum counts.
func (e *encoder) since(began time.Time) {
	e.out = append(append(append(e.out, `,"startTimeUnixNano":"`...), nano(began)...), '"')
}

// createdOr returns a time of the figures, or another one if they have none.
func createdOr[T any, P interface {
	*T
	AsTime() time.Time
}](created P, or time.Time) time.Time {
	if created == nil {
		return or
	}
	return created.AsTime()
}

// histogram appends the members of a histogram: each bucket counts what is in it, and the last one what is above.
func (e *encoder) histogram(h *dto.Histogram) {
	e.since(createdOr(h.GetCreatedTimestamp(), e.began))
	e.count(`,"count":`, h.GetSampleCount())
	e.number(`,"sum":`, h.GetSampleSum())
	bounds := h.GetBucket()
	if n := len(bounds); n > 0 && math.IsInf(bounds[n-1].GetUpperBound(), 1) {
		bounds = bounds[:n-1]
	}
	e.out = append(e.out, `,"bucketCounts":[`...)
	below := uint64(0)
	for _, b := range bounds {
		e.count("", b.GetCumulativeCount()-below)
		e.out = append(e.out, ',')
		below = b.GetCumulativeCount()
	}
	e.count("", h.GetSampleCount()-below)
	e.out = append(e.out, `],"explicitBounds":[`...)
	for i, b := range bounds {
		separator := ","
		if i == 0 {
			separator = ""
		}
		e.number(separator, b.GetUpperBound())
	}
	e.out = append(e.out, ']')
}

func (e *encoder) summary(s *dto.Summary) {
	e.since(createdOr(s.GetCreatedTimestamp(), e.began))
	e.count(`,"count":`, s.GetSampleCount())
	e.number(`,"sum":`, s.GetSampleSum())
	e.out = append(e.out, `,"quantileValues":[`...)
	for i, q := range s.GetQuantile() {
		if i > 0 {
			e.out = append(e.out, ',')
		}
		e.number(`{"quantile":`, q.GetQuantile())
		e.number(`,"value":`, q.GetValue())
		e.out = append(e.out, '}')
	}
	e.out = append(e.out, ']')
}

// count appends a 64-bit number behind a text.
func (e *encoder) count(before string, n uint64) {
	e.out = append(strconv.AppendUint(append(append(e.out, before...), '"'), n, 10), '"')
}

// number appends a floating-point number behind a text. JSON has texts for those that are no numbers.
func (e *encoder) number(before string, x float64) {
	e.out = append(e.out, before...)
	switch {
	case math.IsNaN(x):
		e.out = append(e.out, `"NaN"`...)
	case math.IsInf(x, 1):
		e.out = append(e.out, `"Infinity"`...)
	case math.IsInf(x, -1):
		e.out = append(e.out, `"-Infinity"`...)
	default:
		e.out = strconv.AppendFloat(e.out, x, 'g', -1, 64)
	}
}
