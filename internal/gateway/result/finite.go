package result

import (
	"bytes"

	"github.com/weir-mcp/weir/internal/rawjson"
)

// finiteText returns data with null in place of NaN, Infinity and -Infinity, and
// how many there were, where nothing else keeps data from being JSON: one
// document, or one object a line. Other data is returned as it is.
func finiteText(data []byte) (text []byte, replaced int) {
	body := bytes.TrimSpace(data)
	if len(body) == 0 || body[0] != '{' && body[0] != '[' {
		return data, 0
	}
	clean, n := rawjson.Finite(body)
	if n == 0 || rawjson.Valid(body) == nil {
		return data, 0
	}
	if rawjson.Valid(clean) != nil && lineRows(clean) == nil {
		return data, 0
	}
	return clean, n
}
