package app

import (
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/observe/metrics"
	"github.com/weir-mcp/weir/internal/observe/telemetry"
)

// observe creates the engine's metrics and connects its events.
func (e *Engine) observe(events *telemetry.EventLog) {
	e.Metrics = metrics.NewMetrics(metrics.Totals{
		Version: e.Version,
		Tokens: func() (read, raw int64) {
			u := e.state.Stats("").Total
			return u.Tokens.Read, u.Tokens.Raw
		},
		Uncounted: func() int64 { return e.state.Stats("").Total.Uncounted },
		Sessions:  e.state.Sessions, HTTPSessions: e.Sessions.Figures,
		Artifacts: func() (count int, bytes int64) {
			u := e.Data.Results.UsageOfAll()
			return u.Count, u.Bytes
		},
		Upstreams: func() map[string]metrics.UpstreamFigures {
			figures := map[string]metrics.UpstreamFigures{}
			for _, s := range e.manager.Status() {
				figures[s.Name] = metrics.UpstreamFigures{State: string(s.State), Restarts: s.Restarts}
			}
			return figures
		},
		Tools: func() int { return e.Catalog.Snapshot().Catalog.Kinds()[primitive.KindTool] },
		Spans: e.Trace.Spans, Cluster: e.Store.Figures(), Stream: e.Store.StreamFigures(),
	})
	var write func(telemetry.Event)
	if events != nil {
		write = events.Write
	}
	e.Catalog.tell = telemetry.Fan(write, e.Store.Sink(), e.Metrics.Observe, e.History.Observe, e.Auditor.Event)
}
