package codec

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/columnar"
	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// typesOf returns the types of the columns, for which it reads all rows once.
func typesOf(r columnar.Rows) []column {
	all := make([]seen, len(r.Columns))
	r.Each(func(values [][]byte) bool {
		for k := range values {
			all[k].add(values[k])
		}
		return true
	})
	types := make([]column, len(all))
	for k := range all {
		if types[k] = all[k].column(); types[k].kind == kindNull && r.Numbers[k] {
			types[k].kind = kindInt
		}
	}
	return types
}

// textOf returns the text of a value of a column of strings or of JSON, as UTF-8. It shares the bytes of
// the value where it can.
func (c column) textOf(v []byte) ([]byte, error) {
	if c.kind != kindJSON {
		if bytes.IndexByte(v, '\\') >= 0 {
			text, err := rawjson.Unquote(v)
			if err != nil {
				return nil, err
			}
			v = text
		} else {
			v = v[1 : len(v)-1]
		}
	}
	if !utf8.Valid(v) {
		v = bytes.ToValidUTF8(v, []byte("\uFFFD"))
	}
	return v, nil
}

// none reports whether a value is null or absent.
func none(v []byte) bool { return len(v) == 0 || v[0] == 'n' }

// failed names the column and the row of an error.
func failed(name string, row int, err error) error {
	return fmt.Errorf("column %q, row %d: %w", name, row, err)
}

var errValue = errors.New("the value is not of the type of the column")

// A count counts the bytes that are written.
type count struct {
	w interface{ Write([]byte) (int, error) }
	n int64
}

// Write implements io.Writer.
func (c *count) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
