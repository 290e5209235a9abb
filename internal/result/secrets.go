package result

import "github.com/weir-mcp/weir/internal/text/redact"

// secretsOf finds the secrets of a text in order. Each finder reads the text once; places that overlap are one.
type secretsOf struct {
	r        *Redactor
	text     string
	patterns [2][]secretPattern
	shapes   redact.Shapes
	at       [maxFinders]place // the next place of each finder
}

// maxFinders is the number of ways to find a secret: three without a pattern, and those with one.
const maxFinders = 3 + 3 + 3

// place is a part of a text.
type place struct {
	start, end int
	there      bool
}

// secrets returns the secrets of a text, with the matches of more patterns.
func (r *Redactor) secrets(text string, more []secretPattern) secretsOf {
	s := secretsOf{r: r, text: text, patterns: [2][]secretPattern{secretShapes, more}}
	for i := range s.at {
		if p := s.pattern(i); p == nil && i < 3 || p != nil && p.hinted(text) {
			s.find(i, 0)
		}
	}
	return s
}

// pattern returns the pattern of a finder, nil if it has none.
func (s *secretsOf) pattern(i int) *secretPattern {
	i -= 3
	for _, list := range s.patterns {
		if 0 <= i && i < len(list) {
			return &list[i]
		}
		i -= len(list)
	}
	return nil
}

// find makes a finder look for its next place, from an offset on.
func (s *secretsOf) find(i, from int) {
	p := &s.at[i]
	switch {
	case i == 0 && s.r != nil:
		p.start, p.end, p.there = s.r.known.Next(s.text, from)
	case i == 1 && s.r != nil:
		p.start, p.end, p.there = s.r.recent.Next(s.text, from)
	case i == 2:
		p.start, p.end, p.there = s.shapes.Next(s.text, from)
	case i > 2:
		p.start, p.end, p.there = s.pattern(i).next(s.text, from)
	}
}

// next returns the next place with a secret.
func (s *secretsOf) next() (start, end int, found bool) {
	for i := range s.at {
		if p := &s.at[i]; p.there && (!found || p.start < start) {
			start, end, found = p.start, p.end, true
		}
	}
	for again := found; again; {
		again = false
		for i := range s.at {
			for p := &s.at[i]; p.there && p.start < end; again = true {
				end = max(end, p.end)
				s.find(i, p.end)
			}
		}
	}
	return start, end, found
}
