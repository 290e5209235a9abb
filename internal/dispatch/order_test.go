package dispatch_test

import (
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/internal/testkit/metatooltest"
)

// Each control stands where the contract puts it (spec/gateway §4.5): what
// one of two neighbours does is seen where the other would have done something
// else.
func TestOrderOfControls(t *testing.T) {
	var events []metatool.Event
	h := metatooltest.New(t, metatool.Options{
		TolerantArgs: true,
		Policy:       &dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, Tool: "denied"}}},
		RateLimits:   dispatch.RateLimits{MetaTools: map[string]dispatch.RateLimit{metatool.ToolExecute: {PerSession: 3}}},
		Cache:        dispatch.CacheOptions{ReadOnly: true},
		Retry:        dispatch.RetryPolicy{MaxAttempts: 2},
		OnEvent:      func(e metatool.Event) { events = append(events, e) },
	})
	const schema = `"description":"d","inputSchema":{"type":"object","properties":{"n":{"type":"integer"}}},"annotations":{"readOnlyHint":true},"_meta":{"version":"1"}}`
	h.Add("x", calltest.Counted(), `{"name":"denied",`+schema, `{"name":"free",`+schema)
	call := func(name, args, more string) calltest.Answer {
		return h.Tool(t, metatool.ToolExecute, `{"tool_id":"x:`+name+`@1","args":`+args+more+`}`)
	}
	// Validate before policy: the arguments are what is wrong first.
	if e := calltest.Failure(t, call("denied", `{"n":"x"}`, "")); e.Error != "ARGS_INVALID" {
		t.Errorf("%+v", e)
	}
	// Normalise before validate, and policy before quota: nothing is consumed.
	for range 5 {
		if e := calltest.Failure(t, call("denied", `{"n":"7"}`, "")); e.Error != "PERMISSION_DENIED" {
			t.Errorf("%+v", e)
		}
	}
	// Normalise before the cache: the repaired call is the same as a right one.
	if s := call("free", `{"n":"7"}`, ""); s.Content[0].Text != "answer 1" {
		t.Errorf("%+v", s)
	}
	if s := call("free", `{"n":7}`, ""); s.Content[0].Text != "answer 1" || s.Env.Provenance["cache_hit"] != true {
		t.Errorf("%+v", s)
	}
	// Cache before retry: nothing was attempted.
	if e := events[len(events)-1]; e.Attempts != 0 {
		t.Errorf("%+v", e)
	}
	// Dry run before the cache: a report, though the answer is there.
	if s := call("free", `{"n":7}`, `,"dry_run":true`); !strings.HasPrefix(s.Content[0].Text, `{"dry_run":true`) {
		t.Errorf("%+v", s)
	}
	// Quota before the cache: the hit consumed, the third is the last.
	call("free", `{"n":7}`, "")
	limited(t, call("free", `{"n":7}`, ""))
	// Quota before dry run.
	limited(t, call("free", `{"n":7}`, `,"dry_run":true`))
}
