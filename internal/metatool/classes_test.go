package metatool

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/access/authz"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
)

// hiding is a policy under which dev may call only what is of "web", "ops" and public, while sre may
// call all.
func hiding() *dispatch.Policy {
	return &dispatch.Policy{Default: dispatch.Deny, Hide: true, Rules: []dispatch.PolicyRule{
		{Action: dispatch.Allow, If: &authz.Condition{Groups: []string{"sre"}}},
		{Action: dispatch.Allow, Namespace: "web"},
	}}
}

// secretListing has entries of all kinds whose names hold "secret", which only sre may call.
func secretListing() primitive.Listing {
	return primitive.Listing{
		Upstream: "vault", Namespace: "vault", About: "secret things",
		Tools:             []json.RawMessage{json.RawMessage(`{"name":"secret_read","description":"Read the secret.","inputSchema":{"type":"object"}}`)},
		Resources:         []json.RawMessage{json.RawMessage(`{"uri":"secret://one","name":"secret_one"}`)},
		ResourceTemplates: []json.RawMessage{json.RawMessage(`{"uriTemplate":"secret://of/{name}","name":"secret_of"}`)},
		Prompts:           []json.RawMessage{json.RawMessage(`{"name":"secret_prompt","description":"Ask for the secret.","arguments":[{"name":"a"}]}`)},
	}
}

// publicListing has entries of all kinds that every caller may call. The template makes a URI that
// the server also lists as a resource with a tag.
func publicListing() primitive.Listing {
	return primitive.Listing{
		Upstream: "web", Namespace: "web",
		Tools:             []json.RawMessage{json.RawMessage(`{"name":"search","description":"Search the web for pages.","inputSchema":{"type":"object"}}`)},
		Resources:         []json.RawMessage{json.RawMessage(`{"uri":"web://one","name":"one"}`)},
		ResourceTemplates: []json.RawMessage{json.RawMessage(`{"uriTemplate":"web://of/{name}","name":"of"}`)},
		Prompts:           []json.RawMessage{json.RawMessage(`{"name":"ask","description":"Ask the web.","arguments":[{"name":"a"}]}`)},
	}
}

// A request of each surface tells of the secret to sre, and not to dev.
func TestHiddenOnEverySurface(t *testing.T) {
	for _, mode := range []Mode{ModeGateway, ModeProxy, ModePlain, ModeAuto} {
		for _, names := range []NameForm{NamePlain, NameCanonical} {
			h := newHarness(t, Options{Policy: hiding(), Mode: mode, Names: names, ExposeHydrate: true, AutoTokens: 1 << 20})
			h.List(secretListing())
			h.List(publicListing())
			for _, request := range [][2]string{
				{"tools/list", `{}`},
				{"resources/list", `{}`}, {"resources/templates/list", `{}`}, {"prompts/list", `{}`},
				{"tools/call", `{"name":"tool_browse","arguments":{"path":"/"}}`},
				{"tools/call", `{"name":"tool_browse","arguments":{"path":"/vault"}}`},
				{"tools/call", `{"name":"tool_browse","arguments":{"query":"read the secret","top_k":20}}`},
				{"tools/call", `{"name":"resource_browse","arguments":{"query":"secret"}}`},
				{"tools/call", `{"name":"prompt_browse","arguments":{"path":"/"}}`},
				{"tools/call", `{"name":"tool_execute","arguments":{"tool_id":"vault:secretread","args":{}}}`},
				{"tools/call", `{"name":"tool_hydrate","arguments":{"tool_id":"vault:secretread"}}`},
				{"tools/call", `{"name":"no_such_tool","arguments":{}}`},
			} {
				seen, _ := h.AskAs(t.Context(), calltest.SRE, request[0], request[1])
				raw, err := h.AskAs(t.Context(), calltest.Dev, request[0], request[1])
				if request[0] == "tools/list" && strings.Contains(string(raw), "vault") {
					t.Errorf("%v: the list names a server of hidden tools: %s", mode, raw)
				}
				if text := string(raw) + fmt.Sprint(err); strings.Contains(text, "secret_") || strings.Contains(text, "secret://") || strings.Contains(text, `vault:secret_read`) || strings.Contains(text, "secret things") {
					t.Errorf("%v %s %s tells of what is hidden: %s", mode, request[0], request[1], text)
				}
				if request[0] != "tools/call" && mode != ModeGateway && !strings.Contains(string(seen), "secret") {
					t.Errorf("%v %s: sre does not see the secret: %s", mode, request[0], seen)
				}
			}
			if c := h.g.View(identity.With(t.Context(), calltest.SRE)); c.Catalog.Len() != h.Snapshot().Catalog.Len() || c.Index.Len() != h.Snapshot().Index.Len() {
				t.Errorf("sre sees %d of %d entries", c.Catalog.Len(), h.Snapshot().Catalog.Len())
			}
		}
	}
}

// A call of a hidden name is answered with the bytes for a name that does not exist.
func TestHiddenIsUnknown(t *testing.T) {
	without := func() *harness { return newHarness(t, Options{Policy: hiding(), ExposeHydrate: true}) }
	for _, mode := range []Mode{ModeGateway, ModeProxy, ModePlain} {
		hidden, absent := without(), without()
		hidden.List(secretListing())
		for _, h := range []*harness{hidden, absent} {
			h.List(publicListing())
		}
		tool, resource := hidden.ID(t, "vault", "secret_read"), "resource::vault:secret_one"
		for _, e := range hidden.Snapshot().Catalog.Entries() {
			if e.URI == "secret://one" {
				resource = e.ID
			}
		}
		prompt := ""
		for _, e := range hidden.Snapshot().Catalog.Entries() {
			if e.Kind == primitive.KindPrompt && e.Upstream == "vault" {
				prompt = e.ID
			}
		}
		ctx := WithMode(t.Context(), mode)
		if _, err := hidden.AskAs(ctx, calltest.SRE, "tools/list", `{}`); err != nil { // the names of plain mode are given
			t.Fatal(err)
		}
		for _, request := range [][2]string{
			{"tools/call", `{"name":"tool_execute","arguments":{"tool_id":"` + tool + `","args":{}}}`},
			{"tools/call", `{"name":"tool_execute","arguments":{"tool_id":"` + strings.ToUpper(tool) + `","args":{}}}`},
			{"tools/call", `{"name":"tool_execute","arguments":{"tool_id":"vault__secret_read","args":{}}}`},
			{"tools/call", `{"name":"tool_hydrate","arguments":{"tool_id":"` + tool + `"}}`},
			{"tools/call", `{"name":"vault__secret_read","arguments":{}}`},
			{"tools/call", `{"name":"` + tool + `","arguments":{}}`},
			{"tools/call", `{"name":"resource_read","arguments":{"resource_id":"` + resource + `"}}`},
			{"tools/call", `{"name":"resource_read","arguments":{"resource_id":"secret://one"}}`},
			{"tools/call", `{"name":"resource_read","arguments":{"resource_id":"secret://of/{name}","args":{"name":"x"}}}`},
			{"tools/call", `{"name":"prompt_get","arguments":{"prompt_id":"` + prompt + `"}}`},
			{"resources/read", `{"uri":"secret://one"}`}, {"resources/read", `{"uri":"secret://of/x"}`}, {"resources/read", `{"uri":"` + resource + `"}`},
			{"resources/subscribe", `{"uri":"secret://one"}`},
			{"prompts/get", `{"name":"secret_prompt"}`}, {"prompts/get", `{"name":"` + prompt + `"}`},
			{"completion/complete", `{"ref":{"type":"ref/prompt","name":"secret_prompt"},"argument":{"name":"a","value":""}}`},
			{"completion/complete", `{"ref":{"type":"ref/resource","uri":"secret://of/{name}"},"argument":{"name":"name","value":""}}`},
			{"tools/call", `{"name":"tool_browse","arguments":{"path":"/vault"}}`},
		} {
			got, gotErr := hidden.AskAs(ctx, calltest.Dev, request[0], request[1])
			want, wantErr := absent.AskAs(ctx, calltest.Dev, request[0], request[1])
			if string(got) != string(want) || calltest.ErrorText(gotErr) != calltest.ErrorText(wantErr) {
				t.Errorf("%v %s %s:\n%s %s\nand where there is nothing:\n%s %s", mode, request[0], request[1], got, calltest.ErrorText(gotErr), want, calltest.ErrorText(wantErr))
			}
		}
		if calls := hidden.Called(); len(calls) > 0 {
			t.Errorf("a server was asked: %v", calls)
		}
	}
}

// A template that is seen does not make the URI of a resource that is hidden.
func TestHiddenBehindATemplate(t *testing.T) {
	p := &dispatch.Policy{Hide: true, Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, Tool: "web://of/plan", If: &authz.Condition{Groups: []string{"dev"}}}}}
	for _, listed := range []bool{true, false} {
		h := newHarness(t, Options{Policy: p})
		l := publicListing()
		if listed {
			l.Resources = append(l.Resources, json.RawMessage(`{"uri":"web://of/plan","name":"plan"}`))
		}
		h.List(l)
		_, err := h.AskAs(t.Context(), calltest.Dev, "resources/read", `{"uri":"web://of/plan"}`)
		if got := calltest.ErrorText(err); !strings.Contains(got, `no resource has the uri "web://of/plan"`) {
			t.Errorf("listed %v: %s", listed, got)
		}
		raw, _ := h.AskAs(t.Context(), calltest.Dev, "tools/call", `{"name":"resource_read","arguments":{"resource_id":"web://of/{name}","args":{"name":"plan"}}}`)
		if !strings.Contains(string(raw), "no server lists the URI") {
			t.Errorf("listed %v: %s", listed, raw)
		}
	}
}

// Whatever the controls admit is listed, for random policies and callers.
func TestVisibleIsCallable(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	maybe := func(list ...string) []string {
		if r.IntN(2) == 0 {
			return nil
		}
		return []string{pick(list...)}
	}
	compiled := map[string]*authz.Condition{}
	ran, hid := 0, 0
	for range 400 {
		p := &dispatch.Policy{Default: dispatch.Action(pick("allow", "deny")), Hide: true}
		for range 1 + r.IntN(4) {
			rule := dispatch.PolicyRule{Action: dispatch.Action(pick("allow", "deny")), Namespace: pick("", "files", "web"), Tool: pick("", "", "dr*", "web:*"), Observe: r.IntN(9) == 0}
			c := &authz.Condition{Groups: maybe("sre", "dev"), Principals: maybe("corp:*", "ci"), Scopes: maybe("repo:read", "x")}
			if r.IntN(2) == 0 {
				text := pick(`args.n < 4`, `"sre" in groups`, `session.calls < 1 || "x" in scopes`, `principal == "ci" && tool.destructive`, `!has(args.n)`, `claims.dept == "it"`, `client == ""`)
				if compiled[text] == nil {
					compiled[text] = calltest.When(t, text)
				}
				c.When = compiled[text].When
			}
			rule.If = c
			p.Rules = append(p.Rules, rule)
		}
		h := newHarness(t, Options{Policy: p})
		for _, by := range []*identity.Identity{calltest.SRE, calltest.Dev, calltest.CI} {
			seen := h.g.View(identity.With(t.Context(), by)).Catalog
			for _, e := range h.Snapshot().Catalog.Entries() {
				_, visible := seen.Lookup(e.ID)
				admitted := false
				for _, args := range []string{`{}`, `{"n":1}`, `{"n":9}`} {
					raw, err := h.AskAs(t.Context(), by, "tools/call", `{"name":"tool_execute","arguments":{"tool_id":"`+e.ID+`","args":`+args+`}}`)
					admitted = admitted || err == nil && !strings.Contains(string(raw), "PERMISSION_DENIED") && !strings.Contains(string(raw), "HYDRATE_FAILED")
				}
				if admitted && !visible {
					t.Fatalf("%s may call %s and does not see it", by.Principal, e.ID)
				}
				if p.SightOf(by, "").Sees(dispatch.VerbExecute, []dispatch.Subject{{Entry: e}}) != visible {
					t.Fatalf("%s: a class sees %s otherwise than its caller", by.Principal, e.ID)
				}
				if admitted {
					ran++
				}
				if !visible {
					hid++
				}
			}
		}
	}
	if ran < 200 || hid < 200 {
		t.Errorf("%d calls ran and %d entries were hidden: too few to say something", ran, hid)
	}
}

// Clients hear that a list has changed only if the list that they see has changed.
func TestHiddenChangesAreNotTold(t *testing.T) {
	h := newHarness(t, Options{Policy: hiding(), Mode: ModePlain})
	told := map[string]*follower{}
	var heard []string
	for _, by := range []*identity.Identity{calltest.SRE, calltest.Dev} {
		ctx := identity.With(t.Context(), by)
		of := h.g.viewed(viewer{id: by})
		f := &follower{by: choiceOf(ctx), put: func(method string, _ json.RawMessage) { heard = append(heard, by.Principal+" "+method) }}
		told[by.Principal] = f
		defer of.natives.followers.attach(f)()
	}
	h.List(secretListing())
	h.g.state.Refresh(h.Snapshot().Catalog)
	if slices.Sort(heard); len(heard) != 3 || slices.ContainsFunc(heard, func(s string) bool { return !strings.HasPrefix(s, calltest.SRE.Principal) }) {
		t.Errorf("heard: %v", heard)
	}
	heard = nil
	h.List(publicListing())
	h.g.state.Refresh(h.Snapshot().Catalog)
	if !slices.Contains(heard, calltest.Dev.Principal+" notifications/resources/list_changed") {
		t.Errorf("heard: %v", heard)
	}
}

// Callers share a class unless a rule tells them apart, and a changed group counts at once.
func TestClassesAreShared(t *testing.T) {
	h := newHarness(t, Options{Policy: hiding()})
	of := func(id *identity.Identity) *Gateway {
		return h.g.viewed(viewer{id: id})
	}
	other := *calltest.Dev
	other.Principal, other.Groups, other.Claims = "corp:u9", []string{"other"}, map[string]any{"x": "y"}
	if of(calltest.Dev) != of(&other) || of(calltest.Dev) == of(calltest.SRE) {
		t.Error("classes are not those of the rules")
	}
	for i := range 3 * maxClasses {
		of(&identity.Identity{Principal: fmt.Sprint(i)})
	}
	if n := h.g.classes.of.Len(); n > maxClasses {
		t.Errorf("%d classes are kept", n)
	}
	if plain := newHarness(t, Options{Policy: &dispatch.Policy{Default: dispatch.Deny}}); plain.g.classes != nil {
		t.Error("a policy that hides nothing has classes")
	}
}

// TestRefreshMakesEachClassOnce: where more classes listen than are kept, a refresh looks at each of
// them once, however many clients it has, and leaves the classes that requests use.
func TestRefreshMakesEachClassOnce(t *testing.T) {
	cost := func(clients int) float64 {
		var profiles []Profile
		for i := range 2 * maxClasses {
			profiles = append(profiles, Profile{Name: fmt.Sprint("p", i)})
		}
		h := newHarness(t, Options{Profiles: profiles, Mode: ModePlain})
		h.List(publicListing())
		for range clients {
			for _, p := range profiles {
				by := choiceOf(identity.WithRoute(t.Context(), identity.Route{Profile: p.Name}))
				defer h.g.viewed(by.by).natives.followers.attach(&follower{by: by, put: func(string, json.RawMessage) {}})()
			}
		}
		used := viewer{profile: "p7"}
		before := h.g.viewed(used)
		allocs := testing.AllocsPerRun(1, func() { h.g.state.Refresh(h.Snapshot().Catalog) })
		if h.g.viewed(used) != before {
			t.Error("a refresh took the place of a class in use")
		}
		return allocs
	}
	one, four := cost(1), cost(4)
	if four > 1.5*one {
		t.Errorf("a refresh for four clients a class allocates %.0f times, for one %.0f times", four, one)
	}
}
