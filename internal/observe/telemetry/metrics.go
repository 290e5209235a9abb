package telemetry

import (
	"cmp"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"time"
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
	Spans func() SpanFigures
	// Stream returns how many events the stream of the store has taken, and how many were lost; nil without one.
	Stream func() (sent, lost int64)
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
	totals   Totals
	families []*family
	calls    *family
	errors   *family
	duration *family
	attempts *family
	hits     *family
	dryRuns  *family
	breaches *family
	refresh  *family
	inFlight *family
	took     *family

	tools, upstreams labels
	operations       operations
}

// NewMetrics returns a Metrics that also reports totals, the program's version, and figures of the
// Go runtime and the process.
func NewMetrics(totals Totals) *Metrics {
	m := &Metrics{totals: totals, operations: newOperations()}
	m.families = append(m.families, m.operations.server, m.operations.client)
	add := func(k kind, name, help string, labels ...string) *family {
		f := &family{name: "weir_" + name, help: help, kind: k, labels: labels}
		m.families = append(m.families, f)
		if len(labels) == 0 {
			f.add(0) // visible from the start
		}
		return f
	}
	m.calls = add(counter, "calls_total", "Calls of tools, through tool_execute and /mcps/NAME/mcp, by tool without its version or hash, upstream and how they ended (ok, tool_error, cache_hit, dry_run, unread for an answer that was handed on byte by byte, or the error's code).", "outcome", "tool", "upstream")
	m.errors = add(counter, "errors_total", "Errors that the gateway answered, by meta-tool and code.", "code", "meta_tool")
	m.duration = add(histogram, "request_duration_seconds", "Time from a request of a meta-tool to its answer.", "meta_tool")
	m.duration.buckets = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
	m.attempts = add(counter, "upstream_attempts_total", "How often upstreams were asked to run a tool, retries included.", "upstream")
	m.hits = add(counter, "cache_hits_total", "Calls answered from the response cache.")
	m.dryRuns = add(counter, "dry_runs_total", "Calls that were checked and not run.")
	m.breaches = add(counter, "quota_breaches_total", "Calls refused for a quota, by meta-tool and window.", "meta_tool", "window")
	m.refresh = add(counter, "catalog_refreshes_total", "Changes of the catalog, by upstream where it is one.", "upstream")
	m.inFlight = add(gauge, "upstream_requests_in_flight", "Requests that an upstream has not answered yet.", "upstream")
	m.took = add(histogram, "upstream_request_duration_seconds", "Time from a request to an upstream to its answer, time to start it included.", "upstream")
	m.took.buckets = []float64{.005, .025, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
	add(gauge, "build_info", "1, with the versions of weir and of Go.", "goversion", "version").set(1, runtime.Version(), totals.Version)
	return m
}

// Observe counts an event.
func (m *Metrics) Observe(e Event) {
	if e.Name == CatalogRefresh {
		upstream := ""
		if e.Upstream != "" {
			upstream = m.upstreams.bound(e.Upstream)
		}
		m.refresh.add(1, upstream)
		return
	}
	if e.Name == PassthroughCompleted || e.Name == PassthroughFailed {
		m.passed(&e)
		return
	}
	if e.MetaTool == "" {
		return
	}
	m.duration.observe(e.Duration.Seconds(), e.MetaTool)
	if e.Code != "" {
		m.errors.add(1, e.Code, e.MetaTool)
	}
	if e.Scope != "" {
		window := "minute"
		if strings.HasSuffix(e.Scope, "/session") {
			window = "session"
		}
		m.breaches.add(1, e.MetaTool, window)
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
		m.hits.add(1)
	case e.Name == ExecuteDryRun:
		outcome = "dry_run"
		m.dryRuns.add(1)
	case e.IsError:
		outcome = "tool_error"
	}
	tool, upstream := "", ""
	if e.ToolID != "" { // only tools of the catalog, not arbitrary text of an agent
		tool, upstream = m.tools.bound(withoutHash(e.ToolID)), m.upstreams.bound(e.Upstream)
	}
	m.calls.add(1, outcome, tool, upstream)
	if e.Attempts > 0 {
		m.attempts.add(float64(e.Attempts), upstream)
	}
}

// passed counts a tool call that used no meta-tool.
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
	m.calls.add(1, outcome, tool, m.upstreams.bound(e.Upstream))
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
	m.inFlight.add(1, m.upstreams.bound(upstream))
}

// RequestEnded counts a request for which RequestStarted was called.
func (m *Metrics) RequestEnded(upstream string, took time.Duration) {
	label := m.upstreams.bound(upstream)
	m.inFlight.add(-1, label)
	m.took.observe(took.Seconds(), label)
}

// maxScrapes bounds concurrent scrapes.
const maxScrapes = 4

// Handler serves the metrics in the text format of Prometheus.
func (m *Metrics) Handler() http.Handler {
	free := make(chan struct{}, maxScrapes)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case free <- struct{}{}:
			defer func() { <-free }()
			serve(w, r, m.page())
		default:
			http.Error(w, "four others read the metrics now; try again later", http.StatusServiceUnavailable)
		}
	})
}

// page returns all metrics, those of the runtime and the process first.
func (m *Metrics) page() []byte {
	e := &exposition{}
	writeRuntime(e)
	writeProcess(e)
	families := append(m.totals.families(&m.upstreams), m.families...)
	sortFamilies(families)
	for _, f := range families {
		f.write(e)
	}
	return e.out
}

// labels is a bounded set of label values.
type labels struct {
	most int // 0 means maxLabels

	mu   sync.RWMutex // guards below
	seen map[string]struct{}
}

// bound returns value, or "other" if there are too many distinct values.
func (l *labels) bound(value string) string {
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

// families reads the totals.
func (t *Totals) families(upstreams *labels) (all []*family) {
	add := func(k kind, name, help string, n float64) {
		f := &family{name: "weir_" + name, help: help, kind: k}
		f.set(n)
		all = append(all, f)
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
		all = append(all, t.Spans().family())
	}
	if t.Stream != nil {
		f := &family{name: "weir_stream_events_total", help: "Events for the stream of the store (events.stream), by what became of them: sent, lost for want of room or of a confirmation.", kind: counter, labels: []string{"outcome"}}
		sent, lost := t.Stream()
		f.add(float64(sent), "sent")
		f.add(float64(lost), "lost")
		all = append(all, f)
	}
	if t.Cluster != nil {
		c := t.Cluster()
		nodes := &family{name: "weir_cluster_nodes", help: "Nodes of the cluster that this one sees, by state.", kind: gauge, labels: []string{"state"}}
		for state, n := range c.Nodes {
			nodes.add(float64(n), state)
		}
		all = append(all, nodes)
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
		return all
	}
	state := &family{name: "weir_upstream_state", help: "1 for the state an upstream is in.", kind: gauge, labels: []string{"state", "upstream"}}
	restarts := &family{name: "weir_upstream_restarts_total", help: "How often an upstream was started again after its connection was lost.", kind: counter, labels: []string{"upstream"}}
	for name, f := range t.Upstreams() {
		label := upstreams.bound(name)
		state.add(1, f.State, label)
		restarts.add(float64(f.Restarts), label)
	}
	return append(all, state, restarts)
}
