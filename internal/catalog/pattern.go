package catalog

import (
	"errors"
	"regexp"
	"regexp/syntax"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/weir-mcp/weir/internal/work"
)

// maxSchemaInstructions bounds the programs of all patterns of one schema. Without
// it a schema of 64 KB could ask for gigabytes.
const maxSchemaInstructions = 50_000

// patterns are the regular expressions of one schema, each compiled once for all
// programs of that schema.
type patterns struct {
	compiled     map[string]*work.Pattern // nil for one that is not enforced
	instructions int64
	unchecked    []string // those that are not enforced
}

// get returns a pattern, nil for one that weir does not enforce: it needs what
// only ECMAScript has, or is too large. The upstream enforces it still.
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

// patternSize returns how many instructions a schema's pattern has, or why it is
// none that weir can match.
func patternSize(text string) (int64, error) { return work.Instructions(translate(text)) }

// beyondRE2 reports whether an error means that a pattern is more than Go's engine
// takes: look-around, back-references, large repeats, a program that is too large.
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

// translate writes an ECMAScript pattern as Go does: \x{XXXX} for \uXXXX.
func translate(text string) string { return escapedUnicode.ReplaceAllString(text, `$1\x{$2}`) }

// escapedUnicode finds \uXXXX behind an even number of backslashes.
var escapedUnicode = regexp.MustCompile(`((?:^|[^\\])(?:\\\\)*)\\u([0-9A-Fa-f]{4})`)

// freePattern matches a pattern without counting, for small arguments.
type freePattern struct{ *work.Pattern }

// MatchString implements jsonschema.Regexp.
func (p freePattern) MatchString(s string) bool {
	found, _ := p.Match(nil, s) // without a Meter there is no error
	return found
}

// countedPattern matches a pattern as part of a trial.
type countedPattern struct {
	*work.Pattern
	trial *trial
}

// MatchString implements jsonschema.Regexp. It panics where the trial ends.
func (p countedPattern) MatchString(s string) bool { return p.trial.match(p.Pattern, s) }

// anyText is a pattern that is not enforced.
type anyText string

// MatchString implements jsonschema.Regexp.
func (anyText) MatchString(string) bool { return true }

// String implements jsonschema.Regexp.
func (p anyText) String() string { return string(p) }

// maxRegexText bounds the arguments of format "regex" that are looked at.
const maxRegexText = 10_000

// regexFormat is the format "regex" of draft-07 and older. The validator's own
// would compile arguments, of any size, as if they were patterns of the schema.
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
