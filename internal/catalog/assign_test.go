package catalog

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
)

// versioned is a tool of version 1 without parameters.
func versioned(name string) string {
	return fmt.Sprintf(`{"name":%q,"description":"d","inputSchema":{},"_meta":{"version":"1"}}`, name)
}

// hashed is the id that such a tool has in namespace x where its short one would
// not be its alone.
func hashed(short, name string) string { return short + "#" + hashTool(name, json.RawMessage(`{}`)) }

func idsOf(c *Catalog) []string {
	var ids []string
	for _, e := range c.Entries() {
		ids = append(ids, e.ID)
	}
	return ids
}

func collision(report Report) string {
	for _, f := range report.Findings {
		if f.Kind == FoundCollision {
			return f.Message
		}
	}
	return ""
}

// Two names that map to one id both carry their hash, which is told with both names
// and the fix, and the plain id names neither of them, now and later.
func TestCollidingNames(t *testing.T) {
	with := func(c *Catalog, defs ...string) (*Catalog, Report) {
		return c.With(primitive.Listing{Upstream: "srv", Namespace: "x", Tools: raws(defs...)})
	}
	gone := func(t *testing.T, c *Catalog, id string, near ...string) {
		t.Helper()
		if e, ok := c.Lookup(id); ok {
			t.Errorf("%s runs %q", id, e.RawName)
		}
		got := c.Nearest(id, 3)
		slices.Sort(near)
		if slices.Sort(got); !slices.Equal(got, near) {
			t.Errorf("nearest %q, want %q", got, near)
		}
	}
	const short = "x:a_b@1"
	space, underscore := hashed(short, "a b"), hashed(short, "a_b")

	t.Run("together", func(t *testing.T) {
		c, report := with(New(Limits{}), versioned("a b"), versioned("a_b"), versioned("other"))
		if e := mustLookup(t, c, space); e.RawName != "a b" || e.Card.ID != space || e.Short != short {
			t.Errorf("%+v", e)
		}
		if e := mustLookup(t, c, underscore); e.RawName != "a_b" {
			t.Errorf("%s is %q", underscore, e.RawName)
		}
		mustLookup(t, c, "x:other@1")
		gone(t, c, short, space, underscore)
		message := collision(report)
		for _, part := range []string{`"a b"`, `"a_b"`, `server "srv"`, short, space, underscore, "Rename one"} {
			if !strings.Contains(message, part) {
				t.Errorf("no %s in %q", part, message)
			}
		}
		if n := strings.Count(fmt.Sprint(c.Findings()), string(FoundCollision)); n != 1 {
			t.Errorf("%d findings of the collision, want 1: %v", n, c.Findings())
		}
		for _, left := range []struct{ name, id string }{{"a b", space}, {"a_b", underscore}} {
			alone, report := with(c, versioned(left.name))
			if ids := idsOf(alone); !slices.Equal(ids, []string{left.id}) {
				t.Errorf("%q alone has the id %q, want %s", left.name, ids, left.id)
			}
			gone(t, alone, short, left.id)
			if message := collision(report); !strings.Contains(message, "has named another tool since weir started") {
				t.Errorf("what keeps the hash is told as %q", message)
			}
		}
	})
	t.Run("one after the other", func(t *testing.T) {
		c, _ := with(New(Limits{}), versioned("a b"))
		mustLookup(t, c, short)
		c, _ = with(c, versioned("a_b"))
		if e := only(t, c); e.ID != underscore {
			t.Errorf("%q has the id %s", e.RawName, e.ID)
		}
		gone(t, c, short, underscore)
		// The id is still that of the first.
		c, report := with(c, versioned("a b"))
		if e := only(t, c); e.ID != short || collision(report) != "" {
			t.Errorf("%q came back as %s: %v", e.RawName, e.ID, report.Findings)
		}
	})
	t.Run("the second joins the first", func(t *testing.T) {
		c, _ := with(New(Limits{}), versioned("a b"))
		c, _ = with(c, versioned("a_b"), versioned("a b"))
		gone(t, c, short, space, underscore)
		c, _ = with(c, versioned("a b"))
		if e := only(t, c); e.ID != space {
			t.Errorf("%q has the id %s", e.RawName, e.ID)
		}
	})
	t.Run("the server goes meanwhile", func(t *testing.T) {
		c, _ := with(New(Limits{}), versioned("a b"))
		c, _ = with(c.Without("srv"), versioned("a_b"))
		gone(t, c, short, underscore)
		c, _ = with(c.Without("srv"), versioned("a b"))
		mustLookup(t, c, short)
	})
	t.Run("three", func(t *testing.T) {
		c, report := with(New(Limits{}), versioned("a b"), versioned("a_b"), versioned("a/b"))
		if c.Len() != 3 || report.Has(FoundDuplicate) || strings.Count(collision(report), short+"#") != 3 {
			t.Errorf("%d entries, findings %q", c.Len(), report.Findings)
		}
	})
	t.Run("two servers", func(t *testing.T) {
		c, _ := with(New(Limits{}), versioned("a b"))
		c, report := c.With(primitive.Listing{Upstream: "two", Namespace: "x", Tools: raws(versioned("a_b"))})
		if ids := idsOf(c); !slices.Equal(ids, []string{underscore, space}) || collision(report) == "" {
			t.Errorf("%q, %v", ids, report.Findings)
		}
	})
}

// Two different tools of which even the hashes are the same: the one that had the
// id keeps it, and what is said of the other is true.
func TestHashCollision(t *testing.T) {
	const first, second, id = `{"name":"七並上","description":"d"}`, `{"name":"三丳不","description":"d"}`, "x:___#675862a7"
	l := primitive.Listing{Upstream: "srv", Namespace: "x", Tools: raws(first, second, tool("other"))}
	c, report := New(Limits{}).With(l)
	if e := mustLookup(t, c, id); e.RawName != "七並上" || c.Len() != 2 {
		t.Errorf("%s is %q, %d entries", id, e.RawName, c.Len())
	}
	check := func(c *Catalog, report Report) {
		t.Helper()
		message := collision(report)
		for _, part := range []string{"two different tools have the same id " + id, "三丳不", `server "srv"`, "left out"} {
			if !strings.Contains(message, part) {
				t.Errorf("no %q in %q", part, message)
			}
		}
		if report.Has(FoundDuplicate) || !strings.Contains(fmt.Sprint(c.Findings()), "two different tools") {
			t.Errorf("findings %q", c.Findings())
		}
	}
	check(c, report)
	// Another order changes nothing, and neither does the end of the first.
	l.Tools = raws(second, first)
	if c, _ := c.With(l); mustLookup(t, c, id).RawName != "七並上" {
		t.Error("the id runs another tool after a refresh")
	}
	l.Tools = raws(second)
	c, report = c.With(l)
	if e, ok := c.Lookup(id); ok {
		t.Errorf("%s runs %q now", id, e.RawName)
	}
	check(c, report)
}

// A resource whose twin is gone keeps the id that it has, so that the plain id does
// not read another server's.
func TestNumberedPrimitivesKeepTheirIDs(t *testing.T) {
	l := primitive.Listing{Namespace: "shared", Resources: raws(`{"uri":"a:1","name":"x","description":"d"}`)}
	c := New(Limits{})
	for _, l.Upstream = range []string{"one", "two"} {
		c, _ = c.With(l)
	}
	base := "resource::shared:x#" + hashResource("a:1")
	c = c.Without("one")
	if e := only(t, c); e.ID != base+"~2" {
		t.Errorf("the id of two is %s now", e.ID)
	}
	l.Upstream = "three"
	c, _ = c.With(l)
	mustLookup(t, c, base+"~3")
	l.Upstream = "one"
	c, _ = c.With(l)
	if e := mustLookup(t, c, base); e.Upstream != "one" {
		t.Errorf("%s is of %q", base, e.Upstream)
	}
}

// Whatever servers list in whatever order, an id names one tool.
func TestIDsNameOneToolForLife(t *testing.T) {
	names := []string{"a b", "a_b", "a/b", "七並上", "三丳不", "plain"}
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		c, ever := New(Limits{}), map[string]string{}
		for range 30 {
			upstream := fmt.Sprint("u", r.IntN(2))
			if r.IntN(6) == 0 {
				c = c.Without(upstream)
			} else {
				l := primitive.Listing{Upstream: upstream, Namespace: "x"}
				for _, i := range r.Perm(len(names))[:r.IntN(len(names)+1)] {
					def := versioned(names[i])
					if r.IntN(3) == 0 {
						def = fmt.Sprintf(`{"name":%q}`, names[i])
					}
					l.Tools = append(l.Tools, json.RawMessage(def))
				}
				c, _ = c.With(l)
			}
			for _, e := range c.Entries() {
				if was, known := ever[e.ID]; known && was != e.RawName {
					t.Fatalf("seed %d: %s named %q and names %q now", seed, e.ID, was, e.RawName)
				}
				ever[e.ID] = e.RawName
			}
		}
	}
}

// What is remembered of tools that are gone is bounded. Beyond the bound, tools
// carry their hash, which no other tool has.
func TestPastIsBounded(t *testing.T) {
	c := New(Limits{})
	list := func(upstream, namespace string, from, n int) {
		l := primitive.Listing{Upstream: upstream, Namespace: namespace}
		for i := range n {
			l.Tools = append(l.Tools, json.RawMessage(fmt.Sprintf(`{"name":"t%d","_meta":{"version":"1"}}`, from+i)))
		}
		c, _ = c.With(l)
	}
	list("calm", "calm", 0, 1)
	const step = 8000
	for i := range 2 + maxPast/step {
		list("mad", "mad", i*step, step)
	}
	list("mad", "mad", 0, 0)
	if c.held > maxPast || len(c.pasts["mad"].held) != c.held || !c.pasts["mad"].full {
		t.Errorf("%d ids are remembered, %+v", c.held, c.pasts["mad"].full)
	}
	list("mad", "mad", 1_000_000, 1)
	if ids := idsOf(c); !slices.Equal(ids, []string{"calm:t0@1", "mad:t1000000@1#" + hashTool("t1000000", nil)}) {
		t.Errorf("%q", ids)
	}
	// A server that lists the same again, or goes and comes back, is not remembered.
	for range 3 {
		c = c.Without("calm")
		list("calm", "calm", 0, 1)
	}
	if len(c.pasts["calm"].held) != 0 {
		t.Errorf("%v", c.pasts["calm"].held)
	}
}

// A hash behind the version may take a card over its bound, which is told as it is
// of every other card. The card is shown with its whole id.
func TestLongerIDsOverBudget(t *testing.T) {
	name := "Zq9_Xw4"
	tokens := func(defs ...string) (entries []*Entry, told int) {
		c, _ := New(Limits{}).With(primitive.Listing{Upstream: "srv", Namespace: "x", Tools: raws(defs...)})
		for _, f := range c.Findings() {
			if f.Kind == FoundOverBudget {
				told++
			}
		}
		return c.Entries(), told
	}
	for ; ; name += "_Jk7" {
		alone, _ := tokens(versioned(name + "_end"))
		if n := alone[0].Card.Tokens; n > cardHardCap {
			t.Fatalf("no name of nearly %d tokens: %d", cardHardCap, n)
		} else if n > cardHardCap-5 {
			break
		}
	}
	if _, told := tokens(versioned(name + "_end")); told != 0 {
		t.Errorf("%d findings of a card within its bound", told)
	}
	entries, told := tokens(versioned(name+"_end"), versioned(name+" end"))
	if len(entries) != 2 || told != 2 {
		t.Fatalf("%d entries, %d findings, want 2 of each", len(entries), told)
	}
	for _, e := range entries {
		if e.Card.Tokens <= cardHardCap || !strings.HasPrefix(e.Card.Render(), e.ID+" ") {
			t.Errorf("%d tokens: %s", e.Card.Tokens, e.Card.Render())
		}
	}
}
