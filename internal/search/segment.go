package search

import (
	"crypto/sha256"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// field numbers the parts of a Doc that have separate weights.
type field int

const (
	fieldServer field = iota
	fieldName
	fieldTitle
	fieldDescription
	fieldTags
	fieldParamName
	fieldParamText
	fieldServerTitle
	fieldAbout
	fields
)

// Limits on the indexed part of a document.
const (
	maxText   = 16 << 10 // bytes per text
	maxTags   = 64
	maxParams = 256
	maxValues = 64 // of one parameter
)

// A posting is the strength of a term in a document of its segment: the field-weighted,
// length-normalised and saturated frequency, in 0..1.
type posting struct {
	doc    uint32
	weight float32
}

// segment is the index of one upstream's documents. It is immutable and self-contained, so every
// Index that contains it shares it. Data that depends on other upstreams (idf, norms, numbering) is
// in the view.
type segment struct {
	upstream string
	ids      []string
	servers  []string // server of each document
	single   bool     // all documents have the same server
	terms    []string // raw tokens, and stems prefixed with stemMark
	hashes   []uint64 // of terms
	starts   []uint32 // the postings of terms[i] are postings[starts[i]:starts[i+1]]
	postings []posting
	pairs    []uint32 // sorted pair hashes of each document
	pairEnds []uint32 // the pairs of document d end at pairEnds[d]
	names    []uint32 // distinct stems of each document's name, as term numbers, without stop words
	nameEnds []uint32 // the stems of document d's name end at nameEnds[d]
	labels   []label  // of each document

	passages *passages                       // nil without an Embedder
	known    map[[sha256.Size]byte][]float32 // vectors of the replaced segment, until this one is embedded

	later *laterSegment // builds all but upstream and ids; nil: they are built
}

// buildLater is the number of documents from which a segment is built when it is first prepared.
// Before that, its catalog can be browsed.
const buildLater = 2048

// laterSegment has the documents of a segment that is still to be built.
type laterSegment struct {
	once  sync.Once
	docs  func() []Doc
	built atomic.Bool
}

// build builds the segment unless it is built.
func (s *segment) build(t *tuning) {
	if s.later != nil {
		s.later.once.Do(func() {
			s.fill(t, s.later.docs())
			s.later.docs = nil
			s.later.built.Store(true)
		})
	}
}

// df returns the number of documents with term i.
func (s *segment) df(i int) int { return int(s.starts[i+1] - s.starts[i]) }

// list returns the postings of term i.
func (s *segment) list(i int) []posting { return s.postings[s.starts[i]:s.starts[i+1]] }

// hasPair reports whether document d has the pair h.
func (s *segment) hasPair(d int, h uint32) bool {
	_, ok := slices.BinarySearch(part(s.pairs, s.pairEnds, d), h)
	return ok
}

// name returns the stems of document d's name.
func (s *segment) name(d int) []uint32 { return part(s.names, s.nameEnds, d) }

// part returns the part of all that belongs to document d.
func part(all, ends []uint32, d int) []uint32 {
	if d == 0 {
		return all[:ends[0]]
	}
	return all[ends[d-1]:ends[d]]
}

// stemMark is the prefix of stems, so that a stem never equals a raw token.
const stemMark = '\x01'

// entry is a posting that is not sorted by term yet.
type entry struct {
	term uint32
	posting
}

// builder builds one segment.
type builder struct {
	t       *tuning
	seg     *segment
	ids     map[string]uint32
	log     []entry           // in the order of documents
	counts  [][fields]float32 // of each term in the current document
	touched []uint32          // terms of the current document
	lengths [fields]float32
	pairs   []uint32 // of the current document
	name    []uint32 // stems of its name
	field   field
	prev    []byte // previous stem in this text; empty at its start
	stem    []byte
	an      analyzer
}

// newSegment returns a segment that build completes.
func newSegment(upstream string, ids []string, docs func() []Doc) *segment {
	s := &segment{upstream: strings.Clone(upstream), ids: make([]string, len(ids)), later: &laterSegment{docs: docs}}
	for i, id := range ids {
		// Clone retained strings: the caller's may be slices of a whole message.
		s.ids[i] = strings.Clone(id)
	}
	return s
}

// fill builds the parts that newSegment has left out.
func (s *segment) fill(t *tuning, docs []Doc) {
	s.servers = make([]string, len(docs))
	s.pairEnds = make([]uint32, len(docs))
	s.nameEnds = make([]uint32, len(docs))
	s.labels = make([]label, len(docs))
	b := newBuilder(t, len(docs))
	b.seg = s
	servers := map[string]string{"": s.upstream}
	for i, d := range docs {
		if _, ok := servers[d.Server]; !ok {
			name := strings.Clone(d.Server)
			servers[name] = name
		}
		s.servers[i] = servers[d.Server]
		d.Server = s.servers[i]
		b.doc(uint32(i), d)
		s.labels[i] = b.label(d)
	}
	s.single = !slices.ContainsFunc(s.servers, func(name string) bool { return name != s.servers[0] })
	b.pack()
}

// newBuilder returns a builder for about n documents, without a segment.
func newBuilder(t *tuning, n int) *builder {
	// With stems, a tool has about 60 distinct terms; 15 of them are new in a catalog.
	fresh := min(15*n, 20_000)
	b := &builder{
		t:      t,
		ids:    make(map[string]uint32, fresh),
		counts: make([][fields]float32, 0, fresh),
		log:    make([]entry, 0, 60*n),
	}
	b.an.emit = b.token
	return b
}

// pack sorts the terms and moves terms and postings to memory of their exact size. The order makes
// a document's score, and its rounding, independent of the order of documents.
func (b *builder) pack() {
	s := b.seg
	letters := 0
	s.terms = make([]string, 0, len(b.ids))
	for term := range b.ids {
		s.terms = append(s.terms, term)
		letters += len(term)
	}
	slices.Sort(s.terms)
	var all strings.Builder
	all.Grow(letters)
	for _, term := range s.terms {
		all.WriteString(term)
	}
	rest := all.String()
	s.hashes = make([]uint64, len(s.terms))
	order := make([]uint32, len(s.terms)) // position of each term by its number during building
	for i, term := range s.terms {
		order[b.ids[term]] = uint32(i)
		s.hashes[i] = termHash(term)
		s.terms[i], rest = rest[:len(term)], rest[len(term):]
	}
	s.starts = make([]uint32, len(s.terms)+1)
	for _, e := range b.log {
		s.starts[order[e.term]+1]++
	}
	for i := range s.terms {
		s.starts[i+1] += s.starts[i]
	}
	s.postings = make([]posting, len(b.log))
	next := slices.Clone(s.starts)
	for _, e := range b.log {
		at := &next[order[e.term]]
		s.postings[*at] = e.posting
		*at++
	}
	s.pairs = slices.Clip(slices.Clone(s.pairs))
	s.names = slices.Clip(slices.Clone(s.names))
	for i, id := range s.names {
		s.names[i] = order[id]
	}
	for d := range s.ids {
		slices.Sort(s.name(d))
		if l := &s.labels[d]; l.verb != noVerb {
			l.verb = order[l.verb]
		}
	}
}

func (b *builder) doc(n uint32, d Doc) {
	b.read(d)
	b.weigh(n)
	slices.Sort(b.pairs)
	b.seg.pairs = append(b.seg.pairs, slices.Compact(b.pairs)...)
	b.seg.pairEnds[n] = uint32(len(b.seg.pairs))
	b.pairs = b.pairs[:0]
	slices.Sort(b.name)
	b.seg.names = append(b.seg.names, slices.Compact(b.name)...)
	b.seg.nameEnds[n] = uint32(len(b.seg.names))
	b.name = b.name[:0]
}

// read counts the terms of a document.
func (b *builder) read(d Doc) {
	b.text(fieldServer, d.Server)
	b.text(fieldName, d.Name)
	if d.Title != d.Name {
		b.text(fieldTitle, d.Title)
	}
	b.text(fieldDescription, d.Description)
	for _, tag := range d.Tags[:min(len(d.Tags), maxTags)] {
		b.text(fieldTags, tag)
	}
	for _, p := range d.Params[:min(len(d.Params), maxParams)] {
		b.text(fieldParamName, p.Name)
		b.text(fieldParamText, p.Description)
		for _, value := range p.Values[:min(len(p.Values), maxValues)] {
			b.text(fieldParamText, value)
		}
	}
	b.text(fieldServerTitle, d.ServerTitle)
	b.text(fieldAbout, d.About)
}

// weigh converts the counts of document n to postings and clears them.
func (b *builder) weigh(n uint32) {
	scale := b.scale()
	for _, id := range b.touched {
		tf := float32(0)
		for f, c := range b.counts[id] {
			tf += scale[f] * c
		}
		b.counts[id] = [fields]float32{}
		b.log = append(b.log, entry{id, posting{n, tf / (b.t.k1 + tf)}})
	}
	b.touched = b.touched[:0]
	b.lengths = [fields]float32{}
}

// scale returns the weight of one occurrence in each field of the current document.
func (b *builder) scale() (scale [fields]float32) {
	for f, p := range b.t.fields {
		// A field with stop words only has length 0; treat it as one word.
		scale[f] = p.weight / (1 - p.b + p.b*max(1, b.lengths[f])/p.pivot)
	}
	return scale
}

func (b *builder) text(f field, s string) {
	b.field = f
	b.prev = b.prev[:0]
	b.an.text(cut(s, maxText))
}

// token counts one token and its stem. Stop words count in names only, where they may be the whole
// name ("whoami").
func (b *builder) token(tok []byte) {
	stop := stopWords()[string(tok)]
	if stop && b.field >= fieldDescription {
		return
	}
	b.count(tok)
	b.stem = appendStem(b.stem[:0], tok)
	id := b.count(b.stem)
	if stop {
		return
	}
	if b.field == fieldName {
		b.name = append(b.name, id)
	}
	b.lengths[b.field]++
	if len(b.prev) > 0 {
		b.pairs = append(b.pairs, pairHash(b.prev, b.stem))
	}
	b.prev = append(b.prev[:0], b.stem...)
}

// count counts one occurrence of term in the current field and returns its number.
func (b *builder) count(term []byte) uint32 {
	id, ok := b.ids[string(term)]
	if !ok {
		id = uint32(len(b.ids))
		b.ids[string(term)] = id
		b.counts = append(b.counts, [fields]float32{})
	}
	c := &b.counts[id]
	if *c == ([fields]float32{}) {
		b.touched = append(b.touched, id)
	}
	c[b.field]++
	return id
}

// appendStem appends the dictionary form of tok's stem to dst.
func appendStem(dst, tok []byte) []byte {
	dst = append(dst, stemMark)
	n := len(dst)
	dst = append(dst, tok...)
	for _, c := range tok {
		if c < 'a' || c > 'z' {
			return dst
		}
	}
	return dst[:n+len(stem(dst[n:]))]
}

// pairHash hashes two neighbouring stems. A collision gives a document a bonus of a fraction of one
// term, so the pairs need no dictionary.
func pairHash(a, b []byte) uint32 {
	h := uint32(fnvOffset)
	for _, c := range a {
		h = (h ^ uint32(c)) * fnvPrime
	}
	for _, c := range b {
		h = (h ^ uint32(c)) * fnvPrime
	}
	return h
}

// The constants of the 32-bit FNV-1a hash.
const (
	fnvOffset = 2166136261
	fnvPrime  = 16777619
)
