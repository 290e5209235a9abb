package observe

import (
	"context"
	"errors"
	"log/slog"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/observe/history"
	"github.com/weir-mcp/weir/internal/observe/metrics"
	"github.com/weir-mcp/weir/internal/observe/telemetry"
	"github.com/weir-mcp/weir/internal/observe/trace"
)

// Reports are the reports of one gateway:
//
//	Tell ─▶ event log, stream of all gateways, Metrics, History, audit log
//
// The fields never change. Reports are safe for concurrent use.
type Reports struct {
	Metrics  *metrics.Metrics
	History  history.Book  // the most recent events
	Trace    *trace.Tracer // follows operations; sends spans if the configuration says where
	Export   *metrics.Exporter
	Usage    *Usage
	Sessions *SessionCount // of HTTP endpoints

	tell   func(telemetry.Event)
	events *telemetry.EventLog
	log    *slog.Logger
}

// ReportNeeds are the things that Reports stand on.
type ReportNeeds struct {
	Log      *slog.Logger
	Version  string
	Instance string
	Clean    func(text string) string // removes secrets
	Usage    *Usage
	// Totals are the figures of the gateway, without those of its sessions and spans.
	Totals metrics.Totals
	Events *telemetry.EventLog   // nil for none; Close closes it
	Stream func(telemetry.Event) // nil for none
	Audit  func(telemetry.Event)
}

// NewReports returns the reports of a gateway to which nothing has happened.
func NewReports(n ReportNeeds) *Reports {
	r := &Reports{Usage: n.Usage, Sessions: newSessionCount(n.Log), events: n.Events, log: n.Log}
	r.Trace = trace.New(trace.Options{
		Version: n.Version, Instance: n.Instance, Logger: n.Log, Redact: n.Clean,
		Observe: func(o trace.Operation) { r.Metrics.Operated(o.Client, o.Method, o.ErrorType, o.Took) },
	})
	n.Totals.HTTPSessions, n.Totals.Spans = r.Sessions.Figures, r.Trace.Spans
	r.Metrics = metrics.NewMetrics(n.Totals)
	r.Export = r.Metrics.NewExporter(metrics.ExportOptions{Version: n.Version, Instance: n.Instance, Logger: n.Log, Redact: n.Clean})
	var write func(telemetry.Event)
	if n.Events != nil {
		write = n.Events.Write
	}
	r.tell = telemetry.Fan(write, n.Stream, r.Metrics.Observe, r.History.Observe, n.Audit)
	return r
}

// Tell reports an event.
func (r *Reports) Tell(e telemetry.Event) { r.tell(e) }

// Send applies the key otlp of a configuration, to spans and metrics.
func (r *Reports) Send(c *config.Config) {
	if err := errors.Join(r.Trace.Configure(c.OTLP.Settings()), r.Export.Configure(c.OTLP.MetricsEndpoint())); err != nil {
		r.log.Error("spans and metrics cannot be sent", "err", err)
	}
}

// Close closes the log of events. The Trace and the Export end by themselves.
func (r *Reports) Close(context.Context) {
	if r.events == nil {
		return
	}
	if err := r.events.Close(); err != nil {
		r.log.Warn("the log of events could not be closed", "err", err)
	}
}
