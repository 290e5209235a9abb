package dispatch

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func FuzzHolds(f *testing.F) {
	for _, s := range []string{"", "abstract", "an abstract", "abstrac", "bbabstract", "b", "aabstractt", "ababstract", "ddi:", "dddi:", "ddi", ":", ":ddi:", "d:i:ddi"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for word, rare := range map[string]byte{"abstract": 'b', "ddi:": ':'} {
			if got, want := holds(data, word, rare), bytes.Contains(data, []byte(word)); got != want {
				t.Errorf("holds(%q, %q) = %v, want %v", data, word, got, want)
			}
		}
	})
}

// BenchmarkHolds measures prose without the word, against bytes.Contains.
func BenchmarkHolds(b *testing.B) {
	data := []byte(strings.Repeat("gates hold what is not wanted and let the rest of the water flow: over the weir, down to the mill. ", 1000))
	const rounds = 50
	start := time.Now()
	for range rounds {
		if bytes.Contains(data, []byte("abstract")) || bytes.Contains(data, []byte("ddi:")) {
			b.Fatal("found")
		}
	}
	baseline := time.Since(start) / rounds
	for b.Loop() {
		if holds(data, "abstract", 'b') || holds(data, "ddi:", ':') {
			b.Fatal("found")
		}
	}
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(baseline), "x_baseline")
}
