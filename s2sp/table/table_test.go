package table_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/s2sp/table"
)

func index(t testing.TB, data string) *table.Table {
	t.Helper()
	got, err := table.Index([]byte(data), table.Options{})
	if err != nil {
		t.Fatalf("Index(%.80s): %v", data, err)
	}
	return got
}

func jsonOf(v table.View) string { return string(v.AppendJSON(nil)) }

func TestValuesStayAsTheyAre(t *testing.T) {
	const data = `[ {"n":12345678901234567890,"e":1e400,"s":"\ud800\u00e9\/","o":{ "b":1,"a":[1, 2]},"f":1.0},` +
		"\n" + `{"n":-0,"e":1E-400,"s":"","o":null,"f":true} ,{"\u006e":0.10,"x":[]}]`
	tab := index(t, data)
	if got, want := tab.Columns(), []string{"n", "e", "s", "o", "f", "x"}; !slices.Equal(got, want) {
		t.Errorf("columns %q, want %q", got, want)
	}
	for _, c := range []struct {
		name string
		view table.View
		want string
	}{
		{"all", tab.View(), `[{"n":12345678901234567890,"e":1e400,"s":"\ud800\u00e9\/","o":{ "b":1,"a":[1, 2]},"f":1.0},{"n":-0,"e":1E-400,"s":"","o":null,"f":true},{"\u006e":0.10,"x":[]}]`},
		{"numbered", tab.View().WithRowID(), `[{"_row_id":0,"n":12345678901234567890,"e":1e400,"s":"\ud800\u00e9\/","o":{ "b":1,"a":[1, 2]},"f":1.0},{"_row_id":1,"n":-0,"e":1E-400,"s":"","o":null,"f":true},{"_row_id":2,"\u006e":0.10,"x":[]}]`},
		{"projected, in the order asked for", tab.View().Project([]string{"s", "n", "no such", "s"}).WithRowID(), `[{"_row_id":0,"s":"\ud800\u00e9\/","n":12345678901234567890},{"_row_id":1,"s":"","n":-0},{"_row_id":2,"\u006e":0.10}]`},
		{"rows in the table's order, once", tab.View().Project([]string{"n"}).SelectRows([]int{2, 0, 2, 99, -1}), `[{"n":12345678901234567890},{"\u006e":0.10}]`},
		{"no rows", tab.View().SelectRows(nil), `[]`},
		{"no columns", tab.View().Project(nil), `[{},{},{}]`},
		{"only unknown columns", tab.View().Project([]string{"zz"}).WithRowID(), `[{"_row_id":0},{"_row_id":1},{"_row_id":2}]`},
		{"without", tab.View().Without([]string{"s", "o", "e", "x"}), `[{"n":12345678901234567890,"f":1.0},{"n":-0,"f":true},{"\u006e":0.10}]`},
		{"renamed", tab.View().Project([]string{"n", "x"}).Rename(map[string]string{"n": "number"}), `[{"number":12345678901234567890},{"number":-0},{"number":0.10,"x":[]}]`},
		{"renamed onto another", tab.View().Project([]string{"n", "x"}).Rename(map[string]string{"x": "n"}), `[{"n":12345678901234567890},{"n":-0},{"n":[]}]`},
		{"row number as a column", tab.View().Project([]string{"x", "_row_id"}).SelectRows([]int{2}), `[{"x":[],"_row_id":2}]`},
		{"sliced", tab.View().Slice(1, 2).Project([]string{"f"}), `[{"f":true}]`},
	} {
		got := jsonOf(c.view)
		if got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
		if size := c.view.JSONSize(); size != int64(len(got)) {
			t.Errorf("%s: JSONSize is %d for %d bytes", c.name, size, len(got))
		}
		var lines bytes.Buffer
		if n, err := c.view.WriteNDJSON(&lines); err != nil || n != int64(lines.Len()) {
			t.Errorf("%s: WriteNDJSON = %d, %v for %d bytes", c.name, n, err, lines.Len())
		}
		if n := strings.Count(lines.String(), "\n"); n != c.view.Len() {
			t.Errorf("%s: %d lines for %d rows", c.name, n, c.view.Len())
		}
	}
}

func TestOwnRowID(t *testing.T) {
	const data = `[{"_row_id":"x7","a":1},{"a":2,"_row_id_data":3}]`
	tab := index(t, data)
	if got, want := tab.Columns(), []string{"_row_id_data_", "a", "_row_id_data"}; !slices.Equal(got, want) {
		t.Errorf("columns %q, want %q", got, want)
	}
	want := `[{"_row_id":0,"_row_id_data_":"x7","a":1},{"_row_id":1,"a":2,"_row_id_data":3}]`
	if got := jsonOf(tab.View().WithRowID()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := tab.View().WithRowID().JSONSize(); got != int64(len(want)) {
		t.Errorf("size %d, want %d", got, len(want))
	}
	kept, err := table.Index([]byte(data), table.Options{KeepRowID: true})
	if err != nil || jsonOf(kept.View()) != data {
		t.Errorf("kept: %s, %v", jsonOf(kept.View()), err)
	}
	if got := jsonOf(kept.View().WithRowID()); got != `[{"_row_id":0,"a":1},{"_row_id":1,"a":2,"_row_id_data":3}]` {
		t.Errorf("numbered anew: %s", got)
	}
}

func TestDuplicateKeys(t *testing.T) {
	tab := index(t, `[{"a":1,"b":2,"\u0061":3},{"a":4,"b":5,"\u0061":6},{"b":7,"b":8}]`)
	if got, want := jsonOf(tab.View()), `[{"a":3,"b":2},{"a":6,"b":5},{"b":8}]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := string(tab.Row(0)); got != `{"a":1,"b":2,"\u0061":3}` {
		t.Errorf("Row gives %s", got)
	}
	if got := string(tab.Cell(1, "a")); got != "6" {
		t.Errorf("Cell gives %s, want the last value", got)
	}
}

// Rows beyond the number of shapes that are kept are read like all others.
func TestRowsWithoutShape(t *testing.T) {
	var b strings.Builder
	b.WriteString(`[{}`)
	const rows = 6000
	for i := range rows {
		fmt.Fprintf(&b, `,{"_row_id":%d,"k%d":"v%d","a":%d,"a":%d}`, -i, i, i, i, i+1)
	}
	b.WriteString(`]`)
	tab := index(t, b.String())
	if tab.Len() != rows+1 || len(tab.Columns()) != rows+2 {
		t.Fatalf("%d rows, %d columns", tab.Len(), len(tab.Columns()))
	}
	for _, i := range []int{0, 17, rows - 1} {
		if got, want := string(tab.View().WithRowID().AppendRow(nil, i+1)), fmt.Sprintf(`{"_row_id":%d,"_row_id_data":%d,"k%d":"v%d","a":%d}`, i+1, -i, i, i, i+1); got != want {
			t.Errorf("row %d: %s, want %s", i+1, got, want)
		}
		v := tab.View().Project([]string{"a", "_row_id_data", fmt.Sprint("k", i)})
		if got, want := string(v.AppendRow(nil, i+1)), fmt.Sprintf(`{"a":%d,"_row_id_data":%d,"k%d":"v%d"}`, i+1, -i, i, i); got != want {
			t.Errorf("row %d projected: %s, want %s", i+1, got, want)
		}
		if got := string(tab.Cell(i+1, "_row_id_data")); got != fmt.Sprint(-i) {
			t.Errorf("row %d: cell %s", i+1, got)
		}
	}
	view := tab.View().WithRowID()
	if int64(len(jsonOf(view))) != view.JSONSize() {
		t.Error("sizes differ")
	}
	if tab.Cell(0, "a") != nil || string(tab.Row(0)) != "{}" {
		t.Error("the empty row is not empty")
	}
}

func TestErrors(t *testing.T) {
	deep := strings.Repeat("[", rawjson.MaxDepth+1) + strings.Repeat("]", rawjson.MaxDepth+1)
	var wide strings.Builder
	for i := range table.MaxColumns + 1 {
		fmt.Fprintf(&wide, `,"k%d":1`, i)
	}
	for _, c := range []struct {
		data, says string
		kind       error
	}{
		{``, "nothing", table.ErrNotTable},
		{`{"a":1}`, "array", table.ErrNotTable},
		{`[1]`, "row 0", table.ErrNotTable},
		{`[{"a":1},[]]`, "row 1", table.ErrNotTable},
		{`[{"a":1},{"a":}]`, "row 1", rawjson.ErrSyntax},
		{`[{"a":1}`, "not closed", rawjson.ErrSyntax},
		{`[{"a":1},`, "row 1", rawjson.ErrSyntax},
		{`[{"a":1},]`, "row 1", rawjson.ErrSyntax},
		{`[{"a":1} {"a":1}]`, "comma", rawjson.ErrSyntax},
		{`[{"a":1}] x`, "text after", rawjson.ErrSyntax},
		{`[{"a":1},{"a":01}]`, "row 1", rawjson.ErrSyntax},
		{`[{"a":1},{"a":1.}]`, "row 1", rawjson.ErrSyntax},
		{`[{"a":"x"},{"a":"` + "\x01" + `"}]`, "row 1", rawjson.ErrSyntax},
		{`[{"a":1},{"a":` + deep + `}]`, "row 1", rawjson.ErrDepth},
		{`[{` + wide.String()[1:] + `}]`, "row 0", table.ErrTooWide},
	} {
		_, err := table.Index([]byte(c.data), table.Options{})
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%.60s: error %v, want %v with %q", c.data, err, c.kind, c.says)
		}
	}
}

func TestEmptyAndLarge(t *testing.T) {
	for _, data := range []string{`[]`, ` [ ] `, `[{}]`, `[{},{}]`} {
		tab := index(t, data)
		if len(tab.Columns()) != 0 || jsonOf(tab.View()) != strings.ReplaceAll(data, " ", "") {
			t.Errorf("%s became %s with columns %q", data, jsonOf(tab.View()), tab.Columns())
		}
	}
	large := strings.Repeat("x", 10<<20)
	deep := strings.Repeat("[", rawjson.MaxDepth-2) + strings.Repeat("]", rawjson.MaxDepth-2)
	data := `[{"a":"` + large + `","b":1},{"a":"","b":` + deep + `},{"a":"` + large + `","b":2}]`
	tab := index(t, data)
	if jsonOf(tab.View()) != data {
		t.Error("strings of 10 MB did not survive")
	}
	if got := jsonOf(tab.View().Project([]string{"b"})); got != `[{"b":1},{"b":`+deep+`},{"b":2}]` {
		t.Errorf("got %.80s", got)
	}
}

func TestSegments(t *testing.T) {
	data := wide(20_000) // more than one segment
	tab, err := table.Index(data, table.Options{})
	if err != nil {
		t.Fatal(err)
	}
	segs := tab.Segments()
	if len(segs) < 2 {
		t.Fatalf("%d segments, want several", len(segs))
	}
	if !bytes.Equal(tab.View().AppendJSON(nil), data) {
		t.Error("the rows of several segments are not the input")
	}
	for i := range segs {
		segs[i] = table.Segment{Data: bytes.Clone(segs[i].Data), Index: bytes.Clone(segs[i].Index)}
	}
	moved := tab.WithSegments(segs)
	if got, want := jsonOf(moved.View().SelectRows([]int{0, 9999, 19_999})), jsonOf(tab.View().SelectRows([]int{0, 9999, 19_999})); got != want {
		t.Errorf("moved: %s, want %s", got, want)
	}
	defer func() {
		if recover() == nil {
			t.Error("fewer segments were taken")
		}
	}()
	tab.WithSegments(segs[1:])
}

func TestBuilder(t *testing.T) {
	b := table.NewBuilder(table.Options{}, nil)
	for _, row := range []string{`{"a":1}`, "\n {\"a\":\n2 }\r\n"} {
		if err := b.Append([]byte(row)); err != nil {
			t.Fatal(err)
		}
	}
	for _, row := range []string{`{"new":1} x`, `[]`, ``, `{"new":`, `{"a":3,"other":1}{}`} {
		if err := b.Append([]byte(row)); err == nil || !strings.Contains(err.Error(), "row 2") {
			t.Errorf("%q: %v, want an error about row 2", row, err)
		}
	}
	if err := b.Append([]byte(`{"a":3,"z":4}`)); err != nil {
		t.Fatal(err)
	}
	tab, err := b.Table()
	if err != nil {
		t.Fatal(err)
	}
	if got := jsonOf(tab.View()); got != `[{"a":1},{"a":2 },{"a":3,"z":4}]` {
		t.Errorf("got %s", got)
	}
	if got := tab.Columns(); !slices.Equal(got, []string{"a", "z"}) {
		t.Errorf("refused rows left columns: %q", got)
	}
	if err := b.Append([]byte(`{}`)); err == nil {
		t.Error("a complete table took a row")
	}
	if got := string(tab.Segments()[0].Data); got != "{\"a\":1}\n{\"a\":2 }\n{\"a\":3,\"z\":4}\n" {
		t.Errorf("the segment's bytes are no NDJSON: %q", got)
	}
}

func TestBuilderKeeps(t *testing.T) {
	data := wide(20_000)
	whole, err := table.Index(data, table.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var kept []table.Segment
	b := table.NewBuilder(table.Options{}, func(s table.Segment) error {
		kept = append(kept, table.Segment{Data: bytes.Clone(s.Data), Index: bytes.Clone(s.Index)})
		return nil
	})
	for _, row := range whole.Rows() {
		if err := b.Append(row); err != nil {
			t.Fatal(err)
		}
	}
	built, err := b.Table()
	if err != nil {
		t.Fatal(err)
	}
	if len(kept) < 2 {
		t.Fatalf("%d segments, want several", len(kept))
	}
	if d, i := built.Size(); d != 0 || i != 0 {
		t.Errorf("the builder holds %d and %d bytes", d, i)
	}
	if !bytes.Equal(built.WithSegments(kept).View().AppendJSON(nil), data) {
		t.Error("the kept rows are not the input")
	}
	failing := table.NewBuilder(table.Options{}, func(table.Segment) error { return errors.New("disk full") })
	if err := failing.Append([]byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	if _, err := failing.Table(); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("error %v", err)
	}
}

// Whatever encoding/json takes for an array of objects is a table, with the same
// values and columns in the order in which it finds them, and nothing else is.
func FuzzIndex(f *testing.F) {
	for _, s := range []string{
		`[]`, `[{}]`, `[{"a":1,"b":"x"},{"a":2,"b":"y"},{"b":"z","a":3}]`, `[{"a":1,"a":2},{"a":3,"a":4}]`, `[{"a":{"b":[1,2,{}]}} , {"a":1e400}]`,
		`[{"\u0061":1},{"a":-0.0}]`, `[{"a":"\ud800"},{"a":"\\\""}]`, `[{"_row_id":1}]`, `[{"a":1},{"a":1,}]`, `[{"a":12345678901234567890},{"a":1.5},{"a":01}]`,
		`[{"a":"abcdefgh"},{"a":"abcdefghi\n"}]`, "[{\"a\":\"\xff\"},{\"\xff\":1},{\"\xfe\":2}]", `[{"a":1}]]`, `[null]`, `{"a":1}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		tab, err := table.Index(data, table.Options{KeepRowID: true})
		if errors.Is(err, rawjson.ErrDepth) {
			return
		}
		var want []map[string]json.RawMessage
		wantErr := json.Unmarshal(data, &want)
		if wantErr == nil && (want == nil || slices.ContainsFunc(want, func(m map[string]json.RawMessage) bool { return m == nil })) {
			if err == nil { // null is a slice and a map to encoding/json, but no table and no row
				t.Fatalf("%q is a table", data)
			}
			return
		}
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%q: %v, but encoding/json says %v", data, err, wantErr)
		}
		if err != nil {
			return
		}
		if tab.Len() != len(want) {
			t.Fatalf("%q: %d rows, want %d", data, tab.Len(), len(want))
		}
		columns := keysInOrder(t, data)
		if !slices.Equal(tab.Columns(), columns) {
			t.Fatalf("%q: columns %q, want %q", data, tab.Columns(), columns)
		}
		for i, row := range want {
			for _, c := range columns {
				if got := tab.Cell(i, c); !bytes.Equal(got, row[c]) {
					t.Fatalf("%q: row %d column %q is %q, want %q", data, i, c, got, row[c])
				}
			}
		}
		view := tab.View()
		text := view.AppendJSON(nil)
		if !json.Valid(text) || view.JSONSize() != int64(len(text)) {
			t.Fatalf("%q became %q, size %d", data, text, view.JSONSize())
		}
		var lines bytes.Buffer
		if _, err := view.WriteNDJSON(&lines); err != nil || bytes.Count(lines.Bytes(), []byte("\n")) != tab.Len() {
			t.Fatalf("%q: lines %q, %v", data, lines.Bytes(), err)
		}
		again, err := table.NDJSON(lines.Bytes(), table.Options{KeepRowID: true})
		if err != nil || again.Len() != tab.Len() || !slices.Equal(again.Columns(), tab.Columns()) {
			t.Fatalf("%q: read again: %v", data, err)
		}
	})
}

// keysInOrder reads the union of the keys with encoding/json's own scanner.
func keysInOrder(t *testing.T, data []byte) []string {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	seen := map[string]bool{}
	keys := []string{}
	var key []bool // for each open bracket: object, and the next token is a key
	var object []bool
	for {
		tok, err := dec.Token()
		if err != nil {
			return keys
		}
		if d, ok := tok.(json.Delim); ok && (d == '}' || d == ']') {
			key, object = key[:len(key)-1], object[:len(object)-1]
			if n := len(key); n > 0 && object[n-1] {
				key[n-1] = true
			}
			continue
		}
		n := len(key)
		isKey := n > 0 && object[n-1] && key[n-1]
		if isKey {
			if name := tok.(string); n == 2 && !seen[name] {
				seen[name] = true
				keys = append(keys, name)
			}
			key[n-1] = false
			continue
		}
		if d, ok := tok.(json.Delim); ok {
			key, object = append(key, true), append(object, d == '{')
			continue
		}
		if n > 0 && object[n-1] {
			key[n-1] = true
		}
	}
}
