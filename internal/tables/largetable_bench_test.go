package tables_test

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/tables"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
)

// BenchmarkLargeTable is a call whose result is a table of some 20 MB, in the two
// forms in which frameworks write one. It reports how many bytes are allocated for
// each byte of the result.
func BenchmarkLargeTable(b *testing.B) {
	var rows bytes.Buffer
	rows.WriteByte('[')
	for i := range 100_000 {
		if i > 0 {
			rows.WriteByte(',')
		}
		fmt.Fprintf(&rows, `{"_row_id":%d,"event":"Wind Advisory","text":"gusts of up to %d km/h are \"expected\""}`, i, i%100)
	}
	rows.WriteByte(']')
	result := func(doc string) string {
		return `{"content":[{"type":"text","text":` + string(rawjson.Quote(doc)) + `}],"structuredContent":` + doc + `}`
	}
	answer := `{"total_rows":100000,"columns":["event","text"],"abstract_domains":["event"],"body_domains":["text"],"resource_url":"http://127.0.0.1:9/s2sp/data/abc","abstract":` + rows.String() + `}`
	for _, c := range []struct{ name, tool, result, more string }{
		{"held back", listTool, result(`{"result":` + rows.String() + `}`), ""},
		{"divided", listTool, result(`{"result":` + rows.String() + `}`), `,"abstract_domains":"event"`},
		{"divided, text alone", listTool, calltest.Text(rows.String()), `,"abstract_domains":"event"`},
		{"passed on", nativeTool, result(answer), `,"abstract_domains":"event"`},
	} {
		b.Run(c.name, func(b *testing.B) {
			h := newServed(b, metatool.Options{Tables: tables.Options{Reach: func(string) tables.Reach { return tables.ReachRelay }}})
			store := artifact.NewMemory(artifact.Options{MaxBytes: 1 << 40})
			defer store.Close()
			h.Change(func(o *metatool.Options) { o.Artifacts = store })
			h.Add("weather", calltest.Say(c.result), c.tool)
			name := map[string]string{listTool: "list", nativeTool: "alerts"}[c.tool]
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			for b.Loop() {
				if s := h.Execute(b, "weather", name, "{}", c.more); s.IsError {
					b.Fatalf("%.300s", s.Content[0].Text)
				}
			}
			runtime.ReadMemStats(&after)
			b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/float64(b.N)/float64(len(c.result)), "x_result_bytes")
		})
	}
}
