package worker

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/weir-mcp/weir/internal/program/wire"
)

// BenchmarkEngine is a call of a program in this process: the part of the engine in BenchmarkCall of package program.
func BenchmarkEngine(b *testing.B) {
	var out bytes.Buffer
	e, err := newEngine(&out)
	if err != nil {
		b.Fatal(err)
	}
	answer := []byte(`{"number":7,"title":"A title of an issue","labels":["bug","urgent"]}`)
	source := fmt.Sprintf(`for (let i = 0; i < %d; i++) await call("github:get_issue", {owner: "a", number: i})`, b.N)
	b.ResetTimer()
	err = e.serve(wire.Begin{Calls: b.N, Parallel: 1, Memory: 64 << 20, Output: 1, Millis: 1 << 30}, source, "", func() (wire.Header, []byte, error) {
		h, err := wire.Read(&out, 1<<20)
		if err != nil || h.Kind != wire.Call {
			return h, nil, io.ErrUnexpectedEOF
		}
		out.Reset()
		return wire.Header{Kind: wire.Answer, ID: h.ID, Body: len(answer)}, answer, nil
	})
	if err != nil {
		b.Fatal(err)
	}
}

// BenchmarkNew is what a worker does before its program: the engine and the scope.
func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		e, err := newEngine(io.Discard)
		if err != nil {
			b.Fatal(err)
		}
		e.settle.Free()
		e.run.Free()
		if err := e.vm.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
