package table_test

import (
	"strings"
	"testing"

	"github.com/weir-mcp/weir/s2sp/table"
)

// Values that JSON lacks are null, counted, and nothing else changes.
func TestNotFinite(t *testing.T) {
	const rows = `{"a":NaN,"b":"NaN"}` + "\n" + `{"a":-Infinity,"b":[Infinity,12345678901234567890]}`
	const want = `[{"a":null,"b":"NaN"},{"a":null,"b":[null,12345678901234567890]}]`
	array := "[" + strings.ReplaceAll(rows, "\n", ",") + "]"
	read := map[string]func() (*table.Table, error){
		"Index":  func() (*table.Table, error) { return table.Index([]byte(array), table.Options{}) },
		"NDJSON": func() (*table.Table, error) { return table.NDJSON([]byte(rows), table.Options{}) },
		"Detect": func() (*table.Table, error) { return table.Detect([]byte(array), table.DetectOptions{}) },
		"Detect, member": func() (*table.Table, error) {
			return table.Detect([]byte(`{"result":`+array+`}`), table.DetectOptions{})
		},
		"Detect, lines": func() (*table.Table, error) { return table.Detect([]byte(rows), table.DetectOptions{}) },
		"Detect, path": func() (*table.Table, error) {
			return table.Detect([]byte(`{"n":NaN,"d":{"rows":`+array+`}}`), table.DetectOptions{Paths: []string{"d.rows"}})
		},
		"Detect, elements": func() (*table.Table, error) {
			return table.Detect([]byte(`{"n":1,"d":[{"r":`+strings.ReplaceAll(rows, "\n", `},{"r":`)+`}]}`), table.DetectOptions{Paths: []string{"d[].r"}})
		},
		"Blocks": func() (*table.Table, error) {
			first, second, _ := strings.Cut(rows, "\n")
			return table.Blocks([][]byte{[]byte(first), []byte(second)}, table.Options{})
		},
	}
	for name, f := range read {
		tab, err := f()
		if err != nil || jsonOf(tab.View()) != want {
			t.Errorf("%s: %v", name, err)
			continue
		}
		nulled := 3
		if name == "Detect, path" {
			nulled = 4
		}
		if tab.Nulled() != nulled || tab.WithSegments(tab.Segments()).Nulled() != nulled {
			t.Errorf("%s: %d values counted", name, tab.Nulled())
		}
	}
	one, err := table.Detect([]byte(`{"a":NaN}`), table.DetectOptions{One: true})
	if err != nil || one.Nulled() != 1 {
		t.Errorf("one object: %v", err)
	}
	for _, bad := range []string{`[{"a":nan}]`, `[{"a":NaN]`, `[{"a":NaN,}]`, `[NaN]`} {
		if _, err := table.Index([]byte(bad), table.Options{}); err == nil {
			t.Errorf("%s is read", bad)
		}
	}
	// A row that is refused for something else changes nothing.
	b := table.NewBuilder(table.Options{}, nil)
	if err := b.Append([]byte(`{"a":NaN,"b":x}`)); err == nil {
		t.Error("a broken row is taken")
	}
	if err := b.Append([]byte(`{"a":NaN}`)); err != nil {
		t.Fatal(err)
	}
	if tab, err := b.Table(); err != nil || tab.Nulled() != 1 || jsonOf(tab.View()) != `[{"a":null}]` {
		t.Errorf("%v", err)
	}
}

func TestNamesText(t *testing.T) {
	for name, want := range map[string]string{
		"wind": "wind", "": `""`, " ": `" "`, "a b": "a b", "a, b": `"a, b"`, "tab\t": `"tab\t"`, "°C": "°C", "\u200b": `"\u200b"`, `q"`: `"q\""`,
		strings.Repeat("ä", 60): strings.Repeat("ä", 60), strings.Repeat("ä", 61): `"` + strings.Repeat("ä", 59) + `…"`,
	} {
		if got := table.NameText(name); got != want {
			t.Errorf("NameText(%q) = %s, want %s", name, got, want)
		}
	}
	if got := table.NamesText([]string{"", "a", "b", "c"}, 2); got != `"", a and 2 more` {
		t.Errorf("%s", got)
	}
}
