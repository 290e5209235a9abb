package table

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// WriteCSV writes the view as comma-separated values (RFC 4180 with LF line ends). The first line
// has the column names. Strings are written without JSON quotes and escapes, all other values as
// JSON, nested ones included. Null and absent values are empty fields and empty strings are "", so
// that [Detect] and databases read them back correctly. In a view of one column both are "",
// because readers skip empty lines. WriteCSV returns the number of bytes written.
func (v View) WriteCSV(w io.Writer) (int64, error) { return v.writeSeparated(w, ',', false) }

// WriteSheet writes as WriteCSV does, for a person who opens the file in a spreadsheet program. Such a
// program evaluates a field that starts with =, +, -, @, a tab or a line break, so a name or a string
// that does gets an apostrophe before it. Numbers stay as they are.
func (v View) WriteSheet(w io.Writer) (int64, error) { return v.writeSeparated(w, ',', true) }

// WriteTSV writes as WriteCSV does, with tabs in place of commas.
func (v View) WriteTSV(w io.Writer) (int64, error) { return v.writeSeparated(w, '\t', false) }

// inert returns a text that spreadsheet programs do not evaluate. Some take the signs of full width for
// ASCII signs.
func inert(text []byte) []byte {
	if r, _ := utf8.DecodeRune(text); len(text) > 0 && evaluated(r) {
		return append([]byte{'\''}, text...)
	}
	return text
}

// evaluated reports whether programs evaluate a text that starts with r.
func evaluated(r rune) bool { return strings.ContainsRune("=+-@\t\r\n＝＋－＠", r) }

func (v View) writeSeparated(w io.Writer, comma byte, sheet bool) (int64, error) {
	if v.t == nil {
		return 0, nil
	}
	out := &separated{w: w, comma: comma}
	outs := v.shown()
	for k, o := range outs {
		name := []byte(o.name)
		if sheet {
			name = inert(name)
		}
		out.field(k, name, len(name) == 0)
	}
	out.buf = append(out.buf, '\n')
	r := v.reader(outs)
	for i := range v.Len() {
		for k, value := range r.load(i) {
			if len(value) > firstChunk {
				out.long(k, value, sheet)
				continue
			}
			kind, text := kindOf(value), plainText(value)
			if sheet && kind == kindString {
				text = inert(text)
			}
			out.field(k, text, kind == kindString || len(outs) == 1)
		}
		out.buf = append(out.buf, '\n')
		if len(out.buf) >= firstChunk {
			out.flush()
		}
		if out.err != nil {
			break
		}
	}
	out.flush()
	return out.written, wrapWrite(out.err)
}

// separated writes lines of fields. After an error it writes nothing.
type separated struct {
	w       io.Writer
	comma   byte
	buf     []byte
	written int64
	err     error
}

func (s *separated) flush() {
	s.direct(s.buf)
	s.buf = s.buf[:0]
}

// field appends field k of a line. It quotes an empty text, but not an empty null.
func (s *separated) field(k int, text []byte, isText bool) {
	if k > 0 {
		s.buf = append(s.buf, s.comma)
	}
	if len(text) == 0 && !isText || len(text) > 0 && !s.quotes(text) {
		s.buf = append(s.buf, text...)
		return
	}
	s.buf = append(s.buf, '"')
	s.doubled(text)
	s.buf = append(s.buf, '"')
}

// doubled appends a text with its quotes doubled.
func (s *separated) doubled(text []byte) {
	for {
		before, after, found := bytes.Cut(text, []byte{'"'})
		s.buf = append(s.buf, before...)
		if !found {
			return
		}
		s.buf = append(s.buf, `""`...)
		text = after
	}
}

// long writes a long value as field k, in quotes unless it is a number. It holds a piece of it at a time.
func (s *separated) long(k int, value []byte, sheet bool) {
	if k > 0 {
		s.buf = append(s.buf, s.comma)
	}
	s.flush()
	switch kindOf(value) {
	case kindNumber:
		s.direct(value)
	case kindString:
		s.buf = append(s.buf, '"')
		if err := rawjson.WriteText(&pieces{s, sheet}, value); err != nil {
			s.doubled(plainText(value)) // it is not UTF-8, or s.err is set
		}
		s.buf = append(s.buf, '"')
	default:
		s.buf = append(s.buf, '"')
		_, _ = (&pieces{s, false}).Write(value) // s.err is the error
		s.buf = append(s.buf, '"')
	}
}

// direct writes bytes without a copy.
func (s *separated) direct(p []byte) {
	if s.err == nil {
		var n int
		n, s.err = s.w.Write(p)
		s.written += int64(n)
	}
}

// pieces writes the inside of a quoted field.
type pieces struct {
	s     *separated
	first bool // of a sheet, nothing is written yet
}

// Write implements io.Writer.
func (q *pieces) Write(p []byte) (int, error) {
	if r, _ := utf8.DecodeRune(p); q.first && evaluated(r) {
		q.s.buf = append(q.s.buf, '\'')
	}
	q.first = false
	for rest := p; len(rest) > 0 && q.s.err == nil; q.s.flush() {
		n := min(len(rest), firstChunk)
		q.s.doubled(rest[:n])
		rest = rest[n:]
	}
	return len(p), q.s.err
}

// quotes reports whether a text would be misread without quotes.
func (s *separated) quotes(text []byte) bool {
	return text[0] == ' ' || text[len(text)-1] == ' ' || bytes.ContainsAny(text, "\"\r\n\t") || bytes.IndexByte(text, s.comma) >= 0
}

type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// plainText returns a value as text: without quotes, and empty for null. It may share the bytes of the value.
func plainText(value []byte) []byte {
	switch {
	case len(value) == 0 || value[0] == 'n':
		return nil
	case value[0] == '"':
		text, _ := rawjson.Unquote(value) // indexing has validated it
		return text
	}
	return value
}

// fromCSV reads comma-separated values. A column is numeric if all its non-empty fields are JSON
// numbers without exponents; otherwise it is a string column. An empty field is null; a field "" is
// an empty string.
func fromCSV(data []byte, opts Options) (*Table, error) {
	var header []string
	var numbers, filled []bool
	rows := 0
	err := eachRecord(data, func(record []csvField) error {
		if header == nil {
			if len(record) < 2 {
				return fmt.Errorf("%w: comma-separated values need two columns", ErrNotTable)
			}
			seen := map[string]bool{}
			for _, field := range record {
				name := string(field.text)
				if name == "" || seen[name] {
					return fmt.Errorf("%w: the first line names no columns: %q is empty or stands twice", ErrNotTable, name)
				}
				seen[name] = true
				header = append(header, name)
			}
			numbers, filled = make([]bool, len(header)), make([]bool, len(header))
			for i := range numbers {
				numbers[i] = true
			}
			return nil
		}
		rows++
		for i, field := range record {
			if len(field.text) > 0 {
				filled[i] = true
				numbers[i] = numbers[i] && isPlainNumber(field.text)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if rows == 0 {
		return nil, fmt.Errorf("%w: comma-separated values without a row", ErrNotTable)
	}
	b := NewBuilder(opts, nil)
	var row []byte
	var skipped bool
	err = eachRecord(data, func(record []csvField) error {
		if !skipped {
			skipped = true
			return nil
		}
		row = append(row[:0], '{')
		for i, field := range record {
			if i > 0 {
				row = append(row, ',')
			}
			row = append(rawjson.AppendString(row, header[i]), ':')
			switch {
			case len(field.text) == 0 && !field.quoted:
				row = append(row, "null"...)
			case numbers[i] && filled[i] && len(field.text) > 0:
				row = append(row, field.text...)
			default:
				row = rawjson.AppendString(row, string(field.text))
			}
		}
		return b.Append(append(row, '}'))
	})
	if err != nil {
		return nil, err
	}
	return b.Table()
}

// eachRecord calls f with the fields of each line. f must not retain them.
func eachRecord(data []byte, f func([]csvField) error) error {
	r := csvReader{data: data, line: 1}
	for {
		record, err := r.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrNotTable, err)
		}
		if err := f(record); err != nil {
			return err
		}
	}
}

// BeginsAsCSV reports whether data starts with rows+1 lines of comma-separated values with the same
// number of fields, at least two, and whether name returns true for each field of the first line.
func BeginsAsCSV(data []byte, rows int, name func(string) bool) bool {
	r := csvReader{data: data, line: 1}
	for n := range rows + 1 {
		record, err := r.next()
		if err != nil || len(record) < 2 {
			return false
		}
		for _, field := range record {
			if n == 0 && !name(string(field.text)) {
				return false
			}
		}
	}
	return true
}

func isPlainNumber(s []byte) bool {
	for _, c := range s {
		if (c < '0' || c > '9') && c != '-' && c != '.' {
			return false
		}
	}
	return s[0] != '.' && rawjson.Valid(s) == nil
}
