package metatool

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/mcp"
)

func TestRepairOfToolID(t *testing.T) {
	h := newHarness(t, Options{})
	h.Add("bank", calltest.Echo, `{"name":"refund","description":"Refund money.","_meta":{"version":"10"}}`,
		`{"name":"Twin","description":"first of two twins","_meta":{"version":"1"}}`, `{"name":"twin","description":"second of two twins","_meta":{"version":"1"}}`)
	call := func(id string) calltest.Answer {
		return h.Tool(t, ToolExecute, fmt.Sprintf(`{"tool_id":%q,"args":{}}`, id))
	}
	// Before anything was offered nothing is repaired.
	if e := calltest.Failure(t, call("Bank:Refund@10")); e.Error != "HYDRATE_FAILED" || len(e.Details.Nearest) == 0 || e.Details.Nearest[0] != "bank:refund@10" {
		t.Errorf("%+v", e)
	}
	h.Tool(t, ToolBrowse, `{"query":"refund money"}`)
	h.Tool(t, ToolBrowse, `{"query":"twins"}`)
	for id, rule := range map[string]string{"Bank:Refund@10": "case_fold", " bank:refund@10\n": "strip", "BANK:REFUND@10 ": "case_fold"} {
		s := call(id)
		want := fmt.Sprintf("map[from:%s rule:%s status:repaired]", strings.TrimSpace(id), rule)
		if s.IsError || fmt.Sprint(s.Env.Provenance["selection"]) != want || s.Env.Provenance["tool_id"] != "bank:refund@10" {
			t.Errorf("%q: %+v", id, s)
		}
	}
	if s := call("bank:refund@10"); s.Env.Provenance["selection"] != nil {
		t.Errorf("an exact id: %+v", s.Env.Provenance)
	}
	n := len(h.Called())
	// Never a prefix, never an ambiguity, never what was not offered.
	for _, id := range []string{"bank:refund@1", "bank:refun", "bank:TWIN@1", "FILES:" + strings.TrimPrefix(h.ID(t, "files", "drop"), "files:")} {
		if e := calltest.Failure(t, call(id)); e.Error != "HYDRATE_FAILED" {
			t.Errorf("%s: %+v", id, e)
		}
	}
	if len(h.Called()) != n {
		t.Errorf("reached an upstream: %q", h.Called()[n:])
	}
	// Another session was not offered it.
	h.Session = mcp.NewSession("other", "ann")
	if e := calltest.Failure(t, call("Bank:Refund@10")); e.Error != "HYDRATE_FAILED" {
		t.Errorf("%+v", e)
	}
}

// An id without its version or its hash runs if the session was shown one such tool, as it is now.
func TestBareToolID(t *testing.T) {
	const schema = `"inputSchema":{"type":"object","properties":{"a":{"type":"string"}}}`
	h := newHarness(t, Options{})
	h.Add("bank", calltest.Echo, `{"name":"refund","description":"Refund money.","_meta":{"version":"10"}}`, `{"name":"transfer","description":"Transfer money.",`+schema+`}`,
		`{"name":"a.b","description":"first of two","_meta":{"version":"1"}}`, `{"name":"a_b","description":"second of two","_meta":{"version":"1"}}`)
	call := func(id string) calltest.Answer {
		return h.Tool(t, ToolExecute, fmt.Sprintf(`{"tool_id":%q,"args":{}}`, id))
	}
	refused := func(id string, whole ...string) {
		t.Helper()
		n := len(h.Called())
		e := calltest.Failure(t, call(id))
		for _, one := range whole {
			if e.Error != "HYDRATE_FAILED" || !strings.Contains(e.Message, one) {
				t.Errorf("%s is refused without %q: %+v", id, one, e)
			}
		}
		if len(h.Called()) != n {
			t.Errorf("%s reaches an upstream", id)
		}
	}
	transfer := h.ID(t, "bank", "transfer")
	refused("bank:refund", "all of it: bank:refund@10")
	refused("bank:transfer", "all of it: "+transfer)
	h.Tool(t, ToolBrowse, `{"path":"/bank"}`)
	for id, whole := range map[string]string{"bank:refund": "bank:refund@10", "bank:transfer": transfer} {
		s := call(id)
		if want := fmt.Sprintf("map[from:%s rule:bare status:repaired]", id); s.IsError || fmt.Sprint(s.Env.Provenance["selection"]) != want || s.Env.Provenance["tool_id"] != whole {
			t.Errorf("%s: %+v", id, s)
		}
	}
	refused("bank:transfe")
	refused("bank:refund@")
	// The id stays when only the description changes, but the session was not shown that definition.
	h.Add("bank", calltest.Echo, `{"name":"refund","description":"Refund all money at once.","_meta":{"version":"10"}}`, `{"name":"transfer","description":"Transfer all money.",`+schema+`}`)
	refused("bank:refund", "bank:refund@10")
	refused("bank:transfer", transfer)
	h.Tool(t, ToolBrowse, `{"path":"/bank/transfer"}`)
	if s := call("bank:transfer"); s.IsError {
		t.Errorf("the definition was shown again: %+v", s)
	}
	refused("bank:refund", "bank:refund@10")
	h.Session = mcp.NewSession("other", "ann")
	refused("bank:transfer", transfer)
}

// Of two tools with one name none runs.
func TestBareToolIDOfTwo(t *testing.T) {
	h := newHarness(t, Options{})
	h.Add("a", calltest.Echo, `{"name":"send money","description":"Send money.","_meta":{"version":"1"}}`, `{"name":"send_money","description":"Send a parcel of money.","_meta":{"version":"1"}}`)
	h.Tool(t, ToolBrowse, `{"path":"/a"}`)
	one, two := h.ID(t, "a", "send money"), h.ID(t, "a", "send_money")
	bare, _, _ := strings.Cut(one, "@")
	if other, _, _ := strings.Cut(two, "@"); other != bare || one == two {
		t.Fatalf("the ids are %s and %s", one, two)
	}
	for _, id := range []string{bare, bare + "@1"} {
		e := calltest.Failure(t, h.Tool(t, ToolExecute, fmt.Sprintf(`{"tool_id":%q,"args":{}}`, id)))
		if !strings.Contains(e.Message, one) || !strings.Contains(e.Message, two) || len(h.Called()) != 0 {
			t.Errorf("%s: %+v, called %q", id, e, h.Called())
		}
	}
	// Nor the one that is left.
	h.Add("a", calltest.Echo, `{"name":"send_money","description":"Send a parcel of money.","_meta":{"version":"1"}}`)
	h.Tool(t, ToolBrowse, `{"path":"/a"}`)
	if e := calltest.Failure(t, h.Tool(t, ToolExecute, `{"tool_id":"`+bare+`","args":{}}`)); !strings.Contains(e.Message, h.ID(t, "a", "send_money")) || len(h.Called()) != 0 {
		t.Errorf("the tool that is left: %+v, called %q", e, h.Called())
	}
}

// A tool that was offered and is gone is not run under another id.
func TestRepairAfterARefresh(t *testing.T) {
	h := newHarness(t, Options{})
	h.Add("bank", calltest.Echo, `{"name":"refund","description":"Refund money.","_meta":{"version":"1"}}`)
	h.Tool(t, ToolBrowse, `{"path":"/bank"}`)
	h.Add("bank", calltest.Echo, `{"name":"refund","description":"Refund money.","_meta":{"version":"10"}}`)
	for _, id := range []string{"bank:refund@1", "Bank:refund@1", "Bank:refund@10"} {
		if e := calltest.Failure(t, h.Tool(t, ToolExecute, fmt.Sprintf(`{"tool_id":%q,"args":{}}`, id))); e.Error != "HYDRATE_FAILED" {
			t.Errorf("%s: %+v", id, e)
		}
	}
	if len(h.Called()) != 0 {
		t.Errorf("%q", h.Called())
	}
}

// Proxy mode offers every tool, once it has been asked for the list.
func TestRepairInProxyMode(t *testing.T) {
	h := newHarness(t, Options{Mode: ModeProxy})
	id := strings.ToUpper(h.ID(t, "files", "drop"))
	call := fmt.Sprintf(`{"tool_id":%q,"args":{}}`, id)
	calltest.Failure(t, h.Tool(t, ToolExecute, call))
	if _, err := h.Ask(t, "tools/list", `{}`); err != nil {
		t.Fatal(err)
	}
	if s := h.Tool(t, ToolExecute, call); s.IsError {
		t.Errorf("%+v", s)
	}
}

func TestHydrateRepairsNothing(t *testing.T) {
	h := newHarness(t, Options{ExposeHydrate: true})
	h.Tool(t, ToolBrowse, `{"path":"/files"}`)
	if e := calltest.Failure(t, h.Tool(t, ToolHydrate, fmt.Sprintf(`{"tool_id":%q}`, strings.ToUpper(h.ID(t, "files", "drop"))))); e.Error != "HYDRATE_FAILED" {
		t.Errorf("%+v", e)
	}
}
