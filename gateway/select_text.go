package gateway

import (
	"bytes"
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

// searching is a search selector.
type searching struct {
	pattern              string
	re                   *regexp.Regexp
	around, limit, start int
}

// searching reads the parameters of search.
func (v *viewing) searching() (q searching, err error) {
	pattern, ok, err := v.str("pattern")
	switch {
	case err != nil:
		return q, err
	case !ok || pattern == "":
		return q, viewFailed("pattern is missing: search needs a regular expression (RE2)")
	case len(pattern) > maxPatternChars:
		return q, viewFailed("pattern is longer than %d characters", maxPatternChars)
	}
	q.pattern = pattern
	if q.re, err = regexp.Compile(pattern); err != nil {
		return q, viewFailed("pattern is not a regular expression (RE2): %s", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	for _, p := range []struct {
		name     string
		to       *int
		standard int
	}{{"context", &q.around, 0}, {"limit", &q.limit, 20}, {"start", &q.start, 0}} {
		if *p.to, err = v.integer(p.name, p.standard); err != nil {
			return q, err
		}
	}
	q.around, q.limit = min(q.around, maxSearchContext), min(max(q.limit, 1), maxSearchLimit)
	return q, nil
}

// again is the selector that goes on from unit next.
func (q *searching) again(next int) []byte {
	out := rawjson.AppendString([]byte(`{"type":"search","pattern":`), q.pattern)
	if q.around > 0 {
		out = fmt.Appendf(out, `,"context":%d`, q.around)
	}
	return fmt.Appendf(out, `,"limit":%d,"start":%d}`, q.limit, next)
}

// group is unit n, which matches at byte at, with what stands around it and was
// not shown before; last is the last unit in it.
func (q *searching) group(units []string, n, at, shownTo int, first bool) (text string, last int) {
	var b strings.Builder
	around := func(i int) { b.WriteString(strconv.Itoa(i) + "-" + window(units[i], 0) + "\n") }
	from := max(n-q.around, shownTo+1, 0)
	if q.around > 0 && !first && from > shownTo+1 {
		b.WriteString("--\n")
	}
	for i := from; i < n; i++ {
		around(i)
	}
	b.WriteString(strconv.Itoa(n) + ":" + window(units[n], at) + "\n")
	end := min(n+q.around, len(units)-1)
	i := n + 1
	for ; i <= end && q.re.FindStringIndex(units[i]) == nil; i++ {
		around(i)
	}
	return b.String(), i - 1
}

// searched is the rows of a table, or the lines of a text.
func (v *viewing) searched() (units []string, unit string) {
	t, ok := findTable(v.data)
	if !ok {
		return strings.Split(strings.TrimSuffix(v.lineText(), "\n"), "\n"), "line"
	}
	for _, row := range t.rows {
		units = append(units, string(compact(nil, row)))
	}
	return units, "row"
}

// search shows the lines that match an RE2 pattern, as grep -n does: "12:" is
// a match, "11-" stands around one, "--" between groups. In a table the rows
// are searched instead of lines.
func (v *viewing) search() (View, error) {
	q, err := v.searching()
	if err != nil {
		return View{}, err
	}
	units, unit := v.searched()
	var b strings.Builder
	room := v.max - noticeChars
	matches, shown, last, full := 0, 0, q.start-1, false
	next := -1 // the first match that is not shown
	for n := q.start; n < len(units); n++ {
		if n%256 == 0 && v.ctx.Err() != nil {
			return View{}, v.ctx.Err()
		}
		at := q.re.FindStringIndex(units[n])
		if at == nil {
			continue
		}
		if matches++; full || shown == q.limit {
			if next < 0 {
				next = n
			}
			continue
		}
		text, to := q.group(units, n, at[0], last, shown == 0)
		chars := utf8.RuneCountInString(text)
		if chars > room && shown > 0 {
			full, next = true, n
			continue
		}
		if chars > room { // the first one, with much context
			text = firstChars(text, room)
		}
		room -= chars
		last = to
		b.WriteString(text)
		shown++
	}
	text := strings.TrimSuffix(b.String(), "\n")
	where := plural(len(units), unit)
	if q.start > 0 {
		where += fmt.Sprintf(" from %s %d on", unit, q.start)
	}
	switch {
	case matches == 0:
		return v.finish("", "no match in "+where, nil), nil
	case shown == matches:
		return v.finish(text, pluralMatches(matches)+" in "+where, nil), nil
	}
	return v.finish(text, fmt.Sprintf("the first %d of %s in %s", shown, pluralMatches(matches), where), q.again(next)), nil
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
