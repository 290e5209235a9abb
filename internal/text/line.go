package text

import (
	"bytes"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/text/visible"
)

// MaxMessageChars bounds the message of an error that a model reads.
const MaxMessageChars = 300

// Line returns s as one line of at most limit characters. Control and line-separating characters
// become spaces, a run of white space becomes one space, and invisible characters are removed. A line
// that was cut ends with "…".
func Line(s string, limit int) string {
	line := joinLine(s, limit)
	if seen := visible.Text(line); seen != line {
		return joinLine(seen, limit)
	}
	return line
}

func joinLine(s string, limit int) string {
	var b strings.Builder
	b.Grow(min(len(s), 4*limit))
	chars, space := 0, false
	for _, r := range s {
		if unicode.IsSpace(r) || unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp) {
			space = chars > 0
			continue
		}
		if space {
			b.WriteByte(' ')
			chars++
			space = false
		}
		b.WriteRune(r)
		if chars++; chars > limit {
			return strings.TrimRight(Cut(b.String(), limit-1), " ") + "…"
		}
	}
	return b.String()
}

// Fit returns s in at most n characters. If it cuts s, the last of them is "…".
func Fit(s string, n int) string {
	if len(s) <= n || utf8.RuneCountInString(s) <= n {
		return s
	}
	return Cut(s, n-1) + "…"
}

// Plural returns "1 row" or "2 rows" for the noun "row".
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// Value describes the JSON value raw in an error message: it names the type, and shows the
// start of a value that is short to read.
func Value(raw []byte) string {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return "nothing"
	}
	switch raw[0] {
	case '"':
		return "the string " + string(rawjson.Quote(Fit(rawjson.Text(raw), 40)))
	case '{':
		return "an object"
	case '[':
		return "an array"
	}
	return Fit(string(raw), 40)
}
