package catalog

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
)

// Snapshot is everything that can be called at one moment. It is immutable; both methods return a
// new one. It may be a *Catalog, or a catalog together with data derived from it.
type Snapshot[S any] interface {
	// With returns a snapshot in which a listing replaces the entries of its upstream, and a report
	// of the listing's faults.
	With(l primitive.Listing) (S, Report)
	// Without returns a snapshot without an upstream.
	Without(upstream string) S
}

// LiveOptions configure a Live. The zero value works.
type LiveOptions[S any] struct {
	// Prepare, if set, is called with each snapshot before it is published. It computes data that
	// its first user would otherwise wait for.
	Prepare func(S)
	// Changed, if set, is called after each new snapshot, one call at a time, with the upstreams
	// that were updated or removed. It must not block for long and must not call the Live's Update
	// or Remove.
	Changed func(next S, upstreams []string)
	// Conceal, if set, returns the part of a listing that may be shown. Live stores only that part.
	Conceal func(primitive.Listing) primitive.Listing
	// Logger gets the faults of listings; nil discards them.
	Logger *slog.Logger
}

// Live holds the current snapshot of all upstreams. It is a sink of listings:
//
//	Update, Remove ─▶ waiting changes ─▶ With, Without ─▶ Prepare ─▶ swap ─▶ Changed
//	  (concurrent)                       (one at a time)
//
// Changes that arrive during a build are built together next. A call sees either the whole old
// snapshot or the whole new one (spec/gateway §4.6). It never waits, because building happens on
// the goroutines of upstreams. Live is safe for concurrent use.
type Live[S Snapshot[S]] struct {
	opts    LiveOptions[S]
	current atomic.Pointer[S]

	mu      sync.Mutex // guards below
	pending []change   // at most one per upstream
	reports map[string]Report

	building sync.Mutex // held while snapshots are built; taken before mu; guards told
	told     map[Finding]bool
}

// change is a new listing or the removal of an upstream.
type change struct {
	upstream string
	listing  *primitive.Listing // nil: removed
}

// NewLive returns a Live that starts with a snapshot.
func NewLive[S Snapshot[S]](start S, o LiveOptions[S]) *Live[S] {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	l := &Live[S]{opts: o, reports: map[string]Report{}, told: map[Finding]bool{}}
	l.current.Store(&start)
	return l
}

// Snapshot returns the current snapshot.
func (l *Live[S]) Snapshot() S { return *l.current.Load() }

// Update implements Sink. The listing is in the snapshot when it returns.
func (l *Live[S]) Update(listing primitive.Listing) {
	if l.opts.Conceal != nil {
		listing = l.opts.Conceal(listing)
	}
	l.change(change{listing.Upstream, &listing})
}

// Remove implements Sink. The upstream is out of the snapshot when it returns.
func (l *Live[S]) Remove(upstream string) { l.change(change{upstream, nil}) }

// Reports returns the report of the newest listing of each upstream, sorted by upstream.
func (l *Live[S]) Reports() []Report {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.SortedFunc(maps.Values(l.reports), func(a, b Report) int { return strings.Compare(a.Upstream, b.Upstream) })
}

// Report returns the report of the newest listing of one upstream.
func (l *Live[S]) Report(upstream string) (Report, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r, ok := l.reports[upstream]
	return r, ok
}

func (l *Live[S]) change(c change) {
	l.mu.Lock()
	l.pending = slices.DeleteFunc(l.pending, func(old change) bool { return old.upstream == c.upstream })
	l.pending = append(l.pending, c)
	l.mu.Unlock()

	l.building.Lock()
	defer l.building.Unlock()
	l.mu.Lock()
	changes := l.pending
	l.pending = nil
	l.mu.Unlock()
	if len(changes) == 0 {
		return // an earlier build included this change
	}
	next := l.Snapshot()
	for _, c := range changes {
		if c.listing == nil {
			next = next.Without(c.upstream)
			l.mu.Lock()
			delete(l.reports, c.upstream)
			l.mu.Unlock()
			continue
		}
		var report Report
		next, report = next.With(*c.listing)
		l.mu.Lock()
		before := l.reports[c.upstream]
		l.reports[c.upstream] = report
		l.mu.Unlock()
		l.log(before, report)
	}
	if l.opts.Prepare != nil {
		l.opts.Prepare(next)
	}
	l.current.Store(&next)
	if l.opts.Changed != nil {
		upstreams := make([]string, len(changes))
		for i, c := range changes {
			upstreams[i] = c.upstream
		}
		l.opts.Changed(next, upstreams)
	}
}

// Refine replaces the snapshot by the result of f: the same entries with more derived data. f is
// called between changes and must be fast, so prepare the data before. Changed is not called.
func (l *Live[S]) Refine(f func(S) S) {
	l.building.Lock()
	defer l.building.Unlock()
	next := f(l.Snapshot())
	if l.opts.Prepare != nil {
		l.opts.Prepare(next)
	}
	l.current.Store(&next)
}

// maxLoggedFindings bounds the logged findings of one report. All of them are kept.
const maxLoggedFindings = 10

// maxTold bounds the remembered findings. Further ones are logged again.
const maxTold = 4096

// log logs faults that keep entries out of the catalog or calls from working. It logs each once for
// as long as it lasts. before is the report of the previous listing. log is called while a snapshot
// is built.
func (l *Live[S]) log(before, r Report) {
	now := make(map[Finding]bool, len(r.Findings))
	for _, f := range r.Findings {
		now[f] = true
	}
	for _, f := range before.Findings {
		if !now[f] {
			delete(l.told, f)
		}
	}
	logged := 0
	for _, f := range r.Findings {
		if l.told[f] {
			continue
		}
		if len(l.told) >= maxTold {
			clear(l.told)
		}
		l.told[f] = true
		level := slog.LevelDebug
		switch f.Kind {
		case FoundInvalid, FoundDuplicate, FoundConflict, FoundCollision, FoundRival, FoundRejected, FoundSchema, FoundSchemaLimit,
			FoundTextCut, FoundListCut, FoundRefused, FoundOverride:
			if logged < maxLoggedFindings {
				level = slog.LevelWarn
			}
			logged++
		}
		l.opts.Logger.Log(context.Background(), level, f.Message, "upstream", f.Upstream, "finding", string(f.Kind))
	}
	if logged > maxLoggedFindings {
		l.opts.Logger.Warn("more is wrong with the listing", "upstream", r.Upstream, "findings", len(r.Findings)+r.Omitted)
	}
}
