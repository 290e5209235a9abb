package metatool

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/dispatch"
)

// Unmatched returns, one sentence each, the controls that match no entry of a catalog, most likely
// because of a misspelling. Rules without a subject, and the bounds of meta-tools, always match.
func Unmatched(c *catalog.Catalog, p *dispatch.Policy, limits dispatch.RateLimits, cached []string) []string {
	var list []string
	if p != nil {
		for i := range p.Rules {
			if r := &p.Rules[i]; !matchesAny(r, c) {
				list = append(list, fmt.Sprintf("policy.rules[%d] (%s) matches nothing that there is", i, ruleText(r)))
			}
		}
	}
	ids := make([]string, 0, len(limits.Tools))
	for id := range limits.Tools {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	missing := func(key, id string) {
		if _, ok := c.Lookup(id); ok {
			return
		}
		message := fmt.Sprintf("%s: there is no %q", key, id)
		if near := c.Nearest(id, 1); len(near) > 0 {
			message += fmt.Sprintf("; close to it: %s", near[0])
		}
		list = append(list, message)
	}
	for _, id := range ids {
		missing("rate_limits.per_tool", id)
	}
	for _, id := range cached {
		missing("cache.allow", id)
	}
	return list
}

// matchesAny reports whether a rule matches an entry of a catalog, or needs none: a URI need not be
// listed.
func matchesAny(r *dispatch.PolicyRule, c *catalog.Catalog) bool {
	if r.Namespace == "" && r.Tool == "" && len(r.Tags) == 0 && r.ReadOnly == nil || strings.Contains(r.Tool, "://") {
		return true
	}
	return slices.ContainsFunc(c.Entries(), func(e *catalog.Entry) bool {
		s := dispatch.Subject{Entry: e, URI: e.URI}
		return r.Matches(dispatch.VerbOf(e.Kind), s) || e.Kind == primitive.KindTool && r.Matches(ToolHydrate, s)
	})
}

// ruleText returns the subject of a rule as the configuration writes it.
func ruleText(r *dispatch.PolicyRule) string {
	var parts []string
	for _, p := range []struct{ key, value string }{{"meta_tool", r.MetaTool}, {"namespace", r.Namespace}, {"tool", r.Tool}, {"tags", strings.Join(r.Tags, " ")}} {
		if p.value != "" {
			parts = append(parts, fmt.Sprintf("%s: %q", p.key, p.value))
		}
	}
	if r.ReadOnly != nil {
		parts = append(parts, fmt.Sprintf("read_only: %t", *r.ReadOnly))
	}
	return strings.Join(parts, ", ")
}
