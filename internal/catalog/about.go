package catalog

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/text"
)

// Bounds of the texts about the server on its card, in characters. The rest of the card's budget
// names the server's tools.
const (
	maxAboutTitle    = 60
	maxAboutSentence = 140
)

// about returns the purpose of a server in its own words: its title, and the first sentence of its
// description or else of its instructions, as one line without a full stop. It is "" if the server
// says nothing.
func about(l *primitive.Listing) string {
	if l.Namespace == "" {
		return "" // the entries belong to several servers
	}
	title := text.Cut(collapse(l.Title), maxAboutTitle)
	if sameName(title, l.Namespace) || sameName(title, l.Upstream) {
		title = ""
	}
	purpose := firstSentence(l.About)
	if purpose == "" {
		purpose = firstSentence(l.Instructions)
	}
	switch {
	case purpose == "":
		return title
	case title == "", strings.HasPrefix(strings.ToLower(purpose), strings.ToLower(title)):
		return purpose
	}
	return title + ": " + purpose
}

// sameName reports whether two names differ in case and punctuation only.
func sameName(a, b string) bool { return plainName(a) == plainName(b) }

func plainName(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, s)
}

// firstSentence returns the first sentence of a text that speaks of the server, as one line that is
// cut between words to maxAboutSentence. Headings, lists, tables and code of Markdown are left out,
// and so are paragraphs about the instructions themselves.
func firstSentence(text string) string {
	for _, paragraph := range paragraphs(text) {
		line := collapse(paragraph)
		if line != "" && !strings.Contains(strings.ToLower(line), "instructions") {
			return shortened(sentenceOf(line))
		}
	}
	return ""
}

// paragraphs returns the prose of a text in Markdown.
func paragraphs(text string) (all []string) {
	open, fenced := false, false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "```") {
			fenced, open = !fenced, false
			continue
		}
		if fenced || line == "" || strings.ContainsAny(line[:1], "#-*>|=") {
			open = false
			continue
		}
		if open {
			all[len(all)-1] += " " + line
			continue
		}
		all, open = append(all, line), true
	}
	return all
}

// sentenceOf returns the first sentence of a line.
func sentenceOf(line string) string {
	for i, r := range line {
		if r != '.' && r != '!' && r != '?' && r != '。' {
			continue
		}
		end := i + utf8.RuneLen(r)
		if (end == len(line) || line[end] == ' ') && i > 0 && !abbreviated(line[:i]) {
			return line[:end]
		}
	}
	return line
}

// shortened returns a sentence with at most maxAboutSentence characters.
func shortened(sentence string) string {
	if utf8.RuneCountInString(sentence) <= maxAboutSentence {
		return strings.TrimRight(sentence, ".。:;, ")
	}
	short := text.Cut(sentence, maxAboutSentence-1)
	if at := strings.LastIndexByte(short, ' '); at > len(short)/2 {
		short = short[:at]
	}
	return strings.TrimRight(short, " ,;:") + "…"
}

// abbreviated reports whether a full stop behind text belongs to an abbreviation: "e.g.", "vs.".
func abbreviated(text string) bool {
	word := text[strings.LastIndexByte(text, ' ')+1:]
	switch strings.ToLower(strings.TrimLeft(word, "(")) {
	case "e.g", "i.e", "vs", "etc", "incl", "approx", "no":
		return true
	}
	return len(word) == 1
}

// Folders returns the folders that the configuration names for a server.
func (c *Catalog) Folders(upstream string) []string {
	for _, s := range c.segments {
		if s.upstream == upstream {
			return s.folders
		}
	}
	return nil
}

// About returns the title of the server that offers the entries of an upstream, and its description and
// instructions as one text, for a search. They are "" if the server says nothing.
func (c *Catalog) About(upstream string) (title, about string) {
	for _, s := range c.segments {
		if s.upstream == upstream {
			return s.title, s.presented
		}
	}
	return "", ""
}
