package search

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// People tell a story around a request: "the bank called about the loan, so send Anna the file, because she is
// away on Friday". Without a distinction the words of the story choose the tool, because there are more of them.

// longQuery is the number of words from which a query is read clause by clause.
const longQuery = 9

// fewWords is the number of words with a meaning below which a request needs its story: of "Tom's branch is
// approved by everybody, merge it" the story has the object.
const fewWords = 2

// fewReferring is fewWords of a request that refers to something.
const fewReferring = 4

// role is the part that a clause has in a query.
type role uint8

const (
	roleOpen    role = iota // nothing says which
	roleRequest             // it orders, asks or wants
	roleStory               // it says why, when or what happened
)

// clause is a part of a query between marks or before a conjunction.
type clause struct {
	at    int // offset of the text
	text  string
	words []string // in lower case
	first bool     // it starts a sentence
	more  bool     // the sentence goes on after it
	asked bool     // a question mark ends it
	role  role
}

// clauses divides a long query. It returns nil if the query is short, or has no story next to a request.
func clauses(query string) []clause {
	if len(query) < 4*longQuery {
		return nil
	}
	all := divide(query)
	words, found := 0, [roleStory + 1]bool{}
	last := roleOpen
	for i := range all {
		c := &all[i]
		words += len(c.words)
		if c.first {
			last = roleOpen
		}
		if c.role = c.read(); c.role == roleOpen {
			c.role = last // an element of a list
		}
		last = c.role
		found[c.role] = true
	}
	if words < longQuery || !found[roleRequest] || !found[roleStory] {
		return nil
	}
	return all
}

// divide divides a query at marks and conjunctions.
func divide(query string) (all []clause) {
	c := clause{first: true}
	start := -1 // of the word at hand
	end := func(at, next int, mark rune) {
		if len(c.words) > 0 {
			c.text, c.more, c.asked = query[c.at:at], mark == ',', mark == '?'
			all = append(all, c)
		} else if mark == ',' {
			return
		}
		c = clause{at: next, first: mark != ','}
	}
	word := func(at int) {
		if start < 0 {
			return
		}
		w := strings.ToLower(query[start:at])
		if n := len(c.words); n > 0 && joins(c.words[n-1], w) {
			// The conjunction starts the next clause.
			before := strings.TrimRightFunc(query[:start], unicode.IsSpace)
			from := len(before) - len(c.words[n-1])
			joint := c.words[n-1]
			c.words = c.words[:n-1]
			end(from, from, ',')
			c.words = append(c.words, joint)
		}
		c.words = append(c.words, w)
		start = -1
	}
	for i, r := range query {
		switch {
		case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '\'' || r == '’' || r == '_':
			if start < 0 {
				start = i
			}
			continue
		case (r == '.' || r == ',' || r == ':' || r == '-' || r == '/') && i+1 < len(query) && query[i+1] > ' ':
			word(i) // within a name, a number or a path
			continue
		}
		word(i)
		switch r {
		case '.', '!', ';', '\n':
			end(i, i+utf8.RuneLen(r), '.')
		case '?':
			end(i, i+1, '?')
		case ',', ':', '(', ')', '–', '—', '-':
			end(i, i+utf8.RuneLen(r), ',')
		}
	}
	word(len(query))
	end(len(query), len(query), '.')
	return all
}

// joins reports whether a word starts a clause if another one follows it.
func joins(w, next string) bool {
	switch w {
	case "because", "while", "although", "though", "whereas", "unless", "since":
		return true
	case "so":
		return next == "that" || pronouns()[next] || next == "please" || kinds()[next] != 0
	case "and", "but":
		return pronouns()[next] || next == "please" || next == "want" || next == "need"
	case "then", "before", "after", "until", "as":
		return pronouns()[next] || next == "please"
	}
	return false
}

// Words that start a clause. A contraction counts as its first word.
var (
	pronouns = lazySet(wordSet, "i we he she they it there nobody somebody someone everybody everyone")
	// subordinate words start a clause that says why or when, and others that do so only before a comma.
	subordinate = lazySet(wordSet, "because while although though whereas unless since until")
	conditional = lazySet(wordSet, "as if when whenever before after once")
	// determiners start a statement where they start a sentence.
	determiners = lazySet(wordSet, "my our the a an his her their its this that these those some many every all you your")
	auxiliaries = lazySet(wordSet, "can could would will may might is are was were do does did has have should shall")
	questions   = lazySet(wordSet, "what which who whom whose where how why when")
	wishes      = lazySet(wordSet, "need want wanna like love wish looking wondering curious interested")
	references  = lazySet(wordSet, "it them this that these those")
	fillers     = lazySet(wordSet, `additionally also and but first finally hello hey hi just lastly maybe moreover next now ok
		okay please so then thanks kindly furthermore`)
	// finite words are verbs of statements.
	finite = lazySet(wordSet, `am is are was were has have had will would should must says said wants wanted needs needed told
		asked thinks isn't wasn't don't doesn't didn't won't can't couldn't`)
)

// read returns the role of a clause by the words with which it starts.
func (c *clause) read() role {
	words := c.words
	if slices.Contains(words, "please") || slices.Contains(words, "kindly") {
		return roleRequest
	}
	second := func() string {
		if len(words) > 1 {
			return head(words[1])
		}
		return ""
	}
	if words[0] == "so" && (second() == "that" || pronouns()[second()]) {
		return roleStory
	}
	for len(words) > 1 && fillers()[words[0]] {
		words = words[1:]
	}
	w := head(words[0])
	switch {
	case subordinate()[w], conditional()[w] && c.first && c.more && !(w == "when" && auxiliaries()[second()]),
		conditional()[w] && w != "when" && pronouns()[second()]:
		return roleStory
	case questions()[w], auxiliaries()[w], w == "let", w == "help", w == "want", w == "need", c.asked:
		return roleRequest
	case w == "i" || w == "we":
		if slices.ContainsFunc(words[1:min(len(words), 4)], func(w string) bool { return wishes()[w] }) {
			return roleRequest
		}
		return roleStory
	case pronouns()[w], c.first && determiners()[w]:
		return roleStory
	case kinds()[w] != 0:
		return roleRequest
	case c.first && slices.ContainsFunc(words, func(w string) bool { return finite()[w] }):
		return roleStory
	}
	return roleOpen
}

// head returns the first word of a contraction.
func head(w string) string {
	if i := strings.IndexAny(w, "'’"); i > 0 {
		return w[:i]
	}
	return w
}

// poor reports whether the clauses that are no story have too few words with a meaning.
func poor(all []clause) bool {
	n, least := 0, fewWords
	for _, c := range all {
		if c.role == roleStory {
			continue
		}
		for _, w := range c.words {
			if references()[w] {
				least = fewReferring
			}
			if !stopWords()[head(w)] && !faintWords()[string(appendStem(nil, []byte(w)))] && !digits([]byte(w)) {
				n++
			}
		}
	}
	return n < least
}

// request reads the words of the clauses of a long query: the request first, so that its words give the act, and
// have room among the most words of a query.
func (s *scratch) request(all []clause) {
	story := s.v.t.story
	if poor(all) {
		story = 1
	}
	for _, s.telling = range []bool{false, true} {
		s.scale = 1
		if s.telling {
			s.scale = story
		}
		for _, c := range all {
			if (c.role == roleStory) == s.telling {
				s.at = c.at
				s.an.text(c.text)
			}
		}
	}
	s.telling, s.scale = false, 1
	slices.SortStableFunc(s.words, func(a, b word) int { return cmp.Compare(a.at, b.at) })
}
