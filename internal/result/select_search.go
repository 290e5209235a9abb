package result

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/work"
	"github.com/weir-mcp/weir/internal/text"
	tables "github.com/weir-mcp/weir/s2sp/table"
)

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
func (q *searching) group(m *work.Meter, units *searchUnits, n, at, shownTo int, first bool) (text string, last int, err error) {
	var b strings.Builder
	around := func(i int) { b.WriteString(units.shown(i, 0, false) + "\n") }
	from := max(n-q.around, shownTo+1, 0)
	if q.around > 0 && !first && from > shownTo+1 {
		b.WriteString("--\n")
	}
	for i := from; i < n; i++ {
		around(i)
	}
	b.WriteString(units.shown(n, at, true) + "\n")
	end := min(n+q.around, len(units.texts)-1)
	i := n + 1
	for ; i <= end; i++ {
		found, err := q.pattern.Match(m, units.texts[i])
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

// searched is the rows of a table, the values of other JSON, or the lines of a text. The error is the
// Meter's.
func (v *viewing) searched() (*searchUnits, error) {
	opts := TableOptions(v.artifact.MediaType, func() []byte { return v.data })
	opts.CSV, opts.Inside = false, false // what stands around rows is searched as well
	opts.Options.Grow = growing(v.meter).Grow
	if t, err := tables.Detect(v.data, opts); err == nil && t.Len() > 0 {
		return rowUnits(v.meter, t)
	}
	if body, err := v.jsonDocument("search"); err == nil && (body[0] == '{' || body[0] == '[') {
		if u, err := jsonUnits(v.meter, body); u != nil || err != nil {
			return u, err
		}
	}
	text := strings.TrimSuffix(v.lineText(), "\n")
	if err := v.meter.Take(int64(strings.Count(text, "\n")+1) * stringBytes); err != nil {
		return nil, err
	}
	return &searchUnits{texts: strings.Split(text, "\n"), noun: "line"}, nil
}

// search shows the lines that match an RE2 pattern, as grep -n does: "12:" is
// a match, "11-" stands around one, "--" between groups. In a table the rows
// are searched instead of lines, in other JSON the values, which are shown behind their paths. A search that costs more than one view may ends
// between two of them, and says where it goes on.
func (v *viewing) search() (View, error) {
	q, err := v.searching()
	if err != nil {
		return View{}, err
	}
	units, err := v.searched()
	if err != nil {
		return View{}, err
	}
	unit := units.noun
	f := hits{room: v.max - noticeChars, last: q.start - 1, next: -1}
	end := q.start // units before it were searched
	for ; end < len(units.texts); end++ {
		at, err := q.pattern.Find(v.meter, units.texts[end])
		if err == nil && at >= 0 {
			err = f.add(&q, v.meter, units, end, at)
		}
		if ended := v.meter.Err(); ended != nil && (v.ctx.Err() != nil || end == q.start) {
			return View{}, v.tooCostly(ended, &q, units.texts, unit)
		}
		if err != nil {
			break
		}
	}
	content := strings.TrimSuffix(f.text.String(), "\n")
	where := text.Plural(len(units.texts), unit)
	if q.start > 0 {
		where += fmt.Sprintf(" from %s %d on", unit, q.start)
	}
	if units.path != "" && f.units > 0 {
		where += "; row n is " + units.path
	}
	whole := end >= len(units.texts)
	if !whole { // the work ended first
		where = fmt.Sprintf("%ss %d to %d of %d; the pattern is too expensive to search more at a time", unit, q.start, end, len(units.texts))
		if f.next < 0 {
			f.next = end
		}
	}
	switch {
	case f.units == 0 && whole:
		return v.finish("", "no match in "+where, nil), nil
	case f.units == 0:
		return v.finish("", "no match in "+where, q.again(f.next)), nil
	case f.shown == f.units && whole:
		return v.finish(content, f.count()+" in "+where, nil), nil
	case f.shown == f.units:
		return v.finish(content, f.count()+" in "+where, q.again(f.next)), nil
	}
	if f.units == f.matches {
		return v.finish(content, fmt.Sprintf("the first %d of %s in %s", f.shown, f.count(), where), q.again(f.next)), nil
	}
	return v.finish(content, fmt.Sprintf("the first %d of %ss that match, with %s, in %s", f.shown, strconv.Itoa(f.units)+" "+unit, f.count(), where), q.again(f.next)), nil
}

// tooCostly is the error of a search whose first line or row is already too much.
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
	room    int  // characters left
	units   int  // that match
	matches int  // in all of them
	least   bool // there may be more matches
	shown   int  // units that match in text
	last    int  // the last unit in text
	full    bool // nothing more fits
	next    int  // the first match that is not shown, or -1
}

// add adds unit n, which matches at byte at. The error is m's.
func (f *hits) add(q *searching, m *work.Meter, units *searchUnits, n, at int) error {
	content, to := "", 0
	if !f.full && f.shown < q.limit {
		var err error
		if content, to, err = q.group(m, units, n, at, f.last, f.shown == 0); err != nil {
			return err
		}
	}
	count, exact, err := q.pattern.Count(m, units.texts[n])
	if err != nil {
		return err
	}
	f.units++
	f.matches += max(count, 1)
	f.least = f.least || !exact
	chars := utf8.RuneCountInString(content)
	if f.full || f.shown == q.limit || chars > f.room && f.shown > 0 {
		if f.full = true; f.next < 0 {
			f.next = n
		}
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

// count tells how many matches there are.
func (f *hits) count() string {
	if f.least {
		return "at least " + pluralMatches(f.matches)
	}
	return pluralMatches(f.matches)
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
