package search

// stem reduces an English word to its Porter stem in place and returns the shortened slice. The word
// must be lower-case ASCII letters; words of fewer than three letters are returned as they are. The
// rules are from M. F. Porter, "An algorithm for suffix stripping" (1980).
func stem(w []byte) []byte {
	if len(w) < 3 {
		return w
	}
	p := porter{b: w}
	p.plurals()
	p.pastAndGerund()
	p.finalY()
	p.suffixes(step2)
	p.suffixes(step3)
	p.residue()
	p.tidy()
	return p.b
}

// porter holds the word while the steps shorten it.
type porter struct{ b []byte }

// rule replaces suffix by repl if the measure of the part before the suffix is above zero.
type rule struct{ suffix, repl string }

// Within a table, longer suffixes come first.
var (
	step2 = []rule{
		{"ational", "ate"}, {"tional", "tion"}, {"enci", "ence"}, {"anci", "ance"}, {"izer", "ize"}, {"abli", "able"},
		{"alli", "al"}, {"entli", "ent"}, {"eli", "e"}, {"ousli", "ous"}, {"ization", "ize"}, {"ation", "ate"},
		{"ator", "ate"}, {"alism", "al"}, {"iveness", "ive"}, {"fulness", "ful"}, {"ousness", "ous"}, {"aliti", "al"},
		{"iviti", "ive"}, {"biliti", "ble"},
	}
	step3 = []rule{
		{"icate", "ic"}, {"ative", ""}, {"alize", "al"}, {"iciti", "ic"}, {"ical", "ic"}, {"ful", ""}, {"ness", ""},
	}
	step4 = []string{
		"ement", "ance", "ence", "able", "ible", "ment", "ant", "ent", "ion", "ism", "ate", "iti", "ous", "ive", "ize",
		"al", "er", "ic", "ou",
	}
)

// consonant reports whether the letter at i is a consonant; y is one at the start and after a
// vowel.
func (p *porter) consonant(i int) bool {
	switch p.b[i] {
	case 'a', 'e', 'i', 'o', 'u':
		return false
	case 'y':
		return i == 0 || !p.consonant(i-1)
	}
	return true
}

// measure counts the vowel-consonant sequences in the first n letters.
func (p *porter) measure(n int) int {
	m, vowel := 0, false
	for i := range n {
		if !p.consonant(i) {
			vowel = true
		} else if vowel {
			m++
			vowel = false
		}
	}
	return m
}

// vowelIn reports whether the first n letters contain a vowel.
func (p *porter) vowelIn(n int) bool {
	for i := range n {
		if !p.consonant(i) {
			return true
		}
	}
	return false
}

// ends returns the length of the part before suffix, or -1 if the word does not end with suffix.
func (p *porter) ends(suffix string) int {
	n := len(p.b) - len(suffix)
	if n < 0 || string(p.b[n:]) != suffix {
		return -1
	}
	return n
}

// double reports whether the first n letters end with a double consonant.
func (p *porter) double(n int) bool {
	return n >= 2 && p.b[n-1] == p.b[n-2] && p.consonant(n-1)
}

// shortSyllable reports whether the first n letters end with consonant, vowel, consonant other than
// w, x and y.
func (p *porter) shortSyllable(n int) bool {
	if n < 3 || !p.consonant(n-1) || p.consonant(n-2) || !p.consonant(n-3) {
		return false
	}
	c := p.b[n-1]
	return c != 'w' && c != 'x' && c != 'y'
}

func (p *porter) plurals() {
	switch {
	case p.ends("sses") >= 0, p.ends("ies") >= 0:
		p.b = p.b[:len(p.b)-2]
	case p.ends("ss") >= 0:
	case p.ends("s") >= 0:
		p.b = p.b[:len(p.b)-1]
	}
}

func (p *porter) pastAndGerund() {
	if n := p.ends("eed"); n >= 0 {
		if p.measure(n) > 0 {
			p.b = p.b[:len(p.b)-1]
		}
		return
	}
	n := p.ends("ed")
	if n < 0 {
		n = p.ends("ing")
	}
	if n < 0 || !p.vowelIn(n) {
		return
	}
	p.b = p.b[:n]
	switch {
	case p.ends("at") >= 0, p.ends("bl") >= 0, p.ends("iz") >= 0:
		p.b = append(p.b, 'e')
	case p.double(n):
		if c := p.b[n-1]; c != 'l' && c != 's' && c != 'z' {
			p.b = p.b[:n-1]
		}
	case p.measure(n) == 1 && p.shortSyllable(n):
		p.b = append(p.b, 'e')
	}
}

func (p *porter) finalY() {
	if n := p.ends("y"); n >= 0 && p.vowelIn(n) {
		p.b[n] = 'i'
	}
}

func (p *porter) suffixes(rules []rule) {
	best, at := -1, -1
	for i, r := range rules {
		if n := p.ends(r.suffix); n >= 0 && (best < 0 || len(r.suffix) > len(rules[best].suffix)) {
			best, at = i, n
		}
	}
	if best >= 0 && p.measure(at) > 0 {
		p.b = append(p.b[:at], rules[best].repl...)
	}
}

func (p *porter) residue() {
	for _, s := range step4 {
		n := p.ends(s)
		if n < 0 {
			continue
		}
		if p.measure(n) > 1 && (s != "ion" || n > 0 && (p.b[n-1] == 's' || p.b[n-1] == 't')) {
			p.b = p.b[:n]
		}
		return
	}
}

func (p *porter) tidy() {
	if n := p.ends("e"); n >= 0 {
		if m := p.measure(n); m > 1 || m == 1 && !p.shortSyllable(n) {
			p.b = p.b[:n]
		}
	}
	if n := len(p.b); p.double(n) && p.b[n-1] == 'l' && p.measure(n) > 1 {
		p.b = p.b[:n-1]
	}
}

// Stem returns the Porter stem of a word of lower-case ASCII letters, as the index files it.
func Stem(word string) string { return string(stem([]byte(word))) }
