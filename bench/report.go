package main

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"slices"
	"text/tabwriter"
	"time"
)

// report prints the measurements, each figure with its target.
type report struct {
	w       io.Writer
	targets int
	missed  int
}

// verdict is a number's target and whether it is met.
func (r *report) verdict(ok bool, target string) string {
	r.targets++
	if ok {
		return target + " ok"
	}
	r.missed++
	return target + " MISS"
}

func (r *report) note(text string) { fmt.Fprintln(r.w, text) }

func (r *report) heading(set settings) {
	fmt.Fprintf(r.w, "Load over loopback: %d CPUs, %d rounds of %v for each system in turn, medians of the rounds.\n", runtime.NumCPU(), set.rounds, set.round)
	fmt.Fprintln(r.w, "ratio: throughput over that of the reverse proxy in the same round. added: p50 over the reverse proxy's. CPU: processor time of a call in the system's processes.")
}

// median of values, which it sorts; 0 of none.
func median[T cmp.Ordered](values []T) T {
	var zero T
	if len(values) == 0 {
		return zero
	}
	slices.Sort(values)
	return values[len(values)/2]
}

func medianOf[T cmp.Ordered](samples []sample, f func(sample) T) T {
	values := make([]T, len(samples))
	for i, s := range samples {
		values[i] = f(s)
	}
	return median(values)
}

// ratioOf is the median of the rounds' ratios of throughput.
func ratioOf(c, base *contender) float64 {
	ratios := make([]float64, len(c.samples))
	for i := range c.samples {
		ratios[i] = c.samples[i].perSecond / base.samples[i].perSecond
	}
	return median(ratios)
}

// processorOf is the processor time of a call, over all rounds: the system counts it in steps of 10 ms.
func processorOf(c *contender) string {
	var spent time.Duration
	calls := 0
	for _, s := range c.samples {
		spent += s.processor
		calls += s.calls
	}
	if spent == 0 || calls == 0 {
		return ""
	}
	return micros(spent / time.Duration(calls))
}

func micros(d time.Duration) string { return fmt.Sprintf("%.0f µs", float64(d)/1e3) }

func sizeName(size int) string {
	if size >= 1024 && size%1024 == 0 {
		return fmt.Sprintf("%d KB", size/1024)
	}
	return fmt.Sprintf("%d B", size)
}

func (r *report) table(list []*contender, callers, size int) {
	byName := map[string]*contender{}
	for _, c := range list {
		byName[c.name] = c
	}
	noun := "callers"
	if callers == 1 {
		noun = "caller"
	}
	fmt.Fprintf(r.w, "\n%d %s, %s\n", callers, noun, sizeName(size))
	w := tabwriter.NewWriter(r.w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "  system\tcalls/s\tp50\tp99\tCPU\tratio\t\tadded\t")
	for _, c := range list {
		name := c.name
		if c.holds && size > firewallThreshold {
			name += ", result held back"
		}
		fmt.Fprintf(w, "  %s\t%.0f\t%s\t%s\t%s\t", name,
			medianOf(c.samples, func(s sample) float64 { return s.perSecond }),
			micros(medianOf(c.samples, func(s sample) time.Duration { return s.p50 })),
			micros(medianOf(c.samples, func(s sample) time.Duration { return s.p99 })),
			processorOf(c))
		base := byName[c.baseline]
		if base == nil {
			fmt.Fprintln(w, "\t\t\t")
			continue
		}
		added := make([]time.Duration, len(c.samples))
		for i := range c.samples {
			added[i] = c.samples[i].p50 - base.samples[i].p50
		}
		ratio, extra := ratioOf(c, base), median(added)
		fmt.Fprintf(w, "%.2f\t", ratio)
		if c.least != nil && c.least(size) > 0 {
			fmt.Fprint(w, r.verdict(ratio >= c.least(size), fmt.Sprintf("≥ %.2g", c.least(size))))
		}
		fmt.Fprint(w, "\t")
		if callers == 1 {
			fmt.Fprintf(w, "%s ", micros(extra))
			if c.added(size) {
				fmt.Fprint(w, r.verdict(extra <= maxAddedP50, "≤ "+micros(maxAddedP50)))
			}
		}
		fmt.Fprintln(w, "\t")
	}
	_ = w.Flush()
}

func (r *report) memory(set settings, before, loaded, after memory) {
	fmt.Fprintf(r.w, "\nprivate memory of weir with %d upstreams and %d tools, its children and its program file apart\n", memoryUpstreams, memoryUpstreams*toolsPerUpstream)
	fmt.Fprintf(r.w, "  at the start %s; after %d calls of 100 B %s  %s; %v later %s  %s\n",
		before, set.calls, loaded, r.bound(loaded, maxPrivateKiB), set.idle, after, r.bound(after, maxPrivateKiB))
}

// many reports the memory of the gateway with many tools after as many calls.
func (r *report) many(set settings, loaded memory) {
	fmt.Fprintf(r.w, "  private memory after %d calls of 100 B %s  %s\n", set.calls, loaded, r.bound(loaded, maxManyKiB))
}

// bound says whether the private memory is within a target.
func (r *report) bound(m memory, maxKiB int) string {
	return r.verdict(m.private <= maxKiB, fmt.Sprintf("≤ %.0f MB", mb(maxKiB)))
}

func mb(kib int) float64 { return float64(kib) / 1024 }

func (m memory) String() string {
	return fmt.Sprintf("%.1f MB (resident %.1f)", mb(m.private), mb(m.rss))
}

func (r *report) browse(h, stable *histogram, listed time.Duration) {
	p50, p99 := h.quantile(.5), h.quantile(.99)
	fmt.Fprintf(r.w, "\ntool_browse over %d tools of %d upstreams, listed and indexed %v after the start; 1 caller\n", browseUpstreams*manyTools, browseUpstreams, listed.Round(time.Millisecond))
	fmt.Fprintf(r.w, "  p50 %s  %s   p99 %s  %s\n",
		micros(p50), r.verdict(p50 <= maxBrowseP50, "≤ "+micros(maxBrowseP50)), micros(p99), r.verdict(p99 <= maxBrowseP99, "≤ "+micros(maxBrowseP99)))
	ratio := float64(stable.quantile(.5)) / float64(p50)
	fmt.Fprintf(r.w, "  with cache_stable p50 %s, p99 %s, ratio of the medians %.2f  %s\n",
		micros(stable.quantile(.5)), micros(stable.quantile(.99)), ratio, r.verdict(ratio <= maxStable, fmt.Sprintf("≤ %.1f", maxStable)))
}

func (r *report) summary() {
	fmt.Fprintf(r.w, "\n%d of %d targets met\n", r.targets-r.missed, r.targets)
}
