package calls_test

import (
	"testing"

	"github.com/weir-mcp/weir/internal/audit"
	"github.com/weir-mcp/weir/internal/audit/calls"
)

// BenchmarkCall measures the two records of a call, with the writer that takes them to the file. The
// calls come faster than those of a gateway, so the log drops records; lost/op says how many.
func BenchmarkCall(b *testing.B) {
	for _, form := range []audit.Form{audit.FormNone, audit.FormHash} {
		b.Run(string(form), func(b *testing.B) {
			to, _ := open(b, form, false)
			ctx, request := caller(b)
			about := calls.Call{Request: request, Server: "files", ToolID: "files:read_file#5d1c0b7e", Args: []byte(`{"path":"a","text":"the quick brown fox jumps over the lazy dog"}`)}
			result := []byte(`{"content":[{"type":"text","text":"the quick brown fox jumps over the lazy dog"}]}`)
			b.ReportAllocs()
			for b.Loop() {
				begun, err := to.Begin(ctx, &about)
				if err != nil {
					b.Fatal(err)
				}
				begun.End(calls.OK, result)
			}
			b.StopTimer()
			b.ReportMetric(float64(to.Log().Lost())/float64(b.N), "lost/op")
		})
	}
}
