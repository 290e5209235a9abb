package result

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/text/token"
	tables "github.com/weir-mcp/weir/s2sp/table"
)

// csvView is the view of a selector of type table for a model.
func csvView(t *testing.T, data, selector string) View {
	t.Helper()
	read := func(opts tables.DetectOptions) (*tables.Table, error) { return tables.Detect([]byte(data), opts) }
	v, err := selectFrom(t.Context(), artifact.Artifact{Handle: "art_x", MediaType: "application/json"}, []byte(data), read, []byte(selector), ViewOptions{CSV: true})
	if err != nil {
		t.Fatalf("%s: %v", selector, err)
	}
	return v
}

// Rows are shown as CSV, in which every value can be told from every other.
func TestRowsAsCSV(t *testing.T) {
	const rows = `[{"a":1,"b":"x","c":null},{"a":"1","b":"","c":"y, \"z\"\nw"},{"a":true,"b":"true","c":" s "},{"a":-1.50,"b":"007","c":"2026-01-31"},{"a":12345678901234567890,"b":"NULL","c":"1,5"}]`
	v := csvView(t, rows, `{"type":"table"}`)
	want := "_row_id,a,b,c\n0,1,x,\n1,\"1\",\"\",\"y, \"\"z\"\"\nw\"\n2,true,\"true\",\" s \"\n3,-1.50,\"007\",2026-01-31\n4,12345678901234567890,\"NULL\",\"1,5\""
	if v.Text != want || v.Notice != "[CSV]" || v.Next != nil {
		t.Errorf("%q, %q, %s\nwant %q", v.Text, v.Notice, v.Next, want)
	}
	if again := csvView(t, rows, `{"type":"table"}`); again.Text != v.Text {
		t.Error("the same view differs")
	}
	v = csvView(t, rows, `{"type":"table","columns":["b"],"limit":2}`)
	if v.Text != "_row_id,b\n0,x\n1,\"\"" || v.Notice != `[CSV, rows 0 to 2 of 5; go on with {"type":"table","columns":["b"],"limit":2,"offset":2}]` {
		t.Errorf("%q, %q", v.Text, v.Notice)
	}
	v = csvView(t, rows, `{"type":"table","group_by":"c","aggregate":[{"op":"count"}],"limit":1,"order_by":"c"}`)
	if !strings.HasPrefix(v.Text, "c,count\n") || !strings.HasPrefix(v.Notice, "[CSV, groups 0 to 1 of 5") {
		t.Errorf("%q, %q", v.Text, v.Notice)
	}
}

// Where CSV would lose something, rows stay JSON.
func TestRowsThatStayJSON(t *testing.T) {
	for name, data := range map[string]string{
		"nested values":     `[{"a":1,"b":[1]},{"a":2,"b":"x"}]`,
		"null and absent":   `[{"a":1,"b":null},{"a":2}]`,
		"half a character":  `[{"a":1,"b":"\ud800"},{"a":2,"b":"x"}]`,
		"a control":         `[{"a":1,"b":"\u0001"},{"a":2,"b":"x"}]`,
		"a carriage return": `[{"a":1,"b":"x\ry"},{"a":2,"b":"x"}]`,
		"a long value":      `[{"a":1,"b":"` + strings.Repeat("x", maxLineChars) + `"},{"a":2,"b":"x"}]`,
		"a name":            `[{"a":1,"b\u0007":"x"},{"a":2}]`,
	} {
		if v := csvView(t, data, `{"type":"table"}`); !strings.HasPrefix(v.Text, "[\n{") || strings.Contains(v.Notice, "CSV") {
			t.Errorf("%s: %.200q, %q", name, v.Text, v.Notice)
		}
	}
	if v := csvView(t, `[{"a":1},{"a":2}]`, `{"type":"table","path":"$"}`); !strings.HasPrefix(v.Text, "[\n{") {
		t.Errorf("one column: %q", v.Text)
	}
}

// CSV has fewer tokens wherever it is chosen, and about half of them for many rows.
func TestCSVIsShorter(t *testing.T) {
	var rows []string
	for i := range 50 {
		rows = append(rows, fmt.Sprintf(`{"event":"Wind %d","area":"North, %d","wind_kmh":%d,"ok":true,"note":null}`, i, i, 60+i))
	}
	many := "[" + strings.Join(rows, ",") + "]"
	for name, data := range map[string]string{"many": many, "one": "[" + rows[0] + "]", "two": `[{"a":1,"b":"x"},{"a":2,"b":"y"}]`, "texts": `[{"a":"true","b":"1"},{"a":"","b":"\"quoted\""}]`} {
		v := csvView(t, data, `{"type":"table"}`)
		asJSON := sel(t, data, `{"type":"table"}`)
		csv, json := token.Count(v.Text+v.Notice), token.Count(asJSON.Text+asJSON.Notice)
		if v.Notice == "" || csv > json || name == "many" && csv*10 > json*6 {
			t.Errorf("%s: %d tokens, %d as JSON", name, csv, json)
		}
	}
}
