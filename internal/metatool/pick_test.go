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
	for _, id := range []string{"bank:refund@1", "bank:refund", "bank:TWIN@1", "FILES:" + strings.TrimPrefix(h.ID(t, "files", "drop"), "files:")} {
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
