package sessionid

import (
	"context"
	"encoding/base64"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/seal"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/testkit/storetest"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/streamable"
)

func ids(t *testing.T, d store.Docs) *Ids {
	t.Helper()
	k, err := seal.NewKey(base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat("k", 32))))
	if err != nil {
		t.Fatal(err)
	}
	return New(k, d, nil)
}

func session(info string) *mcp.Session {
	s := mcp.NewSession("", "ann")
	s.SetVersion(mcp.V20250618)
	s.SetClient([]byte(info), []byte(`{"sampling":{},"x":1}`))
	return s
}

// TestAdopt: another process with the same key and the same store makes the session anew, for its
// principal, at its endpoint, within its life, and until it was ended.
func TestAdopt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := store.NewMemory(store.MemoryOptions{})
		born := session(`{"name":"c","version":"1"}`)
		id := ids(t, docs).At("/mcp").Name(born)
		if !streamable.ValidSessionID(id) || strings.Contains(id, "ann") {
			t.Errorf("the id is %q", id)
		}
		later := ids(t, docs)
		adopt := func(path, id, principal string) *mcp.Session {
			t.Helper()
			s, err := later.At(path).Adopt(t.Context(), id, principal)
			if err != nil {
				t.Error(err)
			}
			return s
		}
		s := adopt("/mcp", id, "ann")
		if s == nil {
			t.Fatal("the session is not adopted")
		}
		info, caps := s.Client()
		if s.ID() != born.ID() || s.Principal() != "ann" || s.Version() != mcp.V20250618 || string(info) != `{"name":"c","version":"1"}` || string(caps) != `{"sampling":{},"x":1}` {
			t.Errorf("%q %q %q %s %s", s.ID(), s.Principal(), s.Version(), info, caps)
		}
		other := session("{}").ID()
		for what, s := range map[string]*mcp.Session{
			"another principal": adopt("/mcp", id, "bob"),
			"another endpoint":  adopt("/mcp/other", id, "ann"),
			"another id":        adopt("/mcp", strings.Replace(id, born.ID(), other, 1), "ann"),
			"no seal":           adopt("/mcp", born.ID(), "ann"),
			"cut":               adopt("/mcp", id[:len(id)-4], "ann"),
			"nothing":           adopt("/mcp", "", "ann"),
		} {
			if s != nil {
				t.Errorf("%s: adopted", what)
			}
		}
		time.Sleep(life - time.Hour)
		if adopt("/mcp", id, "ann") == nil {
			t.Error("the id has ended before its life")
		}
		time.Sleep(2 * time.Hour)
		if adopt("/mcp", id, "ann") != nil {
			t.Error("the id outlives its life")
		}
	})
}

// TestEnded: a session that its client has ended is never adopted, and an end that is not kept is not
// confirmed.
func TestEnded(t *testing.T) {
	fault := storetest.None
	docs := &storetest.Faults{Docs: store.NewMemory(store.MemoryOptions{}), Next: func() storetest.Fault { return fault }}
	e := ids(t, docs).At("/mcp")
	id := e.Name(session("{}"))
	unavailable := func(err error) {
		t.Helper()
		if kind, _ := mcp.KindOf(err); kind != mcp.KindStoreUnavailable {
			t.Errorf("%v, want store_unavailable", err)
		}
	}
	docs.Cut(true)
	unavailable(e.End(t.Context(), id))
	_, err := e.Adopt(t.Context(), id, "ann")
	unavailable(err)
	docs.Cut(false)
	fault = storetest.ApplyThenFail
	unavailable(e.End(t.Context(), id))
	fault = storetest.None
	for range 2 {
		if err := e.End(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
	if s, err := e.Adopt(t.Context(), id, "ann"); s != nil || err != nil {
		t.Errorf("adopted %v, %v", s, err)
	}
	if err := e.End(t.Context(), "of a stranger"); err != nil {
		t.Error(err)
	}
}

// TestLargeClient: the icons of a client are left out of the id, and a client that tells too much in
// any case has an id as without a store.
func TestLargeClient(t *testing.T) {
	e := ids(t, store.NewMemory(store.MemoryOptions{})).At("/mcp")
	s, err := e.Adopt(t.Context(), e.Name(session(`{"name":"c","version":"1","icons":[{"src":"`+strings.Repeat("x", 4000)+`"}]}`)), "ann")
	if err != nil || s == nil {
		t.Fatal(s, err)
	}
	if info, _ := s.Client(); string(info) != `{"name":"c","version":"1"}` {
		t.Errorf("%s", info)
	}
	if id := e.Name(session(`{"name":"` + strings.Repeat("x", 590) + `"}`)); !streamable.ValidSessionID(id) || !strings.HasPrefix(id, "w1.") {
		t.Errorf("an id of %d bytes: %s", len(id), id)
	}
	large := session(`{"name":"` + strings.Repeat("x", 4000) + `"}`)
	if id := e.Name(large); id != large.ID() {
		t.Errorf("an id of %d bytes", len(id))
	}
}

// TestIDsOfACluster: an id begins with the incarnation of its node, also if the client tells too much of itself for
// a session that can be adopted. Ids of builds that wrote "~" behind the incarnation are known.
func TestIDsOfACluster(t *testing.T) {
	all := ids(t, store.NewMemory(store.MemoryOptions{}))
	all.In(func() string { return "abc123" })
	e := all.At("/mcp")
	small, large := session(`{"name":"c","version":"1"}`), session(`{"name":"`+strings.Repeat("x", 4000)+`"}`)
	for what, s := range map[string]*mcp.Session{"small": small, "large": large} {
		id := e.Name(s)
		parts := strings.SplitN(id, ".", 3)
		if !streamable.ValidSessionID(id) || len(parts) != 3 || parts[0] != "w1" || parts[1] != "abc123" {
			t.Errorf("%s: the id is %q", what, id)
		}
		node, key, ok := e.Owner("ann", id)
		if node != "abc123" || key != "s."+store.Hash(s.ID()) || !ok {
			t.Errorf("%s: %q, %q, %v", what, node, key, ok)
		}
		if _, _, ok := e.Owner("bob", id); ok {
			t.Errorf("%s: another principal has it", what)
		}
		if got, err := e.Adopt(t.Context(), id, "ann"); err != nil || (got != nil) != (what == "small") {
			t.Errorf("%s: adopted %v, %v", what, got, err)
		}
	}
	plain, _ := sealable(small, time.Now())
	name := "abc123~" + small.ID()
	old := prefix + name + "." + all.seal.Seal(purpose, plain, e.context(name))
	node, key, ok := e.Owner("ann", old)
	if node != "abc123" || key != "s."+store.Hash(small.ID()) || !ok {
		t.Errorf("of before: %q, %q, %v", node, key, ok)
	}
	if s, err := e.Adopt(t.Context(), old, "ann"); s == nil || s.ID() != small.ID() {
		t.Errorf("of before: adopted %v, %v", s, err)
	}
}

// TestWrapEnds: the id of a server ends, as one of weir's own sessions does.
func TestWrapEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := ids(t, store.NewMemory(store.MemoryOptions{})).At("/mcps/a/mcp")
		id := e.Wrap("ann", "https://a/mcp", "secret-id")
		time.Sleep(life - time.Hour)
		if own, ok := e.Unwrap("ann", "https://a/mcp", id); !ok || own != "secret-id" {
			t.Errorf("before its end: %q, %v", own, ok)
		}
		time.Sleep(2 * time.Hour)
		if own, ok := e.Unwrap("ann", "https://a/mcp", id); ok {
			t.Errorf("after its end: %q", own)
		}
	})
}

// TestWrap: the id of a server is known for its principal, its server and its endpoint alone.
func TestWrap(t *testing.T) {
	docs := store.NewMemory(store.MemoryOptions{})
	e := ids(t, docs).At("/mcps/a/mcp")
	id := e.Wrap("ann", "https://a/mcp", "secret-id")
	if !streamable.ValidSessionID(id) || strings.Contains(id, "secret-id") {
		t.Errorf("the id is %q", id)
	}
	later := ids(t, docs)
	if own, ok := later.At("/mcps/a/mcp").Unwrap("ann", "https://a/mcp", id); !ok || own != "secret-id" {
		t.Errorf("%q, %v", own, ok)
	}
	for _, other := range [][4]string{
		{"/mcps/b/mcp", "ann", "https://a/mcp", id}, {"/mcps/a/mcp", "bob", "https://a/mcp", id}, {"/mcps/a/mcp", "ann", "https://b/mcp", id},
		{"/mcps/a/mcp", "ann", "https://a/mcp", "secret-id"}, {"/mcps/a/mcp", "ann", "https://a/mcp", id + "A"},
	} {
		if own, ok := later.At(other[0]).Unwrap(other[1], other[2], other[3]); ok {
			t.Errorf("%v: %q", other, own)
		}
	}
	older := endlessPrefix + later.seal.Seal(endlessPurpose, []byte("older-id"), e.serverContext("ann", "https://a/mcp"))
	if own, ok := e.Unwrap("ann", "https://a/mcp", older); !ok || own != "older-id" {
		t.Errorf("the id of an earlier version: %q, %v", own, ok)
	}
	if own, ok := e.Unwrap("ann", "https://a/mcp", endlessPrefix+strings.TrimPrefix(id, serverPrefix)); ok {
		t.Errorf("an id without its end: %q", own)
	}
	if long := strings.Repeat("x", 1000); e.Wrap("ann", "https://a/mcp", long) != long {
		t.Error("an id becomes longer than clients take")
	}
}

// asked counts reads.
type asked struct {
	store.Docs
	reads int
}

func (d *asked) Get(ctx context.Context, key string) (store.Doc, error) {
	d.reads++
	return d.Docs.Get(ctx, key)
}

// TestAhead: what was read of a session ahead is not read again for its adoption, and counts for one adoption of this
// session.
func TestAhead(t *testing.T) {
	docs := &asked{Docs: store.NewMemory(store.MemoryOptions{})}
	k := newKept(t, docs, session("{}"))
	e, principal := k.Endpoint, k.s.Principal()
	with := e.Ahead(t.Context(), principal, k.id)
	if with == nil || docs.reads != 1 {
		t.Fatalf("%d reads", docs.reads)
	}
	ctx := with(t.Context())
	if s, err := e.Adopt(ctx, k.id, principal); s == nil || err != nil || docs.reads != 1 {
		t.Errorf("%v %v, %d reads", s, err, docs.reads)
	}
	if err := e.End(t.Context(), k.id); err != nil {
		t.Fatal(err)
	}
	if s, err := e.Adopt(ctx, k.id, principal); s != nil || err != nil {
		t.Errorf("a session that has ended: %v %v", s, err)
	}
	// Another request of the session may end it between the two.
	late := newKept(t, docs, session("{}"))
	ctx = e.Ahead(t.Context(), principal, late.id)(t.Context())
	if err := e.End(t.Context(), late.id); err != nil {
		t.Fatal(err)
	}
	if s, err := e.Adopt(ctx, late.id, principal); s != nil || err != nil {
		t.Errorf("a session that was ended after the read ahead: %v %v", s, err)
	}
	if e.Ahead(t.Context(), "another", k.id) != nil || e.Ahead(t.Context(), principal, k.id+"x") != nil {
		t.Error("something is read of a session that the principal does not have")
	}
	other := newKept(t, docs, session("{}"))
	docs.reads = 0
	if s, err := e.Adopt(e.Ahead(t.Context(), principal, k.id)(t.Context()), other.id, principal); err != nil || docs.reads != 2 {
		t.Errorf("%v %v, %d reads", s, err, docs.reads)
	}
}
