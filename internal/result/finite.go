package result

import (
	"bytes"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	tables "github.com/weir-mcp/weir/s2sp/table"
)

// finiteText replaces NaN, Infinity and -Infinity in data by null and returns how many there were.
// It does so only if data is otherwise valid: one JSON document, or one object per line. Other data
// is returned as it is.
func finiteText(data []byte) (text []byte, replaced int) {
	body := bytes.TrimSpace(data)
	if len(body) == 0 || body[0] != '{' && body[0] != '[' {
		return data, 0
	}
	clean, n := rawjson.Finite(body)
	if n == 0 || rawjson.Valid(body) == nil {
		return data, 0
	}
	if rawjson.Valid(clean) != nil && lineRows(clean, tables.Options{}) == nil {
		return data, 0
	}
	return clean, n
}
