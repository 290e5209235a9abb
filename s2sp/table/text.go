package table

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxNameText bounds how many characters of a column's name a message has.
const maxNameText = 60

// NameText returns the name of a column as messages write it: as it is where it
// reads like a name, and in quotes where it would be mistaken for something else
// or for nothing, such as "", " " and "a, b". A long name is cut.
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

// NamesText lists the first names of columns as messages write them, and says how
// many more there are.
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
