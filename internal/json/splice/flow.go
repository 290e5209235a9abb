package splice

import "bytes"

// A span is a range of bytes.
type span struct{ start, end int }

// A bracket is a list in brackets, with its members: an object or array of JSON, a flow collection of
// YAML, an inline table or array of TOML.
type bracket struct {
	open, close int // of the brackets themselves
	items       []span
	comments    func(src []byte, at int) int // the end of the comment at a place, -1 if none starts there
}

// slashComment ends a comment of JSON.
func slashComment(src []byte, at int) int {
	switch {
	case bytes.HasPrefix(src[at:], []byte("//")):
		return lineEnd(src, at)
	case bytes.HasPrefix(src[at:], []byte("/*")):
		if i := bytes.Index(src[at+2:], []byte("*/")); i >= 0 {
			return at + 2 + i + 2
		}
	}
	return -1
}

// skip returns the first place from at that is neither white space nor a comment.
func (b *bracket) skip(src []byte, at int) int {
	for at < len(src) {
		if c := src[at]; isBlank(c) || c == '\r' || c == '\n' {
			at++
		} else if end := b.comments(src, at); end >= 0 {
			at = end
		} else {
			break
		}
	}
	return at
}

// comma returns the place of the comma after an item, -1 if there is none.
func (b *bracket) comma(src []byte, i int) int {
	if at := b.skip(src, b.items[i].end); at < b.close && src[at] == ',' {
		return at
	}
	return -1
}

// tail returns the end of the comment that ends the line of a place, or at without one.
func (b *bracket) tail(src []byte, at int) int {
	end, i := at, at
	for i < len(src) {
		switch c := src[i]; {
		case isBlank(c):
			i++
		case c == '\r' || c == '\n':
			return end
		default:
			next := b.comments(src, i)
			if next < 0 || bytes.IndexByte(src[i:next], '\n') >= 0 {
				return at
			}
			i, end = next, next
		}
	}
	return end
}

// broken reports whether the members stand in lines of their own.
func (b *bracket) broken(src []byte) bool {
	last := b.close
	if len(b.items) > 0 {
		last = b.items[0].start
	}
	return bytes.IndexByte(src[b.open:last], '\n') >= 0
}

// An entry is the text of a new member, in lines with an indentation or in one line.
type entry func(indent string, broken bool) string

// add plans a new member at the end. Broken says how an empty pair of brackets is filled.
func (b *bracket) add(d *document, broken bool, text entry) []patch {
	src := d.src
	base := indentOf(src, b.open)
	if len(b.items) == 0 {
		return b.fill(d, base, broken, text)
	}
	last := len(b.items) - 1
	end, comma := b.items[last].end, b.comma(src, last)
	if !b.broken(src) {
		gap := " "
		if c := b.comma(src, 0); c >= 0 && last > 0 && b.items[1].start == c+1 || !bytes.Contains(src, []byte(", ")) && !bytes.Contains(src, []byte("\": ")) && d.tight() {
			gap = ""
		}
		if comma >= 0 {
			return []patch{{off: comma + 1, ins: gap + text("", false) + ","}}
		}
		return []patch{{off: end, ins: "," + gap + text("", false)}}
	}
	indent := base + d.unit
	if isFirst(src, b.items[last].start) {
		indent = indentOf(src, b.items[last].start)
	}
	line := d.eol + indent + text(indent, true)
	if comma >= 0 {
		return []patch{{off: b.tail(src, comma+1), ins: line + ","}}
	}
	return []patch{{off: end, ins: ","}, {off: b.tail(src, end), ins: line}}
}

// fill plans the first member of an empty pair of brackets. Comments in it stay above the member.
func (b *bracket) fill(d *document, base string, broken bool, text entry) []patch {
	inner := d.src[b.open+1 : b.close]
	content := len(bytes.TrimRight(inner, " \t\r\n"))
	indent := base + d.unit
	switch {
	case content == 0 && !broken:
		return []patch{{b.open + 1, len(inner), text("", false)}}
	case content == 0:
		return []patch{{b.open + 1, len(inner), d.eol + indent + text(indent, true) + d.eol + base}}
	}
	line := d.eol + indent + text(indent, true)
	if bytes.IndexByte(inner[content:], '\n') < 0 {
		line += d.eol + base
	}
	return []patch{{off: b.open + 1 + content, ins: line}}
}

// cut plans the removal of a member, with the comma that it leaves over.
func (b *bracket) cut(d *document, i int) []patch {
	src, own, comma := d.src, b.items[i], b.comma(d.src, i)
	end := own.end
	if comma >= 0 {
		end = comma + 1
	}
	from, before := b.open+1, -1 // after the comma before the member; that comma, if it goes too
	if i > 0 {
		from = b.comma(src, i-1) + 1
		if comma < 0 {
			before = from - 1
		}
	}
	tail := b.tail(src, end)
	if len(b.items) == 1 && onlySpace(src[b.open+1:own.start]) && onlySpace(src[tail:b.close]) {
		return []patch{{off: b.open + 1, del: b.close - b.open - 1}}
	}
	start := own.start
	switch lines := bytes.IndexByte(src[from:start], '\n') >= 0; {
	case lines && isFirst(src, start):
		start, end = beforeLine(src, lineStart(src, start)), tail
	case i == 0 && len(b.items) > 1 && onlyBlanks(src[end:b.items[1].start]):
		end = b.items[1].start
	case i > 0 && !lines && onlyBlanks(src[from:start]):
		start = from
	}
	if before < 0 {
		return []patch{{off: start, del: end - start}}
	}
	if before+1 == start {
		return []patch{{off: before, del: end - before}}
	}
	return []patch{{off: before, del: 1}, {off: start, del: end - start}}
}

func onlySpace(text []byte) bool  { return len(bytes.Trim(text, " \t\r\n")) == 0 }
func onlyBlanks(text []byte) bool { return len(bytes.Trim(text, " \t")) == 0 }

// hashComment ends a comment of YAML or TOML.
func hashComment(src []byte, at int) int {
	if at < len(src) && src[at] == '#' {
		return lineEnd(src, at)
	}
	return -1
}
