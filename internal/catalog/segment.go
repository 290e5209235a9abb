package catalog

import (
	"encoding/json"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/text"
)

// segment is the contribution of one upstream. It is immutable.
type segment struct {
	upstream   string
	order, seq int
	found      bool                // see Listing.Found
	primitives bool                // it has entries other than tools
	namespaces map[string][]*Entry // in listing order
	findings   []Finding
	refused    *Finding // why a strict catalog refuses the listing
	omitted    int
	partial    bool      // a part of the listing was left out
	about      string    // the text about the server on its card
	title      string    // of the server, for a search
	folders    []string  // see Listing.Folders
	presented  string    // its description and instructions, for a search
	reads      []*ingest // of a listing for one principal: kept for other listings; see Reader
}

// lists reports whether a tool of a name is among definitions.
func lists(tools []json.RawMessage, name string) bool {
	return slices.ContainsFunc(tools, func(raw json.RawMessage) bool { return rawjson.Text(rawjson.Get(raw, "name")) == name })
}

// compareSegments sorts by priority: the first segment keeps a contested id.
func compareSegments(a, b *segment) int { return compareRanks(a.rank(), b.rank()) }

func (s *segment) rank() rank { return rank{s.found, s.order, s.seq, s.upstream} }

// parallelFrom is the number of definitions from which several goroutines read a listing.
const parallelFrom = 64

func buildSegment(l *primitive.Listing, own *reading, limits Limits, shared *compiledSchemas) *segment {
	type job struct {
		raw  json.RawMessage
		kind primitive.Kind
	}
	var jobs []job
	for kind, list := range l.Definitions() {
		for _, raw := range *list {
			jobs = append(jobs, job{raw, kind})
		}
	}
	configured := l.Namespace
	if configured != "" {
		l.Namespace = MapNamespace(configured)
	}
	results := make([]*ingest, len(jobs))
	read := func(i int) {
		if own != nil {
			results[i] = own.entry(jobs[i].raw, jobs[i].kind, l)
			return
		}
		in := readEntry(jobs[i].raw, jobs[i].kind, l, limits, shared)
		results[i] = &in
	}
	if workers := runtime.GOMAXPROCS(0); workers > 1 && len(jobs) >= parallelFrom {
		var next atomic.Int64
		var wg sync.WaitGroup
		for range workers {
			wg.Go(func() {
				for i := next.Add(1) - 1; i < int64(len(jobs)); i = next.Add(1) - 1 {
					read(int(i))
				}
			})
		}
		wg.Wait()
	} else {
		for i := range jobs {
			read(i)
		}
	}

	seg := &segment{upstream: l.Upstream, order: l.Order, found: l.Found, primitives: len(jobs) > len(l.Tools), namespaces: map[string][]*Entry{}}
	seg.about, seg.title, seg.presented = about(l), text.Cut(l.Title, maxAboutTitle), strings.TrimSpace(l.About+" "+l.Instructions)
	for _, folder := range l.Folders {
		seg.folders = append(seg.folders, strings.Clone(folder))
	}
	report := Report{}
	if l.Namespace != configured {
		report.add(Finding{
			Kind: FoundMapped, Upstream: l.Upstream, Name: configured,
			Message: fmt.Sprintf("the namespace %q is not legal in an id and becomes %q: set mcpServers.%s.namespace to choose another",
				clip(configured, 80), l.Namespace, l.Upstream),
		})
	}
	for _, cut := range l.Cut {
		seg.partial = true
		report.add(Finding{Kind: FoundListCut, Upstream: l.Upstream, Message: fmt.Sprintf("of server %q %s", l.Upstream, cut)})
	}
	s := segmentBuilder{seg: seg, report: &report, keys: map[string]bool{}}
	for _, in := range results {
		seg.partial = seg.partial || in.partial
		s.add(*in)
	}
	for _, tool := range slices.Sorted(maps.Keys(limits.overridesOf(l.Upstream))) {
		if !lists(l.Tools, tool) {
			report.add(Finding{Kind: FoundOverride, Upstream: l.Upstream, Name: tool, Message: fmt.Sprintf("mcpServers.%s.overrides.%s: server %q lists no tool %q: it may be misspelt, or gone", l.Upstream, tool, l.Upstream, tool)})
		}
	}
	seg.findings, seg.omitted = report.Findings, report.Omitted
	if own != nil {
		seg.reads = results
	}
	return seg
}

// segmentBuilder takes the entries of one listing in order and drops duplicates within the upstream.
type segmentBuilder struct {
	seg    *segment
	report *Report
	keys   map[string]bool // kind and raw name or URI
}

func (s *segmentBuilder) add(in ingest) {
	e := in.entry
	if e == nil {
		s.found(in)
		return
	}
	key := string(e.Kind) + "\x00" + e.key()
	if s.keys[key] {
		s.duplicate(e)
		return
	}
	s.keys[key] = true
	s.found(in)
	s.seg.namespaces[e.Namespace] = append(s.seg.namespaces[e.Namespace], e)
}

// found reports a finding in a definition.
func (s *segmentBuilder) found(in ingest) {
	s.report.add(in.findings...)
	for i := range in.findings {
		if f := &in.findings[i]; s.seg.refused == nil && (f.Kind == FoundRejected || f.Kind == FoundOverBudget) {
			s.seg.refused = f
		}
	}
}

func (s *segmentBuilder) duplicate(e *Entry) {
	s.report.add(Finding{
		Kind: FoundDuplicate, Upstream: e.Upstream, Name: e.key(), ID: e.ID,
		Message: fmt.Sprintf("server %q offers the %s %q twice: the first one stays", e.Upstream, e.Kind.Surface(), e.key()),
	})
}
