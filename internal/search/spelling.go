package search

import "github.com/weir-mcp/weir/internal/search/thesaurus"

// Bounds of a word whose spelling is corrected, in letters. Shorter words are too near each other.
const (
	minMisspelt = 5
	maxMisspelt = 24
)

// spelled adds the words of the catalog that are one edit from a word that nothing knows: a letter left out,
// put in, changed, or two swapped. If the catalog has none, a known word takes the place of w.
func (s *scratch) spelled(w *word) {
	if len(w.raw) < minMisspelt || len(w.raw) > maxMisspelt || s.v.known(w.stem) || s.v.known(w.raw) || understood(w.stem) {
		return
	}
	for _, c := range w.raw {
		if c < 'a' || c > 'z' {
			return
		}
	}
	found := false
	s.edits(w.raw, func(other []byte) {
		if s.v.known(other) {
			found = true
			wantTerm(s, other, s.v.t.raw*s.v.t.misspelt*w.weight, unlimited)
			s.near = appendStem(s.near[:0], other)
			wantTerm(s, s.near, s.v.t.misspelt*w.weight, unlimited)
		}
	})
	if found {
		return
	}
	s.edits(w.raw, func(other []byte) {
		if s.near = appendStem(s.near[:0], other); !found && understood(s.near) {
			found = true
			w.stem = append([]byte(nil), s.near...)
		}
	})
}

// known reports whether a document has a term.
func (v *view) known(term []byte) bool {
	_, ok := v.find(termHash(term))
	return ok
}

// understood reports whether a stem has words of the same meaning.
func understood(stem []byte) bool {
	return verbSynonyms()[string(stem)] != nil || nounSynonyms()[string(stem)] != nil || productWords()[string(stem)] != nil || thesaurus.Has(stem[1:])
}

// edits calls f for each word that is one edit from w. The first letter is right in most misspelt words and
// stays. The bytes are valid until f returns.
func (s *scratch) edits(w []byte, f func(other []byte)) {
	try := func(parts ...[]byte) {
		s.edit = s.edit[:0]
		for _, p := range parts {
			s.edit = append(s.edit, p...)
		}
		f(s.edit)
	}
	letter := []byte{0}
	for i := 1; i <= len(w); i++ {
		for c := byte('a'); c <= 'z'; c++ {
			letter[0] = c
			try(w[:i], letter, w[i:])
			if i < len(w) && c != w[i] {
				try(w[:i], letter, w[i+1:])
			}
		}
		if i < len(w) {
			try(w[:i], w[i+1:])
		}
		if i+1 < len(w) && w[i] != w[i+1] {
			letter[0] = w[i]
			try(w[:i], w[i+1:i+2], letter, w[i+2:])
		}
	}
}
