package house

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxColumns is the width of a line of prose in a document.
const maxColumns = 100

func proseRules() []Rule {
	return []Rule{{
		Name:   "documents wrap at 100 columns",
		Reason: "a change of a sentence should show as that sentence, in a diff and in a terminal",
		Find:   findLongLines,
	}, {
		Name:   "comments are plain English",
		Reason: "a reader should understand a comment at the first reading: name the caller, the principal or the server",
		Find:   findBannedWords,
	}, {
		Name:   "documents are plain English",
		Reason: "a reader should understand a sentence at the first reading: name the caller, the principal or the server",
		Find:   findBannedProse,
	}}
}

// findLongLines checks the prose of Markdown files. Tables, code, generated parts and lines without a
// blank to break at, such as a long link, may be longer.
func findLongLines(t *Tree) []string {
	var found []string
	for _, doc := range t.Documents {
		fenced, generated := false, false
		for i, line := range doc.Lines {
			switch {
			case strings.HasPrefix(strings.TrimSpace(line), "```"):
				fenced = !fenced
			case strings.HasPrefix(line, "<!-- generated"):
				generated = true
			case strings.HasPrefix(line, "<!-- end"):
				generated = false
			}
			code := fenced || strings.HasPrefix(line, "    ") || strings.HasPrefix(line, "\t")
			if code || generated || strings.HasPrefix(line, "|") || !breaksBefore(line, maxColumns) {
				continue
			}
			if n := utf8.RuneCountInString(line); n > maxColumns {
				found = append(found, fmt.Sprintf("%s:%d: %d columns", doc.Name, i+1, n))
			}
		}
	}
	return found
}

// breaksBefore reports whether a line can be broken at a blank before a column. The indentation and the
// mark of a list item are no place to break.
func breaksBefore(line string, column int) bool {
	text := strings.TrimLeft(line, " -*>0123456789.")
	column -= utf8.RuneCountInString(line) - utf8.RuneCountInString(text)
	for n, r := range []rune(text) {
		if n >= column {
			return false
		}
		if r == ' ' {
			return true
		}
	}
	return false
}

// bannedWords finds words that hide the subject of a sentence, or that have an easier synonym.
var bannedWords = regexp.MustCompile(`(?i)\b(beside|whoever|nobody|somebody|all the same|but for)\b`)

// findBannedWords checks the comments of Go files that are not tests. A phrase may be broken over lines.
func findBannedWords(t *Tree) []string {
	var found []string
	for _, p := range t.Packages {
		for _, f := range p.Files {
			if f.Test {
				continue
			}
			for _, group := range f.AST.Comments {
				if word := bannedWords.FindString(strings.Join(strings.Fields(group.Text()), " ")); word != "" {
					found = append(found, fmt.Sprintf("%s:%d: %q in a comment", f.Name, t.Fset.Position(group.Pos()).Line, word))
				}
			}
		}
	}
	return found
}

// findBannedProse checks Markdown files outside code: fenced or indented blocks, text in backquotes, and
// quotations of messages in *emphasis*. Lines are joined, because a phrase may be broken over two of them.
func findBannedProse(t *Tree) []string {
	var found []string
	for _, doc := range t.Documents {
		var prose strings.Builder
		var starts []int // of each line in prose
		fenced := false
		for _, line := range doc.Lines {
			starts = append(starts, prose.Len())
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				fenced = !fenced
			} else if !fenced && !strings.HasPrefix(line, "    ") {
				prose.WriteString(strings.TrimSpace(line))
			}
			prose.WriteByte(' ')
		}
		text := quotation.ReplaceAllStringFunc(prose.String(), func(s string) string { return strings.Repeat("x", len(s)) })
		for _, at := range bannedWords.FindAllStringIndex(text, -1) {
			line, exact := slices.BinarySearch(starts, at[0])
			if exact {
				line++
			}
			found = append(found, fmt.Sprintf("%s:%d: %q", doc.Name, line, text[at[0]:at[1]]))
		}
	}
	return found
}

// quotation matches code and quotations in a line of Markdown.
var quotation = regexp.MustCompile("`[^`]*`|\\*[^*]+\\*")
