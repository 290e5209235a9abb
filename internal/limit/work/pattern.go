package work

import (
	"fmt"
	"io"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// maxInstructions bounds the program of one pattern. A pattern of a few bytes can
// have millions of instructions: ((a{100}){100}){100}.
const maxInstructions = 10_000

// TooLargeError says that a pattern has more instructions than maxInstructions.
type TooLargeError struct{ Instructions int64 }

// Error returns the sentence behind "the pattern".
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("has %d instructions, and at most %d are taken", e.Instructions, maxInstructions)
}

// Pattern is a regular expression (RE2) whose matching is counted. Go's engine takes time linear in
// the text for every pattern, and linear in the pattern as well: its cost is at most the product of
// both. It is safe for concurrent use, with a Meter for each computation.
type Pattern struct {
	re           *regexp.Regexp
	prefix       string // the prefix of every match, or ""
	whole        bool   // prefix is the pattern
	instructions int64
}

// Instructions returns how many instructions the program of a pattern has, within
// a factor of two, without compiling it. The error is a *syntax.Error, or a
// *TooLargeError.
func Instructions(expr string) (int64, error) {
	_, n, err := parse(expr)
	return n, err
}

func parse(expr string) (*syntax.Regexp, int64, error) {
	parsed, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return nil, 0, err
	}
	n := size(parsed) + 2 // fail, match
	if n > maxInstructions {
		return nil, n, &TooLargeError{n}
	}
	return parsed, n, nil
}

// Compile compiles a pattern. It returns the errors of Instructions.
func Compile(expr string) (*Pattern, error) {
	parsed, n, err := parse(expr)
	if err != nil {
		return nil, err
	}
	re, err := regexp.Compile(expr)
	if err != nil {
		return nil, err
	}
	p := &Pattern{re: re, instructions: n}
	p.prefix, _ = re.LiteralPrefix()
	p.whole = parsed.Op == syntax.OpLiteral && parsed.Flags&syntax.FoldCase == 0
	return p, nil
}

// String returns the pattern as it was written.
func (p *Pattern) String() string { return p.re.String() }

// Instructions returns how many instructions the program has at most.
func (p *Pattern) Instructions() int64 { return p.instructions }

// piece is the work of a match that is done in one go. Beyond it the text is
// handed to the engine character by character, so that matching can end anywhere.
const piece = Small

// few is the cost of any match.
const few = 10

// Find returns the byte at which the first match in s starts, or -1. It matches s as a whole: ^, $
// and \b mean the same as without a Meter. An error is the Meter's, and there is no answer then.
func (p *Pattern) Find(m *Meter, s string) (int, error) {
	without := 0 // bytes that hold no match
	if p.prefix != "" {
		// Looking for a literal costs a fraction of running the program.
		if err := m.Spend(few + int64(len(s))/16); err != nil {
			return -1, err
		}
		at := strings.Index(s, p.prefix)
		if at < 0 || p.whole {
			return at, nil
		}
		without = at
	}
	if cost := few + p.instructions*int64(len(s)-without+1); cost <= piece {
		if err := m.Spend(cost); err != nil {
			return -1, err
		}
		if at := p.re.FindStringIndex(s); at != nil {
			return at[0], nil
		}
		return -1, nil
	}
	return p.read(m, s)
}

// Count returns how many matches s has. It is exact unless s is so long that matching has to be able
// to end within it; then at least one match is counted if there are any. An error is the Meter's.
func (p *Pattern) Count(m *Meter, s string) (n int, exact bool, err error) {
	if p.whole && p.prefix != "" {
		return strings.Count(s, p.prefix), true, m.Spend(few + int64(len(s))/16)
	}
	cost := few + p.instructions*int64(len(s)+1)
	if cost > piece {
		found, err := p.Match(m, s)
		if !found {
			return 0, true, err
		}
		return 1, false, err
	}
	n = len(p.re.FindAllStringIndex(s, -1))
	return n, true, m.Spend(cost * int64(n+1))
}

// read is Find character by character.
func (p *Pattern) read(m *Meter, s string) (int, error) {
	r := &runes{s: s, m: m, each: p.instructions}
	at := p.re.FindReaderIndex(r)
	if err := r.settle(); err != nil {
		return -1, err
	}
	if at == nil {
		return -1, nil
	}
	return at[0], nil
}

// Match reports whether s has a match.
func (p *Pattern) Match(m *Meter, s string) (bool, error) {
	at, err := p.Find(m, s)
	return at >= 0, err
}

// runes hands a text to the engine and counts the cost of that. After an error of the Meter the
// text ends, and so does the engine.
type runes struct {
	s    string
	at   int
	m    *Meter
	each int64 // units for one byte
	owed int64 // not spent yet
	err  error
}

// ReadRune implements io.RuneReader.
func (r *runes) ReadRune() (rune, int, error) {
	if r.owed >= look {
		if r.settle() != nil {
			return 0, 0, io.EOF
		}
	}
	if r.at >= len(r.s) {
		return 0, 0, io.EOF
	}
	c, n := rune(r.s[r.at]), 1
	if c >= utf8.RuneSelf {
		c, n = utf8.DecodeRuneInString(r.s[r.at:])
	}
	r.at += n
	r.owed += r.each * int64(n)
	return c, n, nil
}

// settle spends the owed steps.
func (r *runes) settle() error {
	if r.err == nil {
		r.err = r.m.Spend(r.owed)
		r.owed = 0
	}
	return r.err
}

// manyInstructions is the result of size for programs beyond counting.
const manyInstructions = 1 << 40

// size counts the instructions that a parsed pattern is compiled to.
func size(re *syntax.Regexp) int64 {
	var sub int64
	for _, s := range re.Sub {
		sub = min(sub+size(s), manyInstructions)
	}
	switch re.Op {
	case syntax.OpLiteral:
		return int64(len(re.Rune))
	case syntax.OpCapture, syntax.OpStar:
		return sub + 2
	case syntax.OpPlus, syntax.OpQuest:
		return sub + 1
	case syntax.OpAlternate:
		return sub + int64(len(re.Sub)) - 1
	case syntax.OpConcat:
		return sub
	case syntax.OpRepeat:
		switch {
		case re.Max < 0:
			return min(int64(max(re.Min, 1))*sub+2, manyInstructions)
		default:
			return min(int64(re.Max)*sub+int64(re.Max-re.Min)+1, manyInstructions)
		}
	}
	return sub + 1
}
