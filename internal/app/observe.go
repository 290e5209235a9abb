package app

import (
	"cmp"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/observe/metrics"
	"github.com/weir-mcp/weir/internal/observe/telemetry"
	"github.com/weir-mcp/weir/internal/passthrough"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/upstream"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// observer reports router traffic and upstream requests to metrics and events, as the gateway does
// for its own calls.
type observer struct {
	metrics *metrics.Metrics
	tell    func(telemetry.Event)
	judge   *judge
	catalog *Catalog
	tools   *toolNames
}

// toolNames maps the tool names of servers to tool ids. For each catalog, the first call of a server
// makes the map of that server: a change of one list costs nothing for the tools of others.
type toolNames struct{ newest atomic.Pointer[namedTools] }

type namedTools struct {
	of      *catalog.Catalog
	servers sync.Map // from upstream to map[string]string, from the name of a tool to its id
}

// id returns the tool_id of a server's tool, "" if the catalog does not have it.
func (t *toolNames) id(c *catalog.Catalog, upstream, name string) string {
	now := t.newest.Load()
	if now == nil || now.of != c {
		now = &namedTools{of: c}
		t.newest.Store(now)
	}
	ids, known := now.servers.Load(upstream)
	if !known {
		made := map[string]string{}
		for _, e := range c.Of(upstream) {
			if e.Kind == primitive.KindTool {
				made[e.RawName] = e.ID
			}
		}
		ids = made
		now.servers.Store(upstream, made)
	}
	return ids.(map[string]string)[name]
}

var (
	_ passthrough.Observer = observer{}
	_ upstream.Observer    = observer{}
)

// RequestStarted implements passthrough.Observer and upstream.Observer.
func (o observer) RequestStarted(upstream string) { o.metrics.RequestStarted(upstream) }

// RequestEnded implements passthrough.Observer and upstream.Observer.
func (o observer) RequestEnded(upstream string, took time.Duration) {
	o.metrics.RequestEnded(upstream, took)
}

// Called implements passthrough.Observer.
func (o observer) Called(c passthrough.Call) {
	e := telemetry.Event{
		Time: c.Began.Add(c.Took), Name: telemetry.PassthroughCompleted, Principal: c.Principal, Method: c.Method, Upstream: o.judge.upstream(c.Upstream),
		Duration: c.Took, Unread: c.Unread, IsError: c.IsError,
	}
	if c.Session != "" {
		e.Session = telemetry.SessionTag(c.Session)
	}
	if c.Err != nil {
		e.Name, e.Code = telemetry.PassthroughFailed, codeOf(c.Err)
	}
	if c.Tool != "" {
		// A tool outside the catalog gets no id. Agents can send any name, and a metric label lasts
		// for the life of the process.
		e.ToolID = o.tools.id(o.catalog.Snapshot().Catalog, e.Upstream, c.Tool)
	}
	o.tell(e)
}

// codeOf returns the code with which the gateway would answer an error.
func codeOf(err error) string {
	var wire *jsonrpc.Error
	if errors.As(err, &wire) {
		return string(result.UpstreamError)
	}
	var own *result.Error
	if errors.As(err, &own) {
		return string(own.Code)
	}
	kind, _ := mcp.KindOf(err)
	return cmp.Or(kind.Info().Gateway, strings.ToUpper(kind.String()))
}
