package metatool

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/text/token"
)

// readLines calls f with each line of a file.
func readLines(t *testing.T, path string, f func(line []byte)) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	s := bufio.NewScanner(file)
	s.Buffer(nil, 16<<20)
	for s.Scan() {
		f(s.Bytes())
	}
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
}

// TestBrowseCost: an answer to a query has at most 280 tokens in the mean, over questions as people ask them and
// as the definition asks for them, and the same bytes each time.
func TestBrowseCost(t *testing.T) {
	const sets = "../search/eval/testdata/sets"
	for _, names := range [][]string{{"company", "company", "company_languages", "company_long", "company_long_held", "company_rewritten"}, {"harbour", "harbour", "harbour_words"}} {
		tools := map[string][]json.RawMessage{}
		readLines(t, filepath.Join(sets, names[0], "tools.jsonl"), func(line []byte) {
			var one struct{ Server string }
			if err := json.Unmarshal(line, &one); err != nil {
				t.Fatal(err)
			}
			tools[one.Server] = append(tools[one.Server], append(json.RawMessage(nil), line...))
		})
		s := NewSnapshot(catalog.Limits{})
		for server, list := range tools {
			s, _ = s.With(primitive.Listing{Upstream: server, Namespace: server, Tools: list})
		}
		h := newHarness(t, Options{})
		h.Mu.Lock()
		h.Listed = s
		h.Mu.Unlock()
		for _, name := range names[1:] {
			queries, tokens := 0, 0
			readLines(t, filepath.Join(sets, name, "dev.jsonl"), func(line []byte) {
				var one struct{ Query string }
				if err := json.Unmarshal(line, &one); err != nil {
					t.Fatal(err)
				}
				arguments, _ := json.Marshal(map[string]string{"query": one.Query})
				answer := h.Tool(t, ToolBrowse, string(arguments)).Content[0].Text
				if again := h.Tool(t, ToolBrowse, string(arguments)).Content[0].Text; again != answer {
					t.Errorf("%q is answered differently: %s and %s", one.Query, answer, again)
				}
				queries++
				tokens += token.Count(answer)
			})
			t.Logf("%-18s %2d queries, %3d tokens in the mean", name, queries, tokens/queries)
			if tokens > 280*queries {
				t.Errorf("%s: %d tokens in the mean", name, tokens/queries)
			}
		}
	}
}
