package table

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxNameText bounds a column's name in messages, in characters.
const maxNameText = 60

// NameText returns a column's name for messages. A name that could be misread, such as "", " " or
// "a, b", is quoted. A long name is cut.
func NameText(name string) string {
	if utf8.RuneCountInString(name) > maxNameText {
		return strconv.Quote(string([]rune(name[:min(len(name), maxNameText*utf8.UTFMax)])[:maxNameText-1]) + "…")
	}
	odd := func(r rune) bool { return r == ',' || r == '"' || r == unicode.ReplacementChar || !unicode.IsPrint(r) }
	if name == "" || strings.TrimSpace(name) != name || strings.ContainsFunc(name, odd) {
		return strconv.Quote(name)
	}
	return name
}

// NamesText lists up to show column names for messages, and the number of further ones.
func NamesText(names []string, show int) string {
	var b strings.Builder
	for i, name := range names[:min(show, len(names))] {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(NameText(name))
	}
	if len(names) > show {
		fmt.Fprintf(&b, " and %d more", len(names)-show)
	}
	return b.String()
}
