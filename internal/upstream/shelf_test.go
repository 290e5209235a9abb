package upstream

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/mcp"
)

// TestShelfBytes counts the bytes of listings once, takes them from the account and gives all back.
func TestShelfBytes(t *testing.T) {
	t.Parallel()
	pool := memory.NewPool(memory.Options{Limit: 1 << 20})
	defer pool.Close()
	s := newShelf()
	s.room, s.most = pool.Account("notes"), 100<<10
	var all []*shelved
	for i := 0; ; i++ {
		l := s.put(rosterOf(10, i), nil)
		if l == nil {
			break
		}
		all = append(all, l, s.put(rosterOf(10, i), nil))
	}
	if n := len(s.listings); n < 50 || n > 100 || s.bytes > s.most || len(s.definitions) != n+9 {
		t.Errorf("%d listings with %d definitions in %d bytes", n, len(s.definitions), s.bytes)
	}
	if used := pool.Usage().Kept; used != s.bytes {
		t.Errorf("%d bytes of the account for %d", used, s.bytes)
	}
	s.most = 10 << 20
	for i := 1000; ; i++ {
		l := s.put(rosterOf(10, i), nil)
		if l == nil {
			break
		}
		all = append(all, l)
	}
	if used := pool.Usage().Kept; used != s.bytes || used > 512<<10 || used < 500<<10 {
		t.Errorf("%d bytes of an account with 512 KB, for %d", used, s.bytes)
	}
	for _, l := range all {
		s.drop(l)
	}
	if s.bytes != 0 || pool.Usage().Kept != 0 || len(s.definitions) != 0 {
		t.Errorf("%d bytes, %d of the account, %d definitions are left", s.bytes, pool.Usage().Kept, len(s.definitions))
	}
}

// TestShelfBarred keeps listings apart whose barred tools have different reasons: a reason quotes the
// definition of its principal.
func TestShelfBarred(t *testing.T) {
	t.Parallel()
	s := newShelf()
	put := func(why string, cut ...string) *shelved {
		l, rules := rosterOf(2, 0), &toolRules{}
		l.Cut = cut
		if why != "" {
			rules.bar("send", errors.New(why))
		}
		return s.put(l, rules)
	}
	ann, bob := put("the property ann_key"), put("the property bob_key")
	if ann == bob || bob.rules.barred["send"].Error() != "the property bob_key" {
		t.Errorf("bob reads %q", bob.rules.barred["send"])
	}
	if put("the property ann_key") != ann {
		t.Error("equal listings are kept twice")
	}
	if put("x") == put("", "send", "x") {
		t.Error("a barred tool is like lists that were cut")
	}
}

// TestOwnListsRoom evicts the listings that no one has asked for where there is no room, tells of it,
// and refuses a listing rather than one that is in use.
func TestOwnListsRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tools := map[string][]string{}
		for i := range 20 {
			tools[fmt.Sprint("p", i)] = []string{fmt.Sprintf("tool_%d_%s", i, strings.Repeat("x", 2000))}
		}
		r := newRosters(tools)
		m, _ := manage(t, r.options(), ownLists("notes"))
		own := upstreamOf(t, m, "notes").lists.own
		own.shelf.mu.Lock()
		own.shelf.most = 50 << 10
		own.shelf.mu.Unlock()
		known := 0
		for settled(t, m, fmt.Sprint("p", known)) != "?" {
			known++
		}
		if known < 8 || known > 15 {
			t.Fatalf("%d listings have room", known)
		}
		last := fmt.Sprint("p", known)
		wantKind(t, own.retry(by(t, last), time.Second), mcp.KindOverloaded, "limits.memory")
		if seen(t, m, "p0") == "?" || r.heard("p0") != 1 {
			t.Error("a listing that is in use went")
		}
		time.Sleep(unusedTime - time.Second)
		for i := 1; i < known; i++ {
			seen(t, m, fmt.Sprint("p", i))
		}
		time.Sleep(time.Second)
		if err := own.retry(by(t, last), time.Second); err != nil || own.find(memberKey{principal: "p0"}) != nil || r.heard("p0") != 2 {
			t.Errorf("%v; p0, who has not asked for long, is told %d times", err, r.heard("p0"))
		}
		for i := 1; i <= known; i++ {
			if got := seen(t, m, fmt.Sprint("p", i)); got == "?" {
				t.Errorf("p%d has no listing", i)
			}
		}
		m.Apply(nil)
		synctest.Wait()
		if own.shelf.bytes != 0 {
			t.Errorf("%d bytes are left", own.shelf.bytes)
		}
	})
}

// TestOwnListsCut bounds the bytes of all lists of one principal.
func TestOwnListsCut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var many []string
		for i := range 100 {
			many = append(many, fmt.Sprint("tool_", i))
		}
		r := newRosters(map[string][]string{"ann": many})
		o := r.options()
		o.listBytes = listBytes{kept: 4096, read: 1 << 20}
		m, _ := manage(t, o, ownLists("notes"))
		settled(t, m, "ann")
		l := m.OwnLists(by(t, "ann")).Of[0]
		if len(l.Tools) < 10 || len(l.Tools) > 60 || len(l.Cut) != 1 || !strings.Contains(l.Cut[0], "the lists of one principal have more than 4096 bytes") {
			t.Errorf("%d tools, %q", len(l.Tools), l.Cut)
		}
	})
}

// TestShelf keeps each definition of many listings once, and none that no listing has.
func TestShelf(t *testing.T) {
	t.Parallel()
	s := newShelf()
	var all []*shelved
	for i := range 100 {
		all = append(all, s.put(rosterOf(100, i), nil), s.put(rosterOf(100, i), nil))
	}
	if len(s.listings) != 100 || len(s.definitions) != 199 || all[0] != all[1] {
		t.Errorf("%d listings, %d definitions", len(s.listings), len(s.definitions))
	}
	s.judge = func(l *primitive.Listing) primitive.Listing {
		out := *l
		if string(l.Tools[0]) == string(rosterOf(100, 7).Tools[0]) {
			out.Tools = l.Tools[1:]
		}
		return out
	}
	if changed := s.again(); len(changed) != 1 || !changed[all[14]] || len(all[14].served.Load().listing.Tools) != 99 {
		t.Errorf("%d listings are judged otherwise", len(changed))
	}
	for _, l := range all {
		s.drop(l)
	}
	if len(s.listings)+len(s.definitions) != 0 {
		t.Errorf("%d listings and %d definitions are left", len(s.listings), len(s.definitions))
	}
}

func newShelf() *shelf {
	return &shelf{order: func() int { return 0 }, most: maxShelved, listings: map[[32]byte]*shelved{}, definitions: map[[32]byte]*definition{}}
}

// rosterOf returns a listing of n tools, of which the first is of one principal alone.
func rosterOf(n, principal int) primitive.Listing {
	l := primitive.Listing{Upstream: "notes", Namespace: "notes"}
	about := strings.Repeat("What the tool does. ", 20)
	for i := range n {
		name := fmt.Sprintf("tool_%d", i)
		if i == 0 {
			name = fmt.Sprintf("own_%d", principal)
		}
		l.Tools = append(l.Tools, json.RawMessage(fmt.Sprintf(`{"name":%q,"description":%q,"inputSchema":{"type":"object","properties":{"q":{"type":"string"}}}}`, name, about)))
	}
	return l
}
