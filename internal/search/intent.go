package search

import (
	"slices"
	"strings"
)

// Effect says how a call of an entry changes the world.
type Effect uint8

// The effects of a call. EffectUnknown leaves the decision to the name: get_x reads, create_x acts.
const (
	EffectUnknown Effect = iota
	EffectReads
	EffectActs
)

// intent is the act that a query asks for.
type intent uint8

const (
	intentAny intent = iota
	intentRead
	intentAct
)

// reader takes the words of a query in reading order, stop words included, and finds the act that
// the query asks for: the first word with a meaning may name an act, and a word may ask.
type reader struct {
	hash uint32 // of all words
	asks bool   // a word asks for something to read
	// english says that a word is a function word of English, and of few other languages.
	english bool
	first   int    // words with a meaning that were read
	kinds   uint32 // kinds of acts that the first of them names
	last    []byte // the word before
	two     []byte // scratch
}

func (r *reader) reset() { *r = reader{hash: fnvOffset, last: r.last[:0], two: r.two[:0]} }

// word reads the next word. If the word ends a verb of two words, word returns the verb with the
// same meaning.
func (r *reader) word(tok []byte) (verb string) {
	r.hash = hashWord(r.hash, tok)
	r.two = append(append(append(r.two[:0], r.last...), ' '), tok...)
	verb = phrases[string(r.two)]
	if verb != "" {
		if r.first <= 1 {
			r.first, r.kinds = 1, kinds()[verb]
		}
		return verb
	}
	r.last = append(r.last[:0], tok...)
	r.english = r.english || englishWords()[string(tok)]
	asks := askWords()[string(tok)]
	r.asks = r.asks || asks
	if asks || stopWords()[string(tok)] {
		return ""
	}
	r.first++
	if r.first == 1 {
		r.kinds = kinds()[string(tok)]
	}
	return ""
}

func (r *reader) intent() intent {
	switch {
	case r.kinds&^kindRead != 0:
		return intentAct
	case r.asks:
		return intentRead
	}
	return intentAny
}

// hashWord adds one word to the hash of a name.
func hashWord(h uint32, tok []byte) uint32 {
	for _, c := range tok {
		h = (h ^ uint32(c)) * fnvPrime
	}
	return (h ^ ' ') * fnvPrime
}

func hashWords(words []string) uint32 {
	h := uint32(fnvOffset)
	for _, w := range words {
		h = hashWord(h, []byte(w))
	}
	return h
}

// label is the meaning of a document's name: which name it is, and the act that it names.
type label struct {
	name   uint32 // hash of the name's words
	full   uint32 // hash of the server's words and the name's
	bare   uint32 // hash of the name's words without leading words of the server
	words  uint32 // number of the name's words
	verb   uint32 // term of the first verb that only acts; noVerb: none
	kinds  uint32 // kinds of acts that the first verb names
	effect Effect
	old    bool // the entry or its server says that it is deprecated
}

const noVerb = ^uint32(0)

// label reads the name of d, whose texts the builder has counted.
func (b *builder) label(d Doc) label {
	server, name := b.split(d.Server), b.split(d.Name)
	l := label{verb: noVerb, effect: d.Effect, name: hashWords(name), words: uint32(len(name))}
	l.old = deprecated(d.Title) || deprecated(d.Description) || deprecated(d.About)
	bare := name
	if n := len(server); n > 0 && len(name) > n && slices.Equal(name[:n], server) {
		bare, l.full = name[n:], l.name
	} else {
		l.full = hashWords(append(server, name...))
	}
	l.bare = hashWords(bare)
	at := slices.IndexFunc(bare, func(w string) bool { return kinds()[w] != 0 })
	if at < 0 {
		return l
	}
	l.kinds = kinds()[bare[at]]
	acts := l.kinds&kindRead == 0
	if id, ok := b.ids[string(appendStem(nil, []byte(bare[at])))]; ok && acts {
		l.verb = id
	}
	switch {
	case l.effect != EffectUnknown:
	case acts:
		l.effect = EffectActs
	default:
		l.effect = EffectReads
	}
	return l
}

// deprecated reports whether a text says of its subject that it is deprecated: at its start, in capitals, or in
// a sentence of its own. A tool that lists deprecated things is not deprecated.
func deprecated(text string) bool {
	text = cut(text, maxText)
	start := strings.ToLower(strings.TrimLeft(text[:min(len(text), 24)], " \t\n*_`[(<!⚠️"))
	if rest, ok := strings.CutPrefix(start, "deprecated"); ok {
		return rest == "" || !strings.HasPrefix(rest, " ") || strings.HasPrefix(rest, " in favo") || strings.HasPrefix(rest, " since")
	}
	for _, sign := range []string{"DEPRECATED", "is deprecated", "been deprecated", "Deprecated:", "(deprecated)", "[deprecated]"} {
		if strings.Contains(text, sign) {
			return true
		}
	}
	return false
}

// split returns the words of a name; words in camelCase come in parts only.
func (b *builder) split(s string) []string {
	var words []string
	emit := b.an.emit
	b.an.emit = func(tok []byte) {
		if !b.an.whole {
			words = append(words, string(tok))
		}
	}
	b.an.text(cut(s, maxText))
	b.an.emit = emit
	return words
}

// asks reports whether the query has the term with this hash.
func (s *scratch) asks(hash uint64) bool {
	id, _ := s.v.dict.find(hash)
	return s.terms[id].lexical != 0
}

// agree raises the found documents whose act is the query's and lowers those with another one. A
// question prefers documents that read.
func (s *scratch) agree() {
	t := s.v.t
	for i := range s.found[:min(len(s.found), shortlist)] {
		c := &s.found[i]
		seg := s.v.segments[c.segment]
		l := &seg.labels[c.doc]
		if contradict(s.reader.kinds, l.kinds) {
			c.score *= 1 - t.against
		}
		switch {
		case s.reader.intent() == intentRead && l.effect == EffectActs:
			c.score *= 1 - t.asked
		case s.reader.intent() == intentAct && s.reader.kinds&l.kinds != 0:
			c.score *= 1 + t.agreed
		case s.reader.intent() == intentAct && l.kinds != 0:
			c.score *= 1 - t.other
		case l.verb != noVerb && !s.asks(seg.hashes[l.verb]):
			c.score *= 1 - t.unasked
		}
	}
}

// exact puts the documents first whose name is the query.
func (s *scratch) exact() {
	top := float32(0)
	for _, c := range s.found {
		top = max(top, c.score)
	}
	for i := range s.found {
		c := &s.found[i]
		if s.v.segments[c.segment].labels[c.doc].is(s.reader.hash) {
			c.score = top + c.score/128
		}
	}
}

// outdated puts each deprecated document below all others that serve the query, unless the query names it. A
// document that only shares a word with the query does not serve it.
func (s *scratch) outdated() {
	stays := func(c candidate) bool { l := s.label(c); return !l.old || l.is(s.reader.hash) }
	best, lowest := float32(0), float32(0)
	for _, c := range s.found {
		if !s.label(c).is(s.reader.hash) {
			best = max(best, c.score)
		}
	}
	for _, c := range s.found {
		if stays(c) && c.score >= s.v.t.serves*best && (lowest == 0 || c.score < lowest) {
			lowest = c.score
		}
	}
	for i := range s.found {
		if c := &s.found[i]; c.score > lowest && lowest > 0 && !stays(*c) {
			c.score = lowest * (1 - (1-c.score/(2*best))/1024) // in their own order
		}
	}
}

// is reports whether h is the hash of the name, with or without the words of the server.
func (l *label) is(h uint32) bool { return l.name == h || l.full == h || l.bare == h }

// collapse leaves out a document for which another of its server stands: github_get_issue if there
// is get_issue. The remaining document takes the higher place of the two. It is the one with the
// shorter name, unless the query is the longer one.
func (s *scratch) collapse() {
	kept := s.found[:0]
	for _, c := range s.found {
		at := slices.IndexFunc(kept, func(k candidate) bool { return s.twins(k, c) })
		if at < 0 {
			kept = append(kept, c)
			continue
		}
		k := &kept[at]
		if label := s.label(*k); s.label(c).words < label.words && label.name != s.reader.hash {
			k.doc = c.doc
		}
	}
	s.found = kept
}

func (s *scratch) label(c candidate) *label { return &s.v.segments[c.segment].labels[c.doc] }

// twins reports whether a and b are documents of one server whose names differ only by the server's
// words.
func (s *scratch) twins(a, b candidate) bool {
	la, lb := s.label(a), s.label(b)
	return la.bare == lb.bare && la.name != lb.name && a.segment == b.segment &&
		s.v.server[s.v.base[a.segment]+a.doc] == s.v.server[s.v.base[b.segment]+b.doc]
}
