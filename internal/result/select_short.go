package result

import (
	"bytes"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/text"
	tables "github.com/weir-mcp/weir/s2sp/table"
)

// valueList is a JSON array that is written for a view, one value a line. Values longer than a line
// of a view are shortened.
type valueList struct {
	out   []byte
	room  int // characters left
	line  int // characters that one value may have
	shown int // values written
	short int // how many of them are shortened
	first int // the first shortened one
}

// newValueList returns a list of at most limit characters. One value fits in any case.
func newValueList(limit int) *valueList {
	return &valueList{out: []byte("["), room: limit - 3, line: min(maxLineChars, limit-5)}
}

// add writes a value. It returns false, and writes nothing, if there is no room.
func (l *valueList) add(value []byte) bool {
	shortened := utf8.RuneCount(value) > l.line
	if shortened {
		value = shortValue(value, l.line)
	}
	chars := utf8.RuneCount(value) + min(l.shown, 1) + 1
	if chars > l.room {
		return false
	}
	if l.shown > 0 {
		l.out = append(l.out, ',')
	}
	l.out = append(append(l.out, '\n'), value...)
	l.room -= chars
	if shortened {
		if l.short++; l.short == 1 {
			l.first = l.shown
		}
	}
	l.shown++
	return true
}

// text ends the list.
func (l *valueList) text() string {
	if l.shown > 0 {
		l.out = append(l.out, '\n')
	}
	return string(append(l.out, ']'))
}

// told adds to a notice that values are shortened, and the selector that shows more of the first one,
// if there is one.
func (l *valueList) told(notice, noun string, start int, more []byte) string {
	if l.short == 0 {
		return notice
	}
	if notice != "" {
		notice += "; "
	}
	notice += fmt.Sprintf("%s %d is shortened", noun, start+l.first)
	if l.short > 1 {
		notice += ", and " + strconv.Itoa(l.short-1) + " more"
	}
	if more != nil {
		notice += "; whole: " + string(more)
	}
	return notice
}

// elementsOf returns the elements of an array from number start to before end, but no more than a
// list of at most limit characters has room for.
func elementsOf(array []byte, start, end, limit int) (found [][]byte) {
	end = min(end, start+limit)
	i := 0
	_ = rawjson.EachElement(array, func(e []byte) bool {
		if i >= start && i < end {
			found = append(found, e)
		}
		i++
		return i < end
	})
	return found
}

// listValues writes values as a JSON array in at most limit characters.
func listValues(scratch *scratch, values [][]byte, limit int) *valueList {
	l := newValueList(limit)
	for _, value := range values {
		if !scratch.need(3*len(value)) || !l.add(compact(nil, value)) {
			break
		}
	}
	return l
}

// listRows is listValues for the rows of a table.
func listRows(scratch *scratch, rows tables.View, limit int) *valueList {
	l := newValueList(limit)
	var row []byte
	for i := range rows.Len() {
		if !scratch.need(5 * len(rows.Table().Row(rows.ID(i)))) {
			break
		}
		row = compactRow(row[:0], rows, i)
		if !l.add(row) {
			break
		}
	}
	return l
}

// shortValue returns a JSON value of at most limit characters that tells what a longer one is: long
// strings are cut, and members and elements that find no room are counted. limit must be 40 or more.
func shortValue(value []byte, limit int) []byte {
	if utf8.RuneCount(value) <= limit {
		return value
	}
	switch value[0] {
	case '{', '[':
		return shortMembers(value, limit)
	case '"':
		s := rawjson.Text(value)
		note := "… (" + text.Plural(utf8.RuneCountInString(s), "character") + ")"
		for room := limit - utf8.RuneCountInString(note) - 2; room > 0; room /= 2 {
			if out := rawjson.Quote(text.Cut(s, room) + note); utf8.RuneCount(out) <= limit {
				return out
			}
		}
		return []byte(`"…"`)
	}
	return rawjson.Quote(text.Cut(string(value), limit-3) + "…") // a number of many digits
}

// shortMembers is shortValue of an object or array.
func shortMembers(value []byte, limit int) []byte {
	const noteChars = 24
	object, end := value[0] == '{', value[len(value)-1]
	all := 0
	each := func(f func(key string, v []byte) bool) {
		if object {
			_ = rawjson.EachMember(value, func(m rawjson.Member) bool { return f(string(m.Key), m.Value) })
			return
		}
		_ = rawjson.EachElement(value, func(e []byte) bool { return f("", e) })
	}
	each(func(string, []byte) bool { all++; return true })
	out := bytes.Clone(value[:1])
	room, done := limit-2-noteChars, 0
	each(func(key string, v []byte) bool {
		var member []byte
		if object {
			member = append(rawjson.Quote(text.Fit(key, maxNameChars)), ':')
		}
		share := max(room/(all-done), min(room, 60)) - utf8.RuneCount(member) - 1
		if share < 40 {
			share = min(room-utf8.RuneCount(member)-1, 40)
		}
		if share < 40 && utf8.RuneCount(v) > share {
			return false
		}
		member = append(member, shortValue(v, share)...)
		chars := utf8.RuneCount(member) + 1
		if chars > room {
			return false
		}
		if room -= chars; done > 0 {
			out = append(out, ',')
		}
		out = append(out, member...)
		done++
		return true
	})
	if left := all - done; left > 0 {
		if done > 0 {
			out = append(out, ',')
		}
		if object {
			out = append(out, `"…":`...)
		}
		out = rawjson.AppendString(out, strconv.Itoa(left)+" more")
	}
	return append(out, end)
}

// longLine reports whether a text has a line of more characters than a view shows of one.
func longLine(data []byte) bool {
	for len(data) > maxLineChars {
		line, rest, _ := bytes.Cut(data, []byte{'\n'})
		if len(line) > maxLineChars && utf8.RuneCount(line) > maxLineChars {
			return true
		}
		data = rest
	}
	return false
}
