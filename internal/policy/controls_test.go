package policy

import (
	"testing"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/result"
)

// TestControls puts every control of a configuration into a gateway's options.
func TestControls(t *testing.T) {
	c, _, err := config.Parse("weir.yaml", []byte(`
mode: proxy
mcpServers: {a: {command: a}}
proxy: {names: alias, firewall: true}
firewall: {max_view_chars: 50000}
tolerant_args: true
cache_stable: true
log: {unredacted: true}
policy: {default: deny, rules: [{action: require_approval, meta_tool: tool_execute, namespace: a, tool: "x*", tags: [t], read_only: true, reason: r}]}
rate_limits: {tool_view: {max_calls_per_minute: 1}, per_tool: {"a:b@1": {max_calls_per_session: 2}}}
cache: {read_only: true, allow: ["a:b@1"], ttl: 2s, max_entries: 3, max_bytes: 4}
retry: {max_attempts: 3, base_delay: 1s, max_delay: 2s, jitter: 0.5, retryable_codes: [UPSTREAM_TIMEOUT]}
`), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var o metatool.Options
	Controls(c, &o)
	rule := o.Policy.Rules[0]
	if !o.TolerantArgs || !o.CacheStable || !o.LogUnredacted || o.Policy.Default != dispatch.Deny || rule.Action != dispatch.RequireApproval || rule.MetaTool != "tool_execute" ||
		rule.Namespace != "a" || rule.Tool != "x*" || rule.Tags[0] != "t" || !*rule.ReadOnly || rule.Reason != "r" {
		t.Errorf("%+v, %+v", o, rule)
	}
	if !o.ProxyFirewall || o.Names != metatool.NameAlias {
		t.Errorf("proxy: %+v", o)
	}
	if o.MaxViewChars != 50000 {
		t.Errorf("views of %d characters", o.MaxViewChars)
	}
	if o.RateLimits.MetaTools["tool_view"].PerMinute != 1 || len(o.RateLimits.MetaTools) != 1 || o.RateLimits.Tools["a:b@1"].PerSession != 2 {
		t.Errorf("%+v", o.RateLimits)
	}
	if k := o.Cache; !k.ReadOnly || k.Allow[0] != "a:b@1" || k.TTL.Seconds() != 2 || k.MaxEntries != 3 || k.MaxBytes != 4 {
		t.Errorf("%+v", k)
	}
	if r := o.Retry; r.MaxAttempts != 3 || r.BaseDelay.Seconds() != 1 || r.MaxDelay.Seconds() != 2 || r.Jitter != .5 || r.Codes[0] != result.UpstreamTimeout {
		t.Errorf("%+v", r)
	}
	if c, _, err = config.Parse("weir.yaml", []byte("mcpServers: {a: {command: a}}"), config.Options{}); err != nil {
		t.Fatal(err)
	}
	o = metatool.Options{}
	Controls(c, &o)
	if o.ProxyFirewall || o.Names != metatool.NamePlain {
		t.Errorf("proxy by default: %+v", o)
	}
	if o.Policy != nil || o.TolerantArgs || o.Cache.ReadOnly || o.Retry.MaxAttempts != 1 || len(o.RateLimits.MetaTools)+len(o.RateLimits.Tools) > 0 {
		t.Errorf("by default: %+v", o)
	}
}
