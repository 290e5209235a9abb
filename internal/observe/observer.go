package observe

import (
	"cmp"
	"errors"
	"strings"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/observe/metrics"
	"github.com/weir-mcp/weir/internal/observe/telemetry"
	"github.com/weir-mcp/weir/internal/passthrough"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// An Observer reports router traffic to metrics and events, as the gateway does for its own calls.
type Observer struct {
	*metrics.Metrics
	// Tell takes events.
	Tell func(telemetry.Event)
	// Server returns the configured name of a server for its name at /mcps.
	Server func(name string) string
	// Catalog returns the current catalog.
	Catalog func() *catalog.Catalog

	tools catalog.ToolIDs
}

var _ passthrough.Observer = (*Observer)(nil)

// Called implements passthrough.Observer.
func (o *Observer) Called(c passthrough.Call) {
	e := telemetry.Event{
		Time: c.Began.Add(c.Took), Name: telemetry.PassthroughCompleted, Principal: c.Principal, Method: c.Method, Upstream: o.Server(c.Upstream),
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
		e.ToolID = o.tools.ID(o.Catalog(), e.Upstream, c.Tool)
	}
	o.Tell(e)
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
