package program_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/program"
)

// BenchmarkRun is a run of a program in a worker that is warm, from its start to its result. Its median says more than
// its mean where other processes are busy.
func BenchmarkRun(b *testing.B) {
	p := newPool(b, program.Options{})
	h := &host{}
	run := func() time.Duration {
		start := time.Now()
		if _, err := p.Run(b.Context(), program.Program{Source: "return 1"}, h); err != nil {
			b.Fatal(err)
		}
		return time.Since(start)
	}
	run()
	var took []time.Duration
	for b.Loop() {
		b.StopTimer()
		for p.Warm() < 2 {
			time.Sleep(time.Millisecond)
		}
		b.StartTimer()
		took = append(took, run())
	}
	b.ReportMetric(float64(median(took).Microseconds()), "median-us")
}

// BenchmarkCall is one call of a program whose host answers at once. The baseline is the way of its bytes: to another
// process, which sends them back, and nothing else.
func BenchmarkCall(b *testing.B) {
	p := newPool(b, program.Options{})
	answer := json.RawMessage(`{"number":7,"title":"A title of an issue","labels":["bug","urgent"]}`)
	for _, parallel := range []int{1, 8} {
		b.Run(fmt.Sprintf("parallel=%d", parallel), func(b *testing.B) {
			var at []time.Time // of each call
			h := &host{call: func(context.Context, program.Call) (json.RawMessage, error) {
				if parallel == 1 {
					at = append(at, time.Now())
				}
				return answer, nil
			}}
			source := fmt.Sprintf(`const f = async () => { for (let i = 0; i < %d; i++) await call("github:get_issue", {owner: "a", number: i}) }
				await Promise.all(Array.from({length: %d}, f))`, (b.N+parallel-1)/parallel, parallel)
			bare := roundTrip(b, answer)
			b.ResetTimer()
			_, err := p.Run(b.Context(), program.Program{Source: source, Limits: program.Limits{Calls: b.N + parallel, Timeout: time.Hour}}, h)
			if err != nil {
				b.Fatal(err)
			}
			if len(at) < 2 {
				return
			}
			var took []time.Duration
			for i := range at[1:] {
				took = append(took, at[i+1].Sub(at[i]))
			}
			b.ReportMetric(float64(median(took).Microseconds()), "median-us")
			b.ReportMetric(float64(median(took))/float64(bare), "median/bare")
		})
	}
}

// roundTrip returns the median time of bytes to another process and back.
func roundTrip(b *testing.B, data []byte) time.Duration {
	cat := exec.Command("cat")
	in, err := cat.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cat.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cat.Start(); err != nil {
		b.Fatal(err)
	}
	var took []time.Duration
	back := make([]byte, len(data))
	for range 1000 {
		start := time.Now()
		if _, err := in.Write(data); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(out, back); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(start))
	}
	_ = in.Close()
	if err := cat.Wait(); err != nil {
		b.Fatal(err)
	}
	return median(took)
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
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
