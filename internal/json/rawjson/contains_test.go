package rawjson

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func TestContains(t *testing.T) {
	words := []string{"", "a", "_", "taskId", "_meta", `\u`, "resource_url", "aa_", "_aa", " e", "rror"}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		word := words[rng.IntN(len(words))]
		data := make([]byte, rng.IntN(300))
		for i := range data {
			data[i] = `ae_ \utskIdr`[rng.IntN(12)]
		}
		if at := rng.IntN(len(data) + 1); rng.IntN(3) == 0 {
			data = append(data[:at:at], append([]byte(word), data[at:]...)...)
		}
		if got, want := Contains(data, word), bytes.Contains(data, []byte(word)); got != want {
			t.Fatalf("Contains(%q, %q) = %v", data, word, got)
		}
	}
}

// x_bytes is the speed as a multiple of bytes.Contains.
func BenchmarkContains(b *testing.B) {
	for _, text := range []struct{ name, piece string }{
		{"prose", "that time a gate holds the water back until it rests there "},
		{"json", `{"task_ID":"it","tasks":[1,2,3],"state":"set aside","at":"2026-01-02T03:04:05Z"},`},
	} {
		b.Run(text.name, func(b *testing.B) {
			data := []byte(strings.Repeat(text.piece, 100_000/len(text.piece)))
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				Contains(data, "taskId")
			}
			own := float64(b.Elapsed()) / float64(b.N)
			const rounds = 50
			start := time.Now()
			for range rounds {
				bytes.Contains(data, []byte("taskId"))
			}
			b.ReportMetric(float64(time.Since(start))/rounds/own, "x_bytes")
		})
	}
}
