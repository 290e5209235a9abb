package metrics

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-mcp/weir/mcp"
)

// operationBuckets are those of OpenTelemetry's conventions for MCP, in seconds.
var operationBuckets = []float64{.01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60, 120, 300}

// maxErrorTypes bounds the distinct error types that weir does not know: servers choose the codes of
// their errors.
const maxErrorTypes = 64

// otherMethod is the label of methods that weir does not know; agents can send any.
const otherMethod = "_OTHER"

// operations measures requests of agents and requests to servers, in the series of OpenTelemetry's
// conventions.
type operations struct {
	server, client *prometheus.HistogramVec
	known          map[string]bool // error types of weir's own, which always have a series
	errorTypes     labels          // the others
}

func newOperations() operations {
	of := func(side, help string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "mcp_" + side + "_operation_duration_seconds", Help: help, Buckets: operationBuckets,
		}, []string{"error_type", "mcp_method_name"})
	}
	return operations{
		server:     of("server", "Time from a request of an agent to its answer, by method and type of error: tool_error, the code of the JSON-RPC error, or empty."),
		client:     of("client", "Time from a request to a server to its answer, by method and type of error: tool_error, the code of the JSON-RPC error, the kind of a failure, or empty."),
		known:      knownErrors(),
		errorTypes: labels{most: maxErrorTypes},
	}
}

// knownErrors returns the error types that do not depend on a server's choice: the flag of a tool,
// the kinds of weir's errors, and their codes, which include those of JSON-RPC.
func knownErrors() map[string]bool {
	known := map[string]bool{"tool_error": true}
	for _, k := range mcp.Kinds {
		known[k.Name], known[strconv.Itoa(k.JSONRPC)] = true, true
	}
	return known
}

// Operated counts an operation. client says that weir sent the request. errorType is "" for success.
func (m *Metrics) Operated(client bool, method, errorType string, took time.Duration) {
	f := m.operations.server
	if client {
		f = m.operations.client
	}
	if errorType != "" && !m.operations.known[errorType] {
		errorType = m.operations.errorTypes.bound(errorType)
	}
	f.WithLabelValues(errorType, knownMethod(method)).Observe(took.Seconds())
}

// knownMethod returns the label of a method.
func knownMethod(method string) string {
	switch method {
	case "initialize", "ping", "server/discover", "tools/list", "tools/call", "resources/list", "resources/read", "resources/templates/list",
		"resources/subscribe", "resources/unsubscribe", "prompts/list", "prompts/get", "completion/complete", "logging/setLevel",
		"tasks/get", "tasks/list", "tasks/result", "tasks/cancel", "tasks/update":
		return method
	}
	return otherMethod
}
