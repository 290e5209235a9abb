package splice_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/json/splice"
)

var edits = flag.Int("edits", 3000, "the number of random edits of each format that TestRandomEdits makes")

// randomValue returns what an entry may hold.
func randomValue(r *rand.Rand) any {
	switch r.IntN(5) {
	case 0:
		return "x\t\"y\" # é\n"
	case 1:
		return true
	case 2:
		return []any{"-y", "a b", "no"}
	case 3:
		return splice.Object{}
	}
	return splice.Object{
		{Key: "command", Value: "/opt/weir"}, {Key: "args", Value: []any{"attach"}},
		{Key: "env", Value: splice.Object{{Key: "A.B", Value: "${X:-y}"}, {Key: "n", Value: 7}}},
	}
}

// oneEdit makes one edit of a document and checks what the package promises. It reports whether the
// edit was made rather than refused.
func oneEdit(t *testing.T, doc []byte, f splice.Format, r *rand.Rand) bool {
	t.Helper()
	tree, err := splice.Decode(doc, f)
	if err != nil {
		return false
	}
	all := paths(tree)
	target := splice.Path{fmt.Sprintf("key %d", r.IntN(3))}
	if r.IntN(3) == 0 {
		target[0] = "weir"
	}
	if len(all) > 0 && r.IntN(4) > 0 {
		p := all[r.IntN(len(all))]
		if r.IntN(2) == 0 {
			return removeAndRestore(t, doc, f, p)
		}
		if _, isList := mustLookup(t, doc, f, p).([]any); isList {
			target = splice.Path{"name=weir"}
		}
		target = append(append(splice.Path(nil), p...), target...)
	}
	v := randomValue(r)
	out, err := splice.Set(doc, f, target, v)
	if err != nil {
		refused(t, err)
		return false
	}
	if _, ok, err := splice.Lookup(out, f, target); err != nil || !ok {
		t.Fatalf("%s is not in\n%s\n(%v)", target, out, err)
	}
	if _, ok, _ := splice.Lookup(doc, f, target); ok {
		return true
	}
	left, _, err := splice.Remove(out, f, target)
	if err != nil {
		t.Fatalf("%s was set and cannot be removed: %v\n%q\nbefore\n%q", target, err, out, doc)
	}
	for _, parent := range made(t, doc, f, target) {
		if o, _ := mustLookup(t, left, f, parent).(splice.Object); o != nil && len(o) == 0 {
			if left, _, err = splice.Remove(left, f, parent); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, isTable := v.(splice.Object); f == splice.TOML && !isTable {
		// A value needs the header of its table, which stays.
		if is, err := splice.Decode(left, f); err != nil || !reflect.DeepEqual(is, tree) {
			t.Fatalf("%s in and out:\n%q\nbefore:\n%q (%v)", target, left, doc, err)
		}
		return true
	}
	if !bytes.Equal(left, doc) && !emptyContainer(tree) {
		t.Fatalf("%s in and out:\n%q\nbefore:\n%q\nconnected:\n%q", target, left, doc, out)
	}
	return true
}

// emptyContainer reports whether a document has an object or list with nothing in it, or null: what an
// entry leaves behind in such a one is written in one way only.
func emptyContainer(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case splice.Object:
		for _, m := range v {
			if emptyContainer(m.Value) {
				return true
			}
		}
		return len(v) == 0
	case []any:
		for _, item := range v {
			if emptyContainer(item) {
				return true
			}
		}
		return len(v) == 0
	}
	return false
}

func mustLookup(t *testing.T, doc []byte, f splice.Format, p splice.Path) any {
	t.Helper()
	v, _, err := splice.Lookup(doc, f, p)
	if err != nil {
		refused(t, err)
	}
	return v
}

// refused fails the test unless an error says why an edit is not made.
func refused(t *testing.T, err error) {
	t.Helper()
	if unproven := (*splice.Unproven)(nil); !errors.As(err, &unproven) {
		t.Fatal(err)
	}
}

func removeAndRestore(t *testing.T, doc []byte, f splice.Format, p splice.Path) bool {
	t.Helper()
	out, cut, err := splice.Remove(doc, f, p)
	if err != nil {
		refused(t, err)
		return false
	}
	if _, ok, err := splice.Lookup(out, f, p); ok || err != nil {
		t.Fatalf("%s is still in\n%s\n(%v)", p, out, err)
	}
	back, err := splice.Restore(out, f, cut)
	if err != nil || !bytes.Equal(back, doc) {
		t.Fatalf("%s out and in: %v\n%q\nbefore:\n%q\ncut:\n%q", p, err, back, doc, out)
	}
	changed, err := splice.Set(out, f, splice.Path{"later"}, "x")
	if err != nil {
		refused(t, err)
		return true
	}
	was := mustLookup(t, doc, f, p)
	if back, err = splice.Restore(changed, f, cut); err != nil {
		refused(t, err)
	} else if is := mustLookup(t, back, f, p); !reflect.DeepEqual(is, was) {
		t.Fatalf("%s came back as %v, was %v", p, is, was)
	}
	return true
}

// seeds are the documents of testdata, before and after.
func seeds(t testing.TB, f splice.Format) [][]byte {
	var out [][]byte
	for dir, format := range formats {
		files, err := filepath.Glob("testdata/" + dir + "/*.txtar")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if format != f {
				continue
			}
			for _, part := range strings.Split(string(data), "\n-- ")[1:] {
				_, text, _ := strings.Cut(part, " --\n")
				out = append(out, []byte(text))
			}
		}
	}
	return out
}

// mutate changes a document in a way that often leaves it readable: lines are doubled, dropped and
// swapped, and characters that mean something are put in.
func mutate(doc []byte, r *rand.Rand) []byte {
	lines := bytes.SplitAfter(doc, []byte("\n"))
	for range 1 + r.IntN(4) {
		i, j := r.IntN(len(lines)), r.IntN(len(lines))
		switch r.IntN(7) {
		case 0:
			lines[i] = nil
		case 1:
			lines[i], lines[j] = lines[j], lines[i]
		case 2:
			lines[i] = append(bytes.Clone(lines[i]), lines[j]...)
		case 3:
			lines[i] = append(bytes.TrimRight(lines[i], "\n"), "\r\n"...)
		case 4:
			if len(lines[i]) > 0 {
				marks := []string{" ", "\t", "\n", "#", "// c\n", "/* c */", ",", "{}", "[]", "\"", "'", ":", ": ", "- ", "# c\n", "|\n", "é", "&a ", "*a", "~", "=", ".", "\n\n"}
				at := r.IntN(len(lines[i]))
				lines[i] = bytes.Join([][]byte{lines[i][:at], lines[i][at:]}, []byte(marks[r.IntN(len(marks))]))
			}
		case 5:
			lines[i] = bytes.ReplaceAll(lines[i], []byte("weir"), fmt.Appendf(nil, "k%d", r.IntN(9)))
		case 6:
			lines[i] = append([]byte("\n"), lines[i]...)
		}
	}
	return bytes.Join(lines, nil)
}

// TestRandomEdits edits documents that are made of those in testdata. With -edits=1000000 it is the
// long proof; the short one runs with all tests.
func TestRandomEdits(t *testing.T) {
	for name, f := range formats {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			docs := seeds(t, f)
			done, tried := 0, 0
			for seed := uint64(1); done < *edits; seed++ {
				r := rand.New(rand.NewPCG(seed, uint64(f)))
				doc := docs[r.IntN(len(docs))]
				if r.IntN(5) > 0 {
					doc = mutate(doc, r)
				}
				if tried++; tried > *edits*20 {
					t.Fatalf("%d edits of %d tried", done, tried)
				}
				if oneEdit(t, doc, f, r) {
					done++
				}
			}
			t.Logf("%d edits, %d tried", done, tried)
		})
	}
}

func fuzz(f *testing.F, format splice.Format) {
	for i, doc := range seeds(f, format) {
		f.Add(doc, uint64(i))
	}
	f.Fuzz(func(t *testing.T, doc []byte, seed uint64) {
		oneEdit(t, doc, format, rand.New(rand.NewPCG(seed, 1)))
	})
}

func FuzzJSON(f *testing.F) { fuzz(f, splice.JSON) }
func FuzzTOML(f *testing.F) { fuzz(f, splice.TOML) }
func FuzzYAML(f *testing.F) { fuzz(f, splice.YAML) }
