package table_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/s2sp/table"
)

const storms = `[
{"event":"Wind","area":"CA","wind":70,"tags":["a","b"],"id":9007199254740993},
{"event":"Flood","area":"CA","wind":5.50,"note":null,"id":9007199254740992},
{"event":"Wind","area":"TX","wind":"strong","id":1e400},
{"event":"\u0057ind","wind":120,"tags":[],"note":"x\ny","id":2},
{"event":"Fog","area":"AK","id":-1e400,"ok":true}]`

func ask(t testing.TB, tab *table.Table, query string) (string, int) {
	t.Helper()
	q, err := table.ParseQuery([]byte(query))
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	a, err := tab.View().Query(t.Context(), q)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return jsonOf(a.View), a.Matched
}

func TestWhere(t *testing.T) {
	tab := index(t, storms)
	for _, c := range []struct{ where, want string }{
		{`{"column":"event","op":"eq","value":"Wind"}`, "0 2 3"},
		{`{"column":"event","value":"Wi\u006ed"}`, "0 2 3"},
		{`[{"column":"event","op":"ne","value":"Wind"}]`, "1 4"},
		{`[{"column":"area","op":"ne","value":"CA"}]`, "2 3 4"},
		{`[{"column":"area","op":"eq","value":null}]`, "3"},
		{`[{"column":"area","op":"ne","value":null}]`, "0 1 2 4"},
		{`[{"column":"wind","op":"eq","value":5.5}]`, "1"},
		{`[{"column":"wind","op":"=","value":7e1}]`, "0"},
		{`[{"column":"wind","op":"eq","value":"70"}]`, ""},
		{`[{"column":"wind","op":"gt","value":5.5}]`, "0 3"},
		{`[{"column":"wind","op":"ge","value":5.5}]`, "0 1 3"},
		{`[{"column":"wind","op":"<","value":70}]`, "1"},
		{`[{"column":"wind","op":"<=","value":70}]`, "0 1"},
		{`[{"column":"wind","op":"gt","value":"a"}]`, "2"},
		{`[{"column":"id","op":"gt","value":9007199254740992}]`, "0 2"},
		{`[{"column":"id","op":"eq","value":9007199254740992}]`, "1"},
		{`[{"column":"id","op":"lt","value":-1e399}]`, "4"},
		{`[{"column":"id","op":"ge","value":1e400}]`, "2"},
		{`[{"column":"ok","op":"gt","value":false}]`, "4"},
		{`[{"column":"area","op":"in","value":["TX","AK",null]}]`, "2 3 4"},
		{`[{"column":"area","op":"in","value":["TX","AK"]}]`, "2 4"},
		{`[{"column":"area","op":"not_in","value":["TX","AK"]}]`, "0 1 3"},
		{`[{"column":"wind","op":"in","value":[70.0,120,"strong"]}]`, "0 2 3"},
		{`[{"column":"event","op":"contains","value":"in"}]`, "0 2 3"},
		{`[{"column":"tags","op":"contains","value":"b"}]`, "0"},
		{`[{"column":"tags","op":"not_contains","value":"b"}]`, "1 2 3 4"},
		{`[{"column":"note","op":"contains","value":"\n"}]`, "3"},
		{`[{"column":"event","op":"prefix","value":"F"}]`, "1 4"},
		{`[{"column":"event","op":"suffix","value":"d"}]`, "0 1 2 3"},
		{`[{"column":"event","op":"regex","value":"(?i)^w|g$"}]`, "0 2 3 4"},
		{`[{"column":"wind","op":"regex","value":"^\\d+$"}]`, "0 3"},
		{`[{"column":"note","op":"exists"}]`, "1 3"},
		{`[{"column":"note","op":"exists","value":false}]`, "0 2 4"},
		{`[{"column":"note","op":"null"}]`, "0 1 2 4"},
		{`[{"column":"note","op":"null","value":false}]`, "3"},
		{`[{"column":"_row_id","op":"ge","value":3}]`, "3 4"},
		{`[{"column":"event","value":"Wind"},{"column":"area","value":"CA"}]`, "0"},
		{`[]`, "0 1 2 3 4"},
	} {
		got, matched := ask(t, tab, `{"type":"table","where":`+c.where+`,"columns":"_row_id"}`)
		var rows []struct {
			ID int `json:"_row_id"`
		}
		if err := json.Unmarshal([]byte(got), &rows); err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, r := range rows {
			ids = append(ids, fmt.Sprint(r.ID))
		}
		if strings.Join(ids, " ") != c.want || matched != len(rows) {
			t.Errorf("%s: rows %s (%d), want %s", c.where, ids, matched, c.want)
		}
	}
}

func TestQuery(t *testing.T) {
	tab := index(t, storms)
	for _, c := range []struct {
		query, want string
		matched     int
	}{
		{`{"columns":["event"],"order_by":["event"]}`, `[{"event":"Flood"},{"event":"Fog"},{"event":"Wind"},{"event":"Wind"},{"event":"\u0057ind"}]`, 5},
		{`{"columns":["_row_id"],"order_by":"id"}`, `[{"_row_id":4},{"_row_id":3},{"_row_id":1},{"_row_id":0},{"_row_id":2}]`, 5},
		{`{"columns":["_row_id"],"order_by":"-id","limit":2}`, `[{"_row_id":2},{"_row_id":0}]`, 5},
		{`{"columns":["wind"],"order_by":[{"column":"wind","order":"desc"}]}`, `[{"wind":"strong"},{"wind":120},{"wind":70},{"wind":5.50},{}]`, 5},
		{`{"columns":["wind"],"order_by":[{"column":"wind"}],"offset":1.0,"limit":2e0}`, `[{"wind":70},{"wind":120}]`, 5},
		{`{"columns":["wind"],"order_by":[{"column":"wind"}],"offset":1,"limit":2}`, `[{"wind":70},{"wind":120}]`, 5},
		{`{"columns":["_row_id"],"order_by":["area desc",{"column":"_row_id","desc":true}]}`, `[{"_row_id":2},{"_row_id":1},{"_row_id":0},{"_row_id":4},{"_row_id":3}]`, 5},
		{`{"columns":["event"],"offset":4}`, `[{"event":"Fog"}]`, 5},
		{`{"columns":["event"],"offset":99}`, `[]`, 5},
		{`{"group_by":["event"]}`, `[{"event":"Wind","count":3},{"event":"Flood","count":1},{"event":"Fog","count":1}]`, 3},
		{`{"group_by":"area","aggregate":[{"op":"count"},{"op":"sum","column":"wind"},{"op":"max","column":"wind","as":"strongest"}],"order_by":["-count","area"]}`,
			`[{"area":"CA","count":2,"sum_wind":75.5,"strongest":70},{"area":"AK","count":1,"sum_wind":null,"strongest":null},{"area":"TX","count":1,"sum_wind":null,"strongest":"strong"},{"area":null,"count":1,"sum_wind":120,"strongest":120}]`, 4},
		{`{"aggregate":[{"op":"count","column":"note"},{"op":"count_distinct","column":"event"},{"op":"avg","column":"wind"},{"op":"min","column":"id"},{"op":"first","column":"note"},{"op":"last","column":"area"}]}`,
			`[{"count_note":1,"count_distinct_event":3,"avg_wind":65.16666666666667,"min_id":-1e400,"first_note":"x\ny","last_area":"AK"}]`, 1},
		{`{"where":[{"column":"event","value":"none"}],"aggregate":{"op":"sum","column":"wind"}}`, `[{"sum_wind":null}]`, 1},
		{`{"where":[{"column":"event","value":"none"}],"group_by":["event"]}`, `[]`, 0},
		{`{"aggregate":[{"op":"count","as":"n"},{"op":"max","column":"wind","as":"w"}],"columns":["w"]}`, `[{"w":"strong"}]`, 1},
		{`{"where":null,"limit":1,"columns":"event, area"}`, `[{"event":"Wind","area":"CA"}]`, 5},
	} {
		got, matched := ask(t, tab, c.query)
		if got != c.want || matched != c.matched {
			t.Errorf("%s:\n got %s (%d)\nwant %s (%d)", c.query, got, matched, c.want, c.matched)
		}
	}
	many := index(t, "["+strings.Repeat(`{"a":1},`, 99)+`{"a":1}]`)
	if got, matched := ask(t, many, `{}`); strings.Count(got, "a") != table.DefaultLimit || matched != 100 {
		t.Errorf("%d rows of %d", strings.Count(got, "a"), matched)
	}
	if a, err := many.View().Query(t.Context(), table.Query{}); err != nil || a.View.Len() != 100 {
		t.Errorf("the zero query gives %d rows, %v", a.View.Len(), err)
	}
}

func TestQueryErrors(t *testing.T) {
	tab := index(t, storms)
	for query, param := range map[string]string{
		`[]`:                                "selector",
		`{"columns":`:                       "selector",
		`{"colums":[]}`:                     `"colums"`,
		`{"limit":1,"limit":2}`:             `"limit"`,
		`{"columns":7}`:                     "columns",
		`{"columns":[7]}`:                   "columns[0]",
		`{"columns":["event","nope"]}`:      "columns[1]",
		`{"limit":0}`:                       "limit",
		`{"limit":"5"}`:                     "limit",
		`{"offset":-1}`:                     "offset",
		`{"where":7}`:                       "where",
		`{"where":[{"op":"eq","value":1}]}`: "where[0].column",
		`{"where":[{"column":7}]}`:          "where[0].column",
		`{"where":[{"column":"nope","value":1}]}`:                                                 "where[0].column",
		`{"where":[{"column":"event","op":"like","value":1}]}`:                                    "where[0].op",
		`{"where":[{"column":"event"}]}`:                                                          "where[0].value",
		`{"where":[{"column":"event","op":"gt","value":[]}]}`:                                     "where[0].value",
		`{"where":[{"column":"event","op":"in","value":"a"}]}`:                                    "where[0].value",
		`{"where":[{"column":"event","op":"regex","value":"("}]}`:                                 "where[0].value",
		`{"where":[{"column":"event","op":"regex","value":"` + strings.Repeat("x", 1001) + `"}]}`: "where[0].value",
		`{"where":[{"column":"event","op":"prefix","value":1}]}`:                                  "where[0].value",
		`{"where":[{"column":"event","op":"exists","value":1}]}`:                                  "where[0].value",
		`{"where":[{"column":"event","val":1}]}`:                                                  "where[0]",
		`{"order_by":["nope"]}`:                                                                   "order_by[0]",
		`{"order_by":[7]}`:                                                                        "order_by[0]",
		`{"order_by":[{"column":"event","order":"up"}]}`:                                          "order_by[0].order",
		`{"order_by":[{"column":"event","desc":1}]}`:                                              "order_by[0].desc",
		`{"group_by":["nope"]}`:                                                                   "group_by[0]",
		`{"aggregate":[{"column":"wind"}]}`:                                                       "aggregate[0].op",
		`{"aggregate":[{"op":"median","column":"wind"}]}`:                                         "aggregate[0].op",
		`{"aggregate":[{"op":"sum"}]}`:                                                            "aggregate[0].column",
		`{"aggregate":[{"op":"sum","column":"nope"}]}`:                                            "aggregate[0].column",
		`{"aggregate":[{"op":"count"},{"op":"count"}]}`:                                           "aggregate[1].as",
		`{"aggregate":[{"op":"sum","column":"huge"}]}`:                                            "aggregate[0]",
	} {
		tab := tab
		if strings.Contains(query, "huge") {
			tab = index(t, `[{"huge":1e1000000000}]`)
		}
		q, err := table.ParseQuery([]byte(query))
		if err == nil {
			_, err = tab.View().Query(t.Context(), q)
		}
		var qe *table.QueryError
		if !errors.As(err, &qe) || qe.Param != param || !strings.HasPrefix(err.Error(), param) {
			t.Errorf("%s: %v, want an error about %s", query, err, param)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, q := range []table.Query{{Where: []table.Condition{{Column: "event", Op: "exists"}}}, {OrderBy: []table.Order{{Column: "event"}}}, {GroupBy: []string{"event"}}} {
		if _, err := tab.View().Query(ctx, q); !errors.Is(err, context.Canceled) {
			t.Errorf("%+v: %v, want cancelled", q, err)
		}
	}
}

func TestSumsAreExact(t *testing.T) {
	for rows, want := range map[string]string{
		`[{"n":9007199254740993},{"n":1}]`:                  "9007199254740994",
		`[{"n":9223372036854775807},{"n":1},{"n":-2}]`:      "9223372036854775806",
		`[{"n":-9223372036854775808},{"n":-1}]`:             "-9223372036854775809",
		`[{"n":0.1},{"n":0.2}]`:                             "0.3",
		`[{"n":1e3},{"n":-1000.0}]`:                         "0",
		`[{"n":-0.05},{"n":0.04}]`:                          "-0.01",
		`[{"n":12345678901234567890},{"n":1e-3},{"n":"x"}]`: "12345678901234567890.001",
		`[{"n":1e30}]`:                                      "1" + strings.Repeat("0", 30),
		`[{"n":0e99999999999}]`:                             "0",
	} {
		if got, _ := ask(t, index(t, rows), `{"aggregate":{"op":"sum","column":"n","as":"s"}}`); got != `[{"s":`+want+`}]` {
			t.Errorf("%s: %s, want %s", rows, got, want)
		}
	}
	for rows, want := range map[string]string{
		`[{"n":1},{"n":2}]`: "1.5", `[{"n":1},{"n":1},{"n":2}]`: "1.3333333333333333", `[{"n":9007199254740993}]`: "9007199254740993", `[{"n":1e400},{"n":1}]`: "5e+399", `[{"n":1e-400}]`: "1e-400",
	} {
		if got, _ := ask(t, index(t, rows), `{"aggregate":{"op":"avg","column":"n","as":"a"}}`); got != `[{"a":`+want+`}]` {
			t.Errorf("%s: %s, want %s", rows, got, want)
		}
	}
}

func TestCompareNumbers(t *testing.T) {
	inOrder := []string{"-1e999999999999999999999", "-1e400", "-12345678901234567891", "-12345678901234567890", "-10", "-9.5", "-1", "-1e-400", "0", "1e-400", "0.1", "0.11", "1", "9.99", "10", "100", "9007199254740992", "9007199254740993", "1e400", "1.5e400", "1e999999999999999999999"}
	for i, a := range inOrder {
		for j, b := range inOrder {
			if got, want := table.CompareNumbers([]byte(a), []byte(b)), min(max(i-j, -1), 1); got != want {
				t.Errorf("CompareNumbers(%s, %s) = %d, want %d", a, b, got, want)
			}
		}
	}
	for _, same := range [][2]string{{"0", "-0"}, {"0", "0.000e55"}, {"1", "1.0"}, {"100", "1e2"}, {"1E+2", "0.1e3"}, {"-5", "-5.00"}, {"0.001", "1e-3"}, {"120", "12e1"}} {
		if table.CompareNumbers([]byte(same[0]), []byte(same[1])) != 0 {
			t.Errorf("%s and %s differ", same[0], same[1])
		}
	}
}

// Numbers compare as exact fractions do.
func FuzzCompareNumbers(f *testing.F) {
	for _, s := range [][2]string{{"1", "1.0"}, {"-0", "0"}, {"1e3", "999.9"}, {"12345678901234567890", "12345678901234567891"}, {"0.1e-5", "1E-6"}} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		var x, y [2]*big.Rat
		for i, s := range []string{a, b} {
			if !json.Valid([]byte(s)) || !strings.ContainsAny(s[:1], "-0123456789") || len(s) > 60 {
				return
			}
			if _, e, ok := strings.Cut(strings.ToLower(s), "e"); ok && len(strings.TrimLeft(e, "+-0")) > 3 {
				return // too large for a fraction
			}
			r, ok := new(big.Rat).SetString(s)
			if !ok {
				return
			}
			x[i], y[i] = r, r
		}
		if got, want := table.CompareNumbers([]byte(a), []byte(b)), x[0].Cmp(y[1]); got != want {
			t.Fatalf("CompareNumbers(%s, %s) = %d, want %d", a, b, got, want)
		}
	})
}

func TestMerge(t *testing.T) {
	kept := func(data string) table.View {
		tab, err := table.Index([]byte(data), table.Options{KeepRowID: true})
		if err != nil {
			t.Fatal(err)
		}
		return tab.View()
	}
	abstract := kept(`[{"_row_id":2,"a":1.0,"shared":"abstract"},{"_row_id":0,"a":2},{"a":3},{"_row_id":7,"a":4},{"_row_id":null,"a":5}]`)
	body := kept(`[{"_row_id":0,"shared":"body","\u0062":12345678901234567890},{"_row_id":2.0,"shared":"body","b":[ 1 ]}]`)
	merged, err := table.Merge(abstract, body)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := jsonOf(merged.View()), `[{"_row_id":2,"a":1.0,"shared":"abstract","b":[ 1 ]},{"_row_id":0,"a":2,"shared":"body","b":12345678901234567890},{"_row_id":7,"a":4}]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	numbered, err := table.Merge(index(t, `[{"a":1},{"a":2}]`).View().WithRowID().SelectRows([]int{1}), index(t, `[{"b":1},{"b":2}]`).View().WithRowID())
	if err != nil || jsonOf(numbered.View()) != `[{"_row_id":1,"a":2,"b":2}]` {
		t.Errorf("numbered: %s, %v", jsonOf(numbered.View()), err)
	}
	for _, v := range []table.View{{}, kept(`[]`)} {
		if got, err := table.Merge(v, body); err != nil || got.Len() != 0 {
			t.Errorf("nothing merged: %v", err)
		}
	}
	alone, err := table.Merge(abstract.SelectRows([]int{1}), table.View{})
	if err != nil || jsonOf(alone.View()) != `[{"_row_id":0,"a":2}]` {
		t.Errorf("without body: %s, %v", jsonOf(alone.View()), err)
	}
	// Rows without a number are not numbered by their place.
	bare := kept(`[{"b":1},{"b":2},{"b":3}]`)
	if got, err := table.Merge(abstract.SelectRows([]int{1}), bare); err != nil || jsonOf(got.View()) != `[{"_row_id":0,"a":2}]` {
		t.Errorf("a body without numbers: %s, %v", jsonOf(got.View()), err)
	}
	if got, err := table.Merge(bare, body); err != nil || got.Len() != 0 {
		t.Errorf("an abstract without numbers: %s, %v", jsonOf(got.View()), err)
	}
}

func TestDetectSaysWhere(t *testing.T) {
	geo := `{"a b":{"features":[{"p":{"x":1}}]},"n":1}`
	for _, c := range []struct{ data, path, want string }{
		{`[{"a":1}]`, "", "$"},
		{`{"items":[{"a":1}]}`, "", "$.items"},
		{`{"its items":[{"a":1}]}`, "", "$['its items']"},
		{geo, "a b.features", "$['a b'].features"},
		{geo, "a b.features[].p", "$['a b'].features[*].p"},
		{"{\"a\":1}\n{\"a\":2}", "", ""},
		{"a,b\n1,2\n", "", ""},
	} {
		tb, err := table.Detect([]byte(c.data), table.DetectOptions{Paths: []string{c.path}, CSV: true})
		if err != nil || tb.Path() != c.want {
			t.Errorf("%s at %q: %q, %v, want %q", c.data, c.path, tb.Path(), err, c.want)
		}
	}
}

func TestDetect(t *testing.T) {
	geo := `{"type":"FeatureCollection","features":[{"type":"Feature","properties":{"event":"Wind"},"geometry":null},{"type":"Feature","properties":{"event":"Flood"}}]}`
	for _, c := range []struct {
		name, data string
		opts       table.DetectOptions
		want       string // empty: no table
	}{
		{"array", ` [{"a":1}] `, table.DetectOptions{}, `[{"a":1}]`},
		{"byte order mark", "\ufeff[{\"a\":1}]", table.DetectOptions{}, `[{"a":1}]`},
		{"empty array", `[]`, table.DetectOptions{}, `[]`},
		{"one member", `{"result":[{"a":1},{"a":2}]}`, table.DetectOptions{}, `[{"a":1},{"a":2}]`},
		{"one empty member", `{"items":[]}`, table.DetectOptions{}, `[]`},
		{"one member of something else", `{"result":[1,2]}`, table.DetectOptions{}, ``},
		{"two members", `{"result":[{"a":1}],"next":null}`, table.DetectOptions{}, ``},
		{"two members, configured", `{"next":null,"data":{"result":[{"a":1}]}}`, table.DetectOptions{Paths: []string{"items", "data.result"}}, `[{"a":1}]`},
		{"GeoJSON", geo, table.DetectOptions{}, ``},
		{"GeoJSON, configured", geo, table.DetectOptions{Paths: []string{"features"}}, `[{"type":"Feature","properties":{"event":"Wind"},"geometry":null},{"type":"Feature","properties":{"event":"Flood"}}]`},
		{"GeoJSON, its properties", geo, table.DetectOptions{Paths: []string{"features[].properties"}}, `[{"event":"Wind"},{"event":"Flood"}]`},
		{"GeoJSON, something absent", geo, table.DetectOptions{Paths: []string{"features[].geometry"}}, ``},
		{"lines", "{\"a\":1}\n\n{\"a\":2}\r\n", table.DetectOptions{}, `[{"a":1},{"a":2}]`},
		{"lines that look like a result", "{\"a\":[{\"x\":1}]}\n{\"a\":[]}", table.DetectOptions{}, `[{"a":[{"x":1}]},{"a":[]}]`},
		{"objects on one line", `{"a":1} {"a":2}`, table.DetectOptions{}, ``},
		{"one object", `{"a":1}`, table.DetectOptions{}, ``},
		{"one object that may be", "{\"a\":1,\n\"b\":2}", table.DetectOptions{One: true}, "[{\"a\":1,\n\"b\":2}]"},
		{"array of arrays", `[[1]]`, table.DetectOptions{}, ``},
		{"mixed", `[{"a":1},2]`, table.DetectOptions{}, ``},
		{"broken", `[{"a":1},`, table.DetectOptions{}, ``},
		{"text", `hello`, table.DetectOptions{}, ``},
		{"nothing", ` `, table.DetectOptions{CSV: true}, ``},
		{"CSV unasked", "a,b\n1,2\n", table.DetectOptions{}, ``},
		{"CSV", "name,zip,n,mixed,empty\n\"a, \"\"b\"\"\",01234,1.50,1,\nc,1,,x,\n", table.DetectOptions{CSV: true}, `[{"name":"a, \"b\"","zip":"01234","n":1.50,"mixed":"1","empty":null},{"name":"c","zip":"1","n":null,"mixed":"x","empty":null}]`},
		{"CSV, quoted and empty", "a,b\n,\"\"\n\"\",\n1,2\n", table.DetectOptions{CSV: true}, `[{"a":null,"b":""},{"a":"","b":null},{"a":1,"b":2}]`},
		{"CSV with line breaks in fields", "a,b\r\n\"1\r\n2\",\"3\r4\n5\"\r\n\r\n6,7", table.DetectOptions{CSV: true}, `[{"a":"1\r\n2","b":"3\r4\n5"},{"a":"6","b":"7"}]`},
		{"CSV with CR", "a,b\r1,2\r\r3,4\r", table.DetectOptions{CSV: true}, `[{"a":1,"b":2},{"a":3,"b":4}]`},
		{"CSV with a bare quote", "a,b\n1,2\"\n", table.DetectOptions{CSV: true}, ``},
		{"CSV with an open quote", "a,b\n1,\"2\n", table.DetectOptions{CSV: true}, ``},
		{"CSV with text behind a quote", "a,b\n\"1\"x,2\n", table.DetectOptions{CSV: true}, ``},
		{"lines that end with CR", "{\"a\":1}\r{\"a\":2}\r", table.DetectOptions{}, `[{"a":1},{"a":2}]`},
		{"CSV of one column", "a\n1\n", table.DetectOptions{CSV: true}, ``},
		{"CSV without rows", "a,b\n", table.DetectOptions{CSV: true}, ``},
		{"CSV with ragged rows", "a,b\n1\n", table.DetectOptions{CSV: true}, ``},
		{"CSV with two names alike", "a,a\n1,2\n", table.DetectOptions{CSV: true}, ``},
	} {
		tab, err := table.Detect([]byte(c.data), c.opts)
		if c.want == "" {
			if !errors.Is(err, table.ErrNotTable) {
				t.Errorf("%s: %v, want no table", c.name, err)
			}
			continue
		}
		if err != nil || jsonOf(tab.View()) != c.want {
			t.Errorf("%s: %v, %v", c.name, tab, err)
			if err == nil {
				t.Errorf("got %s, want %s", jsonOf(tab.View()), c.want)
			}
		}
	}
	blocks, err := table.Blocks([][]byte{[]byte(`{"a":1}`), []byte(" {\"a\":2}\n")}, table.Options{})
	if err != nil || jsonOf(blocks.View()) != `[{"a":1},{"a":2}]` {
		t.Errorf("blocks: %v", err)
	}
	if _, err := table.Blocks([][]byte{[]byte(`{"a":1}`), []byte(`text`)}, table.Options{}); !errors.Is(err, table.ErrNotTable) {
		t.Errorf("text among blocks: %v", err)
	}
	if !slices.Contains(table.Operators(), "regex") || !slices.Contains(table.Aggregations(), "avg") {
		t.Error("the lists are not complete")
	}
}

// Whatever a model writes as a selector is answered or refused, and what is
// answered is JSON.
func FuzzQuery(f *testing.F) {
	for _, s := range []string{
		`{"where":[{"column":"event","op":"regex","value":"^W"}],"order_by":["-id"]}`, `{"group_by":"area","aggregate":[{"op":"sum","column":"wind"}]}`,
		`{"aggregate":[{"op":"avg","column":"id"},{"op":"count_distinct","column":"tags"}]}`, `{"columns":["_row_id"],"where":{"column":"wind","op":"in","value":[70,"x",null]}}`,
	} {
		f.Add([]byte(s))
	}
	tab := index(f, storms)
	f.Fuzz(func(t *testing.T, query []byte) {
		q, err := table.ParseQuery(query)
		if err != nil {
			return
		}
		a, err := tab.View().Query(t.Context(), q)
		if err != nil {
			return
		}
		if text := a.View.AppendJSON(nil); !json.Valid(text) || a.View.JSONSize() != int64(len(text)) {
			t.Fatalf("%s: %s, size %d", query, text, a.View.JSONSize())
		}
	})
}

// Whatever a tool returns is a table or is not, and what is one is written as
// valid JSON with a number in each row.
func FuzzDetect(f *testing.F) {
	for _, s := range []string{`[{"a":1}]`, `{"result":[{"a":1}]}`, "{\"a\":1}\n{\"b\":2}", "a,b\n1,2\n", `{"features":[{"properties":{"a":1}}],"x":1}`, "\ufeff[]"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		tab, err := table.Detect(data, table.DetectOptions{CSV: true, One: true, Paths: []string{"features[].properties", "features", "a.b"}})
		if err != nil {
			return
		}
		v := tab.View().WithRowID()
		if text := v.AppendJSON(nil); !json.Valid(text) || v.JSONSize() != int64(len(text)) {
			t.Fatalf("%q: %q, size %d", data, text, v.JSONSize())
		}
		if p := v.Project(tab.Columns()); !json.Valid(p.AppendJSON(nil)) {
			t.Fatalf("%q: projected %q", data, p.AppendJSON(nil))
		}
	})
}
