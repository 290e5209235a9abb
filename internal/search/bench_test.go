package search

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// benchDocs is the size of catalog that the targets are stated for: p50 ≤ 0.7 ms, p99 ≤ 4 ms a search, build ≤ 1 s.
const benchDocs = 10_000

// queriesOf makes n queries of so many words from the documents' own texts.
func queriesOf(docs []Doc, n, words int) []string {
	out := make([]string, n)
	for i := range out {
		var w []string
		for j := 0; len(w) < words; j++ {
			w = append(w, strings.Fields(docs[(i*131+j*17)%len(docs)].Description)...)
		}
		out[i] = strings.Join(w[:words], " ")
	}
	return out
}

// bySegment puts docs into an index of n upstreams.
func bySegment(docs []Doc, n int) *Index {
	ix := New(Options{})
	for i := range n {
		ix = ix.With(fmt.Sprint("up", i), docs[i*len(docs)/n:(i+1)*len(docs)/n])
	}
	ix.Prepare()
	return ix
}

// BenchmarkSearch prints p50 and p99 and how many times faster a search is than looking for each word in each text.
func BenchmarkSearch(b *testing.B) {
	docs := catalog(benchDocs)
	for _, upstreams := range []int{1, 200} {
		ix := bySegment(docs, upstreams)
		for _, words := range []int{3, 10, 30} {
			b.Run(fmt.Sprintf("upstreams=%d/words=%d", upstreams, words), func(b *testing.B) {
				queries := queriesOf(docs, 64, words)
				baseline := scanTime(docs, queries[:4])
				var took []time.Duration
				b.ReportAllocs()
				for b.Loop() {
					start := time.Now()
					if len(ix.Search(queries[len(took)%len(queries)], 10)) == 0 {
						b.Fatal("no hits")
					}
					took = append(took, time.Since(start))
				}
				slices.Sort(took)
				p50 := took[len(took)/2]
				b.ReportMetric(float64(p50.Microseconds()), "p50_µs")
				b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99_µs")
				b.ReportMetric(float64(baseline)/float64(max(1, p50)), "x_baseline")
			})
		}
	}
}

// scanTime is the mean time to count the words of a query in every text, which is the least that a search without an
// index does.
func scanTime(docs []Doc, queries []string) time.Duration {
	texts := make([]string, len(docs))
	for i, d := range docs {
		texts[i] = strings.ToLower(d.Name + " " + d.Description)
	}
	start := time.Now()
	found := 0
	for _, q := range queries {
		for _, w := range strings.Fields(q) {
			for _, text := range texts {
				found += strings.Count(text, w)
			}
		}
	}
	if found == 0 {
		return 0
	}
	return time.Since(start) / time.Duration(len(queries))
}

// BenchmarkBuild builds the whole index with what its searches share.
func BenchmarkBuild(b *testing.B) {
	docs := catalog(benchDocs)
	b.ReportAllocs()
	for b.Loop() {
		bySegment(docs, 200)
	}
}

// BenchmarkRefresh replaces one upstream of 50 documents among 10,000 and prepares the index for searches.
// x_baseline is how many times faster that is than building everything.
func BenchmarkRefresh(b *testing.B) {
	docs := catalog(benchDocs)
	start := time.Now()
	ix := bySegment(docs, 200)
	baseline := time.Since(start)
	b.ReportAllocs()
	for b.Loop() {
		ix.With("up7", docs[:50]).Prepare()
	}
	b.ReportMetric(float64(baseline)*float64(b.N)/float64(b.Elapsed()), "x_baseline")
}
