package feedback

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/search"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/store/filestore"
	"github.com/weir-mcp/weir/internal/testkit/leak"
	"github.com/weir-mcp/weir/internal/testkit/storetest"
	"github.com/weir-mcp/weir/mcp"
)

func TestMain(m *testing.M) { leak.Main(m) }

var (
	secret = []byte("0123456789abcdef0123456789abcdef")
	dev    = &identity.Identity{Principal: "corp:1", Issuer: "corp", Groups: []string{"dev"}}
	dev2   = &identity.Identity{Principal: "corp:2", Issuer: "corp", Groups: []string{"dev"}}
	sre    = &identity.Identity{Principal: "corp:3", Issuer: "corp", Groups: []string{"sre"}}
	alone  = &identity.Identity{Principal: "ci"}
	alone2 = &identity.Identity{Principal: "cd"}
)

// client searches and runs tools in a session of its own.
type client struct {
	m       *Memory
	ctx     context.Context
	session *mcp.Session
}

func newClient(t *testing.T, m *Memory, who *identity.Identity, profile string) *client {
	ctx := identity.WithRoute(identity.With(t.Context(), who), identity.Route{Profile: profile})
	return &client{m, ctx, mcp.NewSession("s", who.Principal)}
}

// shares returns the shares of tools for a search with words, which shows them all.
func (c *client) shares(words string, tools ...string) []float32 {
	s := c.m.Search(c.ctx)
	out := make([]float32, len(tools))
	if s == nil {
		return out
	}
	var list [][]byte
	for _, w := range strings.Fields(words) {
		list = append(list, []byte(w))
	}
	s.Shares(list, tools, out)
	s.Shown(c.session, tools)
	return out
}

func (c *client) run(tool string) {
	c.m.Ran(c.ctx, c.session, tool, func() bool { return true })
}

// teach searches, and runs the tool, n times.
func (c *client) teach(n int, words, tool string, others ...string) {
	for range n {
		c.shares(words, append([]string{tool}, others...)...)
		c.run(tool)
	}
}

// memoryOver returns a Memory whose clock stands still if now is nil.
func memoryOver(t *testing.T, docs store.Docs, now func() time.Time) *Memory {
	t.Helper()
	if now == nil {
		now = func() time.Time { return time.Unix(1_700_000_000, 0) }
	}
	m := New(Options{Docs: docs, Secret: secret, Now: now})
	t.Cleanup(func() { m.Close(context.Background()) })
	return m
}

func newDocs() store.Docs { return store.NewMemory(store.MemoryOptions{}) }

func near(t *testing.T, what string, got []float32, want ...float64) {
	t.Helper()
	for i := range want {
		if math.Abs(float64(got[i])-want[i]) > 1e-4 {
			t.Errorf("%s: %v, want %v", what, got, want)
			return
		}
	}
}

// The share of a tool grows with its runs, is one among the tools that were found, and halves in 14 days.
func TestShares(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	m := memoryOver(t, newDocs(), func() time.Time { return now })
	c := newClient(t, m, dev, "")
	near(t, "nothing learnt", c.shares("list issues", "a", "b"), 0, 0)
	c.teach(1, "list issues", "a", "b")
	near(t, "one run", c.shares("list issues", "a", "b"), .5, 0)
	near(t, "one of the words", c.shares("list teams", "a", "b"), .25, 0)
	near(t, "another version", c.shares("list issues", "a@2#beef"), .5)
	c.teach(2, "list issues", "a", "b")
	c.teach(1, "list issues", "b", "a")
	near(t, "three and one", c.shares("list issues", "a", "b"), 3./5, 1./5)
	near(t, "not found with the other", c.shares("list issues", "b"), 1./2)
	near(t, "other words", c.shares("delete team", "a", "b"), 0, 0)
	now = now.Add(halfLife * 24 * time.Hour)
	near(t, "after a half-life", c.shares("list issues", "a", "b"), 1.5/3, .5/3)
	now = now.Add(20 * halfLife * 24 * time.Hour)
	near(t, "after a year", c.shares("list issues", "a", "b"), 0, 0)
	if g := c.m.group(keyOf(c.ctx)); g.all.n != 0 {
		t.Errorf("%d pairs are left", g.all.n)
	}
}

// A run counts once for a search whose answer has the tool, in the session and for the group of the search.
func TestWhatTeaches(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	m := memoryOver(t, newDocs(), func() time.Time { return now })
	c := newClient(t, m, dev, "")
	learnt := func() int { return m.group(keyOf(c.ctx)).all.n }
	c.run("a")
	c.shares("list issues", "a", "b")
	c.run("c")
	m.Ran(c.ctx, c.session, "a", func() bool { return false })
	newClient(t, m, dev, "").run("a")
	m.Ran(identity.With(t.Context(), sre), c.session, "a", func() bool { return true })
	if learnt() != 0 {
		t.Errorf("%d pairs of runs that are none after the search", learnt())
	}
	for range 5 {
		c.run("a")
	}
	near(t, "five runs after one search", c.shares("list issues", "a"), .5)
	c.shares("list many words one two three four five six seven eight nine ten eleven", "d")
	c.run("d")
	c.shares(strings.Repeat("x", maxWordBytes+1), "e")
	c.run("e")
	if learnt() != 2 {
		t.Errorf("%d pairs; long searches and long words teach nothing", learnt())
	}
	c.shares("old", "f")
	now = now.Add(searchAge)
	c.run("f")
	for i := range maxSearches + 1 {
		c.shares(fmt.Sprint("word", i), fmt.Sprint("tool", i))
	}
	c.run("tool0")
	if learnt() != 2 {
		t.Errorf("%d pairs; old searches teach nothing", learnt())
	}
	c.run("tool1")
	if learnt() != 3 {
		t.Errorf("%d pairs, want one more", learnt())
	}
}

// Callers with the same groups at the same profile learn together, and all others learn apart.
func TestGroupsAreApart(t *testing.T) {
	t.Parallel()
	m := memoryOver(t, newDocs(), nil)
	newClient(t, m, dev, "").teach(3, "list issues", "a", "b")
	newClient(t, m, alone, "").teach(1, "list issues", "b", "a")
	near(t, "the same groups", newClient(t, m, dev2, "").shares("list issues", "a", "b"), .75, 0)
	near(t, "itself", newClient(t, m, alone, "").shares("list issues", "a", "b"), 0, .5)
	other := *dev
	other.Issuer = "partner"
	missing := *dev2
	missing.GroupsMissing = true
	named := identity.Identity{Principal: "dev"}
	for _, who := range []*identity.Identity{sre, alone2, &other, &missing, &named, {Principal: "x", Issuer: "corp", Groups: []string{"dev", "sre"}}} {
		near(t, fmt.Sprintf("%+v", who), newClient(t, m, who, "").shares("list issues", "a", "b"), 0, 0)
	}
	near(t, "another profile", newClient(t, m, dev, "narrow").shares("list issues", "a", "b"), 0, 0)
	join := &identity.Identity{Principal: "y", Issuer: "corp", Groups: []string{"a", "b"}}
	split := &identity.Identity{Principal: "z", Issuer: "corp", Groups: []string{"a\x00b"}}
	newClient(t, m, join, "").teach(1, "w", "t")
	near(t, "a name that looks like two", newClient(t, m, split, "").shares("w", "t"), 0)
}

// The counts of a tool that a search has not found, as one that is hidden from the caller, change nothing.
func TestAbsentToolsChangeNothing(t *testing.T) {
	t.Parallel()
	m := memoryOver(t, newDocs(), nil)
	c := newClient(t, m, dev, "")
	c.teach(2, "list issues", "a", "b")
	before := c.shares("list issues", "a", "b")
	c.teach(50, "list issues", "hidden")
	if after := newClient(t, m, dev2, "").shares("list issues", "a", "b"); !slices.Equal(before, after) {
		t.Errorf("%v, before %v", after, before)
	}
}

// A group keeps its strongest pairs, and a count has a bound.
func TestBounds(t *testing.T) {
	t.Parallel()
	m := memoryOver(t, newDocs(), nil)
	c := newClient(t, m, dev, "")
	c.teach(2, "strong", "a")
	for i := range maxPairs + 50 {
		c.teach(1, fmt.Sprint("weak", i), "b")
	}
	g := m.group(keyOf(c.ctx))
	if g.all.n != maxPairs || g.fresh.n != maxPairs {
		t.Errorf("%d and %d pairs", g.all.n, g.fresh.n)
	}
	near(t, "the strong one", c.shares("strong", "a"), 2./3)
	if !m.sync(t.Context()) || len(m.due) != 0 {
		t.Error("it was not written")
	}
	doc, err := m.docs.Get(t.Context(), g.key)
	if r, bad := decode(doc.Value); err != nil || bad != nil || r.n != maxPairs || len(doc.Value) > 12<<10 {
		t.Errorf("%d pairs in %d bytes: %v, %v", r.n, len(doc.Value), err, bad)
	}
	var one counts
	one.add(pair{1, 2}, maxCount)
	one.add(pair{1, 2}, maxCount)
	if one.of[1][0].count != maxCount {
		t.Errorf("%v", one)
	}
	for i := range 3 * maxGroups {
		newClient(t, m, &identity.Identity{Principal: fmt.Sprint("p", i)}, "").teach(1, "w", "t")
	}
	if m.groups.Len() != maxGroups || len(m.due) != maxDue {
		t.Errorf("%d groups, %d wait", m.groups.Len(), len(m.due))
	}
	near(t, "displaced before it was written", newClient(t, m, &identity.Identity{Principal: "p0"}, "").shares("w", "t"), .5)
}

// Counts of several nodes add up, also where the store answers conflicts and does not say whether it has written.
func TestNodesMerge(t *testing.T) {
	t.Parallel()
	docs, n := newDocs(), 0
	faulty := &storetest.Faults{Docs: docs, Next: func() storetest.Fault {
		n++
		return map[int]storetest.Fault{2: storetest.ConflictFalsely, 4: storetest.ApplyThenFail, 6: storetest.Drop}[n%7]
	}}
	now := time.Unix(1_700_000_000, 0)
	clock := func() time.Time { return now }
	a, b := memoryOver(t, faulty, clock), memoryOver(t, docs, clock)
	one, two := newClient(t, a, dev, ""), newClient(t, b, dev2, "")
	for range 10 {
		one.teach(1, "list", "x", "y")
		two.teach(2, "list", "y", "x")
		a.sync(t.Context())
		b.sync(t.Context())
	}
	for i := 0; len(a.due) > 0 && i < 20; i++ {
		a.sync(t.Context())
	}
	now = now.Add(rereadAfter)
	c := memoryOver(t, docs, clock)
	near(t, "read by a third", newClient(t, c, dev, "").shares("list", "x", "y"), 10./31, 20./31)
	two.shares("list", "x")
	b.sync(t.Context())
	near(t, "read again by the second", two.shares("list", "x", "y"), 10./31, 20./31)
}

// A store that does not answer delays no search for long, and nothing is lost.
func TestStoreIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		faulty := &storetest.Faults{Docs: newDocs()}
		m := New(Options{Docs: faulty, Secret: secret})
		c := newClient(t, m, dev, "")
		faulty.Cut(true)
		start := time.Now()
		c.teach(3, "list", "a")
		if took := time.Since(start); took > 2*loadWait {
			t.Errorf("a search waited %s", took)
		}
		time.Sleep(5 * time.Minute)
		faulty.Cut(false)
		time.Sleep(5 * time.Minute)
		other := New(Options{Docs: faulty, Secret: secret})
		near(t, "written later", newClient(t, other, dev, "").shares("list", "a"), .75)
		other.Close(t.Context())
		m.Close(t.Context())
	})
}

// What was learnt is written within ten seconds, and at the end, and outlasts a restart.
func TestRestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open := func() *filestore.Store {
		s, _, err := filestore.Open(filestore.Options{Dir: dir, MaxBytes: 8 << 20})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	kept := open()
	m := New(Options{Docs: kept, Secret: secret})
	newClient(t, m, dev, "").teach(3, "list password hunter2", "shop:list_orders")
	m.Close(t.Context())
	for doc, err := range kept.List(t.Context(), store.FeedbackKeys) {
		if err != nil {
			t.Fatal(err)
		}
		for _, told := range []string{"list", "hunter2", "shop", "dev"} {
			if strings.Contains(string(doc.Value)+doc.Key, told) {
				t.Errorf("%s is in the store", told)
			}
		}
	}
	kept.Close()
	kept = open()
	defer kept.Close()
	again := New(Options{Docs: kept, Secret: secret})
	near(t, "after a restart", newClient(t, again, dev2, "").shares("hunter2", "shop:list_orders"), .75)
	again.Close(t.Context())
	other := New(Options{Docs: kept, Secret: []byte("another")})
	near(t, "with another key", newClient(t, other, dev2, "").shares("hunter2", "shop:list_orders"), 0)
	other.Close(t.Context())
}

// The goroutine writes after a delay, and ends when nothing is left.
func TestWritesInTheBackground(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		docs := newDocs()
		m := New(Options{Docs: docs, Secret: secret})
		c := newClient(t, m, dev, "")
		c.teach(1, "list", "a")
		there := func() bool {
			doc, err := docs.Get(t.Context(), keyOf(c.ctx))
			return err == nil && doc.Rev != 0
		}
		if time.Sleep(writeDelay - time.Second); there() {
			t.Error("it is written too early")
		}
		if time.Sleep(2 * time.Second); !there() {
			t.Error("it is not written")
		}
		time.Sleep(writeDelay)
		synctest.Wait()
		m.mu.Lock()
		busy := m.busy
		m.mu.Unlock()
		if busy {
			t.Error("the goroutine goes on")
		}
		m.Close(t.Context())
	})
}

// Off, nothing is learnt and preferred, and what was learnt is gone.
func TestOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testOff)
}

func testOff(t *testing.T) {
	docs := newDocs()
	m := New(Options{Docs: docs, Secret: secret})
	defer m.Close(t.Context())
	c := newClient(t, m, dev, "")
	c.teach(2, "list", "a")
	m.sync(t.Context())
	c.teach(2, "list", "a")
	count := func() (n int) {
		for range docs.List(t.Context(), store.FeedbackKeys) {
			n++
		}
		return n
	}
	if count() != 1 {
		t.Fatalf("%d documents", count())
	}
	c.shares("list", "b")
	m.Use(false)
	m.run.Wait()
	c.run("b")
	near(t, "off", c.shares("list", "a"), 0)
	m.Use(true)
	near(t, "on again", c.shares("list", "a", "b"), 0, 0)
	if m.sync(t.Context()); count() != 0 {
		t.Errorf("%d documents are left", count())
	}
	if s := (*Memory)(nil).Search(t.Context()); s != nil {
		t.Error("nil learns")
	}
	(*Memory)(nil).Ran(t.Context(), c.session, "a", nil)
	(*Search)(nil).Shown(c.session, []string{"a"})
	kept := newDocs()
	if _, err := kept.Set(t.Context(), store.FeedbackKeys+"x", []byte{1}, 0, 0); err != nil {
		t.Fatal(err)
	}
	started := New(Options{Docs: kept, Secret: secret, Off: true})
	started.Use(false)
	started.run.Wait()
	if doc, _ := kept.Get(t.Context(), store.FeedbackKeys+"x"); doc.Rev != 0 {
		t.Error("a start without learning leaves what was learnt")
	}
	started.Close(t.Context())
}

// ranked searches as the gateway does.
func (c *client) ranked(t *testing.T, ix *search.Index, query string) []search.Hit {
	t.Helper()
	s := c.m.Search(c.ctx)
	hits, err := ix.SearchContext(c.ctx, query, s, 10)
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]string, len(hits))
	for i, h := range hits {
		ids[i] = h.ID
	}
	s.Shown(c.session, ids)
	return hits
}

// A tie is moved by at most a twentieth, what matches better and exact names are not, and with nothing
// learnt the ranking is the one without.
func TestRanking(t *testing.T) {
	t.Parallel()
	doc := func(server, name, text string) search.Doc {
		return search.Doc{ID: server + ":" + name, Server: server, Name: name, Description: text}
	}
	ix := search.New(search.Options{})
	for _, server := range []string{"alpha", "beta", "gamma"} {
		ix = ix.With(server, []search.Doc{doc(server, "list_tickets", "Lists the tickets of a project.")})
	}
	ix = ix.With("far", []search.Doc{doc("far", "project_report", "Reports on a project."), doc("far", "close_all", "Closes tickets.")})
	m := memoryOver(t, newDocs(), nil)
	c := newClient(t, m, dev, "")
	query := "show tickets of my project"
	plain := ix.Search(query, 10)
	if got := c.ranked(t, ix, query); !slices.Equal(got, plain) {
		t.Fatalf("nothing learnt: %v, want %v", got, plain)
	}
	for range 100 {
		c.ranked(t, ix, query)
		c.run("gamma:list_tickets")
	}
	hits := c.ranked(t, ix, query)
	if plain[0].ID == "gamma:list_tickets" || hits[0].ID != "gamma:list_tickets" || hits[1] != plain[0] {
		t.Errorf("%v, before %v", hits, plain)
	}
	if again := c.ranked(t, ix, query); !slices.Equal(again, hits) {
		t.Errorf("an equal search: %v, then %v", hits, again)
	}
	was := plain[slices.IndexFunc(plain, func(h search.Hit) bool { return h.ID == hits[0].ID })]
	if raised := hits[0].Score / was.Score; raised < 1.04 || raised > 1.0501 {
		t.Errorf("raised by %v", raised)
	}
	if got := newClient(t, m, sre, "").ranked(t, ix, query); !slices.Equal(got, plain) {
		t.Errorf("another group: %v, want %v", got, plain)
	}
	for range 100 {
		c.ranked(t, ix, query)
		c.run("far:close_all")
	}
	if hits := c.ranked(t, ix, query); !strings.HasSuffix(hits[0].ID, "list_tickets") {
		t.Errorf("a tool that matches worse: %v", hits)
	}
	// exact names
	for range 100 {
		c.ranked(t, ix, "beta list tickets")
		c.run("gamma:list_tickets")
	}
	if hits := c.ranked(t, ix, "beta list tickets"); hits[0].ID != "beta:list_tickets" {
		t.Errorf("an exact name: %v", hits)
	}
	x := ix.ExplainDoc(t.Context(), query, m.Search(c.ctx), doc("gamma", "list_tickets", ""))
	if x.Chosen < .5 || x.Rank != 1 {
		t.Errorf("%+v", x)
	}
}

// FuzzDecode: what decode takes, encode gives back, and its counts are within their bounds.
func FuzzDecode(f *testing.F) {
	var r record
	r.age(20_000)
	for i := range 5 {
		r.add(pair{uint64(i % 3), uint64(i)}, float32(i)+.5)
		r.mark(uint64(i))
	}
	f.Add(r.encode())
	f.Add([]byte{})
	f.Add([]byte{formVersion, 0, 0, 0, 0, 0})
	f.Add(append(r.encode(), 0))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := decode(raw)
		if err != nil || len(raw) == 0 {
			return
		}
		if got := r.encode(); string(got) != string(raw) {
			t.Fatalf("%x, from %x", got, raw)
		}
		if r.age(r.day + 3); r.n > maxPairs {
			t.Fatalf("%d pairs", r.n)
		}
		for _, e := range r.entries() {
			if !(e.count >= faint && e.count <= maxCount) {
				t.Fatalf("%v", e)
			}
		}
	})
}

// BenchmarkSearch searches with a full memory, and prints the ratio to searches without one.
func BenchmarkSearch(b *testing.B) {
	for _, tools := range []int{700, 10_000} {
		b.Run(fmt.Sprintf("tools=%d", tools), func(b *testing.B) { benchmarkSearch(b, tools) })
	}
}

func benchmarkSearch(b *testing.B, tools int) {
	var docs []search.Doc
	verbs, nouns := []string{"list", "get", "create", "update", "close", "merge", "find"}, []string{"issue", "ticket", "branch", "invoice", "order", "page", "file", "user", "team", "event"}
	for i := range tools {
		verb, noun := verbs[i%7], nouns[i/7%10]
		docs = append(docs, search.Doc{ID: fmt.Sprintf("s%d:%s_%s", i/70, verb, noun), Server: fmt.Sprint("s", i/70), Name: verb + "_" + noun, Description: fmt.Sprintf("%ss one or more %ss of the project number %d, with all their fields.", verb, noun, i)})
	}
	ix := search.New(search.Options{}).With("all", docs)
	ix.Prepare()
	m := New(Options{Docs: newDocs(), Secret: secret})
	defer m.Close(b.Context())
	query := func(i int) string { return verbs[i%7] + " " + nouns[i/7%10] + " of the project" }
	for i := range 70 {
		s := m.Search(b.Context())
		_, _ = ix.SearchContext(b.Context(), query(i), s, 10)
		for t := range 10 {
			m.group(keyOf(b.Context())).learn(s.words, m.tool(docs[(i+70*t)%700].ID), dayOf(time.Now()))
		}
	}
	if n := m.group(keyOf(b.Context())).all.n; n != maxPairs {
		b.Fatalf("%d pairs", n)
	}
	took := map[bool][]time.Duration{}
	for i := 0; b.Loop(); i++ {
		for turn := range 2 { // the second search of a query is faster
			with := turn == i/70%2
			start := time.Now()
			if with {
				_, _ = ix.SearchContext(b.Context(), query(i), m.Search(b.Context()), 10)
			} else {
				_, _ = ix.SearchContext(b.Context(), query(i), nil, 10)
			}
			took[with] = append(took[with], time.Since(start))
		}
	}
	slices.Sort(took[true])
	slices.Sort(took[false])
	with, without := took[true][len(took[true])/2], took[false][len(took[false])/2]
	b.ReportMetric(float64(with.Nanoseconds()), "p50_ns")
	b.ReportMetric(float64(with)/float64(max(1, without)), "x_without")
}
