package dispatch

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/access/authz"
	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/mcp"
)

// TestPossible: what a policy admits with any arguments is possible, for random policies, callers and
// arguments; and what Explain says is what Admit does.
func TestPossible(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	known := sampleCatalog(t, primitive.Listing{Upstream: "bank", Namespace: "bank", Tools: []json.RawMessage{json.RawMessage(`{"name":"pay","description":"d","_meta":{"tags":["money"]},"annotations":{"destructiveHint":true}}`)}})
	entries := []*catalog.Entry{entryNamed(t, known, "files", "read_file"), entryNamed(t, known, "files", "drop"), entryNamed(t, known, "web", "search"), entryNamed(t, known, "bank", "pay")}
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	maybe := func(list ...string) []string {
		if r.IntN(3) > 0 {
			return nil
		}
		return []string{pick(list...)}
	}
	atoms := []string{`args.n < 4`, `args.q == "a"`, `has(args.n)`, `"g1" in groups`, `"auditor" in roles`, `"s1" in scopes`, `tool.destructive`, `tool.read_only`, `claims.dept == "it"`, `session.calls < 1`, `now > timestamp("2020-01-01T00:00:00Z")`, `principal == "corp:a"`, `args.list.exists(x, x == 1)`}
	expression := func() string {
		a, b, c := pick(atoms...), pick(atoms...), pick(atoms...)
		return pick(a, "!("+a+")", a+" && "+b, a+" || "+b, "("+a+" || "+b+") && !("+c+")")
	}
	compiled := map[string]*authz.Expression{}
	admitted, refused := 0, 0
	seenBy := map[classified]bool{}
	var p *Policy
	for range 3000 {
		again := p != nil && r.IntN(2) == 0 // the same policy for another caller
		if !again {
			p = &Policy{Default: Action(pick("allow", "deny"))}
		}
		for range 1 + r.IntN(4) {
			if again {
				break
			}
			rule := PolicyRule{Action: Action(pick("allow", "deny", "require_approval")), Namespace: pick("", "", "bank", "web"), Tool: pick("", "", "dr*", "pay"), Observe: r.IntN(8) == 0}
			rule.If = &authz.Condition{Groups: maybe("g1", "g2"), Roles: maybe("operator", "auditor"), Scopes: maybe("s1", "s2"), Principals: maybe("corp:*", "ci")}
			if r.IntN(2) == 0 {
				text := expression()
				if compiled[text] == nil {
					x, err := authz.Compile(text)
					if err != nil {
						t.Fatalf("%s: %v", text, err)
					}
					compiled[text] = x
				}
				rule.If.When = compiled[text]
			}
			p.Rules = append(p.Rules, rule)
		}
		id := &identity.Identity{Principal: pick("corp:a", "ci"), Groups: maybe("g1", "g2"), Scopes: maybe("s1", "s2"), GroupsMissing: r.IntN(10) == 0, Roles: maybe("operator")}
		if id.GroupsMissing {
			id.RolesMissing = []string{"auditor"}
		}
		if id.Principal != "ci" {
			id.Issuer = "corp"
			if r.IntN(2) == 0 {
				id.Claims = map[string]any{"dept": pick("it", "hr")}
			}
		}
		e := entries[r.IntN(len(entries))]
		args := json.RawMessage(pick(`{}`, `{"n":3}`, `{"n":5,"q":"a"}`, `{"q":"b","list":[1,2]}`, `{"n":"x"}`))
		ctx := identity.With(t.Context(), id)
		c := NewControls(Pin{}, p, RateLimits{}, nil, time.Now(), nil)
		a := Act{Request: &mcp.Request{Method: "tools/call", Peer: mcp.NoPeer}, Verb: VerbExecute, About: []Subject{{Entry: e}}, Catalog: known, args: args, Ledger: &Ledger{}, dryRun: true}
		_, err := c.Admit(ctx, &a)
		answer := p.Explain(Question{Identity: id, Subject: Subject{Entry: e}, Args: args, Now: time.Now()})
		if (err == nil) != (answer.Action != Deny) {
			t.Fatalf("admitted: %v; explained: %+v\n%s", err, answer, policyText(p))
		}
		certain := c.Refuses(ctx, VerbExecute, []Subject{{Entry: e}})
		hides := *p
		hides.Hide = true
		if seen := hides.SightOf(id, "").Sees(VerbExecute, a.About); seen != answer.Possible {
			t.Fatalf("%s is seen: %v, and a call is possible: %v\n%s", e.ID, seen, answer.Possible, policyText(p))
		}
		key := classified{p, hides.Classes().Of(id, ""), e}
		if before, known := seenBy[key]; known && before != answer.Possible {
			t.Fatalf("two callers of a class see %s differently\n%s", e.ID, policyText(p))
		}
		seenBy[key] = answer.Possible
		switch {
		case err == nil && (!answer.Possible || certain):
			t.Fatalf("%s may call %s with %s, and it is called impossible (%v, %v)\n%s", id.Principal, e.ID, args, answer.Possible, certain, policyText(p))
		case err == nil:
			admitted++
		case !answer.Possible:
			refused++
		}
	}
	if admitted < 500 || refused < 200 {
		t.Errorf("%d admitted and %d impossible are too few to tell", admitted, refused)
	}
}

func policyText(p *Policy) string {
	text := fmt.Sprintf("default %s", p.Default)
	for _, r := range p.Rules {
		text += fmt.Sprintf("\n%s namespace %q tool %q observe %v %+v", r.Action, r.Namespace, r.Tool, r.Observe, *r.If)
		if r.If.When != nil {
			text += " when " + r.If.When.String()
		}
	}
	return text
}

// classified is what decides whether an entry is seen.
type classified struct {
	p     *Policy
	class authz.Class
	e     *catalog.Entry
}
