package result

import (
	"bytes"
	"io"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	tables "github.com/weir-mcp/weir/s2sp/table"
)

// finite replaces NaN, Infinity and -Infinity in data by null and returns how many there were. It does so only if
// data is otherwise valid: one JSON document, or one object per line. Other data is returned as it is, and so is
// data whose copy has no room. grow counts what reading the lines takes; see [tables.Options].
func (m Maker) finite(data []byte, grow func(bytes int64) error) (text []byte, replaced int) {
	body := bytes.TrimSpace(data)
	if len(body) == 0 || body[0] != '{' && body[0] != '[' {
		return data, 0
	}
	n, _ := rawjson.CountInfinite(body)
	if n == 0 || rawjson.Valid(body) == nil {
		return data, 0
	}
	clean, err := m(body, func(w io.Writer) error { return rawjson.WriteFinite(w, body) })
	if err != nil || rawjson.Valid(clean) != nil && lineRows(clean, tables.Options{Grow: grow}) == nil {
		return data, 0
	}
	return clean, n
}
