package table_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/s2sp/table"
)

// numberedRows makes rows as data planes send them: _row_id somewhere, in some
// rows nowhere, null or as another text of the same number; keys that come and go,
// stand twice or are written with escapes.
func numberedRows(r *rand.Rand, n int) []string {
	keys := []string{`"a"`, `"b"`, `"\u0063"`, `"d e"`, `""`, `"a"`}
	values := []string{`1`, `null`, `"x, \"y\""`, `[1,{"a":2}]`, `12345678901234567890`, `"\ud800"`, `{}`, `true`}
	rows := make([]string, n)
	for i := range rows {
		var fields []string
		for range r.IntN(6) {
			fields = append(fields, keys[r.IntN(len(keys))]+":"+values[r.IntN(len(values))])
		}
		id := []string{fmt.Sprint(i), fmt.Sprint(i), fmt.Sprint(i), fmt.Sprintf("%d.0", i), "null", ""}[r.IntN(6)]
		if id != "" {
			fields = slices.Insert(fields, r.IntN(len(fields)+1), `"_row_id":`+id)
		}
		rows[i] = "{" + strings.Join(fields, ",") + "}"
	}
	return rows
}

func someSelection(r *rand.Rand, n int) (sel table.Selection) {
	for range r.IntN(3) * r.IntN(n+2) {
		sel.RowIDs = append(sel.RowIDs, r.IntN(n+3)-1)
	}
	for range r.IntN(2) * r.IntN(4) {
		sel.Columns = append(sel.Columns, []string{"a", "b", "c", "d e", "", "_row_id", "nope"}[r.IntN(7)])
	}
	return sel
}

// sift passes rows one by one.
func sift(t *testing.T, s *table.Sieve, rows []string) string {
	t.Helper()
	out := []byte{'['}
	for _, row := range rows {
		before := len(out)
		if before > 1 {
			out = append(out, ',')
		}
		next, end, kept, err := s.Pass(out, []byte(" "+row+" ,{"), 1)
		if err != nil || end != 1+len(row) {
			t.Fatalf("%s: ends at %d, %v", row, end, err)
		}
		if out = next; !kept {
			out = out[:before]
		}
	}
	return string(append(out, ']'))
}

// What passes row by row is what is selected from the whole table.
func TestSieveSelects(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		rows := numberedRows(r, r.IntN(12))
		sel := someSelection(r, len(rows))
		whole, err := table.Index([]byte("["+strings.Join(rows, ",")+"]"), table.Options{KeepRowID: true})
		if err != nil {
			t.Fatal(err)
		}
		s := table.NewSieve(sel)
		got := sift(t, s, rows)
		if !whole.Has(table.RowID) { // nothing is numbered: nothing passes
			if got != "[]" || s.Skipped() != len(rows) {
				t.Fatalf("%s: %s, %d skipped", rows, got, s.Skipped())
			}
			continue
		}
		want := sel.Select(whole)
		text := string(want.AppendJSON(nil))
		if len(sel.Columns) == 0 { // the order within a row is the row's own, or the columns'
			got, text = canonical(t, got), canonical(t, text)
		}
		if got != text || s.Passed() != want.Len() {
			t.Fatalf("%s of %s:\n got %s\nwant %s", fmt.Sprint(sel), rows, got, text)
		}
		if columns := want.Columns(); !slices.Equal(s.Columns(), columns) {
			t.Fatalf("%s of %s: columns %q, want %q", fmt.Sprint(sel), rows, s.Columns(), columns)
		}
	}
}

func canonical(t *testing.T, text string) string {
	t.Helper()
	out, ok := rawjson.AppendCanonical(nil, []byte(text))
	if !ok {
		t.Fatalf("%s", text)
	}
	return string(out)
}

// Rows of which no two look alike pass, too.
func TestSieveOfManyShapes(t *testing.T) {
	const n = 5000
	rows := make([]string, n)
	for i := range rows {
		rows[i] = fmt.Sprintf(`{"key%d":%d,"_row_id":%d,"b":1,"b":2}`, i%2500, i, i)
		if i >= n/2 {
			rows[i] = fmt.Sprintf(`{"x":0,"key%d":%d,"_row_id":%d,"b":1,"b":2}`, i%2500, i, i)
		}
	}
	s := table.NewSieve(table.Selection{RowIDs: []int{4999, 3}, Columns: []string{"b", "key2499", "key3"}})
	if got, want := sift(t, s, rows), `[{"_row_id":3,"b":2,"key3":3},{"_row_id":4999,"b":2,"key2499":4999}]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := s.Columns(); !slices.Equal(got, []string{"_row_id", "b", "key2499", "key3"}) {
		t.Errorf("columns %q", got)
	}
	if got := table.NewSieve(table.Selection{}).Columns("b", "_row_id", "a", "b"); !slices.Equal(got, []string{"_row_id", "b", "a"}) {
		t.Errorf("columns %q", got)
	}
	if got := s.Columns("key9999", "key2499"); !slices.Equal(got, []string{"_row_id", "b", "key2499", "key3"}) {
		t.Errorf("columns %q", got)
	}
}

func TestSieveRefuses(t *testing.T) {
	s := table.NewSieve(table.Selection{})
	for _, bad := range []string{``, `1`, `[]`, `{"a":1`, `{"a":NaN}`, `{"a" 1}`, `"x"`} {
		if out, _, kept, err := s.Pass([]byte("x"), []byte(bad), 0); err == nil || kept || string(out) != "x" {
			t.Errorf("%s: %q, %v", bad, out, err)
		}
	}
	if got := sift(t, s, []string{`{"_row_id":1,"a":2}`}); got != `[{"_row_id":1,"a":2}]` || s.Passed() != 1 {
		t.Errorf("after rows that were refused: %s", got)
	}
}

func TestSelectionSets(t *testing.T) {
	sel := func(columns string, ids ...int) table.Selection {
		s := table.Selection{RowIDs: ids}
		if columns != "" {
			s.Columns = strings.Split(columns, "")
		}
		return s
	}
	for _, c := range []struct {
		a, b   table.Selection
		within bool
		union  string
	}{
		{sel(""), sel(""), true, "{[] []}"},
		{sel("a", 1), sel(""), true, "{[] []}"},
		{sel(""), sel("a"), false, "{[] []}"},
		{sel("", 2, 1), sel("", 1, 2, 3), true, "{[1 2 3] []}"},
		{sel("", 4), sel("", 1, 2), false, "{[1 2 4] []}"},
		{sel("ab", 1), sel("ba"), true, "{[] [a b]}"},
		{sel("ac", 1), sel("ab", 1), false, "{[1] [a c b]}"},
		{table.Selection{Columns: []string{"_row_id", "a"}}, sel("a"), true, "{[] [_row_id a]}"},
	} {
		if got := c.a.Within(c.b); got != c.within {
			t.Errorf("%v within %v: %v", c.a, c.b, got)
		}
		if got := fmt.Sprint(c.a.Union(c.b)); got != c.union {
			t.Errorf("%v or %v: %s, want %s", c.a, c.b, got, c.union)
		}
	}
}

// Whatever bytes come, what passes is JSON that has a number.
func FuzzSieve(f *testing.F) {
	for _, s := range []string{`{"_row_id":1,"a":2}`, `{"a":1,"_row_id":"x","a":3}`, `{}`, `{"_row_id":null}`, `{"_row_\u0069d":1}`} {
		f.Add([]byte(s), []byte(`{"_row_id":2}`), true)
	}
	f.Fuzz(func(t *testing.T, one, two []byte, some bool) {
		var sel table.Selection
		if some {
			sel = table.Selection{RowIDs: []int{1, 2}, Columns: []string{"a", "x"}}
		}
		s := table.NewSieve(sel)
		for _, data := range [][]byte{one, two, one} {
			out, end, kept, err := s.Pass(nil, data, 0)
			if err != nil {
				continue
			}
			if rawjson.Valid(data[:end]) != nil {
				t.Fatalf("%q passes", data[:end])
			}
			if kept && (rawjson.Valid(out) != nil || !strings.HasPrefix(strings.TrimLeft(string(out), "{ \t\r\n"), `"_row_`)) {
				t.Fatalf("%q becomes %q", data, out)
			}
		}
	})
}

// BenchmarkSieve passes rows of 30 columns, all of them and a few.
func BenchmarkSieve(b *testing.B) {
	data := wide(10_000)
	t, err := table.Index(data, table.Options{})
	if err != nil {
		b.Fatal(err)
	}
	rows := t.View().WithRowID().AppendJSON(nil)
	for name, sel := range map[string]table.Selection{"all": {}, "two columns": {Columns: []string{"id", "column_16"}}, "two rows": {RowIDs: []int{0, 9999}}} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(rows)))
			b.ReportAllocs()
			var out []byte
			for b.Loop() {
				s := table.NewSieve(sel)
				for i := 1; i < len(rows)-1; i++ {
					var err error
					if out, i, _, err = s.Pass(out[:0], rows, i); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
