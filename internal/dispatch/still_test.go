package dispatch

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/mcp"
)

// TestPassOfACallThatWaited: a call that waited after it was admitted, for a hook, rows or a retry, runs
// only by what holds then. One that did not wait is not looked at again.
func TestPassOfACallThatWaited(t *testing.T) {
	by := func(action Action) *Controls {
		return NewControls(Pin{}, &Policy{Rules: []PolicyRule{{Action: action, Namespace: "bank"}}}, RateLimits{}, nil, time.Time{}, nil)
	}
	// An unlisted tool of another name stands for another definition: it has another digest, too.
	tool := &catalog.Entry{ID: "bank:pay", Kind: primitive.KindTool, Upstream: "bank", Namespace: "bank", Name: "pay", RawName: "pay"}
	another := *tool
	another.ID = "bank:pay#2"
	type world struct {
		controls *Controls
		caller   error
		as       string
		server   int
		entry    *catalog.Entry
	}
	for _, tt := range []struct {
		name   string
		change func(w *world)
		want   string // "" means that it runs
	}{
		{"nothing", func(*world) {}, ""},
		{"a rule that refuses", func(w *world) { w.controls = by(Deny) }, "refuses it now"},
		{"a rule that asks", func(w *world) { w.controls = by(RequireApproval) }, "call again"},
		{"another rule that allows", func(w *world) { w.controls = by(Allow) }, ""},
		{"no rules", func(w *world) { w.controls = NewControls(Pin{}, nil, RateLimits{}, nil, time.Time{}, nil) }, ""},
		{"the token, with the rules", func(w *world) { w.controls, w.caller = by(Allow), errors.New("unknown token") }, "unknown token"},
		{"the caller, with the rules", func(w *world) { w.controls, w.as = by(Allow), "bob" }, "another caller"},
		{"the server", func(w *world) { w.server++ }, `the configuration of server "bank"`},
		{"the definition", func(w *world) { w.entry = &another }, "its definition changed"},
		{"the catalog", func(w *world) { w.entry = nil }, "stopped to offer it"},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := world{entry: tool, as: "ann"}
			c := by(Allow)
			w.controls = c
			c.SetPresent(Present{
				Controls: func() *Controls { return w.controls },
				Caller: func(ctx context.Context) (context.Context, error) {
					return identity.With(ctx, &identity.Identity{Principal: w.as}), w.caller
				},
				Server: func(string) any { return w.server },
			})
			a := Act{Request: &mcp.Request{ID: "1", Method: "tools/call", Session: mcp.NewSession("s", "ann"), Peer: mcp.NoPeer}, Verb: VerbExecute, About: []Subject{{Entry: tool}},
				Again: func(context.Context) (*catalog.Catalog, []Subject, bool) {
					return nil, []Subject{{Entry: w.entry}}, w.entry != nil
				}}
			ctx := identity.With(t.Context(), &identity.Identity{Principal: "ann"})
			p, err := c.Admit(ctx, &a)
			if err != nil {
				t.Fatal(err)
			}
			kept := p.Kept()
			tt.change(&w)
			if err := p.Holds(ctx); err != nil {
				t.Errorf("%s: at once: %v", tt.name, err)
			}
			time.Sleep(time.Second)
			if err := p.Holds(ctx); (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
			}
			if err := errors.Join(kept.Check("tools/call"), kept.Holds(ctx)); err != nil || kept.still != nil {
				t.Errorf("%s: a call that has begun: %v", tt.name, err)
			}
		})
	}
}
