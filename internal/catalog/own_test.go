package catalog

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
)

func ownTool(name, description, version string) json.RawMessage {
	meta := ""
	if version != "" {
		meta = fmt.Sprintf(`,"_meta":{"version":%q}`, version)
	}
	return json.RawMessage(fmt.Sprintf(`{"name":%q,"description":%q,"inputSchema":{"type":"object"}%s}`, name, description, meta))
}

// TestReaderSharesEntries: equal definitions of many listings are one entry, which goes with the last
// catalog that has it.
func TestReaderSharesEntries(t *testing.T) {
	r := New(Limits{}).Reader()
	a := r.Read(&primitive.Listing{Upstream: "notes", Namespace: "notes", Tools: []json.RawMessage{ownTool("keep", "d", ""), ownTool("only_a", "d", "")}})
	b := r.Read(&primitive.Listing{Upstream: "notes", Namespace: "notes", Tools: []json.RawMessage{ownTool("only_b", "d", ""), ownTool("keep", "d", "")}})
	other := r.Read(&primitive.Listing{Upstream: "other", Namespace: "notes", Tools: []json.RawMessage{ownTool("keep", "d", "")}})
	find := func(c *Catalog) *Entry {
		for _, e := range c.Entries() {
			if e.RawName == "keep" {
				return e
			}
		}
		return nil
	}
	if find(a) != find(b) || find(a) == find(other) || find(other).Upstream != "other" {
		t.Error("entries are not shared by server and definition")
	}
	noted := r.Read(&primitive.Listing{Upstream: "notes", Namespace: "notes", Tools: []json.RawMessage{ownTool("keep", "d", "")}, Notes: map[primitive.Key]string{{Upstream: "notes", Kind: primitive.KindTool, Name: "keep"}: "changed"}})
	if find(noted) == find(a) || find(noted).Card.Description == find(a).Card.Description {
		t.Error("a note of one listing is on the entry of another")
	}
	runtime.KeepAlive(a)
	runtime.KeepAlive(b)
	a, b, other, noted = nil, nil, nil, nil
	runtime.GC()
	for _, in := range r.known {
		if in.Value() != nil {
			t.Error("an entry outlives its catalogs")
		}
	}
}

// TestJoinIsAFunctionOfItsParts: the ids of a principal's entries are the same whatever was listed
// before, for others or for the principal, and an id names one tool in all of the catalogs.
func TestJoinIsAFunctionOfItsParts(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	common := New(Limits{})
	common, _ = common.With(primitive.Listing{Upstream: "files", Namespace: "files", Tools: []json.RawMessage{ownTool("read", "d", "1"), ownTool("wr ite", "d", "1")}})
	names := []string{"read", "rea d", "re-ad", "notes_read", "write", "wr ite", "wr_ite"}
	r := common.Reader()
	owner, ids := map[string]string{}, map[string]string{}
	for i := range 300 {
		if i%50 == 0 {
			r = common.Reader() // one that has read nothing before
		}
		l := &primitive.Listing{Upstream: "notes", Namespace: "notes"}
		for _, at := range rng.Perm(len(names))[:1+rng.IntN(len(names))] {
			l.Tools = append(l.Tools, ownTool(names[at], fmt.Sprint("d", rng.IntN(3)), []string{"", "1", "2"}[rng.IntN(3)]))
			l.Prompts = append(l.Prompts, json.RawMessage(fmt.Sprintf(`{"name":%q}`, names[at])))
			l.Resources = append(l.Resources, json.RawMessage(fmt.Sprintf(`{"uri":"n://%d","name":%q}`, at, names[rng.IntN(2)])))
		}
		joined := common.Join(r.Read(l))
		if joined.Len() != common.Len()+len(l.Tools)+len(l.Prompts)+len(l.Resources) || joined.Hash() != common.Hash() || joined.Base() != common {
			t.Fatalf("%d entries of %d", joined.Len(), len(l.Tools))
		}
		for _, e := range joined.Entries() {
			if found, ok := joined.Lookup(e.ID); !ok || found != e {
				t.Fatalf("%s is not found", e.ID)
			}
			if e.Own != (e.Upstream == "notes") {
				t.Fatalf("%s: own %v", e.ID, e.Own)
			}
			what := string(e.Kind) + " " + e.Upstream + " " + e.key()
			if before := owner[e.ID]; before != "" && before != what {
				t.Fatalf("%s names %s and named %s", e.ID, what, before)
			}
			owner[e.ID] = what
			shape := what + " " + e.Version + " " + e.Name
			if before := ids[shape]; before != "" && before != e.ID {
				t.Fatalf("%s is %s and was %s", shape, e.ID, before)
			}
			ids[shape] = e.ID
		}
	}
}

// TestJoinInOneNamespace: own entries in the namespace of a server of all callers change nothing in
// the catalog of others, and the order of the configuration decides between equal ids.
func TestJoinInOneNamespace(t *testing.T) {
	common := New(Limits{})
	common, _ = common.With(primitive.Listing{Upstream: "files", Namespace: "work", Order: 1, Tools: []json.RawMessage{ownTool("read", "of files", ""), ownTool("list", "d", "1")}})
	before := slices.Clone(common.Entries())
	own := common.Reader().Read(&primitive.Listing{Upstream: "notes", Namespace: "work", Order: 0, Tools: []json.RawMessage{ownTool("read", "of notes", ""), ownTool("li st", "d", "1")}})
	joined := common.Join(own)
	if got := joined.Of("notes"); len(got) != 2 || len(joined.Of("files")) != 1 {
		t.Errorf("%d entries of notes and %d of files", len(got), len(joined.Of("files")))
	}
	if !slices.Equal(before, common.Entries()) || common.Join().Len() != 2 {
		t.Error("the catalog of all callers has changed")
	}
	if replaced := common.Join(common.Reader().Read(&primitive.Listing{Upstream: "files", Namespace: "work", Tools: []json.RawMessage{ownTool("mine", "d", "")}})); replaced.Len() != 1 || len(replaced.Upstreams()) != 1 {
		t.Errorf("own entries do not replace those of the server: %d", replaced.Len())
	}
	part := joined.Only(func(e *Entry) bool { return e.Own })
	if part.Base() != common || part.Whole() != joined || part.Hash() != common.Hash() {
		t.Error("a part does not know what it is of")
	}
}
