package telemetry

import (
	"cmp"
	"compress/gzip"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// maxLabelNames is how many labels one metric may have.
const maxLabelNames = 3

// A kind is the type of a metric in the text format of Prometheus.
type kind string

const (
	counter   kind = "counter"
	gauge     kind = "gauge"
	histogram kind = "histogram"
	summary   kind = "summary"
)

// A family is one metric with a series for each set of label values. Its methods are safe for concurrent use and
// take the values in the order of the labels' names, which are sorted.
type family struct {
	name, help string
	kind       kind
	labels     []string
	buckets    []float64 // upper bounds, of a histogram

	mu     sync.Mutex // guards below
	series map[labelValues]*series
}

type labelValues [maxLabelNames]string

type series struct {
	value  float64  // the sum, of a histogram
	counts []uint64 // of a histogram: by bucket, and one for what is above all
}

// change calls fn with the series of the label values.
func (f *family) change(values labelValues, fn func(*series)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.series[values]
	if s == nil {
		if f.series == nil {
			f.series = map[labelValues]*series{}
		}
		s = &series{}
		if f.kind == histogram {
			s.counts = make([]uint64, len(f.buckets)+1)
		}
		f.series[values] = s
	}
	fn(s)
}

// add adds n, which is negative only for gauges.
func (f *family) add(n float64, values ...string) {
	f.change(valuesOf(values), func(s *series) { s.value += n })
}

// set sets a gauge.
func (f *family) set(n float64, values ...string) {
	f.change(valuesOf(values), func(s *series) { s.value = n })
}

// observe adds a value to a histogram.
func (f *family) observe(v float64, values ...string) {
	f.change(valuesOf(values), func(s *series) {
		s.value += v
		bucket, _ := slices.BinarySearch(f.buckets, v)
		s.counts[bucket]++
	})
}

func valuesOf(values []string) (v labelValues) {
	copy(v[:], values)
	return v
}

// write appends the family in the text format, its series sorted. A family without series says nothing.
func (f *family) write(e *exposition) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.series) == 0 {
		return
	}
	e.head(f.name, f.help, f.kind)
	keys := slices.SortedFunc(maps.Keys(f.series), func(a, b labelValues) int { return slices.Compare(a[:], b[:]) })
	for _, key := range keys {
		s := f.series[key]
		var pairs []string
		for i, name := range f.labels {
			pairs = append(pairs, name, key[i])
		}
		if f.kind != histogram {
			e.sample(f.name, s.value, pairs...)
			continue
		}
		total := uint64(0)
		for i, n := range s.counts {
			total += n
			bound := math.Inf(1)
			if i < len(f.buckets) {
				bound = f.buckets[i]
			}
			e.sample(f.name+"_bucket", float64(total), append(pairs[:len(pairs):len(pairs)], "le", number(bound))...)
		}
		e.sample(f.name+"_sum", s.value, pairs...)
		e.sample(f.name+"_count", float64(total), pairs...)
	}
}

// An exposition is a page of metrics in the text format of Prometheus, version 0.0.4.
type exposition struct{ out []byte }

var (
	helpEscapes  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	valueEscapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
)

func (e *exposition) head(name, help string, k kind) {
	e.out = append(e.out, "# HELP "+name+" "+helpEscapes.Replace(help)+"\n# TYPE "+name+" "+string(k)+"\n"...)
}

// sample writes one line. pairs are names of labels and their values in turn.
func (e *exposition) sample(name string, value float64, pairs ...string) {
	e.out = append(e.out, name...)
	for i := 0; i < len(pairs); i += 2 {
		separator := byte(',')
		if i == 0 {
			separator = '{'
		}
		e.out = append(e.out, separator)
		e.out = append(e.out, pairs[i]+`="`+valueEscapes.Replace(strings.ToValidUTF8(pairs[i+1], "\uFFFD"))+`"`...)
	}
	if len(pairs) > 0 {
		e.out = append(e.out, '}')
	}
	e.out = append(e.out, " "+number(value)+"\n"...)
}

// one writes a metric that has a single sample.
func (e *exposition) one(name, help string, k kind, value float64, pairs ...string) {
	e.head(name, help, k)
	e.sample(name, value, pairs...)
}

func number(f float64) string {
	switch {
	case math.IsInf(f, 1):
		return "+Inf"
	case math.IsInf(f, -1):
		return "-Inf"
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}

// serve answers a scrape with page, compressed where the scraper takes that.
func serve(w http.ResponseWriter, r *http.Request, page []byte) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	out := io.Writer(w)
	w.Header().Set("Vary", "Accept-Encoding")
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		defer z.Close()
		out = z
	}
	_, _ = out.Write(page) // the scraper may be gone
}

// sortFamilies puts families in the order in which a page has them.
func sortFamilies(families []*family) {
	slices.SortFunc(families, func(a, b *family) int { return cmp.Compare(a.name, b.name) })
}
