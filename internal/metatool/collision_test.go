package metatool

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
)

func versionedTool(name string) string {
	return `{"name":"` + name + `","description":"Counts the stock.","inputSchema":{"type":"object"},"_meta":{"version":"1"}}`
}

// The id of a tool runs no other, whatever its server lists: it fails, and the ids
// that there are now are told.
func TestIDOfAnotherToolFails(t *testing.T) {
	h := newHarness(t, Options{})
	run := func(id string) calltest.Answer {
		t.Helper()
		return h.Tool(t, ToolExecute, `{"tool_id":"`+id+`","args":{}}`)
	}
	h.Add("x", calltest.Echo, versionedTool("a b"))
	if s := run("x:a_b@1"); s.IsError {
		t.Fatalf("%+v", s)
	}
	calls := len(h.Called())
	for _, listed := range [][]string{{"a b", "a_b"}, {"a_b"}} {
		var tools []string
		for _, name := range listed {
			tools = append(tools, versionedTool(name))
		}
		h.Add("x", calltest.Echo, tools...)
		e := calltest.Failure(t, run("x:a_b@1"))
		if e.Error != string(result.HydrateFailed) || len(e.Details.Nearest) < len(listed) || !strings.HasPrefix(e.Details.Nearest[0], "x:a_b@1#") {
			t.Errorf("%q: %+v", listed, e)
		}
		if s := run(h.ID(t, "x", "a_b")); s.IsError {
			t.Errorf("%q: %+v", listed, s)
		}
	}
	if got := h.Called()[calls:]; len(got) != 2 || !strings.Contains(got[0], `"a_b"`) || !strings.Contains(got[1], `"a_b"`) {
		t.Errorf("calls %q", got)
	}
}

// A rule and a quota that name a tool by its id hold, too, when its server lists a
// second tool that maps to the id.
func TestControlsOutlastCollisions(t *testing.T) {
	h := newHarness(t, Options{
		Policy:     &dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, Tool: "x:dr_op@1"}}},
		RateLimits: dispatch.RateLimits{Tools: map[string]dispatch.RateLimit{"x:a_b@1": {PerSession: 1}}},
	})
	h.Add("x", calltest.Echo, versionedTool("dr_op"), versionedTool("dr op"), versionedTool("a_b"), versionedTool("a b"))
	run := func(name string) string {
		t.Helper()
		s := h.Tool(t, ToolExecute, `{"tool_id":"`+h.ID(t, "x", name)+`","args":{}}`)
		if !s.IsError {
			return ""
		}
		return calltest.Failure(t, s).Error
	}
	for _, c := range []struct{ tool, want string }{
		{"dr_op", "PERMISSION_DENIED"}, {"dr op", "PERMISSION_DENIED"}, {"a_b", ""}, {"a b", "RATE_LIMITED"}, {"a_b", "RATE_LIMITED"},
	} {
		if got := run(c.tool); got != c.want {
			t.Errorf("%q: %q, want %q", c.tool, got, c.want)
		}
	}
}

// An alias that two tools would have is given to neither.
func TestAliasOfTwoTools(t *testing.T) {
	h := newHarness(t, Options{Mode: ModeProxy, Names: NameAlias})
	namespace := strings.Repeat("n", 60) // all that fits into an alias beside the hash
	var one, two string
	seen := map[[4]byte]string{}
	for i := 0; two == ""; i++ {
		name := fmt.Sprint("t", i)
		sum := sha256.Sum256([]byte(namespace + ":" + name + "@1"))
		if one = seen[[4]byte(sum[:4])]; one != "" {
			two = name
		}
		seen[[4]byte(sum[:4])] = name
	}
	h.Add(namespace, calltest.Echo, versionedTool(one), versionedTool(two), versionedTool("other"))
	list := h.g.faces.of[ModeProxy].lists.proxy()
	for _, name := range []string{one, two} {
		id := h.ID(t, namespace, name)
		entry, _ := h.Snapshot().Catalog.Lookup(id)
		alias := NameAlias.write(entry)
		if got := list.ids[alias]; got != "" || !strings.Contains(string(list.result), `"name":"`+id+`"`) || strings.Contains(string(list.result), alias) {
			t.Errorf("the alias %s of %s stands for %q", alias, id, got)
		}
		if s := h.Tool(t, ToolExecute, `{"tool_id":"`+alias+`","args":{}}`); calltest.Failure(t, s).Error != string(result.HydrateFailed) {
			t.Errorf("%s runs something: %+v", alias, s)
		}
	}
	other, _ := h.Snapshot().Catalog.Lookup(h.ID(t, namespace, "other"))
	if list.ids[NameAlias.write(other)] != other.ID {
		t.Error("another tool has lost its alias")
	}
}
