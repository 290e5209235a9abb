package tables

import (
	"slices"
	"testing"

	"github.com/weir-mcp/weir/s2sp/table"
)

// Of rows behind a URL at another server, a query reads the columns that it needs, and no others.
func TestColumnsOf(t *testing.T) {
	for query, want := range map[string][]string{
		`{}`: nil,
		`{"where":[{"column":"b","op":"exists"}]}`:                                                                 nil,
		`{"columns":["a"],"where":[{"column":"b","op":"exists"}],"order_by":["-c","a","d desc"]}`:                  {"b", "a", "-c", "c", "d desc", "d"},
		`{"columns":["n"],"group_by":["g"],"aggregate":[{"op":"sum","column":"v","as":"n"}],"order_by":["n"]}`:     {"g", "v"},
		`{"aggregate":[{"op":"count"}],"where":[{"column":"b","op":"exists"},{"column":"b","op":"eq","value":1}]}`: {"b"},
	} {
		q, err := table.ParseQuery([]byte(query))
		if err != nil {
			t.Fatal(err)
		}
		if got := columnsOf(q); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
}
