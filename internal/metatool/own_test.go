package metatool

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/mcp"
)

// ownBook is OwnLists in memory.
type ownBook struct {
	mu      sync.Mutex // guards below
	of      map[string][]*primitive.Listing
	missing map[string][]string
	awaits  int
	asked   int                    // calls of OwnLists
	await   func(principal string) // called without mu by AwaitOwnLists
}

func (b *ownBook) OwnLists(ctx context.Context) primitive.Lists {
	b.mu.Lock()
	b.asked++
	b.mu.Unlock()
	return b.PeekOwnLists(ctx)
}

func (b *ownBook) PeekOwnLists(ctx context.Context) primitive.Lists {
	b.mu.Lock()
	defer b.mu.Unlock()
	who := identity.From(ctx).Principal
	out := primitive.Lists{Key: "0", Of: b.of[who], Missing: b.missing[who]}
	for _, l := range out.Of {
		out.Key += fmt.Sprintf(" %p", l)
	}
	return out
}

func (b *ownBook) AwaitOwnLists(ctx context.Context, most time.Duration) {
	b.mu.Lock()
	b.awaits++
	await := b.await
	b.mu.Unlock()
	if await != nil && most > 0 {
		await(identity.From(ctx).Principal)
	}
}

func (b *ownBook) set(principal string, of ...*primitive.Listing) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.of == nil {
		b.of = map[string][]*primitive.Listing{}
	}
	b.of[principal] = of
}

// notes is a listing of the server "notes" with a tool, a resource, a template and a prompt for each
// name. Their texts hold the text.
func notes(text string, names ...string) *primitive.Listing {
	l := &primitive.Listing{Upstream: "notes", Namespace: "notes"}
	for _, n := range names {
		l.Tools = append(l.Tools, json.RawMessage(fmt.Sprintf(`{"name":%q,"description":"Keeps %s notes.","inputSchema":{"type":"object","properties":{%q:{"type":"string"}}},"annotations":{"readOnlyHint":true}}`, n, text, text)))
		l.Tools = append(l.Tools, json.RawMessage(fmt.Sprintf(`{"name":%q,"description":"The newer one.","inputSchema":{"type":"object"},"_meta":{"version":"2"}}`, n+" v")))
		l.Resources = append(l.Resources, json.RawMessage(fmt.Sprintf(`{"uri":"note://%s/one","name":%q,"description":"Of %s."}`, n, n, text)))
		l.ResourceTemplates = append(l.ResourceTemplates, json.RawMessage(fmt.Sprintf(`{"uriTemplate":"note://%s/of/{day}","name":%q}`, n, n+"_of")))
		l.Prompts = append(l.Prompts, json.RawMessage(fmt.Sprintf(`{"name":%q,"description":"Sum up %s.","arguments":[{"name":"a"}]}`, n, text)))
	}
	return l
}

func signInOnly() *primitive.Listing {
	return &primitive.Listing{Upstream: "notes", Namespace: "notes", Tools: []json.RawMessage{json.RawMessage(`{"name":"sign_in","description":"Sign in at notes.","inputSchema":{"type":"object"}}`)}}
}

// ownHarness is a harness whose server "notes" lists for each caller.
type ownHarness struct {
	*harness
	book     *ownBook
	sessions map[string]*mcp.Session
}

func newOwnHarness(t testing.TB, opts Options) *ownHarness {
	h := &ownHarness{book: &ownBook{}, sessions: map[string]*mcp.Session{}}
	opts.Own = h.book
	h.harness = newHarness(t, opts)
	h.Mu.Lock()
	h.Peers["notes"] = calltest.Echo
	h.Mu.Unlock()
	for _, by := range []*identity.Identity{calltest.SRE, calltest.Dev, calltest.CI} {
		h.sessions[by.Principal] = mcp.NewSession(by.Principal, by.Principal)
		t.Cleanup(h.sessions[by.Principal].Close)
	}
	return h
}

func (h *ownHarness) as(ctx context.Context, id *identity.Identity, version, method, params string) string {
	raw, err := h.g.Serve(identity.With(ctx, id), &mcp.Request{ID: "1", Method: method, Params: json.RawMessage(params), Version: version, Session: h.sessions[id.Principal], Peer: mcp.NoPeer})
	return string(raw) + calltest.ErrorText(err)
}

// requestsFor returns requests that list, search and name what is in a catalog, on all surfaces.
func requestsFor(c *catalog.Catalog) (list [][2]string) {
	add := func(method, format string, args ...any) {
		list = append(list, [2]string{method, fmt.Sprintf(format, args...)})
	}
	for _, method := range []string{"tools/list", "resources/list", "resources/templates/list", "prompts/list"} {
		add(method, `{}`)
	}
	for _, verb := range []string{ToolBrowse, ResourceBrowse, PromptBrowse} {
		for _, path := range []string{"/", "/notes", "/notes/keep"} {
			add("tools/call", `{"name":%q,"arguments":{"path":%q}}`, verb, path)
		}
		for _, query := range []string{"keeps secret notes", "newer", "search the web"} {
			add("tools/call", `{"name":%q,"arguments":{"query":%q,"top_k":20},"_meta":{"weir/format":"json"}}`, verb, query)
		}
	}
	for _, e := range c.Of("notes") {
		for _, name := range []string{e.ID, e.RawName, "notes__" + e.RawName, e.URI, strings.ReplaceAll(e.URI, "{day}", "x")} {
			if name == "" {
				continue
			}
			add("tools/call", `{"name":"tool_execute","arguments":{"tool_id":%q,"args":{}}}`, name)
			add("tools/call", `{"name":"tool_hydrate","arguments":{"tool_id":%q}}`, name)
			add("tools/call", `{"name":"resource_read","arguments":{"resource_id":%q}}`, name)
			add("tools/call", `{"name":"prompt_get","arguments":{"prompt_id":%q,"args":{}}}`, name)
			add("tools/call", `{"name":%q,"arguments":{}}`, name)
			add("resources/read", `{"uri":%q}`, name)
			add("resources/subscribe", `{"uri":%q}`, name)
			add("prompts/get", `{"name":%q,"arguments":{}}`, name)
			add("completion/complete", `{"ref":{"type":"ref/prompt","name":%q},"argument":{"name":"a","value":""}}`, name)
			add("completion/complete", `{"ref":{"type":"ref/resource","uri":%q},"argument":{"name":"day","value":""}}`, name)
		}
	}
	return list
}

// TestOwnListsAreUnseen: every byte that a caller gets is the one it gets where the other caller has
// never listed anything, on each surface, in each mode and era, under a policy and a profile.
func TestOwnListsAreUnseen(t *testing.T) {
	hides := &dispatch.Policy{Hide: true, Rules: []dispatch.PolicyRule{{Action: dispatch.Deny, Tool: "*hush*"}}}
	for name, pair := range map[string][2]*primitive.Listing{
		"disjoint":    {notes("secret", "keep", "hold_it"), notes("public", "hold it", "hush")},
		"overlapping": {notes("public", "keep", "hush"), notes("public", "keep")},
		"other text":  {notes("public", "keep"), notes("public", "keep")},
		"other shape": {notes("secret", "keep", "keep v"), notes("public", "keep")},
		"a stranger":  {notes("secret", "keep"), signInOnly()},
	} {
		if name == "other text" {
			pair[0].Tools[0] = json.RawMessage(strings.Replace(string(pair[0].Tools[0]), "Keeps", "Secretly keeps", 1))
		}
		t.Run(name, func(t *testing.T) {
			for i, mode := range []Mode{ModeGateway, ModeProxy, ModePlain, ModeAuto} {
				for j, policy := range []*dispatch.Policy{nil, hides} {
					opts := Options{Mode: mode, Policy: policy, ExposeHydrate: true, AutoTokens: 1 << 20, Names: NamePlain, Cache: dispatch.CacheOptions{ReadOnly: true}, Profiles: []Profile{{Name: "some", Exclude: []string{"notes:*v"}}}}
					both, alone := newOwnHarness(t, opts), newOwnHarness(t, opts)
					both.book.set(calltest.SRE.Principal, pair[0])
					for _, h := range []*ownHarness{both, alone} {
						h.book.set(calltest.Dev.Principal, pair[1])
					}
					requests := requestsFor(both.g.View(identity.With(t.Context(), calltest.SRE)).Catalog)
					ctx, version := t.Context(), mcp.V20251125
					if i%2 == j {
						version = mcp.V20260728
					}
					if j == 1 {
						ctx = identity.WithRoute(ctx, identity.Route{Profile: "some"})
					}
					for _, r := range requests {
						if r[0] == "resources/subscribe" && version == mcp.V20260728 {
							continue // the handshake's layer knows it in the legacy era alone
						}
						both.as(ctx, calltest.SRE, version, r[0], r[1])
						got, want := both.as(ctx, calltest.Dev, version, r[0], r[1]), alone.as(ctx, calltest.Dev, version, r[0], r[1])
						if got != want {
							t.Fatalf("%v %s %s %s:\n%s\nand where the other caller lists nothing:\n%s", mode, version, r[0], r[1], got, want)
						}
					}
				}
			}
		})
	}
}

// TestOwnListsAreSeen: a caller finds, reads and calls what is listed for it, with what all share.
func TestOwnListsAreSeen(t *testing.T) {
	for _, mode := range []Mode{ModeGateway, ModeProxy, ModePlain} {
		h := newOwnHarness(t, Options{Mode: mode})
		h.book.set(calltest.SRE.Principal, notes("secret", "keep"))
		h.book.set(calltest.Dev.Principal, notes("public", "write"))
		if got := h.as(t.Context(), calltest.SRE, mcp.V20251125, "tools/call", `{"name":"tool_browse","arguments":{"query":"keeps secret notes"}}`); mode == ModeGateway && !strings.Contains(got, "notes:keep#") {
			t.Errorf("%v browse: %s", mode, got)
		}
		if got := h.as(t.Context(), calltest.SRE, mcp.V20251125, "tools/list", `{}`); mode == ModePlain && (!strings.Contains(got, `"notes__keep"`) || !strings.Contains(got, `"files__drop"`)) {
			t.Errorf("%v list: %s", mode, got)
		}
		for method, want := range map[string]string{"resources/list": "note://keep/one", "resources/templates/list": "note://keep/of/{day}", "prompts/list": "Sum up secret."} {
			if got := h.as(t.Context(), calltest.SRE, mcp.V20251125, method, `{}`); !strings.Contains(got, want) || strings.Contains(got, "write") {
				t.Errorf("%v %s: %s", mode, method, got)
			}
		}
		id := ""
		for _, e := range h.g.View(identity.With(t.Context(), calltest.SRE)).Catalog.Of("notes") {
			if e.RawName == "keep" && e.Kind == primitive.KindTool {
				id = e.ID
			}
		}
		call := `{"name":"tool_execute","arguments":{"tool_id":"` + id + `","args":{"secret":"x"}}}`
		if mode == ModePlain {
			call = `{"name":"notes__keep","arguments":{"secret":"x"}}`
		}
		if got := h.as(t.Context(), calltest.SRE, mcp.V20251125, "tools/call", call); strings.Contains(got, "isError") || !strings.Contains(got, `secret`) {
			t.Errorf("%v call: %s", mode, got)
		}
		if calls := h.Called(); len(calls) != 1 || !strings.HasPrefix(calls[0], "notes ") {
			t.Errorf("%v: %v", mode, calls)
		}
	}
}

// TestOwnListsAreShared: callers whose listings are equal have one view, and no more are kept than
// classes.
func TestOwnListsAreShared(t *testing.T) {
	h := newOwnHarness(t, Options{})
	same := notes("public", "keep")
	h.book.set(calltest.SRE.Principal, same)
	h.book.set(calltest.Dev.Principal, same)
	view := func(id *identity.Identity) *catalog.Catalog { return h.g.View(identity.With(t.Context(), id)).Catalog }
	if view(calltest.SRE) != view(calltest.Dev) {
		t.Error("equal listings make two catalogs")
	}
	for i := range 3 * maxClasses {
		id := &identity.Identity{Principal: fmt.Sprint("p", i)}
		h.book.set(id.Principal, notes("public", "keep", fmt.Sprint("n", i)))
		if view(id).Len() != h.Snapshot().Catalog.Len()+10 {
			t.Fatalf("%d entries", view(id).Len())
		}
	}
	if n, m := h.g.classes.of.Len(), h.g.composer.known.Len(); n > maxClasses || m > maxClasses {
		t.Errorf("%d classes and %d wholes are kept", n, m)
	}
}

// TestOwnListChangeIsToldToItsPrincipal: agents of other principals hear nothing and are not looked
// at.
func TestOwnListChangeIsToldToItsPrincipal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newOwnHarness(t, Options{Mode: ModePlain})
		h.book.set(calltest.SRE.Principal, notes("secret", "keep"))
		h.book.set(calltest.Dev.Principal, notes("public", "write"))
		var heard []string
		for _, by := range []*identity.Identity{calltest.SRE, calltest.Dev} {
			of := h.g.viewed(viewer{id: by})
			defer of.natives.followers.attach(newFollower(choiceOf(identity.With(t.Context(), by)), func(method string, _ json.RawMessage) { heard = append(heard, by.Principal+" "+method) }))()
		}
		h.book.set(calltest.SRE.Principal, notes("secret", "keep", "more"))
		h.g.state.ListsChanged(calltest.SRE.Principal)
		synctest.Wait()
		if slices.Sort(heard); len(heard) != 3 || slices.ContainsFunc(heard, func(s string) bool { return !strings.HasPrefix(s, calltest.SRE.Principal+" ") }) {
			t.Errorf("heard: %v", heard)
		}
		heard = nil
		h.g.state.ListsChanged(calltest.SRE.Principal)
		synctest.Wait()
		h.g.state.Refresh(h.Snapshot().Catalog)
		synctest.Wait()
		if len(heard) > 0 {
			t.Errorf("heard of what they know: %v", heard)
		}
		h.List(publicListing())
		h.g.state.Refresh(h.Snapshot().Catalog)
		synctest.Wait()
		if len(heard) != 6 {
			t.Errorf("heard of what all share: %v", heard)
		}
	})
}

// MissingOwn implements reportsOwn.
func (f fleet) MissingOwn(servers []string) (all []Missing) {
	for _, name := range servers {
		all = append(all, Missing{name, name, "its tools for you are being listed"})
	}
	return all
}

// TestOwnListsAreAwaited: the first look at the catalog waits for the caller's lists, and an answer
// without them says so. A known id does not wait, and callers whose lists are known never do.
func TestOwnListsAreAwaited(t *testing.T) {
	h := newOwnHarness(t, Options{})
	h.book.missing = map[string][]string{calltest.SRE.Principal: {"notes"}}
	browse := func(id *identity.Identity) string {
		return h.as(t.Context(), id, mcp.V20251125, "tools/call", `{"name":"tool_browse","arguments":{"query":"keeps secret notes"}}`)
	}
	if got := browse(calltest.SRE); !strings.Contains(got, "not searched: notes (its tools for you are being listed)") || h.book.awaits != 1 {
		t.Errorf("%d waits: %s", h.book.awaits, got)
	}
	execute := `{"name":"tool_execute","arguments":{"tool_id":%q,"args":{"path":"x"}}}`
	if got := h.as(t.Context(), calltest.SRE, mcp.V20251125, "tools/call", fmt.Sprintf(execute, h.ID(t, "files", "read_file"))); strings.Contains(got, "isError") || h.book.awaits != 1 {
		t.Errorf("%d waits: %s", h.book.awaits, got)
	}
	if got := h.as(t.Context(), calltest.SRE, mcp.V20251125, "tools/call", fmt.Sprintf(execute, "notes:keep#12345678")); !strings.Contains(got, "UPSTREAM_UNAVAILABLE") || h.book.awaits != 2 {
		t.Errorf("%d waits: %s", h.book.awaits, got)
	}
	if got := browse(calltest.Dev); strings.Contains(got, "not searched") || h.book.awaits != 2 {
		t.Errorf("%d waits: %s", h.book.awaits, got)
	}
	if got := string(h.g.Capabilities(identity.With(t.Context(), calltest.SRE))); !strings.Contains(got, "prompts") {
		t.Errorf("a client would never ask for prompts that come: %s", got)
	}
	h.book.await = func(principal string) {
		h.book.set(principal, notes("secret", "keep"))
		h.book.mu.Lock()
		delete(h.book.missing, principal)
		h.book.mu.Unlock()
	}
	if got := browse(calltest.SRE); strings.Contains(got, "not searched") || !strings.Contains(got, "notes:keep#") {
		t.Errorf("after the wait: %s", got)
	}
}

// TestOwnEntriesUnderAStrictPin: no hash covers what a server lists for one caller.
func TestOwnEntriesUnderAStrictPin(t *testing.T) {
	hash := newHarness(t, Options{}).Snapshot().Catalog.Hash()
	h := newOwnHarness(t, Options{Pin: dispatch.Pin{Hash: hash, Strict: true}})
	h.book.set(calltest.SRE.Principal, notes("secret", "keep"))
	call := func(upstream, name string) string {
		for _, e := range h.g.View(identity.With(t.Context(), calltest.SRE)).Catalog.Of(upstream) {
			if e.RawName == name && e.Kind == primitive.KindTool {
				return h.as(t.Context(), calltest.SRE, mcp.V20251125, "tools/call", `{"name":"tool_execute","arguments":{"tool_id":"`+e.ID+`","args":{"path":"x"}}}`)
			}
		}
		return "no tool " + name
	}
	if got := call("files", "read_file"); strings.Contains(got, "isError") {
		t.Errorf("a tool of the pinned catalog: %s", got)
	}
	if got := call("notes", "keep"); !strings.Contains(got, "PERMISSION_DENIED") || !strings.Contains(got, "mcpServers.notes.lists") {
		t.Errorf("a tool outside of it: %s", got)
	}
}

// TestOwnResultsAreCached: the cache serves callers with lists of their own, each principal for
// itself, and not over a change of the definition.
func TestOwnResultsAreCached(t *testing.T) {
	h := newOwnHarness(t, Options{Cache: dispatch.CacheOptions{ReadOnly: true}})
	h.book.set(calltest.SRE.Principal, notes("secret", "keep"))
	h.book.set(calltest.Dev.Principal, notes("secret", "keep"))
	call := func(id *identity.Identity, upstream, name string) {
		t.Helper()
		for _, e := range h.g.View(identity.With(t.Context(), id)).Catalog.Of(upstream) {
			if e.RawName == name && e.Kind == primitive.KindTool {
				if got := h.as(t.Context(), id, mcp.V20251125, "tools/call", `{"name":"tool_execute","arguments":{"tool_id":"`+e.ID+`","args":{"path":"x"}}}`); strings.Contains(got, "isError") {
					t.Error(got)
				}
			}
		}
	}
	for range 2 {
		for _, by := range []*identity.Identity{calltest.SRE, calltest.Dev} {
			call(by, "notes", "keep")
			call(by, "files", "read_file")
		}
	}
	if calls := h.Called(); len(calls) != 4 {
		t.Errorf("%d calls: %v", len(calls), calls)
	}
	changed := notes("secret", "keep")
	changed.Tools[0] = json.RawMessage(strings.Replace(string(changed.Tools[0]), "Keeps", "Holds", 1))
	h.book.set(calltest.SRE.Principal, changed)
	call(calltest.SRE, "notes", "keep")
	call(calltest.Dev, "notes", "keep")
	if calls := h.Called(); len(calls) != 5 {
		t.Errorf("%d calls after a change for one: %v", len(calls), calls)
	}
}

// TestOwnNamesFollowFromTheTool: the name of a tool in plain mode is the same whatever else the
// server lists or has listed, and two tools never have one name.
func TestOwnNamesFollowFromTheTool(t *testing.T) {
	raws := []string{"keep", "keep it", "keep_it", "keep-it", "_x", "x", strings.Repeat("long", 20), "keep"}
	names := map[string]string{}
	owner := map[string]string{}
	for i := range raws {
		h := newOwnHarness(t, Options{Mode: ModePlain})
		for j := range raws {
			h.book.set(calltest.SRE.Principal, notes("public", raws[i], raws[j]))
			seen := h.g.viewed(viewer{id: calltest.SRE})
			naming := seen.faces.of[ModePlain].lists.naming()
			for e, name := range naming.names {
				if e.Upstream != "notes" {
					continue
				}
				if before := names[e.RawName]; before != "" && before != name {
					t.Errorf("%q is %s and was %s", e.RawName, name, before)
				}
				if before := owner[name]; before != "" && before != e.RawName {
					t.Errorf("%s is %q and was %q", name, e.RawName, before)
				}
				names[e.RawName], owner[name] = name, e.RawName
				if len(name) > maxListedName || naming.ids[name] != e.ID {
					t.Errorf("%q is %q", e.RawName, name)
				}
			}
		}
	}
	if names["keep"] != "notes__keep" {
		t.Errorf("keep is %q", names["keep"])
	}
}

// TestOwnListsOnDirectCalls: calls that bypass the meta-tools are judged by the lists of their
// caller.
func TestOwnListsOnDirectCalls(t *testing.T) {
	p := &dispatch.Policy{Default: dispatch.Deny, Hide: true, Rules: []dispatch.PolicyRule{{Action: dispatch.Allow, Tool: "*", ReadOnly: new(true)}}}
	h := newOwnHarness(t, Options{Policy: p})
	h.book.set(calltest.SRE.Principal, notes("secret", "keep"))
	h.book.set(calltest.Dev.Principal, notes("public", "write"))
	place := []Place{{Upstream: "notes", Namespace: "notes"}}
	judge := func(id *identity.Identity, name string) string {
		r := &mcp.Request{ID: "1", Method: "tools/call", Params: json.RawMessage(`{"name":"` + name + `","arguments":{}}`), Version: mcp.V20251125, Session: h.sessions[id.Principal], Peer: mcp.NoPeer}
		_, err := h.g.DirectCalls().Judge(identity.With(t.Context(), id), place, r, "")
		return calltest.ErrorText(err)
	}
	if got := judge(calltest.SRE, "keep"); got != "<nil>" {
		t.Errorf("the caller's own tool: %s", got)
	}
	if got, want := judge(calltest.Dev, "keep"), strings.ReplaceAll(judge(calltest.Dev, "zzzz"), "zzzz", "keep"); got != want || got == "<nil>" {
		t.Errorf("another's tool: %s\nan unknown one: %s", got, want)
	}
}

// TestOwnListsAfterASignOut: what was listed, read and called before is unknown from then on, and the
// clients of the principal are told.
func TestOwnListsAfterASignOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newOwnHarness(t, Options{Mode: ModePlain, ExposeHydrate: true})
		h.book.set(calltest.SRE.Principal, notes("secret", "keep"))
		never := newOwnHarness(t, Options{Mode: ModePlain, ExposeHydrate: true})
		never.book.set(calltest.SRE.Principal, signInOnly())
		requests := requestsFor(h.g.View(identity.With(t.Context(), calltest.SRE)).Catalog)
		for _, r := range requests {
			h.as(t.Context(), calltest.SRE, mcp.V20251125, r[0], r[1])
		}
		told := 0
		defer h.g.viewed(viewer{id: calltest.SRE}).natives.followers.attach(newFollower(choiceOf(identity.With(t.Context(), calltest.SRE)), func(string, json.RawMessage) { told++ }))()
		h.book.set(calltest.SRE.Principal, signInOnly())
		h.g.state.ListsChanged(calltest.SRE.Principal)
		synctest.Wait()
		if told != 3 {
			t.Errorf("told %d times", told)
		}
		for _, r := range requests {
			if got, want := h.as(t.Context(), calltest.SRE, mcp.V20251125, r[0], r[1]), never.as(t.Context(), calltest.SRE, mcp.V20251125, r[0], r[1]); got != want {
				t.Errorf("%s %s:\n%s\nand without an earlier sign-in:\n%s", r[0], r[1], got, want)
			}
		}
	})
}

// TestComparisonsAreNoUse: comparing the lists of followers fetches none, does not hold up who tells
// of a change, and joins the changes of many principals into few comparisons.
func TestComparisonsAreNoUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newOwnHarness(t, Options{Mode: ModePlain})
		var told atomic.Int64
		for i := range 200 {
			who := &identity.Identity{Principal: fmt.Sprintf("person-%d", i)}
			h.book.set(who.Principal, notes("secret", fmt.Sprintf("of-%d", i)))
			of := h.g.viewed(viewer{id: who})
			defer of.natives.followers.attach(newFollower(choiceOf(identity.With(t.Context(), who)), func(string, json.RawMessage) { told.Add(1) }))()
		}
		h.book.mu.Lock()
		asked := h.book.asked
		h.book.mu.Unlock()
		h.List(publicListing())
		h.g.state.Refresh(h.Snapshot().Catalog)
		for i := range 200 {
			h.book.set(fmt.Sprintf("person-%d", i), notes("secret", "now"))
			h.g.state.ListsChanged(fmt.Sprintf("person-%d", i))
		}
		synctest.Wait()
		h.book.mu.Lock()
		defer h.book.mu.Unlock()
		if h.book.asked != asked {
			t.Errorf("%d lists were asked for", h.book.asked-asked)
		}
		if told.Load() < 600 {
			t.Errorf("told %d times", told.Load())
		}
		if h.g.state.comparer.running {
			t.Error("it is still at work")
		}
	})
}
