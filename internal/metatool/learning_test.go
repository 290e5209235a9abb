package metatool

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/access/authz"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/search/feedback"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/internal/testkit/runstest"
)

// learningHarness has three servers with equal tools, and one with a tool that fails.
type learningHarness struct {
	*harness
	docs store.Docs
}

const ticketQuery = "tickets of a project"

func newLearningHarness(t *testing.T, opts Options) *learningHarness {
	t.Helper()
	docs := store.NewMemory(store.MemoryOptions{})
	opts.Learned = feedback.New(feedback.Options{Docs: docs, Secret: make([]byte, 32)})
	t.Cleanup(func() { opts.Learned.Close(context.Background()) })
	h := &learningHarness{newHarness(t, opts), docs}
	for _, server := range []string{"alpha", "beta", "gamma"} {
		h.Add(server, calltest.Say(calltest.Text("done")), `{"name":"list_tickets","description":"Lists the tickets of a project.","annotations":{"readOnlyHint":true},"inputSchema":{"type":"object"}}`)
	}
	h.Add("zeta", calltest.Say(`{"content":[{"type":"text","text":"no"}],"isError":true}`), `{"name":"list_tickets","description":"Lists the tickets of a project.","inputSchema":{"type":"object"}}`)
	return h
}

// found returns the namespaces that a search of a caller finds, best first, and the answer.
func (h *learningHarness) found(t *testing.T, who *identity.Identity) (order, answer string) {
	t.Helper()
	raw, err := h.AskAs(t.Context(), who, "tools/call", `{"name":"tool_browse","arguments":{"query":"`+ticketQuery+`"},"_meta":{"weir/format":"json"}}`)
	var a struct {
		StructuredContent struct {
			Cards []struct {
				ID string `json:"id"`
			}
		}
	}
	if err != nil || json.Unmarshal(raw, &a) != nil {
		t.Fatalf("%s, %v", raw, err)
	}
	for _, card := range a.StructuredContent.Cards {
		server, _, _ := strings.Cut(card.ID, ":")
		order += server[:1]
	}
	return order, string(raw)
}

func (h *learningHarness) executeAs(t *testing.T, who *identity.Identity, server, more string) {
	t.Helper()
	if _, err := h.AskAs(t.Context(), who, "tools/call", fmt.Sprintf(`{"name":"tool_execute","arguments":{"tool_id":%q,"args":{}%s}}`, h.ID(t, server, "list_tickets"), more)); err != nil {
		t.Fatal(err)
	}
}

// A run after a search moves the tie for callers of its group, and neither for others nor what a client may keep.
func TestLearnsFromRuns(t *testing.T) {
	t.Parallel()
	h := newLearningHarness(t, Options{Cache: dispatch.CacheOptions{ReadOnly: true}})
	list := func() string {
		raw, err := h.AskAs(t.Context(), calltest.SRE, "tools/list", `{}`)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	before := list()
	first, _ := h.found(t, calltest.Dev)
	moved := "g" + strings.Replace(first, "g", "", 1)
	if moved == first {
		t.Fatalf("%s: nothing is to be learnt", first)
	}
	want := func(who *identity.Identity, order string) {
		t.Helper()
		if got, _ := h.found(t, who); got != order {
			t.Errorf("%s: %s, want %s", who.Principal, got, order)
		}
	}
	h.executeAs(t, calltest.SRE, "gamma", "") // before any search; the cache has the result now
	want(calltest.SRE, first)
	h.executeAs(t, calltest.SRE, "zeta", "")
	h.executeAs(t, calltest.SRE, "gamma", `,"dry_run":true`)
	for range 20 {
		h.executeAs(t, calltest.SRE, "gamma", "")
		h.found(t, calltest.SRE)
	}
	if n := len(h.Called()); n != 2 {
		t.Errorf("%d calls of servers, want those that the cache does not answer", n)
	}
	want(calltest.SRE, moved)
	_, one := h.found(t, calltest.SRE)
	if _, two := h.found(t, calltest.SRE); one != two {
		t.Errorf("equal searches have other answers:\n%s\n%s", one, two)
	}
	want(calltest.Dev, first)
	want(&identity.Identity{Principal: "corp:u9", Issuer: "corp", Groups: []string{"sre"}}, moved)
	if after := list(); after != before {
		t.Errorf("the definitions have changed:\n%s\n%s", after, before)
	}
}

// Of two callers of a group, one may not see a tool that the other runs: its answer stays as it was.
func TestLearnsNothingOfHiddenTools(t *testing.T) {
	t.Parallel()
	h := newLearningHarness(t, Options{Policy: &dispatch.Policy{Default: dispatch.Allow, Hide: true, Rules: []dispatch.PolicyRule{
		{Action: dispatch.Deny, Namespace: "gamma", If: &authz.Condition{Principals: []string{"corp:u9"}}},
	}}})
	other := &identity.Identity{Principal: "corp:u9", Issuer: "corp", Groups: []string{"sre"}}
	h.found(t, calltest.SRE)
	for range 5 {
		h.executeAs(t, calltest.SRE, "beta", "")
		h.found(t, calltest.SRE)
	}
	order, before := h.found(t, other)
	if len(order) != 3 || order[0] != 'b' {
		t.Fatalf("%s", order)
	}
	for range 50 {
		h.found(t, calltest.SRE)
		h.executeAs(t, calltest.SRE, "gamma", "")
	}
	if order, _ := h.found(t, calltest.SRE); order[0] != 'g' {
		t.Errorf("%s", order)
	}
	if _, after := h.found(t, other); after != before {
		t.Errorf("the runs of a hidden tool have changed an answer:\n%s\n%s", after, before)
	}
}

// A program learns, as an agent does: from the tool that it calls after its search, once for all calls of a loop.
func TestLearnsFromPrograms(t *testing.T) {
	t.Parallel()
	h := newLearningHarness(t, Options{})
	h.change(func(o *Options) { o.Programs = runstest.New(t, h.docs, h.Store) })
	e, _ := h.Snapshot().Catalog.Lookup(h.ID(t, "alpha", "list_tickets"))
	for searches, share := range []float64{0, 1. / 2, 2. / 3} {
		x := h.Snapshot().Why(t.Context(), ticketQuery, h.g.opts.Learned.Search(t.Context()), e)
		if math.Abs(x.Chosen-share) > 1e-6 || x.Rank == 0 {
			t.Errorf("after %d searches: %+v", searches, x)
		}
		a := h.Tool(t, ToolRun, fmt.Sprintf(`{"program":%q}`, `const all = await find("`+ticketQuery+`");
for (let i = 0; i < 3; i++) await call(all.find(t => t.server == "alpha").tool_id, {});
return all.length`))
		if a.IsError || a.Content[0].Text != "4" {
			t.Fatalf("%+v", a)
		}
	}
}
