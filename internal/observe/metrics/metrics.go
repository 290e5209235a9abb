package metrics

import (
	"cmp"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/weir-mcp/weir/internal/observe/telemetry"
)

// maxLabels bounds the distinct values of labels from outside (tool ids, names of upstreams).
// Further values are counted as "other", so that a changing catalog cannot exhaust the memory.
const maxLabels = 1000

const otherLabel = "other"

// Totals are sums and states that are read for each scrape. A function may be nil; all must be safe
// for concurrent use.
type Totals struct {
	// Version is that of the program.
	Version string
	// Tokens returns the tokens that all agents have read, and would have read without the gateway.
	Tokens func() (read, raw int64)
	// Uncounted returns the number of results whose tokens were not counted because there were too
	// many.
	Uncounted func() int64
	// Artifacts returns the number and size of the stored artifacts.
	Artifacts func() (count int, bytes int64)
	// Upstreams returns the figures of each upstream by name.
	Upstreams func() map[string]UpstreamFigures
	// Sessions returns how many sessions are open.
	Sessions func() int
	// HTTPSessions returns how many sessions of clients before 2026-07-28 live at endpoints, and how many ended early
	// because http.max_sessions was reached; nil has none.
	HTTPSessions func() (living, replaced int64)
	// Tools returns how many tools can be called.
	Tools func() int
	// Spans returns what became of the spans of traces.
	Spans func() telemetry.SpanFigures
	// Stream returns how many events the stream of the store has taken, and how many were lost; nil without one.
	Stream func() (sent, lost int64)
	// Syslog returns how many records of the audit log the collector has got, and how many were dropped; nil without one.
	Syslog func() (sent, dropped int64)
	// Cluster returns the figures of this node in its cluster; nil for a gateway of one node.
	Cluster func() ClusterFigures
}

// ClusterFigures are of one node of a cluster.
type ClusterFigures struct {
	Nodes     map[string]int // by state
	Forwarded int64          // requests that were sent to the node of their session
	Adopted   int64          // sessions of other nodes that this one took over
	Broken    int64          // requests that were at a node when it ended
	Fenced    int64          // how often the store did not acknowledge this node in time
	Renewals  int64          // writes of this node's document that the store acknowledged
	Renewing  time.Duration  // how long these took in all
	Unshared  int64          // listings that are too large for other nodes
	Apart     bool           // the store does not know this node
	Silence   time.Duration  // for how long the store has not answered; 0 while it does
}

// UpstreamFigures are of one upstream.
type UpstreamFigures struct {
	State    string
	Restarts int64 // after a connection was lost
}

// Metrics counts events for Prometheus. Several can live in one process. All methods are safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry
	began    time.Time
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
	operations       operations
}

// NewMetrics returns a Metrics that also reports totals, the program's version, and figures of the
// Go runtime and the process.
func NewMetrics(totals Totals) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		began:    time.Now(),
		calls:    counters("calls_total", "Calls of tools, through tool_execute and /mcps/NAME/mcp, by tool without its version or hash, upstream and how they ended (ok, tool_error, cache_hit, dry_run, unread for an answer that was handed on byte by byte, or the error's code).", "outcome", "tool", "upstream"),
		errors:   counters("errors_total", "Errors that the gateway answered, by meta-tool and code.", "code", "meta_tool"),
		duration: times("request_duration_seconds", "Time from a request of a meta-tool to its answer.", "meta_tool", .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60),
		attempts: counters("upstream_attempts_total", "How often upstreams were asked to run a tool, retries included.", "upstream"),
		hits:     prometheus.NewCounter(prometheus.CounterOpts{Name: "weir_cache_hits_total", Help: "Calls answered from the response cache."}),
		dryRuns:  prometheus.NewCounter(prometheus.CounterOpts{Name: "weir_dry_runs_total", Help: "Calls that were checked and not run."}),
		breaches: counters("quota_breaches_total", "Calls refused for a quota, by meta-tool and window.", "meta_tool", "window"),
		refresh:  counters("catalog_refreshes_total", "Changes of the catalog, by upstream where it is one.", "upstream"),
		inFlight: gauges("upstream_requests_in_flight", "Requests that an upstream has not answered yet.", "upstream"),
		took:     times("upstream_request_duration_seconds", "Time from a request to an upstream to its answer, time to start it included.", "upstream", .005, .025, .1, .25, .5, 1, 2.5, 5, 10, 30, 60),

		operations: newOperations(),
	}
	build := gauges("build_info", "1, with the versions of weir and of Go.", "goversion", "version")
	build.WithLabelValues(runtime.Version(), totals.Version).Set(1)
	m.registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collector{&totals, &m.upstreams}, build,
		m.calls, m.errors, m.duration, m.attempts, m.hits, m.dryRuns, m.breaches, m.refresh, m.inFlight, m.took, m.operations.server, m.operations.client,
	)
	return m
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "weir_" + name, Help: help}, labels)
}

func gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "weir_" + name, Help: help}, labels)
}

func times(name, help, label string, buckets ...float64) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "weir_" + name, Help: help, Buckets: buckets}, []string{label})
}

// Observe counts an event.
func (m *Metrics) Observe(e telemetry.Event) {
	if e.Name == telemetry.CatalogRefresh {
		upstream := ""
		if e.Upstream != "" {
			upstream = m.upstreams.bound(e.Upstream)
		}
		m.refresh.WithLabelValues(upstream).Inc()
		return
	}
	if e.Name == telemetry.PassthroughCompleted || e.Name == telemetry.PassthroughFailed {
		m.passed(&e)
		return
	}
	if e.MetaTool == "" {
		return
	}
	m.duration.WithLabelValues(e.MetaTool).Observe(e.Duration.Seconds())
	if e.Code != "" {
		m.errors.WithLabelValues(e.Code, e.MetaTool).Inc()
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
	case e.Name == telemetry.ExecuteCacheHit:
		outcome = "cache_hit"
		m.hits.Inc()
	case e.Name == telemetry.ExecuteDryRun:
		outcome = "dry_run"
		m.dryRuns.Inc()
	case e.IsError:
		outcome = "tool_error"
	}
	tool, upstream := "", ""
	if e.ToolID != "" { // only tools of the catalog, not arbitrary text of an agent
		tool, upstream = m.tools.bound(withoutHash(e.ToolID)), m.upstreams.bound(e.Upstream)
	}
	m.calls.WithLabelValues(outcome, tool, upstream).Inc()
	if e.Attempts > 0 {
		m.attempts.WithLabelValues(upstream).Add(float64(e.Attempts))
	}
}

// passed counts a tool call that used no meta-tool.
func (m *Metrics) passed(e *telemetry.Event) {
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
	m.calls.WithLabelValues(outcome, tool, m.upstreams.bound(e.Upstream)).Inc()
}

// withoutHash returns a tool_id without version and hash, so that a tool's series continues when
// its schema changes.
func withoutHash(id string) string {
	if i := strings.IndexAny(id, "@#"); i > 0 {
		return id[:i]
	}
	return id
}

// RequestStarted counts a request to an upstream.
func (m *Metrics) RequestStarted(upstream string) {
	m.inFlight.WithLabelValues(m.upstreams.bound(upstream)).Inc()
}

// RequestEnded counts a request for which RequestStarted was called.
func (m *Metrics) RequestEnded(upstream string, took time.Duration) {
	label := m.upstreams.bound(upstream)
	m.inFlight.WithLabelValues(label).Add(-1)
	m.took.WithLabelValues(label).Observe(took.Seconds())
}

// maxScrapes bounds concurrent scrapes.
const maxScrapes = 4

// Handler serves the metrics in the text format of Prometheus.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes, ErrorHandling: promhttp.ContinueOnError})
}

// labels is a bounded set of label values.
type labels struct {
	most int // 0 means maxLabels

	mu   sync.RWMutex // guards below
	seen map[string]struct{}
}

// bound returns value as UTF-8, or "other" if there are too many distinct values.
func (l *labels) bound(value string) string {
	value = strings.ToValidUTF8(value, "\uFFFD")
	l.mu.RLock()
	_, known := l.seen[value]
	full := len(l.seen) >= cmp.Or(l.most, maxLabels)
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
	if _, known = l.seen[value]; !known && len(l.seen) >= cmp.Or(l.most, maxLabels) {
		return otherLabel
	}
	l.seen[value] = struct{}{}
	return value
}

// scrape reads the totals for each scrape.
type collector struct {
	*Totals
	upstreams *labels
}

// Describe implements prometheus.Collector. Which totals there are depends on the gateway.
func (s collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (s collector) Collect(to chan<- prometheus.Metric) {
	t := s.Totals
	const counter, gauge = prometheus.CounterValue, prometheus.GaugeValue
	add := func(of prometheus.ValueType, name, help string, n float64) {
		to <- prometheus.MustNewConstMetric(prometheus.NewDesc("weir_"+name, help, nil, nil), of, n)
	}
	if t.Tokens != nil {
		read, raw := t.Tokens()
		add(counter, "tokens_read_total", "Tokens (cl100k_base) that agents read.", float64(read))
		add(counter, "tokens_raw_total", "Tokens (cl100k_base) that agents would have read without the gateway.", float64(raw))
	}
	if t.Uncounted != nil {
		add(counter, "tokens_uncounted_results_total", "Results whose tokens were not counted, as too many were waiting.", float64(t.Uncounted()))
	}
	if t.Artifacts != nil {
		n, bytes := t.Artifacts()
		add(gauge, "artifacts", "Results that are kept.", float64(n))
		add(gauge, "artifacts_bytes", "Bytes of the results that are kept.", float64(bytes))
	}
	if t.Sessions != nil {
		add(gauge, "sessions", "Sessions that used the gateway and are open.", float64(t.Sessions()))
	}
	if t.HTTPSessions != nil {
		living, replaced := t.HTTPSessions()
		add(gauge, "http_sessions", "Sessions of clients before 2026-07-28 that live at HTTP endpoints.", float64(living))
		add(counter, "http_sessions_replaced_total", "Sessions that ended early because a new one needed their place (http.max_sessions).", float64(replaced))
	}
	if t.Tools != nil {
		add(gauge, "tools", "Tools that can be called.", float64(t.Tools()))
	}
	if t.Spans != nil {
		spans, figures := counters("spans_total", "Spans of sampled traces, by what became of them: sent, dropped for want of room, failed to be sent, rejected by the collector.", "outcome"), t.Spans()
		spans.WithLabelValues("sent").Add(float64(figures.Sent))
		spans.WithLabelValues("dropped").Add(float64(figures.Dropped))
		spans.WithLabelValues("failed").Add(float64(figures.Failed))
		spans.WithLabelValues("rejected").Add(float64(figures.Rejected))
		spans.Collect(to)
	}
	if t.Stream != nil {
		events := counters("stream_events_total", "Events for the stream of the store (events.stream), by what became of them: sent, lost for want of room or of a confirmation.", "outcome")
		sent, lost := t.Stream()
		events.WithLabelValues("sent").Add(float64(sent))
		events.WithLabelValues("lost").Add(float64(lost))
		events.Collect(to)
	}
	if t.Syslog != nil {
		records := counters("audit_syslog_records_total", "Records of the audit log for its collector (audit.syslog), by what became of them: sent, dropped for want of room.", "outcome")
		sent, dropped := t.Syslog()
		records.WithLabelValues("sent").Add(float64(sent))
		records.WithLabelValues("dropped").Add(float64(dropped))
		records.Collect(to)
	}
	if t.Cluster != nil {
		c := t.Cluster()
		nodes := gauges("cluster_nodes", "Nodes of the cluster that this one sees, by state.", "state")
		for state, n := range c.Nodes {
			nodes.WithLabelValues(state).Set(float64(n))
		}
		nodes.Collect(to)
		apart := 0.0
		if c.Apart {
			apart = 1
		}
		add(gauge, "cluster_apart", "1 while the store does not know this node, which then serves only what needs nothing of the store.", apart)
		add(gauge, "cluster_store_silent_seconds", "For how long the store has not acknowledged this node, 0 while it answers.", c.Silence.Seconds())
		add(counter, "cluster_forwarded_requests_total", "Requests that this node sent to the node of their session.", float64(c.Forwarded))
		add(counter, "cluster_adopted_sessions_total", "Sessions of other nodes that this one took over.", float64(c.Adopted))
		add(counter, "cluster_broken_requests_total", "Requests that were at another node when it ended (node_gone).", float64(c.Broken))
		add(counter, "cluster_fenced_total", "How often this node gave up what it owned, because the store had not acknowledged it for 15 seconds.", float64(c.Fenced))
		add(counter, "cluster_store_writes_total", "Renewals of this node that the store acknowledged.", float64(c.Renewals))
		add(counter, "cluster_store_write_seconds_total", "Time that these renewals took.", c.Renewing.Seconds())
		add(counter, "cluster_listings_left_out_total", "Listings that other nodes do not get, because they have over 512 KB when compressed.", float64(c.Unshared))
	}
	if t.Upstreams == nil {
		return
	}
	state := gauges("upstream_state", "1 for the state an upstream is in.", "state", "upstream")
	restarts := counters("upstream_restarts_total", "How often an upstream was started again after its connection was lost.", "upstream")
	for name, f := range t.Upstreams() {
		label := s.upstreams.bound(name)
		state.WithLabelValues(f.State, label).Inc()
		restarts.WithLabelValues(label).Add(float64(f.Restarts))
	}
	state.Collect(to)
	restarts.Collect(to)
}
