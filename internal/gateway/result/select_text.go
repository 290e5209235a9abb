package result

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/rawjson"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/internal/work"
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

// Bounds of search.
const (
	maxPatternChars  = 1000
	maxSearchLimit   = 1000
	maxSearchContext = 50
	maxUnitChars     = 400 // of a line or row shown around its match
)

// searching is a search selector.
type searching struct {
	pattern              *work.Pattern
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
	var large *work.TooLargeError
	switch q.pattern, err = work.Compile(pattern); {
	case errors.As(err, &large):
		return q, viewFailed("pattern %v: make it simpler", large)
	case err != nil:
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
	out := rawjson.AppendString([]byte(`{"type":"search","pattern":`), q.pattern.String())
	if q.around > 0 {
		out = fmt.Appendf(out, `,"context":%d`, q.around)
	}
	return fmt.Appendf(out, `,"limit":%d,"start":%d}`, q.limit, next)
}

// group is unit n, which matches at byte at, with what stands around it and was
// not shown before; last is the last unit in it. The error is m's.
func (q *searching) group(m *work.Meter, units []string, n, at, shownTo int, first bool) (text string, last int, err error) {
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
	for ; i <= end; i++ {
		found, err := q.pattern.Match(m, units[i])
		if err != nil {
			return "", 0, err
		}
		if found {
			break
		}
		around(i)
	}
	return b.String(), i - 1, nil
}

// searched is the rows of a table, or the lines of a text.
func (v *viewing) searched() (units []string, unit string) {
	t := v.jsonRows()
	if t == nil {
		return strings.Split(strings.TrimSuffix(v.lineText(), "\n"), "\n"), "line"
	}
	for _, row := range t.Rows() {
		units = append(units, string(compact(nil, row)))
	}
	return units, "row"
}

// search shows the lines that match an RE2 pattern, as grep -n does: "12:" is
// a match, "11-" stands around one, "--" between groups. In a table the rows
// are searched instead of lines. A search that costs more than one view may ends
// between two of them, and says where it goes on.
func (v *viewing) search() (View, error) {
	q, err := v.searching()
	if err != nil {
		return View{}, err
	}
	units, unit := v.searched()
	f := hits{room: v.max - noticeChars, last: q.start - 1, next: -1}
	end := q.start // units before it were searched
	for ; end < len(units); end++ {
		at, err := q.pattern.Find(v.meter, units[end])
		if err == nil && at >= 0 {
			err = f.add(&q, v.meter, units, end, at)
		}
		if ended := v.meter.Err(); ended != nil && (v.ctx.Err() != nil || end == q.start) {
			return View{}, v.tooCostly(ended, &q, units, unit)
		}
		if err != nil {
			break
		}
	}
	content := strings.TrimSuffix(f.text.String(), "\n")
	where := text.Plural(len(units), unit)
	if q.start > 0 {
		where += fmt.Sprintf(" from %s %d on", unit, q.start)
	}
	whole := end >= len(units)
	if !whole { // the work ended first
		where = fmt.Sprintf("%ss %d to %d of %d; the pattern is too expensive to search more at a time", unit, q.start, end, len(units))
		if f.next < 0 {
			f.next = end
		}
	}
	switch {
	case f.matches == 0 && whole:
		return v.finish("", "no match in "+where, nil), nil
	case f.matches == 0:
		return v.finish("", "no match in "+where, q.again(f.next)), nil
	case f.shown == f.matches && whole:
		return v.finish(content, pluralMatches(f.matches)+" in "+where, nil), nil
	case f.shown == f.matches:
		return v.finish(content, pluralMatches(f.matches)+" in "+where, q.again(f.next)), nil
	}
	return v.finish(content, fmt.Sprintf("the first %d of %s in %s", f.shown, pluralMatches(f.matches), where), q.again(f.next)), nil
}

// tooCostly is the error of a search whose first line or row alone is too much.
func (v *viewing) tooCostly(ended error, q *searching, units []string, unit string) error {
	if !errors.Is(ended, work.ErrLimit) {
		return ended
	}
	return viewFailed("pattern is too expensive for %s %d of %d bytes (%d instructions for each): make it simpler, or go on behind it with \"start\":%d",
		unit, q.start, len(units[q.start]), q.pattern.Instructions(), q.start+1)
}

// hits is what a search has found so far.
type hits struct {
	text    strings.Builder
	room    int // characters left
	matches int
	shown   int  // matches in text
	last    int  // the last unit in text
	full    bool // nothing more fits
	next    int  // the first match that is not shown, or -1
}

// add adds unit n, which matches at byte at. The error is m's.
func (f *hits) add(q *searching, m *work.Meter, units []string, n, at int) error {
	if f.full || f.shown == q.limit {
		if f.matches++; f.next < 0 {
			f.next = n
		}
		return nil
	}
	content, to, err := q.group(m, units, n, at, f.last, f.shown == 0)
	if err != nil {
		return err
	}
	f.matches++
	chars := utf8.RuneCountInString(content)
	if chars > f.room && f.shown > 0 {
		f.full, f.next = true, n
		return nil
	}
	if chars > f.room { // the first one, with much context
		content = text.Cut(content, f.room)
	}
	f.room -= chars
	f.last = to
	f.text.WriteString(content)
	f.shown++
	return nil
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
	part := text.Cut(s[start:], maxUnitChars)
	if start > 0 {
		part = "…" + part
	}
	if start+len(strings.TrimPrefix(part, "…")) < len(s) {
		part += "…"
	}
	return part
}
