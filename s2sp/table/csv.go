package table

import (
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
func inert(text string) string {
	r, _ := utf8.DecodeRuneInString(text)
	if text != "" && strings.ContainsRune("=+-@\t\r\n＝＋－＠", r) {
		return "'" + text
	}
	return text
}

func (v View) writeSeparated(w io.Writer, comma byte, sheet bool) (int64, error) {
	if v.t == nil {
		return 0, nil
	}
	out := &separated{comma: comma}
	outs := v.shown()
	for k, o := range outs {
		name := o.name
		if sheet {
			name = inert(name)
		}
		out.field(k, name, name == "")
	}
	out.buf = append(out.buf, '\n')
	var written int64
	r := v.reader(outs)
	for i := range v.Len() {
		for k, value := range r.load(i) {
			kind, text := kindOf(value), plainText(value)
			if sheet && kind == kindString {
				text = inert(text)
			}
			out.field(k, text, kind == kindString || len(outs) == 1)
		}
		out.buf = append(out.buf, '\n')
		if len(out.buf) >= firstChunk {
			n, err := w.Write(out.buf)
			written += int64(n)
			if err != nil {
				return written, wrapWrite(err)
			}
			out.buf = out.buf[:0]
		}
	}
	n, err := w.Write(out.buf)
	return written + int64(n), wrapWrite(err)
}

// separated assembles lines of fields.
type separated struct {
	comma byte
	buf   []byte
}

// field appends field k of a line. It quotes an empty text, but not an empty null.
func (s *separated) field(k int, text string, isText bool) {
	if k > 0 {
		s.buf = append(s.buf, s.comma)
	}
	if text == "" && !isText || text != "" && !s.quotes(text) {
		s.buf = append(s.buf, text...)
		return
	}
	s.buf = append(s.buf, '"')
	for {
		before, after, found := strings.Cut(text, `"`)
		s.buf = append(s.buf, before...)
		if !found {
			break
		}
		s.buf = append(s.buf, `""`...)
		text = after
	}
	s.buf = append(s.buf, '"')
}

// quotes reports whether a text would be misread without quotes.
func (s *separated) quotes(text string) bool {
	return text[0] == ' ' || text[len(text)-1] == ' ' || strings.ContainsAny(text, "\"\r\n\t") || strings.IndexByte(text, s.comma) >= 0
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

// plainText returns a value as text: without quotes, and empty for null.
func plainText(value []byte) string {
	switch {
	case len(value) == 0 || value[0] == 'n':
		return ""
	case value[0] == '"':
		return rawjson.Text(value)
	}
	return string(value)
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
