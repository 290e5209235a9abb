package passthrough

import (
	"strconv"
	"strings"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// sameID reports whether two ids are equal, in whatever form servers write them: with other escapes,
// or 1.0 for 1.
func sameID(a, b jsonrpc.ID) bool {
	if a == b {
		return true
	}
	if a == "" || b == "" || isText(a) != isText(b) {
		return false
	}
	if isText(a) {
		return textOf(a) == textOf(b)
	}
	_, aInt := a.Int()
	_, bInt := b.Int()
	return !(aInt && bInt) && likeID(a, b) // large integers may be one floating-point number
}

// likeID reports whether some clients take one id for the other: they convert "1" to 1, or keep
// numbers as floating-point numbers.
func likeID(a, b jsonrpc.ID) bool {
	x, y := textOf(a), textOf(b)
	if x == y {
		return true
	}
	m, err := strconv.ParseFloat(strings.TrimSpace(x), 64)
	if err != nil {
		return false
	}
	n, err := strconv.ParseFloat(strings.TrimSpace(y), 64)
	return err == nil && m == n
}

// isText reports whether an id is a string.
func isText(id jsonrpc.ID) bool { return strings.HasPrefix(string(id), `"`) }

// textOf returns the text of an id that is a string, and the digits of a number.
func textOf(id jsonrpc.ID) string {
	if !isText(id) {
		return string(id)
	}
	return rawjson.Text([]byte(id))
}
