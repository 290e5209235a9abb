package result

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/text"
)

// head shows chars characters from start on.
func (v *viewing) head() (View, error) {
	chars, err := v.integer("chars", 500)
	if err != nil {
		return View{}, err
	}
	start, err := v.integer("start", 0)
	if err != nil {
		return View{}, err
	}
	content := v.text()
	total := utf8.RuneCountInString(content)
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

// lines shows lines start to end, the end not included, counted from 0.
func (v *viewing) lines() (View, error) {
	start, end, err := v.span()
	if err != nil {
		return View{}, err
	}
	return v.lineRange("lines", start, end)
}

func (v *viewing) lineRange(kind string, start, end int) (View, error) {
	text := v.lineText()
	total := countLines([]byte(text))
	if end < 0 || end > total {
		end = total
	}
	start = min(start, end)
	if start == 0 && end == total {
		if out, shown, _ := joinLines(text, 0, end, v.max); shown == end {
			return v.finish(out, "", nil), nil
		}
	}
	out, shown, cut := joinLines(text, start, end, v.max-noticeChars)
	at := start + shown
	notice := fmt.Sprintf("lines %d to %d of %d", start, at, total)
	var next []byte
	if cut {
		// One line alone is over the bound: the characters of it that are
		// missing are reached by head.
		offset := utf8.RuneCountInString(text[:lineOffset(text, at)])
		shownChars := utf8.RuneCountInString(out)
		notice = fmt.Sprintf("the first %d characters of line %d of %d", shownChars, at, total)
		next = fmt.Appendf(nil, `{"type":"head","start":%d,"chars":%d}`, offset+shownChars, shownChars)
	} else if at < total {
		next = fmt.Appendf(nil, `{"type":"%s","start":%d,"end":%d}`, kind, at, min(total, at+max(end-start, 1)))
	}
	return v.finish(out, notice, next), nil
}

// lineText is text with LF for each CR that ends a line alone, at the same offset.
func (v *viewing) lineText() string {
	text := v.text()
	if strings.IndexByte(text, '\r') < 0 {
		return text
	}
	return string(unifyBreaks([]byte(text)))
}

// unifyBreaks returns data with LF for each CR that has none behind it, data
// itself where there is no such CR.
func unifyBreaks(data []byte) []byte {
	var out []byte
	for at := 0; ; at++ {
		i := bytes.IndexByte(data[at:], '\r')
		if i < 0 {
			break
		}
		if at += i; at+1 < len(data) && data[at+1] == '\n' {
			continue
		}
		if out == nil {
			out = bytes.Clone(data)
		}
		out[at] = '\n'
	}
	if out == nil {
		return data
	}
	return out
}

// joinLines returns lines start to end in at most limit characters and how
// many lines that is. Where not even one fits, the beginning of it is shown
// and cut is true.
func joinLines(content string, start, end, limit int) (out string, shown int, cut bool) {
	var b strings.Builder
	room := limit
	rest := content[lineOffset(content, start):]
	for n := start; n < end; n++ {
		var line string
		line, rest, _ = strings.Cut(rest, "\n")
		line = strings.TrimSuffix(line, "\r")
		chars := utf8.RuneCountInString(line)
		if n > start {
			chars++
		}
		if chars > room {
			if n == start {
				return text.Cut(line, limit), 0, true
			}
			break
		}
		room -= chars
		if n > start {
			b.WriteByte('\n')
		}
		b.WriteString(line)
		shown++
	}
	return b.String(), shown, false
}

// lineOffset returns the byte at which line n begins.
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
