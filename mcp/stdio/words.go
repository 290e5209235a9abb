package stdio

import (
	"regexp"
	"strings"

	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/internal/text/visible"
)

// Bounds of an excerpt: the bytes examined and the characters shown.
const (
	maxExcerptBytes = 4 << 10
	maxExcerpt      = 200 // characters
)

// escapes matches the codes by which programs colour their output, move the cursor and name the
// window (ECMA-48).
var escapes = regexp.MustCompile(`\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])`)

// plain returns printed text as lines without terminal codes and invisible characters.
func plain(text string) string {
	if strings.ContainsRune(text, '\x1b') {
		text = escapes.ReplaceAllLiteralString(text, "")
	}
	text = visible.Text(strings.ToValidUTF8(text, "?"))
	// Treat text that a progress bar overwrites as a line of its own.
	return strings.NewReplacer("\r", "\n", "\t", " ").Replace(text)
}

// Excerpt returns the first line of a program's output for use in a message. It has at most 200
// characters and no terminal codes or invisible characters. redact removes secrets and may be nil.
func Excerpt(text string, redact func(string) string) string {
	text = plain(text[:min(len(text), maxExcerptBytes)])
	if redact != nil {
		text = redact(text)
	}
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return clip(strings.TrimSpace(line))
}

func clip(line string) string { return text.Fit(line, maxExcerpt+1) }

// LastWords returns the end of an error message: the last line that the child wrote to stderr,
// without secrets and terminal codes. It returns "" if the child wrote nothing.
func (p *Process) LastWords() string { return lastWords(p.cmd.Redact(plain(p.stderr.String()))) }

// Wrote reports whether the recent stderr of the child contains text.
func (p *Process) Wrote(text string) bool { return strings.Contains(p.stderr.String(), text) }

func lastWords(text string) string {
	text = strings.TrimSpace(text)
	line := clip(strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:]))
	if line == "" {
		return ""
	}
	return "; its last words: " + line
}
