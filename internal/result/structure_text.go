package result

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/text"
)

// Bounds of what is shown of a text that is held back.
const (
	headLines     = 10
	proseLines    = 6 // of Markdown without filler, which are longer
	tailLines     = 5
	endChars      = 500     // of the first lines, and of the last
	shownLine     = 200     // characters of one line
	cleanedChars  = 16_000  // from which the shown characters are taken: half a secret is not recognised
	outlineLines  = 12      // headings of Markdown
	outlineFrom   = 3       // headings that make a text Markdown
	outlineWithin = 1 << 20 // bytes of a text that are looked at for headings
	proseFacts    = 5
)

// describeText tells of a text: its first and its last lines with their numbers, and the headings of
// Markdown. Of a text that starts with a paragraph in one line, it tells the first sentences and the
// lines that state something by name, each name once. flat is content with LF at the end of each
// line, and breaks their number. A text can be long, so each pass over all of it counts.
func (d *doc) describeText(content, flat string, breaks int) {
	lines := breaks
	if len(flat) > 0 && flat[len(flat)-1] != '\n' { // a line break at the very end starts no new line
		lines++
	}
	d.headline = "text: " + text.Plural(d.chars, "character") + ", " + text.Plural(lines, "line")
	d.summary = summarize(content, d.clean)
	d.facts = factsOf(content)
	first, _, _ := strings.Cut(flat[:min(len(flat), utf8.UTFMax*(shownLine+1))], "\n")
	prose := utf8.RuneCountInString(text.Cut(first, shownLine+1)) > shownLine
	all := headingsOf(flat[:min(len(flat), outlineWithin)])
	markdown := len(all) >= outlineFrom
	from := 0 // the first line that is not shown
	if prose {
		d.lead = []string{d.summary}
		from = 1
		for _, fact := range d.facts {
			name, _, _ := strings.Cut(fact, ":")
			if len(d.named) < proseFacts && !strings.Contains(d.summary, fact) && !hasPrefix(d.named, name+":") {
				d.named = append(d.named, fact)
			}
		}
	} else {
		d.lead, from = d.firstLines(flat, markdown)
	}
	if markdown {
		d.outlineOf(all, lines)
	}
	d.ending = d.lastLines(flat, breaks, from)
	d.views = append(d.views, d.textViews(content, lines, from)...)
}

// hasPrefix reports whether a string starts with the prefix.
func hasPrefix(all []string, prefix string) bool {
	for _, s := range all {
		if strings.HasPrefix(s, prefix) {
			return true
		}
	}
	return false
}

// textViews returns the selectors that are worth asking for.
func (d *doc) textViews(content string, lines, from int) (views [][]byte) {
	if d.outline != nil {
		views = append(views, []byte(`{"type":"section","heading":0}`))
	}
	if mentionsErrors(content) {
		views = append(views, []byte(`{"type":"search","pattern":"(?i)error","context":1}`))
	}
	if lines >= 10 {
		views = append(views, fmt.Appendf(nil, `{"type":"lines","start":%d,"end":%d}`, from, from+40))
	}
	return append(views, []byte(`{"type":"head","chars":2000}`))
}

// firstLines returns the first lines, numbered, and the number of the line after them. Of Markdown it leaves
// out filler, where there is text behind it.
func (d *doc) firstLines(flat string, markdown bool) (shown []string, next int) {
	room, most := endChars, headLines
	if markdown {
		most = proseLines
	}
	for i, line := range strings.Split(d.clean(text.Cut(flat, cleanedChars)), "\n") {
		line = text.Fit(strings.TrimRight(line, "\r \t"), shownLine)
		if markdown && isFiller(line) {
			continue
		}
		if room -= utf8.RuneCountInString(line); room < 0 || len(shown) == most {
			break
		}
		shown, next = append(shown, strconv.Itoa(i)+":"+line), i+1
	}
	if len(shown) == 0 && markdown {
		return d.firstLines(flat, false)
	}
	return shown, next
}

// isFiller reports whether a line of Markdown says nothing before its text: an empty line, a heading, which
// the outline has, a rule, a badge, a tag or an entry of a table of contents.
func isFiller(line string) bool {
	line = strings.TrimSpace(line)
	switch {
	case line == "", strings.Trim(line, "-=*_ ") == "":
		return true
	case line[0] == '#':
		return strings.HasPrefix(strings.TrimLeft(line, "#"), " ")
	case line[0] == '<':
		return strings.HasSuffix(line, ">")
	case strings.HasPrefix(line, "[!["), strings.HasPrefix(line, "!["):
		return strings.HasSuffix(line, ")")
	}
	entry := strings.TrimLeft(line, "-*+0123456789. ")
	return entry != line && strings.HasPrefix(entry, "[") && strings.Contains(entry, "](#") && strings.HasSuffix(entry, ")")
}

// lastLines returns the last lines of a text with so many breaks, numbered, without those before line
// from.
func (d *doc) lastLines(flat string, breaks, from int) (shown []string) {
	all := flat
	flat = strings.TrimRight(flat, "\r\n\t ")
	last := breaks - strings.Count(all[len(flat):], "\n")
	if last < from {
		return nil
	}
	part := lastChars(flat, cleanedChars)
	part = d.clean(part)
	room := endChars
	split := strings.Split(part, "\n")
	for i := len(split) - 1; i >= 0 && len(shown) < tailLines; i-- {
		n := last - (len(split) - 1 - i)
		line := strings.TrimRight(split[i], "\r \t")
		if utf8.RuneCountInString(line) > shownLine {
			line = "…" + lastChars(line, shownLine-1)
		}
		if room -= utf8.RuneCountInString(line); n < from || room < 0 {
			break
		}
		shown = append([]string{strconv.Itoa(n) + ":" + line}, shown...)
	}
	if len(shown) > 0 {
		if gap := last + 1 - from - len(shown); gap > 0 {
			shown = append([]string{"… " + text.Plural(gap, "line") + " …"}, shown...)
		}
	}
	return shown
}

// lastChars returns the last n characters of s.
func lastChars(s string, n int) string {
	for at := len(s); at > 0; n-- {
		if n == 0 {
			return s[at:]
		}
		_, size := utf8.DecodeLastRuneInString(s[:at])
		at -= size
	}
	return s
}

// outlineOf tells the headings of Markdown, of as many levels as there is room for.
func (d *doc) outlineOf(all []heading, lines int) {
	deepest := 6
	for ; deepest > 1; deepest-- {
		n := 0
		for _, h := range all {
			if h.level <= deepest {
				n++
			}
		}
		if n <= outlineLines {
			break
		}
	}
	left := 0
	for i, h := range all {
		switch {
		case h.level > deepest || len(d.outline) == outlineLines:
			left++
		default:
			d.outline = append(d.outline, fmt.Sprintf("%d: %s %s", i, strings.Repeat("#", h.level), text.Line(d.clean(h.title), 80)))
		}
	}
	if len(d.outline) == 0 { // all of them are deep
		d.outline = nil
		return
	}
	if left > 0 {
		d.outline = append(d.outline, "… and "+text.Plural(left, "heading")+` more: {"type":"headings"}`)
	}
}
