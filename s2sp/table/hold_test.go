package table

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/limit/work"
	"github.com/weir-mcp/weir/internal/testkit/leak"
)

// repeated returns n texts in which # is the number.
func repeated(format string, n int) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = strings.ReplaceAll(format, "#", fmt.Sprint(i))
	}
	return strings.Join(parts, ",")
}

func mustIndex(t *testing.T, data string) *Table {
	t.Helper()
	table, err := Index([]byte(data), Options{})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// TestQueryHolds: what a query holds is bounded by the bytes of its table, and counted before it is
// made, for the queries that multiply most.
func TestQueryHolds(t *testing.T) {
	long := strings.Repeat("x", 2000)
	tables := map[string]*Table{
		"plain":    mustIndex(t, "["+repeated(`{"id":#,"t":"text of row #","v":1.5,"k":"a"}`, 4_000)+"]"),
		"dense":    mustIndex(t, "["+repeated(`{"id":#}`, 15_000)+"]"),
		"long":     mustIndex(t, "["+repeated(`{"id":#,"t":"`+long+`#","v":[1,2],"k":null}`, 1_000)+"]"),
		"escaped":  mustIndex(t, "["+repeated(`{"id":#,"t":"\u00e9`+strings.Repeat(`\n`, 40_000)+`#"}`, 40)+"]"),
		"digits":   mustIndex(t, "["+repeated(`{"id":#,"v":1e4000}`, 5_000)+"]"),
		"sparse":   mustIndex(t, `[{`+repeated(`"c#":1`, 800)+`},`+repeated(`{"id":#}`, 4_000)+"]"),
		"shapeful": mustIndex(t, `[{`+repeated(`"c#":1`, 2_000)+`},`+repeated(`{"c#":#,"id":#}`, 2_000)+"]"),
	}
	every := func(op, column string, n int) string {
		return "[" + repeated(`{"op":"`+op+`","column":"`+column+`","as":"a#"}`, n) + "]"
	}
	queries := []string{
		`{"group_by":["id"],"aggregate":` + every("max", "id", 500) + `,"limit":1}`,
		`{"group_by":["id"],"aggregate":` + every("max", "t", 16) + `,"limit":1}`,
		`{"group_by":["id"],"aggregate":` + every("max", "t", 16) + `,"limit":1000000,"order_by":["-a3","id"]}`,
		`{"group_by":["id"],"aggregate":` + every("sum", "v", 40) + `,"limit":1000000}`,
		`{"group_by":["id"],"aggregate":` + every("avg", "v", 10) + `,"limit":10}`,
		`{"group_by":["id"],"aggregate":` + every("count", "id", 10) + `}`,
		`{"aggregate":` + every("count_distinct", "t", 1000) + `}`,
		`{"group_by":["k"],"aggregate":` + every("last", "t", 1000) + `}`,
		`{"group_by":["t","id","v"]}`,
		`{"group_by":["_row_id"],"aggregate":` + every("min", "_row_id", 10) + `}`,
		`{"order_by":["k","v","t","-id","_row_id"],"limit":1}`,
		`{"order_by":["t","-_row_id"],"offset":10,"limit":1000000}`,
		`{"order_by":[` + repeated(`"c#"`, 64) + `]}`,
		`{"columns":[` + repeated(`"c#"`, 800) + `],"group_by":[` + repeated(`"c#"`, 800) + `]}`,
		`{"where":[` + repeated(`{"column":"id","op":"in","value":[`+repeated("#", 1000)+`]}`, 100) + `]}`,
		`{"where":[` + repeated(`{"column":"t","op":"regex","value":"((x{30}){30}#)?"}`, 30) + `]}`,
		`{"where":[` + repeated(`{"column":"t","op":"contains","value":"x"}`, 100) + `]}`,
	}
	for name, table := range tables {
		data, _ := table.Size()
		for i, text := range queries {
			q, err := ParseQuery([]byte(text))
			if err != nil {
				t.Fatalf("query %d: %v", i, err)
			}
			most := 4*data + 16<<20
			m := work.NewMeter(t.Context(), work.Options{Limit: 8_000_000, Room: func(n int64) error {
				if n > most {
					return errors.New("full")
				}
				return nil
			}})
			var a Answer
			grew := leak.Peak(func() { a, err = table.View().QueryWithin(m, q) })
			m.Close()
			runtime.KeepAlive(a)
			// Arrays that have been replaced by larger ones may still be there.
			if counted := min(m.Taken(), most); grew > 2*counted+32<<20 {
				t.Errorf("%s of %d KB, query %d: %d KB on the heap, %d KB counted, %v", name, data>>10, i, grew>>10, counted>>10, err)
			}
		}
	}
}

// FuzzQueryHolds runs queries that are put together at random.
func FuzzQueryHolds(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 1))
		columns := make([]string, 1+r.IntN(30))
		for i := range columns {
			columns[i] = fmt.Sprintf("c%d", i)
		}
		values := []string{"1", "-2.5", "1e300", `"a"`, `"\u00e9` + strings.Repeat("y", r.IntN(3000)) + `"`, "null", "true", `{"a":[1,2]}`}
		var rows []string
		for range 1 + r.IntN(3000) {
			var fields []string
			for range r.IntN(len(columns) + 1) {
				fields = append(fields, fmt.Sprintf("%q:%s", columns[r.IntN(len(columns))], values[r.IntN(len(values))]))
			}
			rows = append(rows, "{"+strings.Join(fields, ",")+"}")
		}
		table := mustIndex(t, "["+strings.Join(rows, ",")+"]")
		some := func() (names []string) {
			for _, i := range r.Perm(len(columns))[:r.IntN(len(columns))] {
				if table.Has(columns[i]) {
					names = append(names, columns[i])
				}
			}
			return names
		}
		q := Query{Offset: r.IntN(5), Limit: r.IntN(3) * 1000}
		if r.IntN(2) == 0 {
			q.GroupBy = some()
			for i, name := range append(some(), some()...) {
				q.Aggregate = append(q.Aggregate, Aggregate{Op: Aggregations()[r.IntN(len(Aggregations()))], Column: name, As: fmt.Sprintf("a%d", i)})
				q.OrderBy = append(q.OrderBy, Order{Column: fmt.Sprintf("a%d", i)})
			}
		} else {
			for _, name := range some() {
				q.OrderBy = append(q.OrderBy, Order{Column: name, Descending: r.IntN(2) == 0})
			}
		}
		m := work.NewMeter(t.Context(), work.Options{Limit: 8_000_000})
		defer m.Close()
		data, _ := table.Size()
		var a Answer
		var err error
		grew := leak.Peak(func() { a, err = table.View().QueryWithin(m, q) })
		runtime.KeepAlive(a)
		if grew > 2*m.Taken()+32<<20 || m.Taken() > 100*data+8<<20 {
			t.Errorf("%+v of %d bytes: %d on the heap, %d counted, %v", q, data, grew, m.Taken(), err)
		}
	})
}

// TestQueryRefuses: a column that stands twice, and groups or keys that are too many, are refused in
// words that say which.
func TestQueryRefuses(t *testing.T) {
	table := mustIndex(t, "["+repeated(`{"id":#,"t":"x"}`, 3_000)+"]")
	for text, want := range map[string]string{
		`{"group_by":["id","t","id"]}`:                                                                   `group_by[2] names "id" a second time`,
		`{"order_by":["id","-id"]}`:                                                                      `order_by[1] names "id" a second time`,
		`{"group_by":["id"],"order_by":["id","id desc"]}`:                                                `order_by[1] names "id" a second time`,
		`{"order_by":[` + repeated(`"c#"`, 65) + `]}`:                                                    "order_by has 65 columns, and at most 64",
		`{"columns":"` + strings.Repeat("a,", 1000) + `b"}`:                                              "columns has more than 1000 entries",
		`{"group_by":["id"],"aggregate":[` + repeated(`{"op":"max","column":"t","as":"a#"}`, 400) + `]}`: "group_by makes more than 2493 groups of 401 columns",
	} {
		q, err := ParseQuery([]byte(text))
		if err == nil {
			_, err = table.View().Query(t.Context(), q)
		}
		var refused *QueryError
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v, want %s", text, err, want)
		}
	}
}
