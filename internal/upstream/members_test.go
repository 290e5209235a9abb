package upstream

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/signin/oauth"
	"github.com/weir-mcp/weir/mcp"
)

// rosters is a set of accounts whose server lists other tools for each of them.
type rosters struct {
	*accounts
	tools   map[string][]string // by principal; guarded by accounts.mu, like the rest
	fails   map[string]int      // status of tools/list by principal; 0 lists
	wait    time.Duration       // before tools/list is answered
	asked   []time.Time         // of tools/list
	endless bool                // tools/list has always another page
	now     int                 // lists being read
	most    int                 // the most of them at a time
	told    []string            // principals of ListsChanged
}

func newRosters(tools map[string][]string) *rosters {
	r := &rosters{accounts: newAccounts(), tools: tools, fails: map[string]int{}}
	for principal := range tools {
		r.sign(principal, true)
	}
	return r
}

func (r *rosters) options() Options {
	return Options{Transport: r.transport, Credentials: r, ListsChanged: func(principal, _ string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.told = append(r.told, principal)
	}}
}

// transport implements Options.Transport.
func (r *rosters) transport(name string, of Owner, base http.RoundTripper) http.RoundTripper {
	rest := r.accounts.transport(name, of, base)
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		if req.Body == nil {
			return rest.RoundTrip(req)
		}
		body, _ := io.ReadAll(req.Body)
		_ = req.Body.Close()
		req = req.Clone(req.Context())
		req.Body = io.NopCloser(bytes.NewReader(body))
		if rawjson.Text(rawjson.Get(body, "method")) != "tools/list" || !r.SignedIn(name, of.Principal) {
			return rest.RoundTrip(req)
		}
		return r.list(of.Principal, rawjson.Get(body, "id"))
	})
}

func (r *rosters) list(principal string, id []byte) (*http.Response, error) {
	r.mu.Lock()
	r.asked = append(r.asked, time.Now())
	r.now++
	r.most = max(r.most, r.now)
	wait := r.wait
	r.mu.Unlock()
	time.Sleep(wait)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now--
	switch status := r.fails[principal]; status {
	case 0:
	case http.StatusUnauthorized:
		missing := &oauth.SignInError{Server: "notes"}
		return nil, &mcp.Error{Kind: mcp.KindUnauthorized, Message: missing.Error(), Err: missing}
	default:
		return &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody}, nil
	}
	var tools []string
	for _, name := range r.tools[principal] {
		tools = append(tools, fmt.Sprintf(`{"name":%q,"description":"of %s","inputSchema":{"type":"object"}}`, name, name))
	}
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "application/json")
	more := ""
	if r.endless {
		more = fmt.Sprintf(`,"nextCursor":"%d"`, len(r.asked))
	}
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[%s]%s}}`, id, strings.Join(tools, ","), more)
	return w.Result(), nil
}

// change changes what the server does.
func (r *rosters) change(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

// asks returns how often the lists were read.
func (r *rosters) asks() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.asked)
}

// ownLists is a server that lists for each principal.
func ownLists(name string) *mcpserver.Server {
	s := perPrincipal(name)
	s.Lists = "caller"
	return s
}

// by returns the context of a request of a principal.
func by(t *testing.T, principal string) context.Context {
	return identity.With(t.Context(), &identity.Identity{Principal: principal})
}

// seen returns the names of the tools that a principal sees, "?" for a server whose listing is not known.
func seen(t *testing.T, m *Manager, principal string) string {
	t.Helper()
	lists := m.OwnLists(by(t, principal))
	var names []string
	for _, l := range lists.Of {
		for _, raw := range l.Tools {
			names = append(names, rawjson.Text(rawjson.Get(raw, "name")))
		}
	}
	for range lists.Missing {
		names = append(names, "?")
	}
	return strings.Join(names, " ")
}

// settled is seen after the fetches in progress.
func settled(t *testing.T, m *Manager, principal string) string {
	t.Helper()
	m.OwnLists(by(t, principal))
	m.AwaitOwnLists(by(t, principal), time.Minute)
	return seen(t, m, principal)
}

func (r *rosters) heard(principal string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.told {
		if p == principal {
			n++
		}
	}
	return n
}

// TestOwnLists shows each principal what the server lists for it, and strangers a sign-in. Equal
// listings are one, and the Sink gets none.
func TestOwnLists(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRosters(map[string][]string{"ann": {"a", "both"}, "bob": {"both"}, "col": {"both"}})
		m, s := manage(t, r.options(), ownLists("notes"), &mcpserver.Server{Name: "off", Disabled: true})
		synctest.Wait()
		if r.asks() != 0 {
			t.Error("an account listed for others")
		}
		if got := seen(t, m, "ann"); got != "?" {
			t.Errorf("before ann's listing: %q", got)
		}
		for principal, want := range map[string]string{"ann": "a both", "bob": "both", "col": "both", "eve": "sign_in", "": "sign_in"} {
			if got := settled(t, m, principal); got != want {
				t.Errorf("%s sees %q, want %q", principal, got, want)
			}
		}
		ann, bob, col := m.OwnLists(by(t, "ann")), m.OwnLists(by(t, "bob")), m.OwnLists(by(t, "col"))
		if bob.Key != col.Key || bob.Of[0] != col.Of[0] || ann.Key == bob.Key || bob.Key == "" {
			t.Errorf("%q, %q, %q", ann.Key, bob.Key, col.Key)
		}
		if &ann.Of[0].Tools[1][0] != &bob.Of[0].Tools[0][0] {
			t.Error("a definition is kept twice")
		}
		if again := m.OwnLists(as(t.Context(), agent("ann", "{}"))); again.Key != ann.Key {
			t.Errorf("the session of ann sees %q", again.Key)
		}
		u := upstreamOf(t, m, "notes")
		if got := callAs(t, u, agent("bob", "{}"), "both", "{}"); got != "bob" {
			t.Errorf("bob is %s", got)
		}
		if st := u.Status(); st.State != StateReady || !st.OwnLists || !st.Listed || st.Tools != 0 || st.LastError != "" {
			t.Errorf("%+v", st)
		}
		if n, _ := s.counts(); n != 0 {
			t.Errorf("%d listings are for all callers", n)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.crossed) > 0 || len(r.sessions) != 3 {
			t.Errorf("%d sessions, crossed %q", len(r.sessions), r.crossed)
		}
	})
}

// TestPeekOwnLists sees what OwnLists sees, but begins no fetch and keeps no listing from eviction.
func TestPeekOwnLists(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRosters(map[string][]string{"ann": {"a"}, "bob": {"b"}, "col": {"c"}})
		m, _ := manage(t, r.options(), ownLists("notes"))
		own := upstreamOf(t, m, "notes").lists.own
		if lists := m.PeekOwnLists(by(t, "ann")); len(lists.Missing) != 1 {
			t.Errorf("before a listing: %+v", lists)
		}
		synctest.Wait()
		if r.asks() != 0 || own.find(memberKey{principal: "ann"}) != nil {
			t.Error("a look began a fetch")
		}
		settled(t, m, "ann")
		settled(t, m, "bob")
		if got, want := m.PeekOwnLists(by(t, "ann")), m.OwnLists(by(t, "ann")); got.Key != want.Key || got.Of[0] != want.Of[0] {
			t.Errorf("%+v, want %+v", got, want)
		}
		seen(t, m, "bob")
		own.mu.Lock()
		own.most = 2
		own.mu.Unlock()
		m.PeekOwnLists(by(t, "ann"))
		settled(t, m, "col")
		if own.find(memberKey{principal: "ann"}) != nil || own.find(memberKey{principal: "bob"}) == nil {
			t.Error("a look kept a listing from eviction")
		}
		r.sign("bob", false)
		if got := m.PeekOwnLists(by(t, "bob")); got.Key != m.OwnLists(by(t, "eve")).Key {
			t.Errorf("after a sign-out: %+v", got)
		}
	})
}

// TestOwnListsSignIn fetches the listing of a principal that signs in, also if the principal asks for
// nothing, and drops it with the sign-out.
func TestOwnListsSignIn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRosters(map[string][]string{"ann": {"a"}})
		r.sign("ann", false)
		m, _ := manage(t, r.options(), ownLists("notes"))
		u, ann := upstreamOf(t, m, "notes"), agent("ann", "{}")
		if got := seen(t, m, "ann"); got != "sign_in" {
			t.Errorf("before the sign-in: %q", got)
		}
		_, err := callTool(as(t.Context(), ann), u, signInTool, "{}")
		wantKind(t, err, mcp.KindUnauthorized, "weir login notes")
		r.sign("ann", true)
		time.Sleep(2 * signInPause)
		synctest.Wait()
		if r.heard("ann") != 1 || seen(t, m, "ann") != "a" {
			t.Errorf("after the sign-in: %q, told %d times", seen(t, m, "ann"), r.heard("ann"))
		}
		r.sign("ann", false)
		if got := seen(t, m, "ann"); got != "sign_in" {
			t.Errorf("after the sign-out: %q", got)
		}
		synctest.Wait()
		own := u.lists.own
		if n := len(own.shelf.all()); n != 0 || len(own.shelf.definitions) != 0 || r.heard("ann") != 2 {
			t.Errorf("%d listings and %d definitions are kept, told %d times", n, len(own.shelf.definitions), r.heard("ann"))
		}
		r.sign("ann", true)
		if got, err := callTool(as(t.Context(), ann), u, signInTool, "{}"); err == nil {
			t.Logf("a call of sign_in: %q", got)
		}
		if got := settled(t, m, "ann"); got != "a" {
			t.Errorf("after the second sign-in: %q", got)
		}
		time.Sleep(time.Minute)
		own.mu.Lock()
		defer own.mu.Unlock()
		if own.watching || len(own.watched) != 0 {
			t.Error("it looks after a principal that waits for nothing")
		}
	})
}

// TestOwnListsSignOutInFetch drops what was fetched for a principal that signed out meanwhile.
func TestOwnListsSignOutInFetch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRosters(map[string][]string{"ann": {"a"}})
		r.wait = 10 * time.Second
		m, _ := manage(t, r.options(), ownLists("notes"))
		seen(t, m, "ann")
		time.Sleep(time.Second)
		r.sign("ann", false)
		seen(t, m, "ann")
		time.Sleep(time.Minute)
		if u := upstreamOf(t, m, "notes"); u.lists.own.any() || r.asks() != 1 {
			t.Errorf("a listing is kept after the sign-out; %d reads", r.asks())
		}
		if got := seen(t, m, "ann"); got != "sign_in" {
			t.Errorf("%q", got)
		}
	})
}

// TestOwnListsAge fetches an old listing anew when it is asked for, and serves the old one meanwhile
// and while the server cannot be read.
func TestOwnListsAge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRosters(map[string][]string{"ann": {"a"}})
		m, _ := manage(t, r.options(), ownLists("notes"))
		settled(t, m, "ann")
		r.change(func() { r.tools["ann"] = []string{"b"} })
		time.Sleep(listAge - time.Second)
		if got := settled(t, m, "ann"); got != "a" || r.asks() != 1 {
			t.Errorf("a young listing: %q, %d reads", got, r.asks())
		}
		time.Sleep(2 * time.Second)
		if got := seen(t, m, "ann"); got != "a" {
			t.Errorf("while it is read: %q", got)
		}
		synctest.Wait()
		if got := seen(t, m, "ann"); got != "b" || r.asks() != 2 || r.heard("ann") != 2 {
			t.Errorf("an old listing: %q, %d reads", got, r.asks())
		}
		r.change(func() { r.fails["ann"] = http.StatusInternalServerError })
		time.Sleep(listAge)
		for range 4 {
			if got := seen(t, m, "ann"); got != "b" {
				t.Errorf("while the server fails: %q", got)
			}
			time.Sleep(time.Minute)
		}
		time.Sleep(defaultGrace)
		if got := seen(t, m, "ann"); got != "?" {
			t.Errorf("after it has failed for long: %q", got)
		}
		r.change(func() { r.fails["ann"] = 0 })
		time.Sleep(lastRefetch)
		if got := settled(t, m, "ann"); got != "b" {
			t.Errorf("once it is back: %q", got)
		}
	})
}

// TestOwnListsFail waits longer after each failure, and no longer than five minutes.
func TestOwnListsFail(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRosters(map[string][]string{"ann": {"a"}})
		r.fails["ann"] = http.StatusInternalServerError
		m, _ := manage(t, r.options(), ownLists("notes"))
		for began := time.Now(); time.Since(began) < time.Hour; time.Sleep(500 * time.Millisecond) {
			if got := seen(t, m, "ann"); got != "?" {
				t.Fatalf("%q", got)
			}
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		var gaps []time.Duration
		for i := 1; i < len(r.asked); i++ {
			gaps = append(gaps, r.asked[i].Sub(r.asked[i-1]))
		}
		if len(gaps) < 15 || gaps[0] > 2*time.Second || slices.Max(gaps) > lastRefetch+2*time.Second || gaps[len(gaps)-1] < lastRefetch/2 {
			t.Errorf("%v", gaps)
		}
	})
}

// TestOwnListsRefused shows a sign-in to a principal whose credential the server refuses, as soon as
// the server refuses it.
func TestOwnListsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRosters(map[string][]string{"ann": {"a"}, "bob": {"b"}})
		m, _ := manage(t, r.options(), ownLists("notes"))
		u := upstreamOf(t, m, "notes")
		settled(t, m, "ann")
		settled(t, m, "bob")
		r.change(func() { r.dead["ann"], r.fails["ann"] = true, http.StatusUnauthorized })
		_, err := callTool(as(t.Context(), agent("ann", "{}")), u, "a", "{}")
		wantKind(t, err, mcp.KindUnauthorized)
		synctest.Wait()
		if ann, bob := seen(t, m, "ann"), seen(t, m, "bob"); ann != "sign_in" || bob != "b" {
			t.Errorf("ann sees %q, bob %q", ann, bob)
		}
		if _, err := callTool(as(t.Context(), agent("ann", "{}")), u, signInTool, "{}"); err == nil {
			t.Error("sign_in says that the credential serves")
		}
		r.change(func() { delete(r.dead, "ann"); delete(r.fails, "ann") })
		time.Sleep(lastRefetch)
		if got := settled(t, m, "ann"); got != "a" {
			t.Errorf("once the credential serves: %q", got)
		}
	})
}

// TestOwnListsChange fetches the listing of the one principal whose connection says that it has
// changed, and not more and more often for a server that says so after each list.
func TestOwnListsChange(t *testing.T) {
	t.Parallel()
	f := &fake{capabilities: toolsOnly, tools: []string{"a"}}
	cfg := &mcpserver.Server{Credentials: "user", Lists: "caller", IdleTimeout: 24 * time.Hour, Start: mcpserver.StartBoot}
	var mu sync.Mutex
	told := map[string]int{}
	o := Options{ListsChanged: func(principal, _ string) {
		mu.Lock()
		defer mu.Unlock()
		told[principal]++
	}}
	inBubble(t, f, o, cfg, func(t *testing.T, m *Manager, s *sink) {
		if got := settled(t, m, "ann"); got != "a" {
			t.Fatalf("ann sees %q", got)
		}
		ofAnn := f.last()
		settled(t, m, "bob")
		reads := f.count("tools/list")
		f.set(nil, "b")
		if err := ofAnn.Notify(t.Context(), "notifications/tools/list_changed", nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		mu.Lock()
		if ann, bob := seen(t, m, "ann"), seen(t, m, "bob"); ann != "b" || bob != "a" || told["ann"] != 2 || told["bob"] != 1 || f.count("tools/list") != reads+1 {
			t.Errorf("ann sees %q, bob %q; told %v, %d reads", ann, bob, told, f.count("tools/list")-reads)
		}
		mu.Unlock()
		reads = f.count("tools/list")
		for range 600 {
			_ = ofAnn.Notify(t.Context(), "notifications/tools/list_changed", nil)
			time.Sleep(time.Second)
		}
		if n := f.count("tools/list") - reads; n < 5 || n > 25 {
			t.Errorf("%d reads in ten minutes", n)
		}
	})
}

// TestOwnListsBounds keeps to the bounds of fetches and principals.
func TestOwnListsBounds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tools := map[string][]string{}
		for i := range 50 {
			tools[fmt.Sprint("p", i)] = []string{"a"}
		}
		r := newRosters(tools)
		r.wait = time.Second
		m, _ := manage(t, r.options(), ownLists("notes"))
		for principal := range tools {
			seen(t, m, principal)
			seen(t, m, principal)
		}
		time.Sleep(time.Minute)
		r.mu.Lock()
		if r.most != maxFetches || len(r.asked) != len(tools) {
			t.Errorf("%d fetches at a time, %d in all", r.most, len(r.asked))
		}
		r.mu.Unlock()
		for principal := range maps.Keys(tools) {
			if got := seen(t, m, principal); got != "a" {
				t.Errorf("%s sees %q", principal, got)
			}
		}
		own := upstreamOf(t, m, "notes").lists.own
		own.mu.Lock()
		own.most = 300
		own.mu.Unlock()
		for i := range 2 * own.most {
			seen(t, m, fmt.Sprint("stranger", i))
		}
		synctest.Wait()
		own.mu.Lock()
		if len(own.byKey) != len(tools) || len(own.watched) != maxStrangers || !own.any() || len(r.told) != len(tools) {
			t.Errorf("strangers evict listings: %d are left; %d watched, %d told", len(own.byKey), len(own.watched), len(r.told))
		}
		own.mu.Unlock()
		r.wait = 0
		for i := range 2 * own.most {
			r.sign(fmt.Sprint("more", i), true)
			seen(t, m, fmt.Sprint("more", i))
			synctest.Wait()
		}
		own.mu.Lock()
		if len(own.byKey) != own.most || own.byUse.Len() != own.most || len(own.holders) != own.most || len(own.watched) > maxWatched {
			t.Errorf("%d principals, %d holders, %d watched", len(own.byKey), len(own.holders), len(own.watched))
		}
		own.mu.Unlock()
		time.Sleep(2 * watchTime)
		own.mu.Lock()
		defer own.mu.Unlock()
		if own.watching {
			t.Error("it looks after principals that are gone")
		}
	})
}

// TestOwnListsEnd drops the listings with a change of the configuration and with a restart, and tells
// their principals.
func TestOwnListsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRosters(map[string][]string{"ann": {"a"}})
		shared := ownLists("notes")
		shared.Lists = "shared"
		m, s := manage(t, r.options(), shared)
		synctest.Wait()
		if lists := m.OwnLists(by(t, "ann")); lists.Key != "" || len(lists.Of)+len(lists.Missing) != 0 || len(s.tools("notes")) != 1 {
			t.Errorf("lists: shared: %+v, %q", lists, s.tools("notes"))
		}
		m.Apply([]*mcpserver.Server{ownLists("notes")})
		synctest.Wait()
		if len(s.tools("notes")) != 0 {
			t.Errorf("one account lists for all: %q", s.tools("notes"))
		}
		settled(t, m, "ann")
		told := r.heard("ann")
		if _, err := m.Restart("notes"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := seen(t, m, "ann"); got != "?" || r.heard("ann") != told+1 {
			t.Errorf("after a restart: %q, told %d times", got, r.heard("ann")-told)
		}
		settled(t, m, "ann")
		m.Apply(nil)
		synctest.Wait()
		if lists := m.OwnLists(by(t, "ann")); lists.Key != "" || len(lists.Of) != 0 {
			t.Errorf("a removed server: %+v", lists)
		}
	})
}

// TestOwnListsOrder gives the listings the place of their server in the configuration, and tells of it.
func TestOwnListsOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRosters(map[string][]string{"ann": {"a"}})
		m, _ := manage(t, r.options(), ownLists("notes"))
		settled(t, m, "ann")
		before := m.OwnLists(by(t, "ann"))
		m.Apply([]*mcpserver.Server{{Name: "first", Disabled: true}, ownLists("notes")})
		synctest.Wait()
		if after := m.OwnLists(by(t, "ann")); after.Of[0].Order != 1 || before.Of[0].Order != 0 || after.Key == before.Key || r.heard("ann") != 2 || r.asks() != 1 {
			t.Errorf("%+v", after)
		}
	})
}
