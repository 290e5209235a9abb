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
		Redact:  func(text string) string { return e.clean(text) },
		Observe: func(o trace.Operation) { e.Metrics.Operated(o.Client, o.Method, o.ErrorType, o.Took) },
	})
}

// spansOf returns where the spans of a configuration go.
func spansOf(o *config.OTLP) trace.Settings {
	if o.URL == "" {
		return trace.Settings{}
	}
	headers := map[string]string{}
	for name, value := range o.Headers {
		headers[name] = value.Reveal()
	}
	return trace.Settings{URL: o.URL, Headers: headers, Service: o.ServiceName, Sample: o.Sample, Timeout: o.Timeout}
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
	if err := t.Configure(spansOf(&c.OTLP)); err != nil {
		log.Error("spans cannot be sent", "err", err)
	}
}
