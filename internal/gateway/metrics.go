package gateway

import (
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/observe/metrics"
	"github.com/weir-mcp/weir/internal/observe/telemetry"
)

// observe creates the gateway's metrics and connects its events.
func (g *Gateway) observe(events *telemetry.EventLog) {
	g.Metrics = metrics.NewMetrics(metrics.Totals{
		Version: g.Version,
		Tokens: func() (read, raw int64) {
			u := g.state.Stats("").Total
			return u.Tokens.Read, u.Tokens.Raw
		},
		Uncounted: func() int64 { return g.state.Stats("").Total.Uncounted },
		Sessions:  g.state.Sessions, HTTPSessions: g.Sessions.Figures,
		Artifacts: func() (count int, bytes int64) {
			u := g.Data.Results.UsageOfAll()
			return u.Count, u.Bytes
		},
		Upstreams: func() map[string]metrics.UpstreamFigures {
			figures := map[string]metrics.UpstreamFigures{}
			for _, s := range g.manager.Status() {
				figures[s.Name] = metrics.UpstreamFigures{State: string(s.State), Restarts: s.Restarts}
			}
			return figures
		},
		Tools: func() int { return g.Catalog.Snapshot().Catalog.Kinds()[primitive.KindTool] },
		Spans: g.Trace.Spans, Cluster: g.Store.Figures(), Stream: g.Store.StreamFigures(),
	})
	var write func(telemetry.Event)
	if events != nil {
		write = events.Write
	}
	g.Catalog.tell = telemetry.Fan(write, g.Store.Sink(), g.Metrics.Observe, g.History.Observe, g.Auditor.Event)
}
