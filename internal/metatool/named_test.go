package metatool

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/mcp"
)

// runbook is a listing in which servers contend for names; more are resources.
func runbook(upstream string, order int, found bool, more ...string) primitive.Listing {
	return primitive.Listing{
		Upstream: upstream, Namespace: upstream, Order: order, Found: found,
		Resources:         append(calltest.Raws(`{"uri":"file:///runbook.md","name":"Runbook"}`), calltest.Raws(more...)...),
		ResourceTemplates: calltest.Raws(`{"uriTemplate":"db://{table}","name":"rows"}`),
		Prompts:           calltest.Raws(`{"name":"deploy","arguments":[{"name":"key"}]}`),
	}
}

// contenders is a gateway with some servers of such listings, each of which answers
// everything.
func contenders(t *testing.T, opts Options, listings ...primitive.Listing) (*harness, map[string]*calltest.Shelf) {
	h := newHarness(t, opts)
	t.Cleanup(func() { h.g.state.Close(context.Background()) })
	shelves := map[string]*calltest.Shelf{}
	for _, l := range listings {
		s := calltest.NewShelf()
		for _, method := range []string{"resources/read file:///runbook.md", "resources/read db://users", "prompts/get deploy", "completion/complete "} {
			s.Answers[method] = `{"from":"` + l.Upstream + `"}`
		}
		shelves[l.Upstream] = s
		h.Mu.Lock()
		if h.Others == nil {
			h.Others = map[string]mcp.Peer{}
		}
		h.Others[l.Upstream] = s
		h.Listed, _ = h.Listed.With(l)
		h.Mu.Unlock()
	}
	return h, shelves
}

// uses are the requests in which clients use a name.
var uses = []struct{ method, params string }{
	{"resources/read", `{"uri":"file:///runbook.md"}`},
	{"resources/read", `{"uri":"db://users"}`},
	{"resources/subscribe", `{"uri":"file:///runbook.md"}`},
	{"prompts/get", `{"name":"deploy","arguments":{"key":"s3cret"}}`},
	{"completion/complete", `{"ref":{"type":"ref/prompt","name":"deploy"},"argument":{"name":"key","value":""}}`},
	{"completion/complete", `{"ref":{"type":"ref/resource","uri":"db://{table}"},"argument":{"name":"table","value":""}}`},
}

func touched(s *calltest.Shelf) string {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return fmt.Sprint(s.Calls, len(s.Watched))
}

// A server that was found while weir runs gets none of the names of one that the
// configuration names, however it lists them and whatever comes first.
func TestNamesOfTheConfigurationStay(t *testing.T) {
	aide := runbook("aide", 0, true, `{"uri":"db://users","name":"Users"}`)
	prod := runbook("prod", 7, false)
	for name, order := range map[string][]primitive.Listing{"after": {prod, aide}, "before": {aide, prod}} {
		t.Run(name, func(t *testing.T) {
			h, shelves := contenders(t, Options{}, order...)
			for _, use := range uses {
				out, err := h.Ask(t, use.method, use.params)
				if err != nil || use.method != "resources/subscribe" && !strings.Contains(string(out), `"from":"prod"`) {
					t.Errorf("%s %s: %s %v", use.method, use.params, out, err)
				}
			}
			// What a model reads of it by its id changes nothing for the client.
			h.Tool(t, ResourceRead, `{"resource_id":"`+h.ID(t, "aide", "Runbook")+`"}`)
			shelves["aide"].Mu.Lock()
			shelves["aide"].Calls = nil
			shelves["aide"].Mu.Unlock()
			if out, err := h.Ask(t, "resources/read", uses[0].params); err != nil || !strings.Contains(string(out), `"from":"prod"`) {
				t.Errorf("%s %v", out, err)
			}
			if got := touched(shelves["aide"]); got != "[] 0" {
				t.Errorf("the other server got %s", got)
			}
			text := fmt.Sprint(h.Snapshot().Catalog.Findings())
			for _, part := range []string{`resource "file:///runbook.md": "prod", "aide"`, `resource template "db://{table}"`, `prompt "deploy"`, `reach "prod"`, string(catalog.FoundRival)} {
				if !strings.Contains(text, part) {
					t.Errorf("no %s in the findings: %s", part, text)
				}
			}
			list, err := h.Ask(t, "prompts/list", `{}`)
			if err != nil || strings.Count(string(list), `"name":"deploy"`) != 1 || !strings.Contains(string(list), h.ID(t, "aide", "deploy")) {
				t.Errorf("%s %v", list, err)
			}
			list, err = h.Ask(t, "resources/list", `{}`)
			if err != nil || strings.Count(string(list), `"uri":"file:///runbook.md"`) != 1 || strings.Contains(string(list), `"uri":"db://users"`) || !strings.Contains(string(list), h.ID(t, "aide", "Users")) {
				t.Errorf("%s %v", list, err)
			}
			// It is reached by its id.
			if out, err := h.Ask(t, "prompts/get", `{"name":"`+h.ID(t, "aide", "deploy")+`"}`); err != nil || !strings.Contains(string(out), `"from":"aide"`) {
				t.Errorf("%s %v", out, err)
			}
		})
	}
}

// Of two servers that the configuration does not name neither gets a name of both.
func TestAmbiguousNamesAreRefused(t *testing.T) {
	h, shelves := contenders(t, Options{}, runbook("aide", 3, true), runbook("bide", 4, true))
	for _, use := range uses {
		out, err := h.Ask(t, use.method, use.params)
		if kind, _ := mcp.KindOf(err); kind != mcp.KindInvalidParams {
			t.Errorf("%s %s: %s %v", use.method, use.params, out, err)
			continue
		}
		for _, part := range []string{"aide:", "bide:", "#", "mcpServers"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: no %s in %q", use.method, part, err)
			}
		}
	}
	for name, s := range shelves {
		if got := touched(s); got != "[] 0" {
			t.Errorf("%s got %s", name, got)
		}
	}
	list, err := h.Ask(t, "resources/list", `{}`)
	for _, name := range []string{"aide", "bide"} {
		id := h.ID(t, name, "Runbook")
		if err != nil || !strings.Contains(string(list), `"uri":"`+id+`"`) {
			t.Errorf("%s is not listed by its id: %s %v", name, list, err)
		}
		if out, err := h.Ask(t, "resources/read", `{"uri":"`+id+`"}`); err != nil || !strings.Contains(string(out), `"from":"`+name+`"`) {
			t.Errorf("%s by its id: %s %v", name, out, err)
		}
	}
	if text := fmt.Sprint(h.Snapshot().Catalog.Findings()); !strings.Contains(text, "None of them is in mcpServers") {
		t.Errorf("findings %s", text)
	}
}

// Between servers of the configuration its order decides, not that of ids or of
// arrival; one that lists a URI is before one whose template would make it.
func TestOrderOfTheConfigurationSettles(t *testing.T) {
	h, _ := contenders(t, Options{}, runbook("a", 5, false), runbook("z", 2, false))
	for _, use := range uses {
		out, err := h.Ask(t, use.method, use.params)
		if err != nil || use.method != "resources/subscribe" && !strings.Contains(string(out), `"from":"z"`) {
			t.Errorf("%s %s: %s %v", use.method, use.params, out, err)
		}
	}
	if text := fmt.Sprint(h.Snapshot().Catalog.Findings()); !strings.Contains(text, string(catalog.FoundShared)) || !strings.Contains(text, `reach "z"`) {
		t.Errorf("findings %s", text)
	}
	h.put(runbook("a", 5, false, `{"uri":"db://users","name":"Users"}`))
	if out, err := h.Ask(t, "resources/read", `{"uri":"db://users"}`); err != nil || !strings.Contains(string(out), `"from":"a"`) {
		t.Errorf("%s %v", out, err)
	}
}

// The id of what is gone is nobody's name.
func TestNameThatIsAnID(t *testing.T) {
	h, shelves := contenders(t, Options{}, runbook("prod", 1, false))
	prompt, resource := h.ID(t, "prod", "deploy"), h.ID(t, "prod", "Runbook")
	evil := primitive.Listing{Upstream: "evil", Namespace: "evil", Found: true,
		Prompts: []json.RawMessage{json.RawMessage(`{"name":"` + prompt + `"}`)}, Resources: []json.RawMessage{json.RawMessage(`{"uri":"` + resource + `","name":"x"}`)}}
	h.Mu.Lock()
	shelves["evil"] = calltest.NewShelf()
	h.Others["evil"] = shelves["evil"]
	h.Mu.Unlock()
	h.put(evil)
	h.put(primitive.Listing{Upstream: "prod", Namespace: "prod"})
	for method, params := range map[string]string{"prompts/get": `{"name":"` + prompt + `"}`, "resources/read": `{"uri":"` + resource + `"}`, "resources/subscribe": `{"uri":"` + resource + `"}`} {
		if out, err := h.Ask(t, method, params); err == nil {
			t.Errorf("%s: %s", method, out)
		}
	}
	if got := touched(shelves["evil"]); got != "[] 0" {
		t.Errorf("it got %s", got)
	}
}

// The policy decides about the entry that runs.
func TestPolicyOfSharedNames(t *testing.T) {
	listings := []primitive.Listing{runbook("aide", 0, true), runbook("prod", 7, false)}
	for namespace, allowed := range map[string]bool{"aide": true, "prod": false} {
		h, shelves := contenders(t, Options{Policy: &dispatch.Policy{Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, Namespace: namespace}}}}, listings...)
		for _, use := range uses {
			if !strings.HasSuffix(use.method, "/read") && !strings.HasSuffix(use.method, "/get") {
				continue
			}
			if out, err := h.Ask(t, use.method, use.params); (err == nil) != allowed {
				t.Errorf("%s denied, %s: %s %v", namespace, use.method, out, err)
			}
		}
		if got := touched(shelves["aide"]); got != "[] 0" {
			t.Errorf("%s denied: aide got %s", namespace, got)
		}
	}
}
