package telemetry

import (
	"errors"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// maxLabels bounds the different values of a label that comes from outside
// (tool ids, names of upstreams). What is new beyond it is counted under
// "other", so that a catalog that changes all day does not fill the memory.
const maxLabels = 1000

const otherLabel = "other"

// Totals are running sums and states that are read when somebody asks for the
// metrics. A function may be nil; all must be safe for concurrent use.
type Totals struct {
	// Version is that of the program.
	Version string
	// Tokens returns how many tokens all agents read, and would have read
	// without the gateway, in cl100k_base tokens.
	Tokens func() (read, raw int64)
	// Uncounted returns how many results were too many to be counted.
	Uncounted func() int64
	// Artifacts returns what is kept now.
	Artifacts func() (count int, bytes int64)
	// Upstreams returns the figures of each upstream by name.
	Upstreams func() map[string]UpstreamFigures
	// Sessions returns how many sessions are open.
	Sessions func() int
	// Tools returns how many tools can be called.
	Tools func() int
}

// UpstreamFigures are of one upstream.
type UpstreamFigures struct {
	State    string
	Restarts int64 // after a connection was lost
}

// Metrics counts events for Prometheus. It has a registry of its own, so
// several can live in one process. All methods are safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry
	calls    *prometheus.CounterVec
	errors   *prometheus.CounterVec
	duration *prometheus.HistogramVec
	attempts *prometheus.CounterVec
	hits     prometheus.Counter
	dryRuns  prometheus.Counter
	breaches *prometheus.CounterVec
	refresh  *prometheus.CounterVec
	inFlight *prometheus.GaugeVec
	took     *prometheus.HistogramVec

	tools, upstreams labels
}

// NewMetrics returns a Metrics that also tells totals, the version of the program, and
// the Go runtime's and the process's figures.
func NewMetrics(totals Totals) *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "weir", Name: name, Help: help}, labels)
	}
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		calls:    counter("calls_total", "Calls of tools, through tool_execute and /mcps/NAME/mcp, by tool without its version or hash, upstream and how they ended (ok, tool_error, cache_hit, dry_run, unread for an answer that was handed on byte by byte, or the error's code).", "tool", "upstream", "outcome"),
		errors:   counter("errors_total", "Errors that the gateway answered, by meta-tool and code.", "meta_tool", "code"),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "weir", Name: "request_duration_seconds",
			Help: "Time from a request of a meta-tool to its answer.", Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}}, []string{"meta_tool"}),
		attempts: counter("upstream_attempts_total", "How often upstreams were asked to run a tool, retries included.", "upstream"),
		hits:     prometheus.NewCounter(prometheus.CounterOpts{Namespace: "weir", Name: "cache_hits_total", Help: "Calls answered from the response cache."}),
		dryRuns:  prometheus.NewCounter(prometheus.CounterOpts{Namespace: "weir", Name: "dry_runs_total", Help: "Calls that were checked and not run."}),
		breaches: counter("quota_breaches_total", "Calls refused for a quota, by meta-tool and window.", "meta_tool", "window"),
		refresh:  counter("catalog_refreshes_total", "Changes of the catalog, by upstream where it is one.", "upstream"),
		inFlight: prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "weir", Name: "upstream_requests_in_flight", Help: "Requests that an upstream has not answered yet."}, []string{"upstream"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "weir", Name: "upstream_request_duration_seconds",
			Help: "Time from a request to an upstream to its answer, time to start it included.", Buckets: []float64{.005, .025, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}}, []string{"upstream"}),
	}
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "weir", Name: "build_info", Help: "1, with the versions of weir and of Go."}, []string{"version", "goversion"})
	build.WithLabelValues(totals.Version, runtime.Version()).Set(1)
	m.registry.MustRegister(build, m.inFlight, m.took, m.calls, m.errors, m.duration, m.attempts, m.hits, m.dryRuns, m.breaches, m.refresh,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), &totalsCollector{totals: totals, upstreams: &m.upstreams})
	return m
}

// Observe counts an event.
func (m *Metrics) Observe(e Event) {
	if e.Name == CatalogRefresh {
		upstream := ""
		if e.Upstream != "" {
			upstream = m.upstreams.bound(e.Upstream)
		}
		m.refresh.WithLabelValues(upstream).Inc()
		return
	}
	if e.Name == PassthroughCompleted || e.Name == PassthroughFailed {
		m.passed(&e)
		return
	}
	if e.MetaTool == "" {
		return
	}
	m.duration.WithLabelValues(e.MetaTool).Observe(e.Duration.Seconds())
	if e.Code != "" {
		m.errors.WithLabelValues(e.MetaTool, e.Code).Inc()
	}
	if e.Scope != "" {
		window := "minute"
		if strings.HasSuffix(e.Scope, "/session") {
			window = "session"
		}
		m.breaches.WithLabelValues(e.MetaTool, window).Inc()
	}
	if !strings.HasPrefix(e.Name, "execute.") {
		return
	}
	outcome := "ok"
	switch {
	case e.Code != "":
		outcome = e.Code
	case e.Name == ExecuteCacheHit:
		outcome = "cache_hit"
		m.hits.Inc()
	case e.Name == ExecuteDryRun:
		outcome = "dry_run"
		m.dryRuns.Inc()
	case e.IsError:
		outcome = "tool_error"
	}
	tool, upstream := "", ""
	if e.ToolID != "" { // a tool of the catalog, not any text that an agent sent
		tool, upstream = m.tools.bound(withoutHash(e.ToolID)), m.upstreams.bound(e.Upstream)
	}
	m.calls.WithLabelValues(tool, upstream, outcome).Inc()
	if e.Attempts > 0 {
		m.attempts.WithLabelValues(upstream).Add(float64(e.Attempts))
	}
}

// passed counts a call of a tool that passed no meta-tool.
func (m *Metrics) passed(e *Event) {
	if e.Method != "tools/call" {
		return
	}
	outcome := "ok"
	switch {
	case e.Code != "":
		outcome = e.Code
	case e.Unread:
		outcome = "unread"
	case e.IsError:
		outcome = "tool_error"
	}
	tool := ""
	if e.ToolID != "" {
		tool = m.tools.bound(withoutHash(e.ToolID))
	}
	m.calls.WithLabelValues(tool, m.upstreams.bound(e.Upstream), outcome).Inc()
}

// withoutHash is a tool_id without its version and hash, so that the series of a tool
// goes on where its schema changes.
func withoutHash(id string) string {
	if i := strings.IndexAny(id, "@#"); i > 0 {
		return id[:i]
	}
	return id
}

// RequestStarted counts a request that is on its way to an upstream.
func (m *Metrics) RequestStarted(upstream string) {
	m.inFlight.WithLabelValues(m.upstreams.bound(upstream)).Inc()
}

// RequestEnded counts a request for which RequestStarted was called.
func (m *Metrics) RequestEnded(upstream string, took time.Duration) {
	label := m.upstreams.bound(upstream)
	m.inFlight.WithLabelValues(label).Dec()
	m.took.WithLabelValues(label).Observe(took.Seconds())
}

// Handler serves the metrics in the formats of Prometheus.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Timeout: 10 * time.Second, MaxRequestsInFlight: 4})
}

// ErrTaken is what Register wraps where a collector of that name is there.
var ErrTaken = errors.New("the metric is registered already")

// Register adds a collector of somebody else's.
func (m *Metrics) Register(c prometheus.Collector) error {
	if err := m.registry.Register(c); err != nil {
		var taken prometheus.AlreadyRegisteredError
		if errors.As(err, &taken) {
			return errors.Join(ErrTaken, err)
		}
		return err
	}
	return nil
}

// labels is a bounded set of label values.
type labels struct {
	mu   sync.RWMutex // guards below
	seen map[string]struct{}
}

// bound returns value, or "other" where there are too many different ones.
func (l *labels) bound(value string) string {
	l.mu.RLock()
	_, known := l.seen[value]
	full := len(l.seen) >= maxLabels
	l.mu.RUnlock()
	switch {
	case known:
		return value
	case full:
		return otherLabel
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen == nil {
		l.seen = make(map[string]struct{})
	}
	if _, known = l.seen[value]; !known && len(l.seen) >= maxLabels {
		return otherLabel
	}
	l.seen[value] = struct{}{}
	return value
}

// totalsCollector reads Totals when it is asked.
type totalsCollector struct {
	totals    Totals
	upstreams *labels
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("weir_"+name, help, labels, nil)
}

// Describe implements prometheus.Collector. It describes nothing: what there is
// is asked for when somebody asks, not when the registry is made.
func (c *totalsCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *totalsCollector) Collect(out chan<- prometheus.Metric) {
	count := func(name, help string, n float64) {
		out <- prometheus.MustNewConstMetric(desc(name, help), prometheus.CounterValue, n)
	}
	gauge := func(name, help string, n float64) {
		out <- prometheus.MustNewConstMetric(desc(name, help), prometheus.GaugeValue, n)
	}
	if c.totals.Tokens != nil {
		read, raw := c.totals.Tokens()
		count("tokens_read_total", "Tokens (cl100k_base) that agents read.", float64(read))
		count("tokens_raw_total", "Tokens (cl100k_base) that agents would have read without the gateway.", float64(raw))
	}
	if c.totals.Uncounted != nil {
		count("tokens_uncounted_results_total", "Results whose tokens were not counted, as too many were waiting.", float64(c.totals.Uncounted()))
	}
	if c.totals.Artifacts != nil {
		n, bytes := c.totals.Artifacts()
		gauge("artifacts", "Results that are kept.", float64(n))
		gauge("artifacts_bytes", "Bytes of the results that are kept.", float64(bytes))
	}
	if c.totals.Sessions != nil {
		gauge("sessions", "Sessions that used the gateway and are open.", float64(c.totals.Sessions()))
	}
	if c.totals.Tools != nil {
		gauge("tools", "Tools that can be called.", float64(c.totals.Tools()))
	}
	if c.totals.Upstreams == nil {
		return
	}
	state := desc("upstream_state", "1 for the state an upstream is in.", "upstream", "state")
	sum, restarts := map[[2]string]float64{}, map[string]float64{}
	for name, f := range c.totals.Upstreams() {
		label := c.upstreams.bound(name)
		sum[[2]string{label, f.State}]++
		restarts[label] += float64(f.Restarts)
	}
	restarted := desc("upstream_restarts_total", "How often an upstream was started again after its connection was lost.", "upstream")
	for label, n := range restarts {
		out <- prometheus.MustNewConstMetric(restarted, prometheus.CounterValue, n, label)
	}
	for key, n := range sum {
		out <- prometheus.MustNewConstMetric(state, prometheus.GaugeValue, n, key[0], key[1])
	}
}
