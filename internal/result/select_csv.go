package result

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	tables "github.com/weir-mcp/weir/s2sp/table"
)

// csvRows writes rows as comma-separated values under a line of names, in at most limit characters. ok is false if
// these would not say what JSON says, or not in fewer characters: if there are nested or very long values, control
// characters, or both null and absent values in a column, or if there is one column, whose nulls would be empty lines.
//
//	_row_id,name,zip,note
//	0,Ann,"8000",          zip is a string that reads like a number, note is null
//	1,"Bob, Jr.","3000",""  note is an empty string
//
// What stands in quotes is a string. What does not is a string as well, unless it reads like a number, true or false.
func csvRows(scratch *scratch, rows tables.View, limit int) (text string, shown int, ok bool) {
	names := rows.Columns()
	if len(names) < 2 || rows.Len() == 0 {
		return "", 0, false
	}
	var out []byte
	for k, name := range names {
		if hasControls([]byte(name)) {
			return "", 0, false
		}
		out = appendField(out, k, []byte(name), strings.TrimSpace(name) == "")
	}
	room, asJSON := limit-utf8.RuneCount(out), len("[\n]")
	nulls, absent := make([]bool, len(names)), make([]bool, len(names))
	row, ok := rows.Appender(), true
	var line, object []byte
	rows.Each(func(_ int, values [][]byte) bool {
		if !scratch.need(5 * len(rows.Table().Row(rows.ID(shown)))) {
			return false
		}
		line = append(line[:0], '\n')
		for k, value := range values {
			field, quoted, is := fieldOf(value)
			nulls[k], absent[k] = nulls[k] || len(value) > 0 && value[0] == 'n', absent[k] || len(value) == 0
			if !is || nulls[k] && absent[k] {
				ok = false
				return false
			}
			line = appendField(line, k, field, quoted)
		}
		chars := utf8.RuneCount(line)
		if chars > maxLineChars {
			ok = false
			return false
		}
		if room -= chars; room < 0 {
			return false
		}
		out = append(out, line...)
		object = row(object[:0], shown)
		asJSON += utf8.RuneCount(object) + len(",\n")
		shown++
		return true
	})
	if !ok || shown == 0 || utf8.RuneCount(out) >= asJSON {
		return "", 0, false
	}
	return string(out), shown, true
}

// fieldOf returns the text of a value, and whether it has to stand in quotes. ok is false if it is no field.
func fieldOf(value []byte) (field []byte, quoted, ok bool) {
	if len(value) == 0 || value[0] == 'n' {
		return nil, false, true
	}
	switch value[0] {
	case '{', '[':
		return nil, false, false
	case '"':
		if rawjson.HalfPair(value, 0) >= 0 {
			return nil, false, false
		}
		field = []byte(rawjson.Text(value))
		return field, len(field) == 0 || readsAsValue(string(field)), !hasControls(field)
	}
	return value, false, true
}

// readsAsValue reports whether a string reads like a number, a boolean or null.
func readsAsValue(s string) bool {
	switch strings.ToLower(s) {
	case "true", "false", "null":
		return true
	}
	_, err := strconv.ParseFloat(s, 64)
	return err == nil
}

// hasControls reports whether a text has control characters other than line breaks and tabs.
func hasControls(text []byte) bool {
	return bytes.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == 0x7f })
}

// appendField appends field k of a line.
func appendField(dst []byte, k int, field []byte, quoted bool) []byte {
	if k > 0 {
		dst = append(dst, ',')
	}
	if !quoted && (len(field) == 0 || !bytes.ContainsAny(field, "\",\n\t") && field[0] != ' ' && field[len(field)-1] != ' ') {
		return append(dst, field...)
	}
	dst = append(dst, '"')
	dst = append(dst, bytes.ReplaceAll(field, []byte{'"'}, []byte(`""`))...)
	return append(dst, '"')
}
