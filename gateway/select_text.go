package gateway

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/weir-mcp/weir/rawjson"
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
	text := v.text()
	total := utf8.RuneCountInString(text)
	if start == 0 && chars >= total && total <= v.max {
		return v.finish(text, "", nil), nil
	}
	start = min(start, total)
	end := start + min(chars, total-start, v.max-noticeChars)
	text = text[len(firstChars(text, start)):]
	text = firstChars(text, end-start)
	var next []byte
	if end < total {
		next = fmt.Appendf(nil, `{"type":"head","start":%d,"chars":%d}`, end, min(max(chars, 1), total-end))
	}
	return v.finish(text, fmt.Sprintf("characters %d to %d of %d", start, end, total), next), nil
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
	text := v.text()
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

// joinLines returns lines start to end in at most limit characters and how
// many lines that is. Where not even one fits, the beginning of it is shown
// and cut is true.
func joinLines(text string, start, end, limit int) (out string, shown int, cut bool) {
	var b strings.Builder
	room := limit
	rest := text[lineOffset(text, start):]
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
				return firstChars(line, limit), 0, true
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

// Bounds of search.
const (
	maxPatternChars  = 1000
	maxSearchLimit   = 1000
	maxSearchContext = 50
	maxUnitChars     = 400 // of a line or row shown around its match
)

// search shows the lines that match an RE2 pattern, as grep -n does: "12:" is
// a match, "11-" stands around one, "--" between groups. In a table the rows
// are searched instead of lines.
func (v *viewing) search() (View, error) {
	pattern, ok, err := v.str("pattern")
	if err != nil {
		return View{}, err
	}
	if !ok || pattern == "" {
		return View{}, viewFailed("pattern is missing: search needs a regular expression (RE2)")
	}
	if len(pattern) > maxPatternChars {
		return View{}, viewFailed("pattern is longer than %d characters", maxPatternChars)
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return View{}, viewFailed("pattern is not a regular expression (RE2): %s", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	around, err := v.integer("context", 0)
	if err != nil {
		return View{}, err
	}
	limit, err := v.integer("limit", 20)
	if err != nil {
		return View{}, err
	}
	start, err := v.integer("start", 0)
	if err != nil {
		return View{}, err
	}
	around, limit = min(around, maxSearchContext), min(max(limit, 1), maxSearchLimit)

	unit := "line"
	var units []string
	if t, ok := findTable(v.data); ok {
		unit = "row"
		for _, row := range t.rows {
			units = append(units, string(compact(nil, row)))
		}
	} else {
		units = strings.Split(strings.TrimSuffix(v.text(), "\n"), "\n")
	}
	var b strings.Builder
	room := v.max - noticeChars
	matches, shown, last, full := 0, 0, start-1, false
	next := -1 // the first match that is not shown
	for n := start; n < len(units); n++ {
		if n%256 == 0 && v.ctx.Err() != nil {
			return View{}, v.ctx.Err()
		}
		at := re.FindStringIndex(units[n])
		if at == nil {
			continue
		}
		if matches++; full || shown == limit {
			if next < 0 {
				next = n
			}
			continue
		}
		var group strings.Builder
		from := max(n-around, last+1, 0)
		if around > 0 && shown > 0 && from > last+1 {
			group.WriteString("--\n")
		}
		for i := from; i < n; i++ {
			group.WriteString(strconv.Itoa(i) + "-" + window(units[i], 0) + "\n")
		}
		group.WriteString(strconv.Itoa(n) + ":" + window(units[n], at[0]) + "\n")
		end := min(n+around, len(units)-1)
		i := n + 1
		for ; i <= end && re.FindStringIndex(units[i]) == nil; i++ {
			group.WriteString(strconv.Itoa(i) + "-" + window(units[i], 0) + "\n")
		}
		chars := utf8.RuneCountInString(group.String())
		if chars > room && shown > 0 {
			full, next = true, n
			continue
		}
		text := group.String()
		if chars > room { // the first one, with much context
			text = firstChars(text, room)
		}
		room -= chars
		last = i - 1
		b.WriteString(text)
		shown++
	}
	text := strings.TrimSuffix(b.String(), "\n")
	from := ""
	if start > 0 {
		from = fmt.Sprintf(" from %s %d on", unit, start)
	}
	if matches == 0 {
		return v.finish("", fmt.Sprintf("no match in %s%s", plural(len(units), unit), from), nil), nil
	}
	if shown == matches {
		return v.finish(text, fmt.Sprintf("%s in %s%s", pluralMatches(matches), plural(len(units), unit), from), nil), nil
	}
	again := rawjson.AppendString([]byte(`{"type":"search","pattern":`), pattern)
	if around > 0 {
		again = fmt.Appendf(again, `,"context":%d`, around)
	}
	again = fmt.Appendf(again, `,"limit":%d,"start":%d}`, limit, next)
	return v.finish(text, fmt.Sprintf("the first %d of %s in %s%s", shown, pluralMatches(matches), plural(len(units), unit), from), again), nil
}

func pluralMatches(n int) string {
	if n == 1 {
		return "1 match"
	}
	return strconv.Itoa(n) + " matches"
}

// window returns s, or what stands around its byte from where s is long.
func window(s string, from int) string {
	s = strings.TrimSuffix(s, "\r")
	if utf8.RuneCountInString(s) <= maxUnitChars {
		return s
	}
	start := max(0, min(from, len(s))-maxUnitChars/4)
	for start > 0 && !utf8.RuneStart(s[start]) {
		start--
	}
	part := firstChars(s[start:], maxUnitChars)
	if start > 0 {
		part = "…" + part
	}
	if start+len(strings.TrimPrefix(part, "…")) < len(s) {
		part += "…"
	}
	return part
}
