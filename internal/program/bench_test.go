package program_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/program"
)

// BenchmarkRun is a run of a program in a worker that is warm, from its start to its result.
func BenchmarkRun(b *testing.B) {
	p := newPool(b, program.Options{})
	h := &host{}
	run := func() {
		if _, err := p.Run(b.Context(), program.Program{Source: "return 1"}, h); err != nil {
			b.Fatal(err)
		}
	}
	run()
	for b.Loop() {
		b.StopTimer()
		for p.Warm() < 2 {
			time.Sleep(time.Millisecond)
		}
		b.StartTimer()
		run()
	}
}

// BenchmarkCall is one call of a program whose host answers at once.
func BenchmarkCall(b *testing.B) {
	p := newPool(b, program.Options{})
	answer := json.RawMessage(`{"number":7,"title":"A title of an issue","labels":["bug","urgent"]}`)
	h := &host{call: func(context.Context, program.Call) (json.RawMessage, error) { return answer, nil }}
	for _, parallel := range []int{1, 8} {
		b.Run(fmt.Sprintf("parallel=%d", parallel), func(b *testing.B) {
			source := fmt.Sprintf(`const f = async () => { for (let i = 0; i < %d; i++) await call("github:get_issue", {owner: "a", number: i}) }
				await Promise.all(Array.from({length: %d}, f))`, (b.N+parallel-1)/parallel, parallel)
			b.ResetTimer()
			_, err := p.Run(b.Context(), program.Program{Source: source, Limits: program.Limits{Calls: b.N + parallel, Timeout: time.Hour}}, h)
			if err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkRows is a call whose answer has 100,000 rows, of which the program returns three.
func BenchmarkRows(b *testing.B) {
	rows := make([]map[string]any, 100_000)
	for i := range rows {
		rows[i] = map[string]any{"id": i, "name": fmt.Sprint("row ", i), "total": i % 1000}
	}
	answer, err := json.Marshal(rows)
	if err != nil {
		b.Fatal(err)
	}
	p := newPool(b, program.Options{})
	h := &host{call: func(context.Context, program.Call) (json.RawMessage, error) { return answer, nil }}
	b.SetBytes(int64(len(answer)))
	for b.Loop() {
		got, err := p.Run(b.Context(), program.Program{Source: `const rows = await call("t"); return rows.filter(r => r.total > 998).slice(0, 3)`}, h)
		if err != nil || len(got.Value) < 50 {
			b.Fatal(string(got.Value), err)
		}
	}
}
