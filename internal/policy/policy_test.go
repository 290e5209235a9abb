package policy

import (
	"context"
	"encoding/json"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/metatool/tools"
	"github.com/weir-mcp/weir/internal/text/redact"
	"github.com/weir-mcp/weir/internal/upstream"
	"github.com/weir-mcp/weir/mcp"
)

func parsed(t *testing.T, text string) *config.Config {
	t.Helper()
	c, _, err := config.Parse("weir.yaml", []byte(text), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestPlaces: a name at /mcps stands for a server, for the servers of a Computer or for one of them, and for
// itself where no server has it.
func TestPlaces(t *testing.T) {
	m := upstream.New(upstream.Options{Logger: slog.New(slog.DiscardHandler)})
	defer m.Close(context.Background())
	m.Apply(parsed(t, `mcpServers: {one: {url: "http://127.0.0.1:1/mcp", namespace: first, disabled: true}, desk-a: {url: "http://127.0.0.1:1/mcp"}, desk-b: {url: "http://127.0.0.1:1/mcp"}}`).Servers)
	computers := map[string][][2]string{
		"desk":   {{"desk-a", "a__"}, {"desk-b", "b__"}, {"desk-gone", "gone__"}},
		"desk.a": {{"desk-a", ""}},
	}
	j := NewJudge(JudgeNeeds{Server: m.Upstream, Computers: func(name string) iter.Seq2[string, string] {
		return func(yield func(string, string) bool) {
			for _, one := range computers[name] {
				if !yield(one[0], one[1]) {
					return
				}
			}
		}
	}})
	for name, want := range map[string][]metatool.Place{
		"desk-a": {{Upstream: "desk-a", Namespace: "desk-a"}},
		"desk.a": {{Upstream: "desk-a", Namespace: "desk-a"}},
		"desk":   {{Upstream: "desk-a", Namespace: "desk-a", Prefix: "a__", Renamed: true}, {Upstream: "desk-b", Namespace: "desk-b", Prefix: "b__", Renamed: true}},
		"other":  {{Upstream: "other", Namespace: "other", Renamed: true}},
	} {
		got := j.Places(name)
		for i := range got { // a server without a namespace has the one of the catalog
			if got[i].Namespace == "" {
				got[i].Namespace = got[i].Upstream
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s stands for %+v, want %+v", name, got, want)
		}
	}
	for name, want := range map[string]string{"desk-a": "desk-a", "desk.a": "desk-a", "desk": "desk", "other": "other"} {
		if got := j.ServerOf(name); got != want {
			t.Errorf("the server of %s is %s, want %s", name, got, want)
		}
	}
	r := &mcp.Request{Method: "tools/call", Params: json.RawMessage(`{"name":"x"}`)}
	if params, err := j.Judge(t.Context(), "one", r, ""); err != nil || string(params) != string(r.Params) || j.Judges("one") || j.Refuses(t.Context(), "one", "tools/call", "x") {
		t.Errorf("before the first gateway: %s, %v", params, err)
	}
}

// TestProfiles: a profile opens for its groups and principals, and one that does not exist for nobody. Its error does
// not tell the two apart.
func TestProfiles(t *testing.T) {
	c := parsed(t, `
mcpServers: {}
profiles:
  open: {include: ["a:*"]}
  staff: {include: ["b:*"], groups: [staff]}
  ann: {include: ["c:*"], principals: ["ann*"], mode: proxy}
`)
	ann, bob := &identity.Identity{Principal: "anna"}, &identity.Identity{Principal: "bob", Groups: []string{"staff"}}
	unsure := &identity.Identity{Principal: "eve", Groups: []string{"staff"}, GroupsMissing: true}
	for _, one := range []struct {
		name string
		id   *identity.Identity
		want bool
	}{
		{"open", ann, true}, {"staff", ann, false}, {"staff", bob, true}, {"staff", unsure, false}, {"ann", ann, true}, {"ann", bob, false}, {"none", bob, false},
	} {
		if got := OpensProfile(c, one.name, one.id); got != one.want {
			t.Errorf("%s opens %s: %v", one.id.Principal, one.name, got)
		}
	}
	served := 0
	h := WithinProfile(func() *config.Config { return c }, mcp.HandlerFunc(func(context.Context, *mcp.Request) (json.RawMessage, error) {
		served++
		return nil, nil
	}))
	_, missing := h.Serve(AtProfile(identity.With(t.Context(), bob), "none"), &mcp.Request{})
	_, closed := h.Serve(AtProfile(identity.With(t.Context(), bob), "ann"), &mcp.Request{})
	_, opened := h.Serve(AtProfile(identity.With(t.Context(), bob), "staff"), &mcp.Request{})
	if missing == nil || closed == nil || opened != nil || served != 1 || strings.Replace(missing.Error(), "none", "ann", 1) != closed.Error() {
		t.Errorf("%v, %v, %v, %d served", missing, closed, opened, served)
	}
	calls := CallsOf(c)
	if err := calls.CheckProfile("none"); err == nil || !strings.Contains(err.Error(), "staff") {
		t.Errorf("an unknown profile: %v", err)
	}
	q := Call{As: "bob", Groups: []string{"staff"}, Profile: "staff", Tool: tools.Tool{ID: "b:x"}}
	if hidden := calls.Hidden(q); hidden != "" {
		t.Error(hidden)
	}
	q.Tool.ID = "c:x"
	if hidden := calls.Hidden(q); !strings.Contains(hidden, "does not have it") {
		t.Errorf("hidden: %q", hidden)
	}
}

// TestWhy: the strictest verdict on the spellings of a URI counts, and a tool is judged by its name and its hints.
func TestWhy(t *testing.T) {
	calls := CallsOf(parsed(t, `
mcpServers: {}
policy:
  default: allow
  rules:
    - {action: deny, tool: "file:///secret/*", reason: secret}
    - {action: deny, namespace: db, tool: "drop*", reason: drops}
    - {action: require_approval, namespace: db, read_only: false}
`))
	for _, one := range []struct {
		q    Call
		want dispatch.Action
	}{
		{Call{Tool: tools.Tool{ID: "db:drop_all@1#abc"}}, dispatch.Deny},
		{Call{Tool: tools.Tool{ID: "db:read", ReadOnly: true}, Known: true}, dispatch.Allow},
		{Call{Tool: tools.Tool{ID: "db:write"}, Known: true}, dispatch.RequireApproval},
		{Call{Tool: tools.Tool{ID: "web:get"}}, dispatch.Allow},
	} {
		if got := calls.Why(one.q); got.Action != one.want {
			t.Errorf("%s: %s (%s), want %s", one.q.Tool.ID, got.Action, got.Reason, one.want)
		}
	}
}

// TestSecrets: listings lose the credentials of the configuration and tokens in use, and a reload changes them.
func TestSecrets(t *testing.T) {
	tokens := redact.NewRecent(10)
	s := NewSecrets(parsed(t, `mcpServers: {a: {url: "http://127.0.0.1:1/mcp", headers: {Authorization: "Bearer first-credential"}}}`), tokens)
	tokens.Add("token-in-use-123")
	if got := s.Clean("with first-credential and token-in-use-123"); strings.Contains(got, "first-credential") || strings.Contains(got, "token-in-use-123") {
		t.Error(got)
	}
	l := s.Listing(primitive.Listing{Upstream: "a", Tools: []json.RawMessage{json.RawMessage(`{"name":"x","description":"first-credential token-in-use-123"}`)}})
	if text := string(l.Tools[0]); strings.Contains(text, "first-credential") || strings.Contains(text, "token-in-use-123") {
		t.Error(text)
	}
	s.Configure(parsed(t, `mcpServers: {a: {url: "http://127.0.0.1:1/mcp", headers: {Authorization: "Bearer second-credential"}}}`))
	if got := s.Clean("first-credential second-credential"); strings.Contains(got, "second-credential") || !strings.Contains(got, "first-credential") {
		t.Errorf("after the reload: %s", got)
	}
}

// TestHooks: the hooks of a configuration take the place of those before.
func TestHooks(t *testing.T) {
	h := NewHooks([]string{"PATH=/bin"}, func(raw []byte) []byte { return raw }, slog.New(slog.DiscardHandler))
	defer h.Close()
	first := h.Configure(parsed(t, `{mcpServers: {}, guards: {hooks: [{command: [never-run], on: [call], failure: deny}]}}`))
	second := h.Configure(parsed(t, `{mcpServers: {}}`))
	if first == nil || first == second || h.current.Load() != second {
		t.Errorf("%v, %v", first, second)
	}
	if f := Leaks(parsed(t, `{mcpServers: {}}`), nil); f != nil {
		t.Error("secrets are looked for, and all may pass")
	}
	if f := Leaks(parsed(t, `{mcpServers: {}, guards: {secrets: {args: deny}}}`), redact.NewRecent(1)); f == nil {
		t.Error("secrets are not looked for")
	}
}
