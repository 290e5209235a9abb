package eval

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/search"
)

// maxLine bounds one line of a set's file.
const maxLine = 16 << 20

// ErrNoSets says that a directory holds no <set>/dev.jsonl.
var ErrNoSets = errors.New("no sets")

// testQuery is one line of dev.jsonl: a text and the groups of interchangeable tool ids that answer it.
type testQuery struct {
	ID     string
	Text   string
	Groups [][]string
}

// testSet is one directory of a data directory.
type testSet struct {
	Name    string
	Tools   []search.Doc
	Queries []testQuery
	// Warnings are the faults of the set's own files, one sentence each.
	Warnings []string
}

type toolLine struct {
	ID          string          `json:"id"`
	Server      string          `json:"server"`
	Name        string          `json:"name"`
	Title       string          `json:"title"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema"`
	Tags        []string        `json:"tags"`
	Annotations struct {
		ReadOnly    bool `json:"readOnlyHint"`
		Destructive bool `json:"destructiveHint"`
	} `json:"annotations"`
}

// effect is the effect by the tool's annotations.
func (t toolLine) effect() search.Effect {
	switch {
	case t.Annotations.ReadOnly:
		return search.EffectReads
	case t.Annotations.Destructive:
		return search.EffectActs
	}
	return search.EffectUnknown
}

type queryLine struct {
	ID         string     `json:"id"`
	Query      string     `json:"query"`
	Gold       []string   `json:"gold"`
	GoldGroups [][]string `json:"gold_groups"`
}

// loadSet reads every set below dir, in name order: <set>/dev.jsonl with <set>/tools.jsonl. A set without tools of its own
// (a_b_c) searches the tools of the longest of its prefixes (a_b, then a) that has some. Contradictions in a set (an id
// twice, a query that wants a tool which is not there) is kept in Set.Warnings and costs no other line.
func loadSet(dir string) ([]testSet, error) {
	found, err := filepath.Glob(filepath.Join(dir, "*", "dev.jsonl"))
	if err != nil {
		return nil, fmt.Errorf("search sets in %s: %w", dir, err)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%w in %s: a set is a folder with dev.jsonl and tools.jsonl", ErrNoSets, dir)
	}
	slices.Sort(found)
	tools := map[string][]search.Doc{}
	sets := make([]testSet, 0, len(found))
	for _, path := range found {
		name := filepath.Base(filepath.Dir(path))
		owner, err := toolsOwner(dir, name)
		if err != nil {
			return nil, err
		}
		if _, ok := tools[owner]; !ok {
			docs, err := loadTools(filepath.Join(dir, owner, "tools.jsonl"))
			if err != nil {
				return nil, err
			}
			tools[owner] = docs
		}
		queries, err := loadQueries(path)
		if err != nil {
			return nil, err
		}
		s := testSet{Name: name, Tools: tools[owner], Queries: queries}
		s.check()
		sets = append(sets, s)
	}
	return sets, nil
}

// toolsOwner names the set whose tools.jsonl the set name searches.
func toolsOwner(dir, name string) (string, error) {
	for owner := name; ; {
		_, err := os.Stat(filepath.Join(dir, owner, "tools.jsonl"))
		if err == nil {
			return owner, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("set %s: %w", name, err)
		}
		i := strings.LastIndexByte(owner, '_')
		if i <= 0 {
			return "", fmt.Errorf("set %s: no tools.jsonl in %s, nor in a set whose name begins it", name, filepath.Join(dir, name))
		}
		owner = owner[:i]
	}
}

// check drops tools whose id was there before and notes contradictions.
func (s *testSet) check() {
	ids := make(map[string]bool, len(s.Tools))
	kept := make([]search.Doc, 0, len(s.Tools))
	for _, d := range s.Tools {
		if ids[d.ID] {
			s.Warnings = append(s.Warnings, fmt.Sprintf("two tools have the id %q: the first is kept", d.ID))
			continue
		}
		ids[d.ID] = true
		kept = append(kept, d)
	}
	s.Tools = kept
	for _, q := range s.Queries {
		for _, id := range slices.Concat(q.Groups...) {
			if !ids[id] {
				s.Warnings = append(s.Warnings, fmt.Sprintf("query %s wants the tool %q, which is not in tools.jsonl", q.ID, id))
			}
		}
	}
}

func loadTools(path string) ([]search.Doc, error) {
	var docs []search.Doc
	err := eachLine(path, func(raw []byte) error {
		var t toolLine
		if err := json.Unmarshal(raw, &t); err != nil {
			return err
		}
		if t.ID == "" {
			return errors.New("a tool has no id")
		}
		docs = append(docs, search.Doc{ID: t.ID, Server: t.Server, Name: t.Name, Title: t.Title, Description: t.Description,
			Tags: t.Tags, Params: params(t.InputSchema), Effect: t.effect()})
		return nil
	})
	return docs, err
}

// params takes the top-level properties of an input schema, in name order. A schema of another shape has none:
// the sets are other people's data and a broken schema must not lose the tool.
func params(schema json.RawMessage) []search.Param {
	var shape struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if len(schema) == 0 || json.Unmarshal(schema, &shape) != nil {
		return nil
	}
	out := make([]search.Param, 0, len(shape.Properties))
	for name, raw := range shape.Properties {
		var prop struct {
			Description string `json:"description"`
			Enum        []any  `json:"enum"`
		}
		if json.Unmarshal(raw, &prop) != nil {
			prop.Description = ""
		}
		p := search.Param{Name: name, Description: prop.Description}
		for _, value := range prop.Enum {
			if text, ok := value.(string); ok {
				p.Values = append(p.Values, text)
			}
		}
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b search.Param) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func loadQueries(path string) ([]testQuery, error) {
	var out []testQuery
	err := eachLine(path, func(raw []byte) error {
		var q queryLine
		if err := json.Unmarshal(raw, &q); err != nil {
			return err
		}
		groups := q.GoldGroups
		if groups == nil {
			for _, id := range q.Gold {
				groups = append(groups, []string{id})
			}
		}
		if len(groups) == 0 {
			return fmt.Errorf("query %s has no gold", q.ID)
		}
		out = append(out, testQuery{ID: q.ID, Text: q.Query, Groups: groups})
		return nil
	})
	return out, err
}

// eachLine calls f with every line that is not blank and names file and line in its error.
func eachLine(path string, f func([]byte) error) (err error) {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("search set: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	r := bufio.NewScanner(io.Reader(file))
	r.Buffer(make([]byte, 64<<10), maxLine)
	for n := 1; r.Scan(); n++ {
		if len(strings.TrimSpace(r.Text())) == 0 {
			continue
		}
		if err := f(r.Bytes()); err != nil {
			return fmt.Errorf("%s:%d: %w", path, n, err)
		}
	}
	if err := r.Err(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
