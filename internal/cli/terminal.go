package cli

import (
	"io"
	"os"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/text/visible"
)

// A terminal is an output: a screen with a width and colours, or a pipe or file (width 0) that gets
// plain text.
type terminal struct {
	io.Writer
	width  int
	colour bool
	dumb   bool // no line can be drawn again
}

// newTerminal examines w. NO_COLOR (see no-color.org) and TERM=dumb switch colours off; a pipe has
// none.
func newTerminal(w io.Writer, lookupEnv func(string) (string, bool)) terminal {
	f, ok := w.(*os.File)
	if !ok {
		return terminal{Writer: w}
	}
	width := screenWidth(f)
	if width == 0 {
		return terminal{Writer: w}
	}
	no, _ := lookupEnv("NO_COLOR")
	term, _ := lookupEnv("TERM")
	return terminal{Writer: &statusLine{w: &screen{w: w}}, width: width, colour: no == "" && term != "dumb", dumb: term == "dumb"}
}

// screen reports whether a person reads the output.
func (t terminal) screen() bool { return t.width > 0 }

// Styles, as the parameters of ANSI's "select graphic rendition".
const (
	bold   = "1"
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
)

// paint returns s in a style, if the terminal has colours.
func (t terminal) paint(style, s string) string {
	if !t.colour || s == "" || style == "" {
		return s
	}
	return "\x1b[" + style + "m" + s + "\x1b[0m"
}

// clean removes control sequences and invisible characters from foreign text, such as results.
// Pipes and files get every byte.
func (t terminal) clean(s string) string {
	if !t.screen() {
		return s
	}
	return visible.Text(s)
}

// legible returns foreign text in what weir writes for people, such as a name in a list. On a screen it
// is clean. Pipes get escapes in the place of what clean removes, because models read pipes.
func (t terminal) legible(s string) string {
	if t.screen() {
		return t.clean(s)
	}
	return visible.Escaped(s)
}

// cut shortens s to n characters. If it removes any, the last character is "…".
func cut(s string, n int) string {
	if n < 1 || utf8.RuneCountInString(s) <= n {
		return s
	}
	count := 0
	for i := range s {
		if count == n-1 {
			return s[:i] + "…"
		}
		count++
	}
	return s
}
