package flow

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/text"
)

// Program is a run of a program of the model. The program is a plan: it says which sinks it calls before it reads
// anything. So its sinks run unasked while their sensitive arguments are values that the plan had, or that trusted
// results have:
//
//	literals, input ──┐
//	trusted results ──┼─▶ trusted values ─▶ argument of a sink: one of them ─▶ runs
//	declassified ─────┘                                         another one ─▶ a person is asked
//
// A nil Program is none. It is safe for concurrent use.
type Program struct {
	late bool // it was written after untrusted text was read

	mu       sync.Mutex // guards below
	read     Label
	values   map[string]struct{} // trusted
	patterns [][]string          // templates of the program: the texts between their parts
	trusted  []string            // texts of trusted results
	size     int                 // of trusted, and of texts
	from     []Source
	texts    []shown
}

const (
	maxValues       = 50_000
	maxProgramTexts = 48 << 10
)

// NewProgram returns the run of a program in a session, also of one that goes on with an earlier run.
func (f *Flow) NewProgram(ctx context.Context, s *Session, source string, input json.RawMessage) *Program {
	if f == nil {
		return nil
	}
	p := &Program{read: s.state(ctx, true).Label, values: map[string]struct{}{}}
	p.late = p.read.Untrusted
	p.literals(source)
	eachLeaf(input, func(_ []string, leaf string, _ leafKind) bool { return p.add(leaf) })
	return p
}

func (p *Program) add(value string) bool {
	if len(p.values) < maxValues {
		p.values[value] = struct{}{}
	}
	return true
}

// ProgramRead gives the run the label of the result of one of its calls with arguments. The result may be nil. A trusted
// result of arguments that are not trusted gives no trusted values: it may repeat them, as the receipt of a message does.
func (f *Flow) ProgramRead(p *Program, l Label, e *catalog.Entry, args, result json.RawMessage) {
	if f == nil || p == nil {
		return
	}
	types, _ := f.Declassified(e)
	p.reads(l, types, !l.Untrusted && p.label().Untrusted && !p.allTrusted(args, f.known), result)
}

// reads gives the run a result with a label. Its values of some types are trusted. One that repeats what is not trusted
// gives no other trusted values.
func (p *Program) reads(l Label, types []string, repeats bool, result json.RawMessage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.read = p.read.Join(l)
	if result == nil {
		return
	}
	l.Untrusted = l.Untrusted || repeats
	tool := strings.Join(l.Sources, ", ")
	for i, t := range textsOf(result) {
		if l.Untrusted && i == 0 && len(p.from) < maxSources {
			p.from = append(p.from, Source{tool, time.Now(), text.Line(text.Cut(t, maxHead), maxHead)})
		}
		if p.size+len(t) <= maxProgramTexts {
			p.size += len(t)
			if l.Untrusted {
				p.texts = append(p.texts, shown{tool, strings.Clone(t)})
			} else {
				p.trusted = append(p.trusted, strings.Clone(t))
			}
		}
		if l.Untrusted && len(types) == 0 || !json.Valid([]byte(t)) {
			continue
		}
		eachLeaf(json.RawMessage(t), func(path []string, leaf string, kind leafKind) bool {
			if ofTypes(types, path, leaf, kind) {
				p.add(leaf)
			}
			return l.Untrusted || p.add(leaf)
		})
	}
}

// allTrusted reports whether the run had all values of arguments without an untrusted result, or they are known.
func (p *Program) allTrusted(args json.RawMessage, known func(leaf string) bool) bool {
	all := true
	eachLeaf(args, func(_ []string, leaf string, kind leafKind) bool {
		all = kind == leafTruth || leaf == "" || known(leaf) || p.trusts(leaf)
		return all
	})
	return all
}

// Replayed gives the run the value of a call that an earlier run has made with arguments, with the mark of its label.
// Values of it that were declassified then are not trusted.
func (p *Program) Replayed(mark string, args, value json.RawMessage) {
	if p == nil {
		return
	}
	l := Marked(mark)
	none := func(string) bool { return false }
	p.reads(l, nil, !l.Untrusted && p.label().Untrusted && !p.allTrusted(args, none), value)
}

// Label returns the label of what the run has read, and so of what it returns.
func (p *Program) Label() Label {
	if p == nil {
		return Label{}
	}
	return p.label()
}

func (p *Program) label() Label {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.read
}

func (p *Program) sources() ([]Source, []shown) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.from, p.texts
}

// minPart is the shortest text that counts as a part of a trusted one.
const minPart = 3

// trusts reports whether a value is one of the trusted ones: a literal, a template of the program with trusted parts,
// or a value or a part of a trusted result.
func (p *Program) trusts(value string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.has(value) || p.filled(value)
}

func (p *Program) has(value string) bool {
	if _, ok := p.values[value]; ok {
		return true
	}
	if len(value) < minPart {
		return false
	}
	for _, t := range p.trusted {
		if stands(t, value) {
			return true
		}
	}
	return false
}

// filled reports whether a template of the program makes a value of trusted parts.
func (p *Program) filled(value string) bool {
	for _, parts := range p.patterns {
		rest, ok := strings.CutPrefix(value, parts[0])
		for i := 1; ok && i < len(parts); i++ {
			at := len(rest)
			if last := i == len(parts)-1; last {
				if ok = strings.HasSuffix(rest, parts[i]); ok {
					at = len(rest) - len(parts[i])
				}
			} else if at = strings.Index(rest, parts[i]); at < 0 || parts[i] == "" {
				ok = false
			}
			if ok = ok && at >= 0 && p.has(rest[:at]); ok {
				rest = rest[at+len(parts[i]):]
			}
		}
		if ok && rest == "" {
			return true
		}
	}
	return false
}

// literals adds the texts, numbers and templates that stand in a program in JavaScript.
func (p *Program) literals(src string) {
	for i := 0; i < len(src); {
		switch c := src[i]; {
		case strings.HasPrefix(src[i:], "//"):
			if n := strings.IndexByte(src[i:], '\n'); n >= 0 {
				i += n
			} else {
				i = len(src)
			}
		case strings.HasPrefix(src[i:], "/*"):
			if n := strings.Index(src[i+2:], "*/"); n >= 0 {
				i += n + 4
			} else {
				i = len(src)
			}
		case c == '"' || c == '\'':
			value, next := quoted(src, i+1, c)
			p.add(value)
			i = next
		case c == '`':
			i = p.template(src, i+1)
		case c >= '0' && c <= '9':
			from := i
			for i < len(src) && (src[i] >= '0' && src[i] <= '9' || src[i] == '.' || src[i] == '_') {
				i++
			}
			number := canonicalNumber(strings.ReplaceAll(src[from:i], "_", ""))
			p.add(number)
			if from > 0 && src[from-1] == '-' {
				p.add("-" + number)
			}
		case c == '_' || c == '$' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z':
			for i < len(src) && (src[i] == '_' || src[i] == '$' || src[i] >= '0' && src[i] <= '9' || src[i]|0x20 >= 'a' && src[i]|0x20 <= 'z') {
				i++
			}
		default:
			i++
		}
	}
}

// template adds a template, and the literals in its parts. It returns the place after it.
func (p *Program) template(src string, at int) int {
	var parts []string
	for {
		value, next := quoted(src, at, '`')
		parts = append(parts, value)
		if next >= len(src) || src[next-1] == '`' {
			at = next
			break
		}
		depth, from := 1, next // behind ${
		for ; next < len(src) && depth > 0; next++ {
			switch src[next] {
			case '{':
				depth++
			case '}':
				depth--
			}
		}
		p.literals(src[from:max(from, next-1)])
		at = next
	}
	if len(parts) == 1 {
		p.add(parts[0])
	} else {
		p.patterns = append(p.patterns, parts)
	}
	return at
}

// quoted returns the value of a literal up to its quote, or up to ${ in a template, and the place behind that.
func quoted(src string, at int, quote byte) (string, int) {
	var b strings.Builder
	for at < len(src) {
		switch c := src[at]; {
		case c == quote:
			return b.String(), at + 1
		case quote == '`' && strings.HasPrefix(src[at:], "${"):
			return b.String(), at + 2
		case c == '\\' && at+1 < len(src):
			at++
			switch src[at] {
			case 'n':
				b.WriteByte('\n')
			case 't':
				b.WriteByte('\t')
			case 'r':
				b.WriteByte('\r')
			case 'u':
				if at+4 < len(src) {
					var one string
					if json.Unmarshal([]byte(`"\u`+src[at+1:at+5]+`"`), &one) == nil {
						b.WriteString(one)
						at += 4
					}
				}
			case '\n':
			default:
				b.WriteByte(src[at])
			}
			at++
		default:
			b.WriteByte(c)
			at++
		}
	}
	return b.String(), at
}
