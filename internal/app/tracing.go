package app

import (
	"encoding/json"
	"log/slog"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/observe/trace"
)

// newTracer returns the Tracer of an engine, which sends no spans yet.
func newTracer(e *Engine) *trace.Tracer {
	return trace.New(trace.Options{
		Version: e.Version, Instance: e.Instance, Logger: e.log,
		Redact:  func(text string) string { return e.secrets.clean(text) },
		Observe: func(o trace.Operation) { e.Metrics.Operated(o.Client, o.Method, o.ErrorType, o.Took) },
	})
}

// hubSpans returns how a hub makes spans of calls that it carries.
func hubSpans(t *trace.Tracer) func(computer, tool string, payload json.RawMessage) (json.RawMessage, func(json.RawMessage, string)) {
	return func(computer, tool string, payload json.RawMessage) (json.RawMessage, func(json.RawMessage, string)) {
		call := t.Accept(computer, tool, payload)
		if !call.Sampled() {
			return payload, nil
		}
		return call.Carried(payload), call.End
	}
}

// sendSpans applies the key otlp.
func sendSpans(t *trace.Tracer, c *config.Config, log *slog.Logger) {
	if err := t.Configure(c.OTLP.Settings()); err != nil {
		log.Error("spans cannot be sent", "err", err)
	}
}
