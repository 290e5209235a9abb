package table_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"

	_ "github.com/weir-mcp/weir/s2sp/columnar" // the forms that are tested
	"github.com/weir-mcp/weir/s2sp/table"
)

func TestCSV(t *testing.T) {
	tab := index(t, `[{"a":"x, \"y\"\n","n":12345678901234567890,"o":{"b":[1, 2]},"ok":true},{"n":null,"a":"\u00e9"},{}]`)
	var out bytes.Buffer
	n, err := tab.View().WithRowID().WriteCSV(&out)
	if err != nil || n != int64(out.Len()) {
		t.Errorf("%d bytes, %v", n, err)
	}
	got, err := csv.NewReader(&out).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	want := [][]string{{"_row_id", "a", "n", "o", "ok"}, {"0", "x, \"y\"\n", "12345678901234567890", `{"b":[1, 2]}`, "true"}, {"1", "é", "", "", ""}, {"2", "", "", "", ""}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	out.Reset()
	if _, err := tab.View().Project([]string{"ok"}).WriteCSV(&out); err != nil || out.String() != "ok\ntrue\n\"\"\n\"\"\n" {
		t.Errorf("one column: %q, %v", out.String(), err)
	}
	out.Reset()
	mixed := index(t, `[{"a":null,"b":""},{"b":"\r\n"},{"a":" x","b":"y\tz"},{"a":"","":7}]`)
	if _, err := mixed.View().WriteCSV(&out); err != nil || out.String() != "a,b,\"\"\n,\"\",\n,\"\r\n\",\n\" x\",\"y\tz\",\n\"\",,7\n" {
		t.Errorf("null and empty: %q, %v", out.String(), err)
	}
	out.Reset()
	if n, err := tab.View().Project([]string{"a", "n", "ok"}).WriteTSV(&out); err != nil || n != int64(out.Len()) || out.String() != "a\tn\tok\n\"x, \"\"y\"\"\n\"\t12345678901234567890\ttrue\né\t\t\n\t\t\n" {
		t.Errorf("tabs: %q, %v", out.String(), err)
	}
	if n, err := (table.View{}).WriteCSV(&out); n != 0 || err != nil {
		t.Errorf("nothing: %d, %v", n, err)
	}
}

func TestArrow(t *testing.T) {
	tab := index(t, `[
{"int":1,"float":1.5,"mix":1,"text":"x","ok":true,"nested":{"a":[ 1 ]},"big":12345678901234567890,"huge":1e400,"exact":9007199254740993,"wide":9007199254740993,"odd":"\ud800","none":null,"late":null},
{"int":-9223372036854775808,"float":2,"mix":"1","text":"\u00e9","ok":false,"nested":null,"big":1,"huge":1,"exact":1,"wide":0.5,"odd":"x","digits":0.12345678901234567890,"late":7},
{}]`)
	var out bytes.Buffer
	n, err := tab.View().WithRowID().WriteArrow(&out)
	if err != nil || n != int64(out.Len()) {
		t.Fatalf("%d bytes, %v", n, err)
	}
	r, err := ipc.NewReader(&out)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	types := map[string]string{}
	for _, f := range r.Schema().Fields() {
		name := f.Type.Name()
		if v, ok := f.Metadata.GetValue(table.ArrowEncoding); ok {
			name += " " + v
		}
		types[f.Name] = name
	}
	want := map[string]string{
		"_row_id": "int64", "int": "int64", "float": "float64", "mix": "utf8 json", "text": "utf8", "ok": "bool", "nested": "utf8 json",
		"big": "decimal", "huge": "utf8 json", "exact": "int64", "wide": "decimal", "odd": "utf8 json", "none": "null", "digits": "decimal", "late": "int64",
	}
	if !reflect.DeepEqual(types, want) {
		t.Errorf("types %v, want %v", types, want)
	}
	if !r.Next() {
		t.Fatal(r.Err())
	}
	batch := r.RecordBatch()
	if batch.NumRows() != 3 {
		t.Errorf("%d rows", batch.NumRows())
	}
	values := map[string]string{}
	for i, f := range r.Schema().Fields() {
		col := batch.Column(i)
		var cells []string
		for row := range 3 {
			cells = append(cells, col.ValueStr(row))
		}
		values[f.Name] = strings.Join(cells, "|")
		if f.Name != "_row_id" && f.Name != "none" && !col.IsNull(2) {
			t.Errorf("%s: an absent value is not null", f.Name)
		}
	}
	for name, want := range map[string]string{
		"int": "1|-9223372036854775808|(null)", "float": "1.5|2|(null)", "mix": `1|"1"|(null)`, "text": "x|é|(null)", "nested": `{"a":[ 1 ]}|(null)|(null)`,
		"big": "12345678901234567890|1|(null)", "huge": "1e400|1|(null)", "exact": "9007199254740993|1|(null)", "odd": `"\ud800"|"x"|(null)`, "late": "(null)|7|(null)",
	} {
		if values[name] != want {
			t.Errorf("%s: %s, want %s", name, values[name], want)
		}
	}
	if r.Next() {
		t.Error("there is another batch")
	}
}

// Whoever puts two answers together finds the same _row_id in both.
func TestArrowWithoutRows(t *testing.T) {
	var out bytes.Buffer
	if _, err := index(t, `[]`).View().WithRowID().WriteArrow(&out); err != nil {
		t.Fatal(err)
	}
	r, err := ipc.NewReader(&out)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	if got := r.Schema().String(); !strings.Contains(got, "_row_id: type=int64") {
		t.Errorf("the schema is %s", got)
	}
}

func TestArrowBatches(t *testing.T) {
	var b strings.Builder
	b.WriteString(`[{"n":0,"s":""}`)
	for i := range 20_000 {
		fmt.Fprintf(&b, `,{"n":%d,"s":"%s"}`, i+1, strings.Repeat("x", i%7))
	}
	tab := index(t, b.String()+"]")
	for name, view := range map[string]table.View{"all": tab.View(), "none": tab.View().SelectRows(nil), "zero": {}} {
		var out bytes.Buffer
		if _, err := view.WriteArrow(&out); err != nil {
			t.Fatal(err)
		}
		r, err := ipc.NewReader(&out)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		rows, next := int64(0), int64(0)
		for r.Next() {
			batch := r.RecordBatch()
			rows += batch.NumRows()
			for _, n := range batch.Column(0).(*array.Int64).Int64Values() {
				if n != next {
					t.Fatalf("row %d has %d", next, n)
				}
				next++
			}
		}
		if r.Err() != nil || rows != int64(view.Len()) {
			t.Errorf("%s: %d rows of %d, %v", name, rows, view.Len(), r.Err())
		}
		r.Release()
	}
}

type broken struct{ after int }

func (b *broken) Write(p []byte) (int, error) {
	if b.after -= len(p); b.after < 0 {
		return 0, errors.New("pipe is broken")
	}
	return len(p), nil
}

func TestWritersFail(t *testing.T) {
	tab := index(t, "["+strings.Repeat(`{"a":"`+strings.Repeat("x", 1000)+`"},`, 500)+`{"a":1}]`)
	for name, write := range map[string]func(io.Writer) (int64, error){
		"json": tab.View().WriteJSON, "ndjson": tab.View().WriteNDJSON, "csv": tab.View().WriteCSV, "arrow": tab.View().WriteArrow,
	} {
		for _, after := range []int{0, 100_000} {
			n, err := write(&broken{after})
			if err == nil || !strings.Contains(err.Error(), "broken") || n > int64(after) {
				t.Errorf("%s after %d bytes: %d, %v", name, after, n, err)
			}
		}
	}
}

func ExampleIndex() {
	rows, err := table.Index([]byte(`[{"event":"Wind","n":12345678901234567890,"text":"gusts"},{"event":"Flood","text":"rain"}]`), table.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(rows.Len(), rows.Columns())
	fmt.Println(string(rows.View().Project([]string{"n", "event"}).WithRowID().AppendJSON(nil)))
	// Output:
	// 2 [event n text]
	// [{"_row_id":0,"n":12345678901234567890,"event":"Wind"},{"_row_id":1,"event":"Flood"}]
}

// What is written as comma-separated values is read back as it was: null, the
// empty string and line breaks included.
func FuzzCSV(f *testing.F) {
	for _, s := range []string{"", "x", "1\r\n2", "\r", ",\"", " ", "a\"b", "\x00"} {
		f.Add(s, true)
		f.Add(s, false)
	}
	f.Fuzz(func(t *testing.T, text string, null bool) {
		quoted, err := json.Marshal(strings.ToValidUTF8(text, "?"))
		if err != nil {
			t.Fatal(err)
		}
		first := quoted
		if null {
			first = []byte("null")
		}
		want := fmt.Sprintf(`[{"a":%s,"b":%s},{"a":"text","b":"text"}]`, first, quoted)
		var out bytes.Buffer
		if _, err := index(t, want).View().WriteCSV(&out); err != nil {
			t.Fatal(err)
		}
		again, err := table.Detect(out.Bytes(), table.DetectOptions{CSV: true})
		if err != nil {
			t.Fatalf("%q: %v", out.String(), err)
		}
		if got := jsonOf(again.View()); !sameValues(t, got, want) {
			t.Fatalf("%q: got %s, want %s", out.String(), got, want)
		}
		// The standard library reads the same fields, but for the line breaks that it changes.
		if strings.Contains(text, "\r") {
			return
		}
		records, err := csv.NewReader(bytes.NewReader(out.Bytes())).ReadAll()
		if err != nil || len(records) != 3 || records[1][1] != strings.ToValidUTF8(text, "?") {
			t.Fatalf("%q: %q, %v", out.String(), records, err)
		}
	})
}

func sameValues(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y any
	if err := errors.Join(json.Unmarshal([]byte(a), &x), json.Unmarshal([]byte(b), &y)); err != nil {
		t.Fatal(err)
	}
	return reflect.DeepEqual(x, y)
}

// TestWriteSheet: no name and no string is a formula, numbers stay numbers, and CSV stays as it is.
func TestWriteSheet(t *testing.T) {
	sample, err := table.Index([]byte(`[{"=HYPERLINK(\"http://evil\",\"x\")":"=1+1","n":-1,"s":"-1","at":"@SUM(1)","t":"\t=1","w":"＝1","ok":"a=b","list":["=1"],"none":null,"empty":""}]`), table.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var sheet, csv strings.Builder
	if _, err := sample.View().WriteSheet(&sheet); err != nil {
		t.Fatal(err)
	}
	const want = `"'=HYPERLINK(""http://evil"",""x"")",n,s,at,t,w,ok,list,none,empty` + "\n" + `'=1+1,-1,'-1,'@SUM(1),"'` + "\t" + `=1",'＝1,a=b,"[""=1""]",,""` + "\n"
	if sheet.String() != want {
		t.Errorf("got %s, want %s", sheet.String(), want)
	}
	if _, err := sample.View().WriteCSV(&csv); err != nil || !strings.Contains(csv.String(), "\n=1+1,-1,-1,@SUM(1),") {
		t.Errorf("%s, %v", csv.String(), err)
	}
}
