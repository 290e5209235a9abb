package table

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/columnar"
	"github.com/weir-mcp/weir/internal/testkit/leak"
)

var writers = map[string]func(View, io.Writer) (int64, error){
	"json": View.WriteJSON, "ndjson": View.WriteNDJSON, "csv": View.WriteCSV, "sheet": View.WriteSheet, "arrow": View.WriteArrow,
}

// TestLongRowsTakeNoMemory: rows of any size are written in pieces.
func TestLongRowsTakeNoMemory(t *testing.T) {
	const most = 12 << 20 // twice what a writer holds, as garbage counts
	tables := map[string]*Table{
		"one long value": mustIndex(t, `[{"a":1,"t":"`+strings.Repeat(`x\"y\n`, 4<<20)+`"}]`),
		"a long list":    mustIndex(t, `[{"a":1,"t":[`+strings.Repeat("{\"a\" :\n\"b\"},", 2<<20)+`1]}]`),
		"many values":    mustIndex(t, `[{`+repeated(`"c#":"`+strings.Repeat("x", 500<<10)+`"`, 48)+`}]`),
		"many rows":      mustIndex(t, `[`+repeated(`{"a":#,"t":"`+strings.Repeat("y", 3000)+`"}`, 8000)+`]`),
		"odd characters": mustIndex(t, `[{"a":1,"t":"`+strings.Repeat(`\ud83d`, 4<<20)+`"}]`),
	}
	for name, table := range tables {
		for form, write := range writers {
			for _, v := range []View{table.View(), table.View().WithRowID()} {
				var n int64
				var err error
				grew := leak.Peak(func() { n, err = write(v, io.Discard) })
				if err != nil || n < 10<<20 || grew > most {
					t.Errorf("%s of %s: %d bytes, %v, %d KB on the heap", form, name, n, err, grew>>10)
				}
			}
		}
	}
}

// TestLongValues: what is written of long values can be read again.
func TestLongValues(t *testing.T) {
	text := strings.Repeat("\"é,\n😀 = plain words", 30_000)
	for _, value := range []any{text, "=" + text, text + "x", []any{text, "a", nil}, map[string]any{"a": text}} {
		raw, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		table := mustIndex(t, fmt.Sprintf("[{\"a\":1,\"t\":%s,\"b\" :\n2},{\"a\":2,\"t\":%s,\"b\":3}]", raw, raw))
		v := table.View()
		out := map[string][]byte{}
		for form, write := range writers {
			var b bytes.Buffer
			n, err := write(v, &b)
			if err != nil || n != int64(b.Len()) {
				t.Fatalf("%s: %d of %d bytes, %v", form, n, b.Len(), err)
			}
			out[form] = b.Bytes()
		}
		if v.JSONSize() != int64(len(out["json"])) || !bytes.Equal(out["json"], v.AppendJSON(nil)) {
			t.Errorf("%.20s as JSON: %d bytes, %d announced", raw, len(out["json"]), v.JSONSize())
		}
		if lines := bytes.Split(bytes.TrimSpace(out["ndjson"]), []byte("\n")); len(lines) != 2 || !json.Valid(lines[0]) {
			t.Errorf("%.20s as NDJSON: %d lines", raw, len(lines))
		}
		want, isText := value.(string)
		if !isText {
			want = string(raw)
		}
		for _, form := range []string{"csv", "sheet"} {
			rows, err := csv.NewReader(bytes.NewReader(out[form])).ReadAll()
			inertWant := want
			if form == "sheet" && isText {
				inertWant = string(inert([]byte(want)))
			}
			if err != nil || len(rows) != 3 || rows[1][1] != inertWant || rows[2][2] != "3" {
				t.Errorf("%.20s as %s: %d rows, %v", raw, form, len(rows), err)
			}
		}
		if n, err := columnar.Registered().CountArrow(bytes.NewReader(out["arrow"])); err != nil || n != 2 || bytes.Count(out["arrow"], []byte(want)) != 2 {
			t.Errorf("%.20s as Arrow: %d rows, %v, %d times the value", raw, n, err, bytes.Count(out["arrow"], []byte(want)))
		}
	}
}
