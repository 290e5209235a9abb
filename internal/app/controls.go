package app

import (
	"io"
	"log/slog"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/observe/metrics"
	"github.com/weir-mcp/weir/internal/observe/telemetry"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/tasks"
)

// controls copies the configured call controls (policy, quotas, cache, ...) into a gateway's
// options.
func controls(c *config.Config, opts *metatool.Options) {
	opts.TolerantArgs = c.TolerantArgs
	opts.CacheStable = c.CacheStable
	opts.Pin = pinOf(c)
	opts.Strict = c.Strict
	opts.LogUnredacted = c.Log.Unredacted
	opts.ProxyFirewall = c.Proxy.Firewall
	opts.MaxViewChars = c.Firewall.MaxViewChars
	opts.Names = namesOf(c.Proxy.Names)
	opts.Policy = policyOf(c.Policy)
	opts.Profiles = profilesOf(c.Profiles)
	opts.Operators.Wait = c.Policy.ApprovalWait
	opts.RateLimits = limitsOfCalls(&c.RateLimits)
	opts.Cache = dispatch.CacheOptions{
		ReadOnly: c.Cache.ReadOnly, Allow: c.Cache.Allow, TTL: c.Cache.TTL, MaxEntries: c.Cache.MaxEntries, MaxBytes: int64(c.Cache.MaxBytes),
	}
	for _, s := range c.Servers {
		if s.FromCaller() {
			opts.Cache.Never = append(opts.Cache.Never, s.Name)
		}
	}
	opts.Tasks = tasks.Options{Wait: c.Tasks.Wait, TTL: c.Tasks.TTL, Max: c.Tasks.Max}
	opts.Retry = dispatch.RetryPolicy{
		MaxAttempts: c.Retry.MaxAttempts, BaseDelay: c.Retry.BaseDelay, MaxDelay: c.Retry.MaxDelay, Jitter: c.Retry.Jitter,
	}
	for _, code := range c.Retry.RetryableCodes {
		opts.Retry.Codes = append(opts.Retry.Codes, result.Code(code))
	}
}

// namesOf converts the configured form of tool names in mode proxy.
func namesOf(n config.ProxyNames) metatool.NameForm {
	switch n {
	case config.NamesURLEncoded:
		return metatool.NameURLEncoded
	case config.NamesAlias:
		return metatool.NameAlias
	case config.NamesToolID:
		return metatool.NameCanonical
	}
	return metatool.NamePlain
}

func limitsOfCalls(l *config.RateLimits) dispatch.RateLimits {
	limits := dispatch.RateLimits{MetaTools: map[string]dispatch.RateLimit{}, Tools: map[string]dispatch.RateLimit{}}
	for name, limit := range l.MetaTools() {
		limits.MetaTools[name] = dispatch.RateLimit{PerMinute: limit.MaxCallsPerMinute, PerSession: limit.MaxCallsPerSession}
	}
	for _, t := range l.PerTool {
		limits.Tools[t.ToolID] = dispatch.RateLimit{PerMinute: t.MaxCallsPerMinute, PerSession: t.MaxCallsPerSession}
	}
	return limits
}

// OpenEvents opens the configured event log; it returns nil if none is configured. If the
// configuration names EventsStderr, events go to stderr. The caller closes the log, or passes it to
// New.
func OpenEvents(c *config.Config, stderr io.Writer, log *slog.Logger) (*telemetry.EventLog, error) {
	failed := func(err error) { log.Error("events cannot be written and are lost", "file", c.Events.File, "err", err) }
	switch c.Events.File {
	case "":
		return nil, nil
	case config.EventsStderr:
		return telemetry.NewEventLog(stderr, failed), nil
	}
	events, err := telemetry.OpenEventLog(c.Events.File, failed)
	if err != nil {
		return nil, setupf("events.file: %w", err)
	}
	return events, nil
}

// observe creates the engine's metrics and connects its events.
func (e *Engine) observe(events *telemetry.EventLog) {
	e.Metrics = metrics.NewMetrics(metrics.Totals{
		Version: e.Version,
		Tokens: func() (read, raw int64) {
			u := e.state.Stats("").Total
			return u.Tokens.Read, u.Tokens.Raw
		},
		Uncounted: func() int64 { return e.state.Stats("").Total.Uncounted },
		Sessions:  e.state.Sessions, HTTPSessions: func() (living, replaced int64) { return e.Sessions.living.Load(), e.Sessions.replaced.Load() },
		Artifacts: func() (count int, bytes int64) {
			u := e.Results.UsageOfAll()
			return u.Count, u.Bytes
		},
		Upstreams: func() map[string]metrics.UpstreamFigures {
			figures := map[string]metrics.UpstreamFigures{}
			for _, s := range e.manager.Status() {
				figures[s.Name] = metrics.UpstreamFigures{State: string(s.State), Restarts: s.Restarts}
			}
			return figures
		},
		Tools: func() int { return Kinds(e.Catalog.Snapshot().Catalog)[primitive.KindTool] },
		Spans: e.Trace.Spans, Cluster: e.Store.clusterFigures(), Stream: e.Store.streamFigures(),
	})
	var write func(telemetry.Event)
	if events != nil {
		write = events.Write
	}
	e.Catalog.tell = telemetry.Fan(write, e.Store.sink(), e.Metrics.Observe, e.History.Observe, e.Auditor.event)
}

// Kinds counts a catalog's entries by kind.
func Kinds(c *catalog.Catalog) map[primitive.Kind]int { return c.Kinds() }
