package codec

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/columnar"
	"github.com/weir-mcp/weir/internal/json/rawjson"
)

var read = codec{}.Read

// rowsOf returns rows of JSON objects with the columns in the order of the first row.
func rowsOf(t testing.TB, lines ...string) columnar.Rows {
	t.Helper()
	r := columnar.Rows{}
	at := map[string]int{}
	for _, line := range lines {
		if err := rawjson.EachMember([]byte(line), func(m rawjson.Member) bool {
			if _, ok := at[string(m.Key)]; !ok {
				at[string(m.Key)] = len(r.Columns)
				r.Columns = append(r.Columns, string(m.Key))
			}
			return true
		}); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
	r.Numbers = make([]bool, len(r.Columns))
	r.Each = func(f func([][]byte) bool) {
		for _, line := range lines {
			values := make([][]byte, len(r.Columns))
			_ = rawjson.EachMember([]byte(line), func(m rawjson.Member) bool { values[at[string(m.Key)]] = m.Value; return true })
			if !f(values) {
				return
			}
		}
	}
	return r
}

// again writes rows in a form and reads them.
func again(t testing.TB, form string, rows columnar.Rows) []string {
	t.Helper()
	var out bytes.Buffer
	write := writeArrow
	if form == "parquet" {
		write = func(w io.Writer, rows columnar.Rows) (int64, error) { return writeParquet(w, rows, nil) }
	}
	n, err := write(&out, rows)
	if err != nil || n != int64(out.Len()) {
		t.Fatalf("%s: %d bytes of %d, %v", form, n, out.Len(), err)
	}
	if !columnar.Is(out.Bytes()) {
		t.Fatalf("%s is not recognized", form)
	}
	var lines []string
	if err := read(out.Bytes(), columnar.Sink{Row: func(row []byte) error { lines = append(lines, string(row)); return nil }}); err != nil {
		t.Fatalf("%s: %v", form, err)
	}
	return lines
}

// TestRoundTrip: a column of each type has its values after it was written and read.
func TestRoundTrip(t *testing.T) {
	for name, values := range map[string][]string{
		"bools":      {`true`, `false`, `null`},
		"integers":   {`0`, `-9223372036854775808`, `9223372036854775807`, `null`},
		"floats":     {`0.1`, `-2.5`, `1.0`, `123456.789`, `null`},
		"decimals":   {`18446744073709551616`, `-1`, `0`, `99999999999999999999999999999999999999`},
		"scaled":     {`12345678901234567890.25`, `-0.01`, `1.00`, `null`},
		"strings":    {`"a"`, `""`, `"ü,\n\"\\\u0000"`, `"2026-01-31 "`, `null`, `"😀"`},
		"dates":      {`"2026-01-31"`, `"0001-01-01"`, `"9999-12-31"`, `null`},
		"millis":     {`"2026-01-31T10:20:30.120"`, `"0001-01-01T00:00:00.000"`, `null`},
		"micros":     {`"2026-01-31T10:20:30.000001Z"`, `"1969-12-31T23:59:59.999999Z"`},
		"nanos":      {`"2026-01-31T10:20:30.123456789Z"`, `"1678-01-01T00:00:00.000000000Z"`},
		"lists":      {`[1,null,3]`, `[]`, `null`, `[4]`},
		"texts":      {`["a","","ü"]`, `[null]`, `[]`},
		"times":      {`["2026-01-31T10:20:30.120Z"]`, `[]`},
		"objects":    {`{"a":[1,{"b":null}]}`, `null`, `{}`},
		"mixed":      {`1`, `"1"`, `true`, `[1,"x"]`, `null`},
		"exponents":  {`1e400`, `0.1`},
		"surrogates": {`"\ud800"`, `"a"`},
		"far":        {`"2026-01-31T10:20:30.123456789Z"`, `"0999-01-01T00:00:00Z"`},
		"zones":      {`"2026-01-31T10:20:30+02:00"`, `"2026-01-31T10:20:30Z"`},
		"nested":     {`[[1],[2]]`, `[{"a":1}]`},
		"nothing":    {`null`, `null`},
		"no dates":   {`"2026-02-30"`, `"2026-01-31"`},
	} {
		var lines []string
		for i, v := range values {
			lines = append(lines, fmt.Sprintf(`{"n":%d,"v":%s}`, i, v))
		}
		for _, form := range []string{"arrow", "parquet"} {
			if got := again(t, form, rowsOf(t, lines...)); strings.Join(got, "\n") != strings.Join(lines, "\n") {
				t.Errorf("%s as %s:\n got %s\nwant %s", name, form, got, lines)
			}
		}
	}
}

// Values that a type spells in one way have the same meaning when they are read, in that way.
func TestRoundTripSpelling(t *testing.T) {
	for value, want := range map[string]string{
		`"2026-01-31T10:20:30.5Z"`:     `"2026-01-31T10:20:30.500Z"`,
		`"2026-01-31T10:20:30+00:00"`:  `"2026-01-31T10:20:30Z"`,
		`1.50`:                         `1.5`,
		`1e2`:                          `100.0`,
		`-0`:                           `-0.0`,
		`"\u00fc"`:                     `"ü"`,
		`123456789012345678901234.50`:  `123456789012345678901234.50`,
		`0.12345678901234567890123450`: `0.12345678901234567890123450`,
	} {
		if got := again(t, "arrow", rowsOf(t, `{"v":`+value+`}`)); got[0] != `{"v":`+want+`}` {
			t.Errorf("%s: got %s, want %s", value, got[0], want)
		}
	}
}

// Columns keep their order and their names, and rows without any value stay rows.
func TestRoundTripColumns(t *testing.T) {
	for _, form := range []string{"arrow", "parquet"} {
		want := []string{`{"z, \"":1,"":null,"a b":"x","Ü":null}`, `{"z, \"":null,"":2,"a b":null,"Ü":[1.5]}`, `{"z, \"":null,"":null,"a b":null,"Ü":null}`}
		if got := again(t, form, rowsOf(t, `{"z, \"":1,"":null,"a b":"x","Ü":null}`, `{"":2,"Ü":[1.5]}`, `{}`)); strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("%s: %s", form, got)
		}
		if got := again(t, form, rowsOf(t)); len(got) != 0 {
			t.Errorf("%s: no rows became %s", form, got)
		}
	}
}

// Many rows fill several batches and groups, and long texts have batches of their own.
func TestRoundTripLong(t *testing.T) {
	var lines []string
	for i := range 20_000 {
		text := fmt.Sprint("row ", i)
		if i%7000 == 5 {
			text = strings.Repeat("ü", 100<<10)
		}
		lines = append(lines, fmt.Sprintf(`{"n":%d,"text":%q,"j":{"of":%q},"l":[%d,%d]}`, i, text, text[:min(len(text), 6)], i, i+1))
	}
	for _, form := range []string{"arrow", "parquet"} {
		got := again(t, form, rowsOf(t, lines...))
		if len(got) != len(lines) {
			t.Fatalf("%s: %d rows", form, len(got))
		}
		for i := range got {
			if got[i] != lines[i] {
				t.Fatalf("%s, row %d:\n got %.200s\nwant %.200s", form, i, got[i], lines[i])
			}
		}
	}
}
