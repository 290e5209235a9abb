package tables

import (
	"context"
	"errors"
	"fmt"
	"hash"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/s2sp/table"
)

// A shape is the form in which a parameter takes rows:
//
//	[{"a":1,"b":"x"}, …]                      asObjects
//	[[1,"x"], …]                              asArrays
//	[1, …]                                    asColumn
//	"a,b\n1,x\n"                              asCSV
//	{"columns":["a","b"],"rows":[[1,"x"], …]} asArrays or asObjects, with the names of both members
type shape struct {
	kind    shapeKind
	text    bool   // it is the text of a string
	columns string // the member with the names of the columns; "" if the place is no such object
	rows    string // the member with the rows
}

type shapeKind uint8

const (
	asObjects shapeKind = iota
	asArrays
	asColumn
	asCSV
)

// Names of the members of an object with columns and rows, as the schemas of servers have them.
var (
	columnsNames = []string{"columns", "header", "headers", "fields"}
	rowsNames    = []string{"rows", "data", "values", "records"}
)

// shapeOf returns the shape that the schema of a place asks for: the richest that it takes. A place whose
// schema is not known takes objects.
func shapeOf(s dispatch.Schemas, schema []byte, at *place) (shape, error) {
	if s.Takes(schema, "array") {
		kind, ok := listKind(s, schema)
		if !ok {
			return shape{}, errors.New("it takes a list of " + listed(s, s.At(schema, "items")) + rowsGoAs)
		}
		return shape{kind: kind}, nil
	}
	if framed, ok := frameIn(s, schema); ok {
		return framed, nil
	}
	if s.Takes(schema, "string") {
		if wantsCSV(s, schema, at) {
			return shape{kind: asCSV, text: true}, nil
		}
		return shape{kind: asObjects, text: true}, nil
	}
	return shape{}, errors.New("it takes " + listed(s, schema) + rowsGoAs)
}

const rowsGoAs = ", and rows go as a list of objects, of arrays or of the values of one column, as {columns, rows}, or as text of JSON or CSV; write the value itself, which tool_view shows"

// listKind returns how a list takes rows. ok is false if it takes none of the kinds.
func listKind(s dispatch.Schemas, schema []byte) (kind shapeKind, ok bool) {
	var objects, arrays, values, typed bool
	s.Find(schema, func(one []byte) bool {
		items := rawjson.Get(one, "items")
		if items == nil {
			return false
		}
		typed = true
		objects = objects || s.Takes(items, "object")
		arrays = arrays || s.Takes(items, "array")
		for _, name := range []string{"string", "number", "integer", "boolean", "null"} {
			values = values || s.Takes(items, name)
		}
		return objects
	})
	switch {
	case objects || !typed:
		return asObjects, true
	case arrays:
		return asArrays, true
	}
	return asColumn, values
}

// frameIn returns the shape of an object that has a member for the names of the columns, and one for the rows.
func frameIn(s dispatch.Schemas, schema []byte) (f shape, ok bool) {
	if !s.Takes(schema, "object") {
		return f, false
	}
	ok = s.Find(schema, func(one []byte) bool {
		properties := rawjson.Get(one, "properties")
		columns, names := memberOf(s, properties, columnsNames)
		rows, list := memberOf(s, properties, rowsNames)
		if columns == "" || rows == "" || !s.Takes(s.At(names, "items"), "string") {
			return false
		}
		kind, fits := listKind(s, list)
		f = shape{kind: kind, columns: columns, rows: rows}
		return fits && kind != asColumn
	})
	return f, ok
}

// memberOf returns the first of some members that takes a list, and its schema.
func memberOf(s dispatch.Schemas, properties []byte, names []string) (name string, schema []byte) {
	for _, name := range names {
		if schema := rawjson.Get(properties, name); schema != nil && s.Takes(schema, "array") {
			return name, schema
		}
	}
	return "", nil
}

// wantsCSV reports whether a parameter for a text says that the text is CSV: by its media type, or by its
// name and descriptions, which then do not speak of JSON.
func wantsCSV(s dispatch.Schemas, schema []byte, at *place) bool {
	says := rawjson.Text(at.key)
	if s.Find(schema, func(one []byte) bool {
		says += " " + rawjson.Text(rawjson.Get(one, "title")) + " " + rawjson.Text(rawjson.Get(one, "description"))
		return strings.HasPrefix(rawjson.Text(rawjson.Get(one, "contentMediaType")), "text/csv") || rawjson.Text(rawjson.Get(one, "format")) == "csv"
	}) {
		return true
	}
	return hasWord(says, "csv") && !hasWord(says, "json")
}

// hasWord reports whether a text has a word of lower-case ASCII letters, in any case, also within a name such as
// csvText or CSV_rows.
func hasWord(says, word string) bool {
	lower := strings.ToLower(says)
	if len(lower) != len(says) {
		return false
	}
	for at := 0; ; {
		n := strings.Index(lower[at:], word)
		if n < 0 {
			return false
		}
		at += n + len(word)
		before, _ := utf8.DecodeLastRuneInString(says[:at-len(word)])
		after, _ := utf8.DecodeRuneInString(says[at:])
		if begins := !unicode.IsLetter(before) || unicode.IsLower(before) && unicode.IsUpper(rune(says[at-len(word)])); begins && !unicode.IsLower(after) {
			return true
		}
	}
}

// listed names the JSON types that a place takes.
func listed(s dispatch.Schemas, schema []byte) string {
	var names []string
	for _, name := range []string{"object", "array", "number", "integer", "boolean", "string", "null"} {
		if s.Takes(schema, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "no value"
	}
	return "values of type " + strings.Join(names, " or ")
}

// fits returns why rows do not have the shape.
func (s shape) fits(rows table.View) error {
	if s.kind != asColumn {
		return nil
	}
	if columns := rows.Columns(); len(columns) != 1 {
		return fmt.Errorf("it takes a list of the values of one column, and there are %d: name one in columns; there are %s", len(columns), table.NamesText(columns, 20))
	}
	return nil
}

// append appends rows in their shape. sum gets the same bytes, before they are quoted; it may be nil.
func (s shape) append(out []byte, rows table.View, sum hash.Hash) []byte {
	if s.text {
		out = append(out, '"')
	}
	s.pieces(rows, func(piece []byte) {
		at := len(out)
		out = append(out, piece...)
		if sum != nil {
			_, _ = sum.Write(piece) // does not fail
		}
		if s.text {
			out = rawjson.EscapeTail(out, at)
		}
	})
	if s.text {
		out = append(out, '"')
	}
	return out
}

// size returns the number of bytes that append appends. The rows have jsonSize bytes as JSON objects.
func (s shape) size(ctx context.Context, rows table.View, jsonSize int64) (int64, error) {
	if s == (shape{kind: asObjects}) && rows.Len() > 0 {
		return jsonSize, nil
	}
	// A piece is a row, which may be all there is.
	if err := memory.Take(ctx, jsonSize); err != nil {
		return 0, err
	}
	defer memory.Give(ctx, jsonSize)
	n := int64(0)
	if s.text {
		n = int64(len(`""`))
	}
	s.pieces(rows, func(piece []byte) {
		if n += int64(len(piece)); s.text {
			n += int64(rawjson.QuotedLen(piece) - len(`""`) - len(piece))
		}
	})
	return n, nil
}

// pieces calls f with the bytes of the rows in their shape, one after the other. f must not retain a piece.
func (s shape) pieces(rows table.View, f func(piece []byte)) {
	if s.kind == asCSV {
		_, _ = rows.WriteCSV(pieceWriter(f)) // f does not fail
		return
	}
	if s.rows != "" {
		w := rawjson.NewWriter(nil).Object().Key(s.columns).Array()
		for _, name := range rows.Columns() {
			w.String(name)
		}
		f(append(rawjson.AppendString(append(w.EndArray().Bytes(), ','), s.rows), ':'))
	}
	f([]byte{'['})
	var buf []byte
	between := func(i int) {
		if buf = buf[:0]; i > 0 {
			buf = append(buf, ',')
		}
	}
	if s.kind == asObjects && rows.Len() > 0 { // no rows may be no table
		row := rows.Appender()
		for i := range rows.Len() {
			between(i)
			buf = row(buf, i)
			f(buf)
		}
	} else if s.kind != asObjects {
		i := 0
		rows.Each(func(_ int, values [][]byte) bool {
			between(i)
			if s.kind == asArrays {
				buf = append(buf, '[')
			}
			for k, value := range values {
				if k > 0 {
					buf = append(buf, ',')
				}
				if value == nil {
					value = []byte("null")
				}
				buf = append(buf, value...)
			}
			if s.kind == asArrays {
				buf = append(buf, ']')
			}
			f(buf)
			i++
			return true
		})
	}
	if f([]byte{']'}); s.rows != "" {
		f([]byte{'}'})
	}
}

// pieceWriter is a function as an io.Writer.
type pieceWriter func([]byte)

// Write implements io.Writer.
func (w pieceWriter) Write(p []byte) (int, error) {
	w(p)
	return len(p), nil
}
