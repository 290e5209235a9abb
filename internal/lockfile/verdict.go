package lockfile

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/text/uritemplate"
	"github.com/weir-mcp/weir/mcp"
)

// verdict is the judgement of one listing.
type verdict struct {
	mode        Mode
	locked      *lockedServer
	differences []Difference
	err         error           // the lock cannot be used
	own         *observedServer // the listing of one principal; nil: all callers have the same listing
}

// judge compares a listing with the lock.
func judge(mode Mode, locked *lockedServer, now *observedServer, err error) verdict {
	v := verdict{mode: mode, locked: locked, err: err}
	if err != nil {
		return v
	}
	v.differences = compareServer(locked, now)
	v.hold()
	return v
}

// hold marks the differences that hide their entry.
func (v *verdict) hold() {
	for i := range v.differences {
		d := &v.differences[i]
		d.Held = !d.Notice && (v.mode == refuse || v.mode == hold && d.Change != catalog.EntryRemoved)
	}
}

// refused reports whether nothing of the server is served.
func (v *verdict) refused() bool {
	return v.mode == refuse && (v.err != nil || v.count() > 0) || v.mode == hold && v.err != nil
}

// count returns the number of differences that are not notices.
func (v *verdict) count() (n int) {
	for _, d := range v.differences {
		if !d.Notice {
			n++
		}
	}
	return n
}

// held returns the number of entries that are hidden.
func (v *verdict) held() (n int) {
	for _, d := range v.differences {
		if d.Held && d.Change != catalog.EntryRemoved {
			n++
		}
	}
	return n
}

// consequence names the effect of an unusable lock, as the end of a sentence.
func (v *verdict) consequence() string {
	if v.refused() {
		return ": nothing of the server is served"
	}
	return ": its changes are not noticed"
}

// note says for people why a server has fewer entries than it lists; "" if nothing differs.
func (v *verdict) note(server string) string {
	n := v.count()
	switch {
	case v.err != nil:
		return "weir.lock cannot be used" + v.consequence()
	case n == 0:
		return ""
	case v.mode == refuse:
		return fmt.Sprintf("taken out: %s from weir.lock; look with weir trust diff %s, agree with weir trust accept %s", counted(n), server, server)
	case v.held() > 0:
		return fmt.Sprintf("%s from weir.lock, %d held; look with weir trust diff %s, agree with weir trust accept %s", counted(n), v.held(), server, server)
	}
	return fmt.Sprintf("%s from weir.lock; look with weir trust diff %s, agree with weir trust accept %s", counted(n), server, server)
}

func counted(n int) string {
	if n == 1 {
		return "1 definition differs"
	}
	return fmt.Sprintf("%d definitions differ", n)
}

// The notes on the cards of entries that differ, in mode warn. The one for a listing of one principal
// does not say whether the lock has another definition of the name, which others are listed.
const (
	cardNote    = "changed since it was trusted"
	ownCardNote = "not in weir.lock"
)

// filter returns the part of a listing that may be served.
func (v *verdict) filter(l primitive.Listing) primitive.Listing {
	switch {
	case v.refused():
		return primitive.Listing{Upstream: l.Upstream, Namespace: l.Namespace, Order: l.Order, Found: l.Found}
	case v.mode == hold:
		for kind, list := range definitionsOf(&l) {
			kept := make([]json.RawMessage, 0, len(*list))
			for _, raw := range *list {
				if v.shows(kind, raw) {
					kept = append(kept, raw)
				}
			}
			*list = kept
		}
		if v.differs(Key{Kind: KindServer}) {
			l.Title, l.About, l.Instructions, l.Greeting = "", "", "", primitive.Greeting{}
		}
	case v.count() > 0:
		note := cardNote
		if v.own != nil {
			note = ownCardNote
		}
		l.Notes = map[primitive.Key]string{}
		for _, d := range v.differences {
			if d.Kind != KindServer && d.Change != catalog.EntryRemoved {
				l.Notes[primitive.Key{Upstream: l.Upstream, Kind: d.Kind, Name: d.Name}] = note
			}
		}
	}
	return l
}

// shows reports whether a definition is as the lock has it. The catalog reports one without a name.
func (v *verdict) shows(kind primitive.Kind, raw []byte) bool {
	if v.refused() {
		return false
	}
	k, ok := keyOf(kind, raw)
	if !ok {
		return true
	}
	return v.locked.get(k).accepts(hashOf(raw))
}

// differs reports whether a definition differs from the lock.
func (v *verdict) differs(k Key) bool {
	for _, d := range v.differences {
		if d.Key() == k && !d.Notice {
			return true
		}
	}
	return false
}

// A Gate decides which definitions of one server clients get where they speak to the server itself.
// The nil Gate lets everything pass.
type Gate struct {
	v       verdict
	server  string
	listed  bool
	listing *primitive.Listing
	conceal func(primitive.Listing) primitive.Listing
}

// Gate returns the gate of a server in modes hold and refuse, and nil in other modes.
func (k *Keeper) Gate(server string) *Gate {
	if mode := k.opts.Mode(server); mode != hold && mode != refuse {
		return nil
	}
	w := k.known(server)
	if w == nil {
		return &Gate{server: server, conceal: k.opts.Conceal}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return &Gate{v: w.verdict, server: server, listed: w.now != nil, listing: w.listing, conceal: k.opts.Conceal}
}

// Open returns an error if nothing may be asked of the server.
func (g *Gate) Open() error {
	switch {
	case g == nil:
		return nil
	case !g.listed:
		return mcp.Errorf(mcp.KindUpstreamStarting, "upstream %q has not been listed yet, and its definitions are compared with weir.lock first", g.server)
	case g.v.refused():
		return mcp.Errorf(mcp.KindUpstreamUnavailable, "upstream %q is taken out until an operator has looked at its definitions, which differ from those in weir.lock", g.server)
	}
	return nil
}

// Shows reports whether a list may have a definition of a kind that the lock covers. One without a
// key that all readers read alike may not be in it.
func (g *Gate) Shows(kind primitive.Kind, raw []byte) bool {
	if g == nil {
		return true
	}
	if !readable(kind, raw) {
		return false
	}
	l := primitive.Listing{Upstream: g.server}
	for k, list := range definitionsOf(&l) {
		if k == kind {
			*list = []json.RawMessage{raw}
		}
	}
	l = g.conceal(l)
	for k, list := range definitionsOf(&l) {
		if k == kind {
			raw = (*list)[0]
		}
	}
	return g.v.shows(kind, raw)
}

// Allows reports whether a tool or prompt may be used. A held tool and one that the lock does not
// have look alike. So does a tool that is listed only for other principals: all of them share the
// lock.
func (g *Gate) Allows(kind primitive.Kind, name string) bool {
	if g == nil {
		return true
	}
	k := Key{kind, name}
	if own := g.v.own; own != nil && own.definitions[k].hash == "" {
		return false
	}
	return !g.v.refused() && g.v.locked.get(k) != nil && !g.v.differs(k)
}

// Holds reports whether the server offers a tool, prompt or template that differs from the lock.
func (g *Gate) Holds(kind primitive.Kind, name string) bool {
	return g != nil && g.v.differs(Key{kind, name})
}

// AllowsURI reports whether a resource may be read. One that only held templates can make may not.
func (g *Gate) AllowsURI(uri string) bool {
	if g == nil || g.listing == nil {
		return g == nil
	}
	for _, raw := range g.listing.Resources {
		if rawjson.Text(rawjson.Get(raw, "uri")) == uri {
			return !g.v.refused()
		}
	}
	held := false
	for _, raw := range g.listing.ResourceTemplates {
		k, ok := keyOf(primitive.KindTemplate, raw)
		if !ok {
			continue
		}
		t, err := uritemplate.Parse(k.Name)
		if err != nil {
			continue
		}
		if _, matches := t.Match(uri); matches {
			if g.Allows(primitive.KindTemplate, k.Name) {
				return true
			}
			held = true
		}
	}
	return !held
}

// ShowsAbout reports whether clients may read the server's description of itself.
func (g *Gate) ShowsAbout() bool { return g == nil || !g.v.differs(Key{Kind: KindServer}) }

// cloned returns a listing with bytes of its own.
func cloned(l primitive.Listing) primitive.Listing {
	for _, list := range []*[]json.RawMessage{&l.Tools, &l.Resources, &l.ResourceTemplates, &l.Prompts} {
		own := make([]json.RawMessage, len(*list))
		for i, raw := range *list {
			own[i] = bytes.Clone(raw)
		}
		*list = own
	}
	l.Greeting.ServerInfo = bytes.Clone(l.Greeting.ServerInfo)
	return l
}
