package upstream

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/identity"
)

// TestPace keeps a server from being read all the time: one whose lists never change after it says so,
// and one that lists differently each time. The lists of another one are read at once.
func TestPace(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		changed func(i int) bool
		most    int
	}{
		"the same":          {func(int) bool { return false }, 20},
		"always others":     {func(int) bool { return true }, 80},
		"each second other": {func(i int) bool { return i%2 == 0 }, 80},
	} {
		p, now, n := pace{pause: debounce}, time.Unix(0, 0), 0
		for end := now.Add(10 * time.Minute); now.Before(end); n++ {
			now = now.Add(p.pause)
			p.fetched(now, c.changed(n))
		}
		if n > c.most || n < 5 {
			t.Errorf("%s: %d reads in ten minutes", name, n)
		}
		now = now.Add(10 * time.Minute)
		if p.fetched(now, true); p.pause != debounce || len(p.changes) > maxChanges+1 {
			t.Errorf("%s: a change after a while waits %v", name, p.pause)
		}
	}
	p, now := pace{pause: debounce}, time.Unix(0, 0)
	for range 20 {
		if now = now.Add(20 * time.Second); p.pause != debounce {
			t.Errorf("a listing that changes three times a minute waits %v", p.pause)
		}
		p.fetched(now, true)
	}
}

// TestOwnListsSignInAgain fetches the listing of a principal that signs out and in again at once, also
// while a fetch waits for its time or for the server.
func TestOwnListsSignInAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRosters(map[string][]string{"ann": {"a"}})
		m, _ := manage(t, r.options(), ownLists("notes"))
		own, key := upstreamOf(t, m, "notes").lists.own, memberKey{principal: "ann"}
		settled(t, m, "ann")
		again := func() (waited time.Duration) {
			r.sign("ann", false)
			if got := seen(t, m, "ann"); got != "sign_in" {
				t.Errorf("after the sign-out: %q", got)
			}
			r.sign("ann", true)
			began := time.Now()
			if got := settled(t, m, "ann"); got != "a" {
				t.Errorf("after the sign-in: %q", got)
			}
			return time.Since(began)
		}
		own.mu.Lock()
		member := own.find(key)
		member.pace.pause = longestRelist
		own.mu.Unlock()
		own.changed(key, false)
		own.mu.Lock()
		if member.delay == nil || member.fetching != nil {
			t.Error("no fetch waits for its time")
		}
		own.mu.Unlock()
		if waited := again(); waited > time.Second {
			t.Errorf("%v after a sign-in while a fetch waited for its time", waited)
		}
		r.change(func() { r.wait = time.Hour })
		own.changed(key, true)
		time.Sleep(time.Second)
		r.change(func() { r.wait = 0 })
		if waited := again(); waited > time.Second {
			t.Errorf("%v after a sign-in while the server did not answer", waited)
		}
		time.Sleep(2 * time.Hour)
	})
}

// TestOwnListsTurns makes no fetch for a principal that signed out while it waited for its turn, one
// at a time for the grants of a principal, and none that lasts for long.
func TestOwnListsTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tools := map[string][]string{}
		for i := range maxFetches + 1 {
			tools[fmt.Sprint("p", i)] = []string{"a"}
		}
		r := newRosters(tools)
		m, _ := manage(t, r.options(), ownLists("notes"))
		own := upstreamOf(t, m, "notes").lists.own
		r.change(func() { r.wait = 10 * time.Second })
		for i := range maxFetches + 1 {
			seen(t, m, fmt.Sprint("p", i))
			synctest.Wait()
		}
		last := fmt.Sprint("p", maxFetches)
		r.sign(last, false)
		seen(t, m, last)
		time.Sleep(time.Minute)
		if n := r.asks(); n != maxFetches {
			t.Errorf("%d reads for %d principals", n, maxFetches)
		}

		r.change(func() { r.most = 0 })
		own.mu.Lock()
		for i := range 2 * maxGrants {
			member := own.member(memberKey{"p0", fmt.Sprint("client", i)})
			member.who, member.asked = &identity.Identity{Principal: "p0"}, time.Now()
			own.begin(t.Context(), member, 0)
		}
		if n := len(own.holders["p0"].grants); n != maxGrants {
			t.Errorf("%d grants of a principal", n)
		}
		own.mu.Unlock()
		time.Sleep(10 * time.Minute)
		r.mu.Lock()
		if r.most != 1 || len(r.asked) != maxFetches+maxGrants {
			t.Errorf("%d reads of one principal at a time, %d in all", r.most, len(r.asked)-maxFetches)
		}
		r.wait, r.endless = 25*time.Second, true
		r.mu.Unlock()
		own.changed(memberKey{principal: "p1"}, true)
		time.Sleep(fetchTime + 30*time.Second) // the transport does not look at the end of a request
		own.mu.Lock()
		if p1 := own.find(memberKey{principal: "p1"}); p1.err == nil {
			t.Error("a fetch lasts for long")
		}
		own.mu.Unlock()
		time.Sleep(2 * time.Hour)
	})
}

// TestOwnListsEvicted tells a principal whose listing is evicted.
func TestOwnListsEvicted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRosters(map[string][]string{"ann": {"a"}, "bob": {"b"}})
		m, _ := manage(t, r.options(), ownLists("notes"))
		own := upstreamOf(t, m, "notes").lists.own
		own.mu.Lock()
		own.most = 1
		own.mu.Unlock()
		settled(t, m, "ann")
		settled(t, m, "bob")
		synctest.Wait()
		if r.heard("ann") != 2 || r.heard("bob") != 1 {
			t.Errorf("ann is told %d times, bob %d", r.heard("ann"), r.heard("bob"))
		}
	})
}
