package policy

import (
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/flow"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/tasks"
)

// Controls copies the configured call controls (policy, quotas, cache, ...) into a gateway's
// options.
func Controls(c *config.Config, opts *metatool.Options) {
	opts.TolerantArgs = c.TolerantArgs
	opts.CacheStable = c.CacheStable
	opts.Pin = Pin(c)
	opts.Strict = c.Strict
	opts.LogUnredacted = c.Log.Unredacted
	opts.ProxyFirewall = c.Proxy.Firewall
	opts.MaxViewChars = c.Firewall.MaxViewChars
	opts.Names = namesOf(c.Proxy.Names)
	opts.Policy = policyOf(c.Policy)
	opts.Profiles = profilesOf(c.Profiles)
	opts.Flow = flow.New(c.Flow, opts.Logger, c.Servers...)
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
