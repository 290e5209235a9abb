package catalog

import (
	"errors"
	"regexp/syntax"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/weir-mcp/weir/internal/limit/work"
	"github.com/weir-mcp/weir/internal/text/lazy"
)

// maxSchemaInstructions bounds the compiled patterns of one schema together. Without it a schema of
// 64 KB could need gigabytes.
const maxSchemaInstructions = 50_000

// patterns are the regular expressions of one schema. Each is compiled once for all programs of the
// schema.
type patterns struct {
	compiled     map[string]*work.Pattern // nil if not enforced
	instructions int64
	unchecked    []string // patterns that are not enforced
}

// get returns a pattern, or nil for one that weir does not enforce because it is too large or needs
// ECMAScript features. The upstream still enforces it.
func (p *patterns) get(text string) (*work.Pattern, error) {
	if known, ok := p.compiled[text]; ok {
		return known, nil
	}
	n, err := patternSize(text)
	if err != nil && !beyondRE2(err) {
		return nil, err
	}
	var compiled *work.Pattern
	if err == nil && p.instructions+n <= maxSchemaInstructions {
		if compiled, err = work.Compile(translate(text)); err != nil {
			return nil, err
		}
		p.instructions += n
	} else {
		p.unchecked = append(p.unchecked, text)
	}
	if p.compiled == nil {
		p.compiled = map[string]*work.Pattern{}
	}
	p.compiled[text] = compiled
	return compiled, nil
}

// patternSize returns the number of instructions of a pattern, or an error if weir cannot compile
// it.
func patternSize(text string) (int64, error) { return work.Instructions(translate(text)) }

// beyondRE2 reports whether an error means that Go's engine does not support a pattern:
// look-around, back-references, large repeats or too large a program.
func beyondRE2(err error) bool {
	var large *work.TooLargeError
	if errors.As(err, &large) {
		return true
	}
	var se *syntax.Error
	if !errors.As(err, &se) {
		return false
	}
	switch se.Code {
	case syntax.ErrInvalidPerlOp, syntax.ErrInvalidEscape, syntax.ErrInvalidCharRange,
		syntax.ErrInvalidRepeatSize, syntax.ErrLarge, syntax.ErrInvalidNamedCapture:
		return true
	}
	return false
}

// translate converts an ECMAScript pattern to Go syntax: \uXXXX becomes \x{XXXX}.
func translate(text string) string { return escapedUnicode().ReplaceAllString(text, `$1\x{$2}`) }

// escapedUnicode matches \uXXXX after an even number of backslashes.
var escapedUnicode = lazy.Pattern(`((?:^|[^\\])(?:\\\\)*)\\u([0-9A-Fa-f]{4})`)

// freePattern matches without counting, for small arguments.
type freePattern struct{ *work.Pattern }

// MatchString implements jsonschema.Regexp.
func (p freePattern) MatchString(s string) bool {
	found, _ := p.Match(nil, s) // cannot fail without a Meter
	return found
}

// countedPattern counts matches in a trial.
type countedPattern struct {
	*work.Pattern
	trial *trial
}

// MatchString implements jsonschema.Regexp. It panics when the trial ends.
func (p countedPattern) MatchString(s string) bool { return p.trial.match(p.Pattern, s) }

// anyText is a pattern that is not enforced; it matches every text.
type anyText string

// MatchString implements jsonschema.Regexp.
func (anyText) MatchString(string) bool { return true }

// String implements jsonschema.Regexp.
func (p anyText) String() string { return string(p) }

// maxRegexText bounds the arguments of format "regex" that are checked.
const maxRegexText = 10_000

// regexFormat implements the format "regex" of draft-07 and older. The validator's own would
// compile arguments of any size as patterns.
var regexFormat = &jsonschema.Format{Name: "regex", Validate: func(v any) error {
	text, ok := v.(string)
	if !ok || len(text) > maxRegexText {
		return nil
	}
	if _, err := patternSize(text); err != nil && !beyondRE2(err) {
		return err
	}
	return nil
}}
