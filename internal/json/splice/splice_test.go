package splice_test

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/json/splice"
)

var update = flag.Bool("update", false, "write the parts connected and disconnected of testdata anew")

// A vector is a file of testdata. Its comment has lines "path: a / b", "value: JSON", "remove: a / b"
// and the words crlf, bom, nofinal for what the text of a file cannot show. Without a part
// "disconnected", that is the same as "before".
type vector struct {
	format                  splice.Format
	path                    splice.Path
	value                   any
	before, connected, left string
	comment                 string
	partsIn                 int
	encode                  func(string) string
}

func pathOf(s string) splice.Path {
	p := splice.Path(strings.Split(s, " / "))
	for i := range p {
		p[i] = strings.TrimSpace(p[i])
	}
	return p
}

func readVector(t *testing.T, file string, f splice.Format) vector {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	v := vector{format: f}
	parts := map[string]string{}
	name := ""
	for line := range strings.Lines(string(data)) {
		if n, ok := strings.CutPrefix(line, "-- "); ok && strings.HasSuffix(line, " --\n") {
			name = strings.TrimSuffix(n, " --\n")
			parts[name] = ""
			v.partsIn++
			continue
		}
		parts[name] += line
	}
	v.comment = parts[""]
	words := map[string]bool{}
	for line := range strings.Lines(v.comment) {
		line = strings.TrimSpace(line)
		if p, ok := strings.CutPrefix(line, "path: "); ok {
			v.path = pathOf(p)
		} else if text, ok := strings.CutPrefix(line, "value: "); ok {
			if v.value, err = splice.Decode([]byte(text), splice.JSON); err != nil {
				t.Fatal(err)
			}
		} else {
			words[line] = true
		}
	}
	v.encode = func(s string) string {
		if words["nofinal"] {
			s = strings.TrimSuffix(s, "\n")
		}
		if words["crlf"] {
			s = strings.ReplaceAll(s, "\n", "\r\n")
		}
		if words["bom"] {
			s = "\uFEFF" + s
		}
		return s
	}
	v.before, v.connected = v.encode(parts["before"]), v.encode(parts["connected"])
	v.left = v.before
	if text, ok := parts["disconnected"]; ok {
		v.left = v.encode(text)
	}
	return v
}

// formats are those with a folder in testdata.
var formats = map[string]splice.Format{"json": splice.JSON, "toml": splice.TOML, "yaml": splice.YAML}

func eachVector(t *testing.T, fn func(t *testing.T, file string, v vector)) {
	for dir, format := range formats {
		files, err := filepath.Glob("testdata/" + dir + "/*.txtar")
		if err != nil || len(files) < 6 {
			t.Fatalf("%d vectors in %s: %v", len(files), dir, err)
		}
		for _, file := range files {
			t.Run(dir+"/"+strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
				fn(t, file, readVector(t, file, format))
			})
		}
	}
}

// made returns the paths of the parents that a document lacks, the innermost first.
func made(t *testing.T, doc []byte, f splice.Format, p splice.Path) []splice.Path {
	var out []splice.Path
	for i := 1; i < len(p); i++ {
		if _, ok, err := splice.Lookup(doc, f, p[:i]); err != nil {
			t.Fatal(err)
		} else if !ok {
			out = append([]splice.Path{p[:i]}, out...)
		}
	}
	return out
}

// disconnect removes an entry and the parents that it came with.
func disconnect(t *testing.T, before, doc []byte, f splice.Format, p splice.Path) []byte {
	t.Helper()
	out, _, err := splice.Remove(doc, f, p)
	if err != nil {
		t.Fatalf("remove: %v\n%s", err, doc)
	}
	for _, parent := range made(t, before, f, p) {
		v, ok, err := splice.Lookup(out, f, parent)
		if err != nil {
			t.Fatal(err)
		}
		if o, _ := v.(splice.Object); !ok || len(o) > 0 {
			continue
		}
		if out, _, err = splice.Remove(out, f, parent); err != nil {
			t.Fatalf("remove %s: %v", parent, err)
		}
	}
	return out
}

func TestVectors(t *testing.T) {
	eachVector(t, func(t *testing.T, file string, v vector) {
		connected, err := splice.Set([]byte(v.before), v.format, v.path, v.value)
		if err != nil {
			t.Fatal(err)
		}
		left := disconnect(t, []byte(v.before), connected, v.format, v.path)
		if *update {
			plain := func(s string) string { return strings.ReplaceAll(strings.TrimPrefix(s, "\uFEFF"), "\r\n", "\n") }
			end := func(s string) string {
				if s != "" && !strings.HasSuffix(s, "\n") {
					s += "\n"
				}
				return s
			}
			text := v.comment + "-- before --\n" + end(plain(v.before)) + "-- connected --\n" + end(plain(string(connected)))
			if string(left) != v.before {
				text += "-- disconnected --\n" + end(plain(string(left)))
			}
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			return
		}
		if string(connected) != v.connected {
			t.Errorf("connected:\n%s\nwant:\n%s", connected, v.connected)
		}
		if string(left) != v.left {
			t.Errorf("disconnected:\n%q\nwant:\n%q", left, v.left)
		}
	})
}

// paths returns the paths of all values of a document.
func paths(v any) []splice.Path {
	var out []splice.Path
	var walk func(v any, p splice.Path)
	walk = func(v any, p splice.Path) {
		if len(p) > 0 {
			out = append(out, append(splice.Path(nil), p...))
		}
		switch v := v.(type) {
		case splice.Object:
			for _, m := range v {
				walk(m.Value, append(p, m.Key))
			}
		case []any:
			for _, item := range v {
				if o, ok := item.(splice.Object); ok {
					if name, ok := o.Get("name").(string); ok {
						walk(item, append(p, "name="+name))
					}
				}
			}
		}
	}
	walk(v, nil)
	return out
}

// TestEveryKeyComesBack takes each key out of each vector and puts it back, through the form in which a
// journal keeps it.
func TestEveryKeyComesBack(t *testing.T) {
	eachVector(t, func(t *testing.T, _ string, v vector) {
		tree, err := splice.Decode([]byte(v.connected), v.format)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range paths(tree) {
			out, cut, err := splice.Remove([]byte(v.connected), v.format, p)
			if unproven := (*splice.Unproven)(nil); errors.As(err, &unproven) {
				continue
			} else if err != nil {
				t.Fatalf("%s: %v", p, err)
			}
			text, err := json.Marshal(cut)
			if err != nil {
				t.Fatal(err)
			}
			var kept splice.Cut
			if err := json.Unmarshal(text, &kept); err != nil || !reflect.DeepEqual(kept.Path, cut.Path) {
				t.Fatal(err, kept)
			}
			back, err := splice.Restore(out, v.format, kept)
			if err != nil || string(back) != v.connected {
				t.Errorf("%s: %v\n%s\ncut:\n%s", p, err, back, out)
			}
			if _, err := splice.Restore([]byte(v.connected), v.format, kept); !errors.Is(err, splice.ErrTaken) {
				t.Errorf("%s: restored over a value: %v", p, err)
			}
		}
	})
}

// TestRestoreAmongOthers puts a key back after the file has changed around it.
func TestRestoreAmongOthers(t *testing.T) {
	eachVector(t, func(t *testing.T, _ string, v vector) {
		tree, err := splice.Decode([]byte(v.before), v.format)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range paths(tree) {
			out, cut, err := splice.Remove([]byte(v.before), v.format, p)
			if err != nil {
				continue
			}
			was, _, _ := splice.Lookup([]byte(v.before), v.format, p)
			for _, other := range []splice.Path{v.path, {"zz-other"}} {
				if other[0] == p[0] && len(p) <= len(other) {
					continue
				}
				changed, err := splice.Set(out, v.format, other, v.value)
				if err != nil {
					continue
				}
				back, err := splice.Restore(changed, v.format, cut)
				if err != nil {
					t.Errorf("%s after %s: %v\n%s", p, other, err, changed)
					continue
				}
				if is, ok, err := splice.Lookup(back, v.format, p); err != nil || !ok || !reflect.DeepEqual(is, was) {
					t.Errorf("%s is %v, was %v (%v)", p, is, was, err)
				}
			}
		}
	})
}

func TestRefusals(t *testing.T) {
	for _, test := range []struct {
		name   string
		format splice.Format
		doc    string
		path   splice.Path
		want   string
	}{
		{"duplicate of the key", splice.JSON, `{"s":{"weir":1,"weir":2}}`, splice.Path{"s", "weir"}, `the key "weir" is there twice`},
		{"duplicate of the parent", splice.JSON, `{"s":{},"s":{}}`, splice.Path{"s", "weir"}, `the key "s" is there twice`},
		{"parent is no object", splice.JSON, `{"s":7}`, splice.Path{"s", "weir"}, "s is no object"},
		{"root is no object", splice.JSON, `7`, splice.Path{"s"}, "the document is no object"},
		{"two items of one name", splice.JSON, `{"s":[{"name":"a"},{"name":"a"}]}`, splice.Path{"s", "name=a"}, `two items have the name "a"`},
		{"merge key", splice.YAML, "b: &b {x: 1}\ns:\n  <<: *b\n", splice.Path{"s", "weir"}, "merge key"},
		{"anchor", splice.YAML, "s: &b\n  x: 1\nt: *b\n", splice.Path{"s", "weir"}, "anchor"},
		{"alias", splice.YAML, "s: &b\n  x: 1\nt: *b\n", splice.Path{"t", "weir"}, "alias"},
		{"tag", splice.YAML, "s: !!map\n  x: 1\n", splice.Path{"s", "weir"}, "tag"},
		{"duplicate in YAML", splice.YAML, "s: 1\ns: 2\n", splice.Path{"s"}, "twice"},
		{"key in a list", splice.JSON, `{"s":[]}`, splice.Path{"s", "a"}, "items are selected as name=NAME"},
	} {
		t.Run(test.name, func(t *testing.T) {
			out, err := splice.Set([]byte(test.doc), test.format, test.path, "x")
			if unproven := (*splice.Unproven)(nil); !errors.As(err, &unproven) || out != nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %q, %v", out, err)
			}
		})
	}
	for _, doc := range []string{"{", "{]", "\xff", "{\"a\":1}{}", strings.Repeat("[", 20000)} {
		if _, err := splice.Set([]byte(doc), splice.JSON, splice.Path{"a"}, 1); err == nil {
			t.Errorf("%.20q was edited", doc)
		}
	}
	if _, _, err := splice.Remove([]byte("{}"), splice.JSON, splice.Path{"a"}); !errors.Is(err, splice.ErrMissing) {
		t.Error(err)
	}
	for _, v := range []any{json.Number("1 2"), json.Number("tru"), "\xff", 1.5, splice.Object{{Key: "a"}, {Key: "a"}}} {
		if _, err := splice.Set(nil, splice.JSON, splice.Path{"a"}, v); err == nil {
			t.Errorf("%v was written", v)
		}
	}
}

func TestRaw(t *testing.T) {
	doc := []byte("{\"a\": { /* c */ \"b\": 12345678901234567890 }}")
	if raw, ok, err := splice.Raw(doc, splice.JSON, splice.Path{"a"}); string(raw) != "{ /* c */ \"b\": 12345678901234567890 }" || !ok || err != nil {
		t.Errorf("%s %v %v", raw, ok, err)
	}
	if _, ok, err := splice.Raw(doc, splice.JSON, splice.Path{"z"}); ok || err != nil {
		t.Errorf("%v %v", ok, err)
	}
	if v, _, _ := splice.Lookup(doc, splice.JSON, splice.Path{"a", "b"}); v != json.Number("12345678901234567890") {
		t.Errorf("%v", v)
	}
}

func TestPathString(t *testing.T) {
	if got := (splice.Path{"a", "b.c", ""}).String(); got != `a."b.c".""` {
		t.Errorf("got %s", got)
	}
}
