package metatool

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/text/token"
)

// mixed is a small catalog of tools, resources and prompts together, with queries
// of which each has one right answer (spec/gateway §6.5).
type mixed struct {
	snapshot *Snapshot
	queries  []struct{ Kind, Query, Want string }
}

func readMixed(t testing.TB) mixed {
	t.Helper()
	data, err := os.ReadFile("testdata/mixed.json")
	if err != nil {
		t.Fatal(err)
	}
	f, err := ReadSnapshotFile("mixed.json", data)
	if err != nil {
		t.Fatal(err)
	}
	var m mixed
	m.snapshot, _ = NewSnapshot(catalog.Limits{}).With(f.Listing())
	if data, err = os.ReadFile("testdata/mixed-queries.json"); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &m.queries); err != nil {
		t.Fatal(err)
	}
	return m
}

// score is what one kind comes to.
type score struct {
	entries, queries int
	native           int // tokens of all definitions
	browse           int // tokens of one browse, on average
	recall1, recall5 float64
}

func (s score) saved() float64 { return 1 - float64(s.browse)/float64(s.native) }

// measure asks all queries of a kind as an agent does, with five cards each.
func (m mixed) measure(t testing.TB, kind primitive.Kind) (s score) {
	t.Helper()
	h := newHarness(t, Options{})
	h.Mu.Lock()
	h.Listed = m.snapshot
	h.Mu.Unlock()
	verb := map[primitive.Kind]string{primitive.KindTool: ToolBrowse, primitive.KindResource: ResourceBrowse, primitive.KindPrompt: PromptBrowse}[kind]
	var raw strings.Builder
	names := map[string]string{}
	for _, e := range m.snapshot.Catalog.Entries() {
		surface := e.Kind
		if surface == primitive.KindTemplate {
			surface = primitive.KindResource
		}
		if surface == kind {
			s.entries++
			raw.Write(e.Raw)
			names[e.ID] = e.RawName
			if e.URI != "" {
				names[e.ID] = e.URI
			}
		}
	}
	s.native = token.Count(raw.String())
	for _, q := range m.queries {
		if q.Kind != string(kind) {
			continue
		}
		s.queries++
		cards := h.Tool(t, verb, fmt.Sprintf(`{"query":%q,"top_k":5}`, q.Query)).Content[0].Text
		s.browse += token.Count(cards)
		for i, line := range strings.Split(cards, "\n") {
			id, _, _ := strings.Cut(line, " ")
			if names[id] == q.Want {
				s.recall5++
				if i == 0 {
					s.recall1++
				}
			}
		}
	}
	s.recall1 /= float64(s.queries)
	s.recall5 /= float64(s.queries)
	s.browse /= s.queries
	return s
}

var browsable = []primitive.Kind{primitive.KindTool, primitive.KindResource, primitive.KindPrompt}

// TestMixedSet prints what browsing saves and finds for each kind: go test -v.
func TestMixedSet(t *testing.T) {
	m := readMixed(t)
	for _, kind := range browsable {
		s := m.measure(t, kind)
		t.Logf("%-9s %2d entries, %2d queries: %4d tokens listed, %3d browsed (%.0f %% saved), recall@1 %.2f, recall@5 %.2f",
			kind, s.entries, s.queries, s.native, s.browse, 100*s.saved(), s.recall1, s.recall5)
		if s.saved() < 0.5 || s.recall5 < 0.9 || s.recall1 < 0.7 {
			t.Errorf("%s: %+v", kind, s)
		}
	}
}

// BenchmarkPrimitives reports the same figures, and how long a browse takes.
func BenchmarkPrimitives(b *testing.B) {
	m := readMixed(b)
	for _, kind := range browsable {
		b.Run(string(kind), func(b *testing.B) {
			s := m.measure(b, kind)
			index := m.snapshot.index(kind)
			b.ResetTimer()
			for i := range b.N {
				index.Search(m.queries[i%len(m.queries)].Query, 5)
			}
			b.ReportMetric(100*s.saved(), "%saved")
			b.ReportMetric(s.recall1, "recall@1")
			b.ReportMetric(s.recall5, "recall@5")
		})
	}
}
