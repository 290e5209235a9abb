package result

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/work"
	"github.com/weir-mcp/weir/internal/text"
	tables "github.com/weir-mcp/weir/s2sp/table"
)

// jsonDocument returns the artifact as one JSON value; one object a line
// counts as an array of them.
func (v *viewing) jsonDocument(kind string) ([]byte, error) {
	body := bytes.TrimSpace(bytes.TrimPrefix(v.data, []byte("\ufeff"))) // as Detect does
	if rawjson.Valid(body) == nil {
		return body, nil
	}
	if t := lineRows(body, growing(v.meter)); t != nil {
		if err := v.meter.Take(int64(len(body)) + 2); err != nil {
			return nil, err
		}
		array := make([]byte, 0, len(body)+2)
		for i, row := range t.Rows() {
			array = append(append(array, "[,"[min(i, 1)]), row...)
		}
		return append(array, ']'), nil
	}
	return nil, viewFailed("type %q needs JSON and %s is none (%s); use head, lines or search", kind, v.artifact.Handle, text.Line(v.artifact.MediaType, 80))
}

// jsonKeys shows some top-level members, sorted and indented.
func (v *viewing) jsonKeys() (View, error) {
	var keys []string
	if raw, ok := v.params["keys"]; ok && string(raw) != "null" {
		bad := ""
		err := rawjson.EachElement(raw, func(e []byte) bool {
			key, err := rawjson.String(e)
			if err != nil {
				bad = text.Value(e)
				return false
			}
			keys = append(keys, key)
			return true
		})
		if err != nil {
			return View{}, viewFailed("keys must be an array of strings, not %s", text.Value(raw))
		}
		if bad != "" {
			return View{}, viewFailed("keys must be an array of strings, but holds %s", bad)
		}
	}
	body, err := v.jsonDocument("json_keys")
	if err != nil {
		return View{}, err
	}
	if body[0] != '{' {
		return View{}, viewFailed("type \"json_keys\" needs a JSON object and %s is %s; use rows or json_path", v.artifact.Handle, text.Value(body))
	}
	values := map[string][]byte{}
	var all []string
	var full error
	// body is valid: there is no error to see here.
	_ = rawjson.EachMember(body, func(m rawjson.Member) bool {
		key := string(m.Key)
		if values[key] == nil {
			all = append(all, key)
			full = v.meter.Take(keyBytes + int64(len(key)))
		}
		values[key] = m.Value
		return full == nil
	})
	if full != nil {
		return View{}, full
	}
	var missing []string
	slices.Sort(keys)
	keys = slices.Compact(keys)
	found := keys[:0:0]
	for _, key := range keys {
		if values[key] == nil {
			missing = append(missing, key)
		} else {
			found = append(found, key)
		}
	}
	limit := v.max - noticeChars
	out := []byte("{")
	var left []string
	for _, key := range found {
		member := []byte("\n  ")
		if len(out) > 1 {
			member = []byte(",\n  ")
		}
		member = append(rawjson.AppendString(member, key), ':', ' ')
		member, full = appendSorted(v.meter, member, values[key], 1, utf8.UTFMax*limit)
		if full != nil {
			return View{}, full
		}
		if utf8.RuneCount(out)+utf8.RuneCount(member)+2 > limit || longLine(member) {
			left = append(left, key)
			continue
		}
		out = append(out, member...)
	}
	if len(out) > 1 {
		out = append(out, '\n')
	}
	out = append(out, '}')
	var notice []string
	var next []byte
	if len(left) > 0 {
		notice = append(notice, "too long to show: "+joinNames(left, 200))
		next = append(rawjson.AppendString([]byte(`{"type":"json_path","path":`), "$"+rawjson.PathStep(left[0])), '}')
	}
	if len(missing) > 0 {
		notice = append(notice, "no such key: "+joinNames(missing, 150))
	}
	if len(missing) > 0 || len(keys) == 0 {
		notice = append(notice, text.Plural(len(all), "key")+": "+joinNames(all, 300))
	}
	return v.finish(string(out), strings.Join(notice, "; "), next), nil
}

// keyBytes is the memory of a key in the map and the list of all keys, without its text.
const keyBytes = 128

// joinNames lists names in about limit characters.
func joinNames(names []string, limit int) string {
	var b strings.Builder
	for i, name := range names {
		name = tables.NameText(text.Line(text.Fit(name, maxNameChars), maxNameChars))
		if i > 0 {
			if b.Len()+len(name) > limit {
				return b.String() + ", … and " + strconv.Itoa(len(names)-i) + " more"
			}
			b.WriteString(", ")
		}
		b.WriteString(name)
	}
	return b.String()
}

// appendSorted appends value indented by two spaces a level, the keys of every
// object sorted. Strings and numbers stay as they are written. It ends early when dst has more than
// limit bytes: levels indent each element, so a nested value may become many times as long. The
// error is the Meter's.
func appendSorted(m *work.Meter, dst, value []byte, level, limit int) (_ []byte, err error) {
	if len(dst) > limit {
		return dst, nil
	}
	indent := func(level int) {
		dst = append(dst, '\n')
		for range level {
			dst = append(dst, ' ', ' ')
		}
	}
	switch value[0] {
	case '{':
		var members []rawjson.Member
		_ = rawjson.EachMember(value, func(one rawjson.Member) bool {
			members, err = work.Append(m, members, one)
			return err == nil
		})
		if len(members) == 0 || err != nil {
			return append(dst, '{', '}'), err
		}
		slices.SortStableFunc(members, func(a, b rawjson.Member) int { return cmp.Compare(string(a.Key), string(b.Key)) })
		dst = append(dst, '{')
		for i, one := range members {
			if i > 0 {
				dst = append(dst, ',')
			}
			indent(level + 1)
			dst = append(rawjson.AppendString(dst, string(one.Key)), ':', ' ')
			if dst, err = appendSorted(m, dst, one.Value, level+1, limit); err != nil || len(dst) > limit {
				return dst, err
			}
		}
		indent(level)
		return append(dst, '}'), nil
	case '[':
		n := 0
		dst = append(dst, '[')
		_ = rawjson.EachElement(value, func(e []byte) bool {
			if n > 0 {
				dst = append(dst, ',')
			}
			n++
			indent(level + 1)
			dst, err = appendSorted(m, dst, e, level+1, limit)
			return err == nil && len(dst) <= limit
		})
		if n > 0 {
			indent(level)
		}
		return append(dst, ']'), err
	}
	// What is longer than the limit is not shown.
	return append(dst, value[:min(len(value), limit+1)]...), nil
}

// matches returns what a path selects, and the document that it is in.
func (v *viewing) matches(kind, content string) (path jsonPath, body []byte, matches [][]byte, err error) {
	if path, err = parseJSONPath(content); err != nil {
		return path, nil, nil, viewFailed("path %s: %v", string(rawjson.Quote(text.Fit(content, 80))), err)
	}
	if body, err = v.jsonDocument(kind); err != nil {
		return path, nil, nil, err
	}
	within := path.each(v.meter, body, func(m []byte) bool {
		matches, err = work.Append(v.meter, matches, m)
		return err == nil
	})
	if err := v.meter.Err(); err != nil {
		return path, nil, nil, err
	}
	if !within {
		return path, nil, nil, viewFailed("path %s visits too many values; make it more exact", string(rawjson.Quote(text.Fit(content, 80))))
	}
	return path, body, matches, nil
}

// jsonPath shows what a path selects: the value itself where the path can
// select only one, else an array of all that match.
func (v *viewing) jsonPath() (View, error) {
	content, ok, err := v.str("path")
	if err != nil {
		return View{}, err
	}
	if !ok {
		return View{}, viewFailed("path is missing: json_path needs a path such as $.items[0].name")
	}
	start, err := v.integer("start", 0)
	if err != nil {
		return View{}, err
	}
	path, body, matches, err := v.matches("json_path", content)
	if err != nil {
		return View{}, err
	}
	if path.definite() {
		if len(matches) == 0 {
			return View{}, v.pathMiss(body, content, path)
		}
		return v.value(matches[0], path.text, start), nil
	}
	start = min(start, len(matches))
	list := listValues(&v.scratch, matches[start:], v.max-noticeChars)
	at := start + list.shown
	notice := ""
	if start > 0 || at < len(matches) {
		notice = fmt.Sprintf("%d of %d values, from number %d on", list.shown, len(matches), start)
	}
	notice = list.told(notice, "value", start, nil)
	var next []byte
	if at < len(matches) {
		next = fmt.Appendf(rawjson.AppendString([]byte(`{"type":"json_path","path":`), path.text), `,"start":%d}`, at)
	}
	return v.finish(list.text(), notice, next), nil
}

// value shows one value. What does not fit is cut between elements or members,
// a string between characters.
func (v *viewing) value(value []byte, path string, start int) View {
	limit := v.max - noticeChars
	quoted := func(p string) []byte {
		return rawjson.AppendString([]byte(`{"type":"json_path","path":`), p)
	}
	chars := utf8.RuneCount(value)
	if start == 0 && chars <= limit && !longLine(value) {
		return v.finish(string(value), "", nil)
	}
	switch value[0] {
	case '[':
		total := countElements(value)
		start = min(start, total)
		list := listValues(&v.scratch, elementsOf(value, start, total, limit), limit)
		at := start + list.shown
		notice := ""
		if start > 0 || at < total {
			notice = fmt.Sprintf("elements %d to %d of %d", start, at, total)
		}
		var next, more []byte
		if list.short > 0 {
			more = append(quoted(fmt.Sprintf("%s[%d]", path, start+list.first)), '}')
		}
		if at < total {
			next = fmt.Appendf(quoted(path), `,"start":%d}`, at)
		} else {
			next, more = more, nil
		}
		return v.finish(list.text(), list.told(notice, "element", start, more), next)
	case '{':
		return v.members(value, path, start)
	case '"':
		// The string's own characters, so that parts of it read on.
		if !v.scratch.need(2 * len(value)) {
			return View{}
		}
		s := rawjson.Text(value)
		total := utf8.RuneCountInString(s)
		start = min(start, total)
		part := cutLongLine(text.Cut(s[len(text.Cut(s, start)):], limit))
		end := start + utf8.RuneCountInString(part)
		var next []byte
		if end < total {
			next = fmt.Appendf(quoted(path), `,"start":%d}`, end)
		}
		return v.finish(part, fmt.Sprintf("characters %d to %d of a string of %d, unquoted", start, end, total), next)
	}
	return v.finish(text.Cut(string(value), limit), fmt.Sprintf("the first %d of %d characters", min(chars, limit), chars), nil)
}

// members shows the members of an object from number start on, one a line. Long ones are shortened,
// and those that find no room are named.
func (v *viewing) members(value []byte, path string, start int) View {
	out := []byte{'{'}
	var left []string
	short := ""
	total, shortened := 0, 0
	room := v.max - noticeChars - 4
	line := min(maxLineChars, room)
	_ = rawjson.EachMember(value, func(m rawjson.Member) bool {
		if total++; total <= start {
			return true
		}
		content := m.Value
		key := append(rawjson.Quote(string(m.Key)), ':')
		chars := utf8.RuneCount(key) + 2
		long := utf8.RuneCount(content) > max(line-chars, 40)
		if long {
			if !v.scratch.need(3 * len(content)) {
				return false
			}
			content = shortValue(compact(nil, content), max(line-chars, 40))
		}
		if chars += utf8.RuneCount(content); chars > room {
			left = append(left, string(m.Key))
			return true
		}
		if long {
			if shortened++; shortened == 1 {
				short = string(m.Key)
			}
		}
		room -= chars
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, '\n'), key...), content...)
		return true
	})
	var notice []string
	var next []byte
	if shown := total - min(start, total) - len(left); shown < total {
		notice = append(notice, fmt.Sprintf("%d of %d members", shown, total))
	}
	if len(left) > 0 {
		notice = append(notice, "not shown: "+joinNames(left, 200))
		short, shortened = left[0], max(shortened, 1)
	}
	if shortened > 0 {
		if len(left) == 0 {
			notice = append(notice, text.Plural(shortened, "member")+" shortened")
		}
		next = append(rawjson.AppendString([]byte(`{"type":"json_path","path":`), path+rawjson.PathStep(short)), '}')
	}
	return v.finish(string(append(out, "\n}"...)), strings.Join(notice, "; "), next)
}

// cutLongLine returns a text up to the end of what is shown of its first long line.
func cutLongLine(s string) string {
	for at := 0; ; {
		line, _, more := strings.Cut(s[at:], "\n")
		if part := text.Cut(line, maxLineChars); len(part) < len(line) {
			return s[:at+len(part)]
		}
		if at += len(line) + 1; !more {
			return s
		}
	}
}

// pathMiss says where a definite path stops leading anywhere, and what is
// there instead.
func (v *viewing) pathMiss(body []byte, content string, path jsonPath) error {
	at := json.RawMessage(body)
	here := "$"
	for _, s := range path.segments {
		var next []byte
		s.selectors[0].each(v.meter, at, func(m []byte) bool { next = m; return false })
		if next == nil {
			break
		}
		at = next
		if sel := s.selectors[0]; sel.kind == selectName {
			here += rawjson.PathStep(sel.name)
		} else {
			here += "[" + strconv.Itoa(sel.index) + "]"
		}
	}
	return viewFailed("path %s selects nothing; %s is %s", string(rawjson.Quote(text.Fit(content, 80))), text.Fit(here, 80), text.Line(describeValue(at), 120))
}
