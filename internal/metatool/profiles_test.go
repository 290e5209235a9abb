package metatool

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/access/authz"
	"github.com/weir-mcp/weir/internal/audit"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
)

// webProfile has all that is not of vault.
var webProfile = Profile{Name: "public", Include: []string{"*:*"}, Exclude: []string{"vault:*"}}

// TestProfileOnEverySurface: what a profile has not is on no surface of it, and a call of it is
// answered with the bytes for a name that does not exist.
func TestProfileOnEverySurface(t *testing.T) {
	ctx := identity.WithRoute(t.Context(), identity.Route{Profile: webProfile.Name})
	for _, mode := range []Mode{ModeGateway, ModeProxy, ModePlain} {
		options := Options{Profiles: []Profile{webProfile}, Mode: mode, ExposeHydrate: true}
		with, without := newHarness(t, options), newHarness(t, options)
		with.List(secretListing())
		for _, h := range []*harness{with, without} {
			h.List(publicListing())
		}
		tool := with.ID(t, "vault", "secret_read")
		if raw, err := with.AskAs(t.Context(), calltest.Dev, "tools/call", `{"name":"no_such_tool"}`); err == nil {
			t.Errorf("%s", raw)
		}
		for _, request := range [][2]string{
			{"tools/list", `{}`}, {"resources/list", `{}`}, {"resources/templates/list", `{}`}, {"prompts/list", `{}`},
			{"tools/call", `{"name":"tool_browse","arguments":{"path":"/"}}`},
			{"tools/call", `{"name":"tool_browse","arguments":{"path":"/vault"}}`},
			{"tools/call", `{"name":"resource_browse","arguments":{"query":"secret"}}`},
			{"tools/call", `{"name":"prompt_browse","arguments":{"path":"/"}}`},
			{"tools/call", `{"name":"tool_execute","arguments":{"tool_id":"` + tool + `","args":{}}}`},
			{"tools/call", `{"name":"tool_execute","arguments":{"tool_id":"vault:secretread","args":{}}}`},
			{"tools/call", `{"name":"tool_hydrate","arguments":{"tool_id":"` + tool + `"}}`},
			{"tools/call", `{"name":"vault__secret_read","arguments":{}}`},
			{"tools/call", `{"name":"resource_read","arguments":{"resource_id":"secret://one"}}`},
			{"tools/call", `{"name":"resource_read","arguments":{"resource_id":"secret://of/{name}","args":{"name":"x"}}}`},
			{"tools/call", `{"name":"prompt_get","arguments":{"prompt_id":"prompt::vault:secret_prompt"}}`},
			{"resources/read", `{"uri":"secret://one"}`}, {"resources/read", `{"uri":"secret://of/x"}`},
			{"resources/subscribe", `{"uri":"secret://one"}`},
			{"prompts/get", `{"name":"secret_prompt"}`},
			{"completion/complete", `{"ref":{"type":"ref/prompt","name":"secret_prompt"},"argument":{"name":"a","value":""}}`},
			{"completion/complete", `{"ref":{"type":"ref/resource","uri":"secret://of/{name}"},"argument":{"name":"name","value":""}}`},
		} {
			got, gotErr := with.AskAs(ctx, calltest.Dev, request[0], request[1])
			want, wantErr := without.AskAs(ctx, calltest.Dev, request[0], request[1])
			if string(got) != string(want) || calltest.ErrorText(gotErr) != calltest.ErrorText(wantErr) {
				t.Errorf("%v %s %s:\n%s %s\nand where there is nothing:\n%s %s", mode, request[0], request[1], got, calltest.ErrorText(gotErr), want, calltest.ErrorText(wantErr))
			}
		}
		if calls := with.Called(); len(calls) > 0 {
			t.Errorf("a server was asked: %v", calls)
		}
		if with.g.View(t.Context()) != with.Snapshot() {
			t.Error("a request outside of profiles sees a part")
		}
	}
}

// TestProfilePatterns: patterns name tools by their names and ids, and servers by their names and
// namespaces; resources and prompts follow their server.
func TestProfilePatterns(t *testing.T) {
	h := newHarness(t, Options{})
	h.List(secretListing())
	h.List(primitive.Listing{Upstream: "crm-eu", Namespace: "crm", Tools: []json.RawMessage{
		json.RawMessage(`{"name":"get_user","inputSchema":{"type":"object"}}`), json.RawMessage(`{"name":"del_user","inputSchema":{"type":"object"}}`),
	}, Prompts: []json.RawMessage{json.RawMessage(`{"name":"get_prompt"}`)}})
	for _, test := range []struct {
		include, exclude []string
		want             string
	}{
		{nil, []string{"vault:*", "files:*"}, "del_user get_prompt get_user search"},
		{[]string{"crm:get_*"}, nil, "get_user"},
		{[]string{"crm-eu:*"}, nil, "del_user get_prompt get_user"},
		{[]string{"crm:*"}, []string{"crm-eu:del*"}, "get_prompt get_user"},
		{[]string{"crm:*", "web:search"}, []string{"*:*_user"}, "get_prompt search"},
		{[]string{"vault:secret_rea?"}, nil, "secret_read"},
		{[]string{"vault:*"}, nil, "secret_of secret_one secret_prompt secret_read"},
		{[]string{"vault:secret_*"}, nil, "secret_read"},
		{[]string{"VAULT:*"}, nil, ""},
		{[]string{"nothing:*"}, nil, ""},
	} {
		p := Profile{Name: "p", Include: test.include, Exclude: test.exclude}
		g := New(Options{Upstreams: h, Artifacts: h.g.opts.Artifacts, Profiles: []Profile{p}})
		var names []string
		for _, e := range g.View(identity.WithRoute(t.Context(), identity.Route{Profile: "p"})).Catalog.Entries() {
			names = append(names, e.RawName)
		}
		slices.Sort(names)
		if got := strings.Join(names, " "); got != test.want {
			t.Errorf("include %q, exclude %q: %s, want %s", test.include, test.exclude, got, test.want)
		}
	}
	misspelt := []Profile{{Name: "p", Include: []string{"crm:*", "crn:*"}, Exclude: []string{"crm:drop"}}}
	if got := UnmatchedProfiles(h.Snapshot().Catalog, misspelt); len(got) != 2 || !strings.Contains(got[0], "profiles.p.include[1]") || !strings.Contains(got[1], "profiles.p.exclude[0]") {
		t.Errorf("%q", got)
	}
}

// TestUnknownProfileIsEmpty: a request for a profile that was removed meanwhile finds nothing.
func TestUnknownProfileIsEmpty(t *testing.T) {
	for _, profiles := range [][]Profile{nil, {webProfile}} {
		h := newHarness(t, Options{Profiles: profiles, Mode: ModePlain})
		ctx := identity.WithRoute(t.Context(), identity.Route{Profile: "removed"})
		if n := h.g.View(ctx).Catalog.Len(); n != 0 {
			t.Errorf("%d entries", n)
		}
		if raw, err := h.AskAs(ctx, calltest.Dev, "tools/call", `{"name":"web__search","arguments":{}}`); err == nil && !strings.Contains(string(raw), "isError") {
			t.Errorf("%s", raw)
		}
		if calls := h.Called(); len(calls) > 0 {
			t.Errorf("a server was asked: %v", calls)
		}
	}
}

// TestProfileNeverWidens: under a policy that hides, a caller sees of a profile what both let it see.
func TestProfileNeverWidens(t *testing.T) {
	policy := hiding()
	policy.Rules = append(policy.Rules, dispatch.PolicyRule{Action: dispatch.Allow, Tool: "files:read*", If: &authz.Condition{Profile: "open"}})
	h := newHarness(t, Options{Policy: policy, Profiles: []Profile{webProfile, {Name: "open"}, {Name: "vault", Include: []string{"vault:*"}}}})
	h.List(secretListing())
	h.List(publicListing())
	whole := h.g.View(identity.With(t.Context(), calltest.Dev)).Catalog
	for _, name := range []string{"public", "vault"} {
		c := h.g.View(identity.WithRoute(identity.With(t.Context(), calltest.Dev), identity.Route{Profile: name})).Catalog
		for _, e := range c.Entries() {
			if _, ok := whole.Lookup(e.ID); !ok {
				t.Errorf("%s shows %s, which the policy hides", name, e.ID)
			}
		}
		if name == "public" && c.Len() != whole.Len() || name == "vault" && c.Len() != 0 {
			t.Errorf("%s has %d entries of %d", name, c.Len(), whole.Len())
		}
	}
	// A rule that names a profile counts there alone.
	id := h.ID(t, "files", "read_file")
	for name, want := range map[string]bool{"open": true, "public": false, "": false} {
		ctx := identity.WithRoute(identity.With(t.Context(), calltest.Dev), identity.Route{Profile: name})
		if _, seen := h.g.View(ctx).Catalog.Lookup(id); seen != want {
			t.Errorf("at %q: %s is seen: %t", name, id, seen)
		}
		raw, err := h.AskAs(ctx, calltest.Dev, "tools/call", `{"name":"tool_execute","arguments":{"tool_id":"`+id+`","args":{"path":"a"}}}`)
		if ran := err == nil && !strings.Contains(string(raw), `"isError":true`); ran != want {
			t.Errorf("at %q: %s %v", name, raw, err)
		}
	}
}

// TestProfileMode: a profile has a mode of its own, for agents that ask for none.
func TestProfileMode(t *testing.T) {
	plain := ModePlain
	h := newHarness(t, Options{Mode: ModeGateway, Profiles: []Profile{{Name: "plain", Mode: &plain}, {Name: "same"}}})
	for _, test := range []struct {
		profile string
		asks    *Mode
		want    Mode
	}{{"plain", nil, ModePlain}, {"same", nil, ModeGateway}, {"", nil, ModeGateway}, {"same", &plain, ModePlain}} {
		ctx := identity.WithRoute(t.Context(), identity.Route{Profile: test.profile})
		if test.asks != nil {
			ctx = WithMode(ctx, *test.asks)
		}
		if got := h.g.Mode(ctx); got != test.want {
			t.Errorf("%q: %v", test.profile, got)
		}
		raw, err := h.AskAs(ctx, calltest.Dev, "tools/list", `{}`)
		if listed := strings.Contains(string(raw), "web__search"); err != nil || listed != (test.want == ModePlain) {
			t.Errorf("%q lists: %s %v", test.profile, raw, err)
		}
		if said := strings.Contains(h.g.Instructions(ctx), "server__tool"); said != (test.want == ModePlain) {
			t.Errorf("%q says: %s", test.profile, h.g.Instructions(ctx))
		}
	}
}

// TestProfileChangesAreTold: clients at a profile hear of changes of its part alone, also when a new
// configuration changes the part.
func TestProfileChangesAreTold(t *testing.T) {
	options := Options{Profiles: []Profile{webProfile, {Name: "vault", Include: []string{"vault:*"}}}, Mode: ModePlain, State: NewState()}
	h := newHarness(t, options)
	t.Cleanup(func() { options.State.Close(context.Background()) })
	var heard []string
	for _, name := range []string{"public", "vault", ""} {
		ctx := identity.WithRoute(t.Context(), identity.Route{Profile: name})
		f := &follower{by: choiceOf(ctx), put: func(method string, _ json.RawMessage) { heard = append(heard, name+" "+method) }}
		defer h.g.viewed(viewerOf(ctx)).natives.followers.attach(f)()
	}
	expect := func(what string, want ...string) {
		t.Helper()
		options.State.Refresh(h.Snapshot().Catalog)
		slices.Sort(heard)
		if heard = slices.Compact(heard); !slices.Equal(heard, want) {
			t.Errorf("%s: heard %q, want %q", what, heard, want)
		}
		heard = nil
	}
	const changed = " notifications/%s/list_changed"
	all := func(name string) []string {
		return []string{fmt.Sprintf(name+changed, "prompts"), fmt.Sprintf(name+changed, "resources"), fmt.Sprintf(name+changed, "tools")}
	}
	h.List(secretListing())
	expect("another server", append(all(""), all("vault")...)...)
	options.Upstreams, options.Artifacts, options.Profiles = h, h.g.opts.Artifacts, []Profile{{Name: "public"}, {Name: "vault", Include: []string{"vault:*"}}}
	New(options)
	expect("another selection", all("public")...)
}

// TestAuditOfProfileProbes: a call at a profile of an entry that it has not is a refusal in the log,
// by the profile, and one of a name that does not exist is none.
func TestAuditOfProfileProbes(t *testing.T) {
	l, to, dir := calltest.NewAudit(t, audit.FormFull, false)
	h := newHarness(t, Options{Profiles: []Profile{webProfile}, Audit: to})
	h.List(secretListing())
	ctx := identity.WithRoute(t.Context(), identity.Route{Profile: webProfile.Name})
	for _, request := range [][2]string{
		{"tools/call", `{"name":"tool_execute","arguments":{"tool_id":"` + h.ID(t, "vault", "secret_read") + `","args":{}}}`},
		{"tools/call", `{"name":"tool_execute","arguments":{"tool_id":"vault:absent#12345678","args":{}}}`},
		{"resources/read", `{"uri":"secret://of/x"}`},
		{"prompts/get", `{"name":"secret_prompt"}`},
		{"prompts/get", `{"name":"absent_prompt"}`},
	} {
		_, _ = h.AskAs(ctx, calltest.Dev, request[0], request[1]) // the answer is that for an unknown name
	}
	got := calltest.Recorded(t, l, dir)
	if len(got) != 3 {
		t.Errorf("the log has %q", got)
	}
	if err := audit.Each(dir, func(raw []byte) bool {
		if strings.Contains(string(raw), `"kind":"refusal"`) && !strings.Contains(string(raw), `"rule":"profiles.public"`) {
			t.Errorf("not by the profile: %s", raw)
		}
		return true
	}); err != nil {
		t.Fatal(err)
	}
}
