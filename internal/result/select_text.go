package result

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/weir-mcp/weir/internal/text"
)

// maxLineChars is how many characters of one line a view shows. Only head, whose chars the caller
// gives, and the rest of a cut line go beyond it.
const maxLineChars = 2000

// head shows chars characters from start on. A start below 0 counts from the end.
func (v *viewing) head() (View, error) {
	chars, err := v.integer("chars", 500)
	if err != nil {
		return View{}, err
	}
	start, _, err := v.signed("start")
	if err != nil {
		return View{}, err
	}
	content := v.text()
	total := utf8.RuneCountInString(content)
	if start < 0 {
		start = max(0, total+start)
	}
	if start == 0 && chars >= total && total <= v.max {
		return v.finish(content, "", nil), nil
	}
	start = min(start, total)
	end := start + min(chars, total-start, v.max-noticeChars)
	content = content[len(text.Cut(content, start)):]
	content = text.Cut(content, end-start)
	var next []byte
	if end < total {
		next = fmt.Appendf(nil, `{"type":"head","start":%d,"chars":%d}`, end, min(max(chars, 1), total-end))
	}
	return v.finish(content, fmt.Sprintf("characters %d to %d of %d", start, end, total), next), nil
}

// lines shows lines start to end, the end not included, counted from 0 or, below 0, from the end.
func (v *viewing) lines() (View, error) {
	span, err := v.span()
	if err != nil {
		return View{}, err
	}
	numbers, err := v.flag("numbers")
	if err != nil {
		return View{}, err
	}
	return v.lineRange("lines", span, numbers)
}

// tail shows the last lines.
func (v *viewing) tail() (View, error) {
	lines, err := v.integer("lines", 20)
	if err != nil {
		return View{}, err
	}
	numbers, err := v.flag("numbers")
	if err != nil {
		return View{}, err
	}
	total := countLines(v.lineText())
	from := max(0, total-lines)
	view, err := v.lineRange("lines", span{start: from, open: true}, numbers)
	if err == nil && view.Next == nil && from > 0 {
		before := fmt.Sprintf(`{"type":"lines","start":%d,"end":%d}`, max(0, from-max(lines, 1)), from)
		view.Notice = strings.TrimSuffix(view.Notice, "]") + "; before them " + before + "]"
	}
	return view, err
}

// lineRange shows the lines of a span. kind is the type of the selector that goes on.
func (v *viewing) lineRange(kind string, of span, numbers bool) (View, error) {
	content := v.lineText()
	total := countLines(content)
	start, end := of.within(total)
	w := lineWriter{numbers: numbers, room: v.max}
	if start == 0 && end == total {
		if w.write(content, 0, end); w.shown == end && w.cuts == 0 {
			return v.finish(w.out.String(), "", nil), nil
		}
	}
	w = lineWriter{numbers: numbers, room: v.max - noticeChars}
	w.write(content, start, end)
	at := start + w.shown
	notice := fmt.Sprintf("lines %d to %d of %d", start, at, total)
	var next []byte
	if at < total {
		next = fmt.Appendf(nil, `{"type":"%s","start":%d,"end":%d`, kind, at, min(total, at+max(end-start, 1)))
		if numbers {
			next = append(next, `,"numbers":true`...)
		}
		next = append(next, '}')
	}
	if w.cuts > 0 {
		rest := fmt.Appendf(nil, `{"type":"head","start":%d,"chars":%d}`, w.cutAt, min(w.cutChars, maxLineChars))
		notice += fmt.Sprintf("; line %d is cut, %s more", w.cutLine, text.Plural(w.cutChars, "character"))
		if w.cuts > 1 {
			notice += fmt.Sprintf(", and %s like it", text.Plural(w.cuts-1, "line"))
		}
		if next == nil || w.shown == 1 {
			next = rest
		} else {
			notice += ": " + string(rest)
		}
	}
	return v.finish(w.out.String(), notice, next), nil
}

// lineWriter writes lines while there is room. Of a line that is longer than maxLineChars it writes
// the beginning.
type lineWriter struct {
	numbers bool // each line starts with its number, as those that search finds
	room    int  // characters left

	out      strings.Builder
	shown    int // lines
	cuts     int // lines of which the end is missing
	cutLine  int // the first of them
	cutAt    int // the character of the text at which it goes on
	cutChars int // how many are missing of it
}

// write writes lines start to end of a text.
func (w *lineWriter) write(content string, start, end int) {
	offset := lineOffset(content, start)
	for n := start; n < end; n++ {
		line, _, _ := strings.Cut(content[offset:], "\n")
		next := offset + len(line) + 1
		line = strings.TrimSuffix(line, "\r")
		prefix := ""
		if w.numbers {
			prefix = strconv.Itoa(n) + ":"
		}
		if n > start {
			prefix = "\n" + prefix
		}
		limit := maxLineChars
		if n == start { // one line is shown in any case
			limit = min(limit, w.room-len(prefix))
		}
		part := text.Cut(line, limit)
		cut := len(part) < len(line)
		chars := utf8.RuneCountInString(part) + len(prefix) + 1
		if chars-1 > w.room {
			return
		}
		w.room -= chars - 1
		w.out.WriteString(prefix + part)
		if cut {
			if w.cuts++; w.cuts == 1 {
				w.cutLine, w.cutAt = n, utf8.RuneCountInString(content[:offset+len(part)])
				w.cutChars = utf8.RuneCountInString(line[len(part):])
			}
			if n+1 < end && w.room > 0 {
				w.out.WriteString("…")
				w.room--
			}
		}
		w.shown++
		offset = min(next, len(content))
	}
}

// lineText is text with LF for each CR that ends a line by itself, at the same offset.
func (v *viewing) lineText() string {
	text := v.text()
	data := unsafe.Slice(unsafe.StringData(text), len(text)) // read only
	if loneBreak(data, 0) < 0 {
		return text
	}
	if v.meter.Take(int64(len(data))) != nil {
		return ""
	}
	return stringOf(Maker(makeOnHeap).unifyBreaks(data)) // its bytes are taken
}

// loneBreak returns the place of the first CR in data[at:] that has no LF behind it, or -1.
func loneBreak(data []byte, at int) int {
	for ; ; at++ {
		i := bytes.IndexByte(data[at:], '\r')
		if i < 0 {
			return -1
		}
		if at += i; at+1 == len(data) || data[at+1] != '\n' {
			return at
		}
	}
}

// unifyBreaks returns data with LF for each CR that has none behind it, data itself where there is no such CR, or
// no room for a copy: its lines are longer then.
func (m Maker) unifyBreaks(data []byte) []byte {
	if loneBreak(data, 0) < 0 {
		return data
	}
	out, err := m(data, func(w io.Writer) error { return writeBreaks(w, data) })
	if err != nil {
		return data
	}
	return out
}

// writeBreaks writes data with LF for each CR that has none behind it.
func writeBreaks(w io.Writer, data []byte) error {
	const most = 32 << 10 // in the hands of the writer at once
	piece := make([]byte, 0, min(len(data), most))
	for at := loneBreak(data, 0); len(data) > 0; {
		n := min(len(data), most)
		piece = append(piece[:0], data[:n]...)
		for ; at >= 0 && at < n; at = loneBreak(data, at+1) {
			piece[at] = '\n'
		}
		if _, err := w.Write(piece); err != nil {
			return err
		}
		data, at = data[n:], at-n
	}
	return nil
}

// lineOffset returns the byte at which line n starts.
func lineOffset(text string, n int) int {
	at := 0
	for ; n > 0; n-- {
		i := strings.IndexByte(text[at:], '\n')
		if i < 0 {
			return len(text)
		}
		at += i + 1
	}
	return at
}
