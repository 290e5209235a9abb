package tables_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/s2sp/table"
)

// shapesTool takes rows in every shape.
const shapesTool = `{"name":"put","description":"Put rows.","inputSchema":{"type":"object","properties":{
	"objects":{"type":"array","items":{"type":"object"}},
	"arrays":{"type":"array","items":{"type":"array","items":{}}},
	"either":{"anyOf":[{"type":"array","items":{"type":"array"}},{"type":"array","items":{"$ref":"#/$defs/Row"}}]},
	"names":{"type":"array","items":{"type":"string"}},
	"numbers":{"type":"array","items":{"type":["number","null"]},"maxItems":3},
	"csv":{"type":"string"},
	"sheetCsv":{"type":["string","null"]},
	"described":{"type":"string","description":"The rows, as CSV text"},
	"typed":{"type":"string","contentMediaType":"text/csv"},
	"both":{"type":"string","description":"JSON or CSV"},
	"other":{"type":"string","description":"of csvs"},
	"frame":{"type":"object","properties":{"columns":{"type":"array","items":{"type":"string"}},"rows":{"type":"array","items":{"type":"array"}}},"required":["columns","rows"]},
	"split":{"anyOf":[{"$ref":"#/$defs/Split"},{"type":"null"}]},
	"count":{"type":"integer"},
	"options":{"type":"object","properties":{"rows":{"type":"array"}}},
	"never":{"type":"array","items":false}
	},"$defs":{"Row":{"type":"object"},"Split":{"type":"object","properties":{"header":{"type":"array"},"data":{"type":"array","items":{"type":"object"}}}}}}}`

// shapesOf returns the arguments that the tool gets for a reference at a parameter.
func shapesOf(t *testing.T, h *served, param, ref string) string {
	t.Helper()
	h.Execute(t, "sheets", "put", `{"`+param+`":`+ref+`}`, "")
	return string(lastArgs(t, h.Harness))
}

func TestShapesOfReferences(t *testing.T) {
	h := newServed(t, metatool.Options{})
	h.Add("sheets", calltest.Echo, shapesTool)
	handle := keep(t, h.Harness, `[{"a":1,"b":"x, \"y\"\nz"},{"a":12345678901234567890,"b":""},{"a":null,"c":[{"ä":1e400}]},{"b":"1"}]`)
	of := func(more string) string { return `{"$table":"` + handle + `"` + more + `}` }
	for _, tt := range []struct{ param, more, want string }{
		{"objects", ``, `[{"a":1,"b":"x, \"y\"\nz"},{"a":12345678901234567890,"b":""},{"a":null,"c":[{"ä":1e400}]},{"b":"1"}]`},
		{"arrays", ``, `[[1,"x, \"y\"\nz",null],[12345678901234567890,"",null],[null,null,[{"ä":1e400}]],[null,"1",null]]`},
		{"arrays", `,"columns":["c","a"],"row_ids":[2]`, `[[[{"ä":1e400}],null]]`},
		{"either", `,"row_ids":[3]`, `[{"b":"1"}]`},
		{"names", `,"columns":["b"],"where":[{"column":"b","op":"exists"}]`, `["x, \"y\"\nz","","1"]`},
		{"numbers", `,"columns":["a"],"limit":3`, `[1,12345678901234567890,null]`},
		{"csv", ``, `"a,b,c\n1,\"x, \"\"y\"\"\nz\",\n12345678901234567890,\"\",\n,,\"[{\"\"ä\"\":1e400}]\"\n,1,\n"`},
		{"sheetCsv", `,"row_ids":[3],"columns":["b"]`, `"b\n1\n"`},
		{"described", `,"row_ids":[3],"columns":["b"]`, `"b\n1\n"`},
		{"typed", `,"row_ids":[3],"columns":["b"]`, `"b\n1\n"`},
		{"both", `,"row_ids":[3],"columns":["b"]`, `"[{\"_row_id\":3,\"b\":\"1\"}]"`},
		{"other", `,"row_ids":[3],"columns":["b"]`, `"[{\"_row_id\":3,\"b\":\"1\"}]"`},
		{"frame", `,"row_ids":[1,3]`, `{"columns":["a","b","c"],"rows":[[12345678901234567890,"",null],[null,"1",null]]}`},
		{"frame", `,"where":{"column":"a","op":"gt","value":1e30}`, `{"columns":["a","b","c"],"rows":[]}`},
		{"split", `,"row_ids":[3]`, `{"header":["a","b","c"],"data":[{"b":"1"}]}`},
		{"objects", `,"where":[{"column":"a","op":"gt","value":1}],"columns":["b"]`, `[{"b":""}]`},
		{"objects", `,"where":{"column":"b","op":"exists"},"order_by":"-b","offset":1,"limit":1,"columns":"b,a"`, `[{"b":"1"}]`},
		{"objects", `,"group_by":"a","aggregate":[{"op":"count"}],"where":{"column":"a","op":"null","value":false},"order_by":"a"`, `[{"a":1,"count":1},{"a":12345678901234567890,"count":1}]`},
		{"both", `,"where":{"column":"b","op":"eq","value":"1"}`, `"[{\"_row_id\":3,\"b\":\"1\"}]"`},
		{"both", `,"aggregate":[{"op":"count"}]`, `"[{\"count\":4}]"`},
	} {
		if got, want := shapesOf(t, h, tt.param, of(tt.more)), `{"`+tt.param+`":`+tt.want+`}`; got != want {
			t.Errorf("%s%s:\n got %s\nwant %s", tt.param, tt.more, got, want)
		}
	}
}

// A table in its CSV form is the same table when it is read again, wherever CSV can hold it.
func TestCSVOfAReferenceIsReadBack(t *testing.T) {
	h := newServed(t, metatool.Options{})
	h.Add("sheets", calltest.Echo, shapesTool)
	const rows = `[{"n":-0.50,"s":"007","t":"ü,\r\n\"'"},{"n":null,"s":"","t":"=1+1"},{"n":9007199254740993,"s":"null","t":" x "}]`
	args := shapesOf(t, h, "csv", `{"$table":"`+keep(t, h.Harness, rows)+`"}`)
	var got struct{ CSV string }
	if err := json.Unmarshal([]byte(args), &got); err != nil {
		t.Fatal(err)
	}
	again, err := table.Detect([]byte(got.CSV), table.DetectOptions{CSV: true})
	if err != nil {
		t.Fatalf("%v: %s", err, got.CSV)
	}
	if text := string(again.View().AppendJSON(nil)); text != rows {
		t.Errorf("\n got %s\nwant %s", text, rows)
	}
}

// What does not fit is refused before anything runs, with the shapes that would fit.
func TestShapesThatDoNotFit(t *testing.T) {
	h := newServed(t, metatool.Options{})
	h.Add("sheets", calltest.Echo, shapesTool)
	handle := keep(t, h.Harness, `[{"a":1,"b":"x"},{"a":2,"b":"y"}]`)
	for _, tt := range []struct{ param, more, want string }{
		{"names", ``, "args.names: it takes a list of the values of one column, and there are 2: name one in columns; there are a, b"},
		{"count", ``, "args.count: it takes values of type integer, and rows go as a list of objects, of arrays"},
		{"options", ``, "args.options: it takes values of type object, and rows go as"},
		{"objects", `,"where":[{"column":"x","op":"eq","value":1}]`, `args.objects: where[0].column names "x", which is no column; there are: a, b`},
		{"objects", `,"where":[{"column":"a","op":"like","value":1}]`, `where[0].op`},
		{"objects", `,"limit":-1`, "limit must be"},
		{"objects", `,"order_by":["x"]`, "which is no column"},
		{"objects", `,"columns":["x"],"limit":1`, `columns has "x", which is no column; there are a, b`},
		{"objects", `,"path":"$"`, `"path" is no member of a $table reference, whose members are $table, row_ids, columns, where, order_by, offset, limit, aggregate, group_by`},
		{"names", `,"columns":["a"]`, ""}, // numbers for strings: the schema refuses them
	} {
		e := calltest.Failure(t, h.Execute(t, "sheets", "put", `{"`+tt.param+`":{"$table":"`+handle+`"`+tt.more+`}}`, ""))
		if e.Error != "ARGS_INVALID" || !strings.Contains(e.Message, tt.want) {
			t.Errorf("%s%s: %+v", tt.param, tt.more, e)
		}
	}
	if n := len(h.Called()); n != 0 {
		t.Errorf("the upstream was asked %d times", n)
	}
}
