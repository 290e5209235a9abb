package dispatch

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"reflect"
	"slices"
	"time"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/result"
)

// A call may wait after it was judged: for the yes of a person, a hook, rows, a retry, or a sign-in.
// Meanwhile the policy, the caller's credential, the definition or the server may change. So a call
// that waited is judged once more before it runs, by what holds then:
//
//	admit ─▶ a person is asked ─▶ yes ─▶ judged once more ─▶ hooks ─▶ pass ─▶ … ─▶ Holds ─▶ upstream
//
// No person is asked a second time: what would need another question is refused.

// Present says what holds now. Its functions are called concurrently. The zero value says that
// nothing changes.
type Present struct {
	// Controls returns the newest controls.
	Controls func() *Controls
	// Caller returns the context with the caller as it is now, or an error if the credential of the
	// request does not admit it any more.
	Caller func(ctx context.Context) (context.Context, error)
	// Subjects returns the newest catalog, and the subjects of a call of an entry by the caller of ctx.
	// ok is false if the caller does not have the entry any more.
	Subjects func(ctx context.Context, e *catalog.Entry, uri string) (c *catalog.Catalog, about []Subject, ok bool)
	// Server returns the configuration of a server, to be compared with reflect.DeepEqual; nil if the
	// server is not known.
	Server func(name string) any
}

// SetPresent says how to find out what holds now. It must be called before the first Admit.
func (c *Controls) SetPresent(p Present) { c.present = p }

// holdsFor is how long a pass holds without another look.
const holdsFor = 100 * time.Millisecond

// judgement is what an act was judged by.
type judgement struct {
	about    []Subject
	servers  []any     // their configurations
	approved *question // that a person has said yes to; nil: none was asked
}

// judged returns what an act is judged by.
func (c *Controls) judged(a *Act) judgement {
	return judgement{about: a.About, servers: c.configurations(a.About)}
}

func (c *Controls) configurations(about []Subject) []any {
	if c.present.Server == nil {
		return nil
	}
	var list []any
	for i, s := range about {
		if s.Entry != nil && (i == 0 || s.Entry.Upstream != about[i-1].Entry.Upstream) {
			list = append(list, c.present.Server(s.Entry.Upstream))
		}
	}
	return list
}

// digest returns a text that is another one for other definitions and servers. It is the same at all
// nodes of a cluster that have them.
func (j judgement) digest() string {
	h := sha256.New()
	for _, s := range j.about {
		if s.Entry != nil {
			digest := s.Entry.Digest()
			_, _ = fmt.Fprintf(h, "%q %q %d %x\n", s.Entry.ID, s.Entry.Upstream, s.Known, digest) // writing to a hash does not fail
		}
	}
	for _, server := range j.servers {
		if s, ok := server.(interface{ Fingerprint(key []byte) string }); ok {
			_, _ = io.WriteString(h, s.Fingerprint(nil)+"\n")
		}
	}
	return string(h.Sum(nil))
}

// still judges an act once more, and returns the controls by which it was. It returns the errors of
// Admit.
func (c *Controls) still(ctx context.Context, a *Act, was judgement) (*Controls, error) {
	now, first := c, orNone(was.about)[0]
	if c.present.Controls != nil {
		now = c.present.Controls()
	}
	refused := func(format string, args ...any) error {
		why := fmt.Sprintf(format, args...) + " while the call waited, so it did not run"
		return result.NewError(result.PermissionDenied, a.name(first)+": "+why)
	}
	if p := c.present.Caller; p != nil && (was.approved != nil || now != c) {
		again, err := p(ctx)
		switch {
		case err != nil:
			return nil, refused("the credential of the caller became invalid (%v)", err)
		case identity.From(again).Principal != identity.From(ctx).Principal:
			return nil, refused("the credential came to name another caller")
		}
		ctx = again
	}
	if find := a.Again; find != nil {
		catalog, about, ok := find(ctx)
		if !ok || !same(was.about, about) {
			return nil, refused("its definition changed, or the server stopped to offer it, or it was held back")
		}
		a.Catalog, a.About = catalog, about
	}
	if !reflect.DeepEqual(was.servers, c.configurations(a.About)) {
		return nil, refused("the configuration of server %q changed", first.Entry.Upstream)
	}
	if now.None() {
		return now, nil
	}
	if err := now.fits(ctx, a); err != nil {
		return nil, err
	}
	in := now.input(ctx, a)
	how := strictly
	if a.Free {
		how = possibly
	}
	s, v := now.strictest(ctx, in, how, a)
	switch {
	case v.action == Allow, v.action == RequireApproval && a.Free:
		return now, nil
	case v.action == RequireApproval && was.approved == nil:
		return nil, v.refusal(a, s, "the policy came to ask a person while the call waited, so it did not run; call again")
	case v.action == RequireApproval && newQuestion(a, s, v, now.redactor.Known) == *was.approved:
		return now, nil
	case v.action == RequireApproval:
		return nil, v.refusal(a, s, "what a person has to approve changed while the call waited, so it did not run; call again, and the person is asked again")
	}
	return nil, v.refusal(a, s, "the policy of this gateway changed while the call waited, and refuses it now")
}

// same reports whether subjects are those that were judged, with the same definitions.
func same(was, now []Subject) bool {
	return slices.EqualFunc(was, now, func(a, b Subject) bool {
		if a.Entry == nil || b.Entry == nil || a.Entry == b.Entry {
			return a.Entry == b.Entry
		}
		return a.Known == b.Known && a.URI == b.URI && a.Odd == b.Odd && a.Entry.ID == b.Entry.ID && a.Entry.Upstream == b.Entry.Upstream && a.Entry.Digest() == b.Entry.Digest()
	})
}

// Holds judges once more, for a pass that is older than a moment. It returns the errors of Admit.
func (p pass) Holds(ctx context.Context) error {
	if p.still == nil || time.Since(p.at) < holdsFor {
		return nil
	}
	return p.still(ctx)
}

// Kept returns the pass for a call that has started and lasts, such as a task. It does not hold on to
// the arguments and the catalog of the call.
func (p pass) Kept() pass { return pass{granted: p.granted} }
