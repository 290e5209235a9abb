package eval

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/search"
)

// Macro is a row of means over sets.
type Macro struct {
	Name string
	// Sets are the names of the sets that count. A set that is not there is left out, and the row says how many are.
	Sets []string
}

// development is the macro row that the ranking's targets are stated in: R@1 ≥ .52, R@5 ≥ .755, nDCG@10 ≥ .71 over seven
// public sets. [Run] adds it by itself where all seven are there.
func development() Macro {
	return Macro{Name: "first seven", Sets: []string{
		"azure2025", "livemcp", "livemcp_steps", "livemcp_agent", "stabletoolbench", "toollinkos", "metatool",
	}}
}

// Options configures [Run]. Its zero value runs every set and adds one macro row over all of them.
type Options struct {
	// Sets are the names of the sets to run, in the order of the report. Empty: every set of the directory, by name.
	Sets []string
	// Macros are rows of means, in addition to the mean over all sets.
	Macros []Macro
	// indexOf configures the index that is measured.
	Index search.Options
	// Misses asks for the queries whose first hit is wrong, each with the reason.
	Misses bool
	// Now reads the clock that latency is measured with; nil means time.Now.
	Now func() time.Time
}

// Row is the result on one set.
type Row struct {
	Set     string `json:"set"`
	Tools   int    `json:"tools"`
	Queries int    `json:"queries"`
	Metrics
	Build            time.Duration `json:"build_ns"`           // of the index, with the state that its searches share
	QueriesPerSecond float64       `json:"queries_per_second"` // one caller
	P50              time.Duration `json:"p50_ns"`
	P99              time.Duration `json:"p99_ns"`
	Warnings         []string      `json:"warnings,omitempty"`
	Misses           []Miss        `json:"misses,omitempty"` // where Options.Misses asks for them
}

// MacroRow is the mean over sets. Sets counts those that were there.
type MacroRow struct {
	Name string `json:"name"`
	Sets int    `json:"sets"`
	Metrics
}

// Report has the measurements of [Run].
type Report struct {
	Rows   []Row      `json:"sets"`
	Macros []MacroRow `json:"macros"`
}

// ErrUnknownSet says that Options names a set which the directory does not hold.
var ErrUnknownSet = errors.New("unknown set")

// Run loads the sets of dir and measures each with an index of its own, one query at a time. It returns ctx's error as soon
// as it sees it, an error of [Load], or [ErrUnknownSet].
func Run(ctx context.Context, dir string, o Options) (Report, error) {
	sets, err := loadSet(dir)
	if err != nil {
		return Report{}, err
	}
	sets, err = choose(sets, o.Sets)
	if err != nil {
		return Report{}, err
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	var report Report
	for _, s := range sets {
		row, err := measure(ctx, s, o)
		if err != nil {
			return Report{}, err
		}
		report.Rows = append(report.Rows, row)
	}
	all := Macro{Name: "all"}
	for _, r := range report.Rows {
		all.Sets = append(all.Sets, r.Set)
	}
	for _, m := range o.Macros {
		report.Macros = append(report.Macros, report.macro(m))
	}
	if m := report.macro(development()); m.Sets == len(development().Sets) {
		report.Macros = append(report.Macros, m)
	}
	report.Macros = append(report.Macros, report.macro(all))
	return report, nil
}

func choose(sets []testSet, names []string) ([]testSet, error) {
	if len(names) == 0 {
		return sets, nil
	}
	var out []testSet
	for _, name := range names {
		i := slices.IndexFunc(sets, func(s testSet) bool { return s.Name == name })
		if i < 0 {
			var have []string
			for _, s := range sets {
				have = append(have, s.Name)
			}
			return nil, fmt.Errorf("%w %q: there are %s", ErrUnknownSet, name, strings.Join(have, ", "))
		}
		out = append(out, sets[i])
	}
	return out, nil
}

func measure(ctx context.Context, s testSet, o Options) (Row, error) {
	row := Row{Set: s.Name, Tools: len(s.Tools), Queries: len(s.Queries), Warnings: s.Warnings}
	start := o.Now()
	ix := indexOf(s.Tools, o.Index)
	row.Build = o.Now().Sub(start)
	// The collector's work for the build must not be charged to the queries.
	runtime.GC()
	took := make([]time.Duration, 0, len(s.Queries))
	var total time.Duration
	for _, q := range s.Queries {
		if err := ctx.Err(); err != nil {
			return Row{}, err
		}
		start := o.Now()
		hits := ix.Search(q.Text, depth)
		d := o.Now().Sub(start)
		took = append(took, d)
		total += d
		ids := make([]string, len(hits))
		for i, h := range hits {
			ids[i] = h.ID
		}
		m := score(ids, q.Groups)
		row.add(m)
		if o.Misses && m.R1 == 0 {
			row.Misses = append(row.Misses, newMiss(ix, q, hits))
		}
	}
	row.over(len(s.Queries))
	slices.Sort(took)
	row.P50, row.P99 = quantile(took, .50), quantile(took, .99)
	if total > 0 {
		row.QueriesPerSecond = float64(len(took)) / total.Seconds()
	}
	return row, nil
}

// indexOf returns a prepared index of docs, one upstream per server.
func indexOf(docs []search.Doc, o search.Options) *search.Index {
	byServer := map[string][]search.Doc{}
	for _, d := range docs {
		byServer[d.Server] = append(byServer[d.Server], d)
	}
	ix := search.New(o)
	for server, docs := range byServer {
		ix = ix.With(server, docs)
	}
	ix.Prepare()
	return ix
}

// quantile returns the smallest value that at least the share p of sorted values does not exceed.
func quantile(sorted []time.Duration, p float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	n := int(p*float64(len(sorted)) + .999999)
	return sorted[min(max(n, 1), len(sorted))-1]
}

func (r Report) macro(m Macro) MacroRow {
	row := MacroRow{Name: m.Name}
	for _, name := range m.Sets {
		i := slices.IndexFunc(r.Rows, func(r Row) bool { return r.Set == name })
		if i >= 0 {
			row.add(r.Rows[i].Metrics)
			row.Sets++
		}
	}
	row.over(row.Sets)
	return row
}
