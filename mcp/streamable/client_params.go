package streamable

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/mcp"
)

// maxParamHeaders bounds the headers of one tool.
const maxParamHeaders = 64

// ParamHeaders are the arguments of one tool that a modern tools/call repeats in headers
// Mcp-Param-*, because their schema has an "x-mcp-header" (2026-07-28). ParseParamHeaders makes
// them once per tool. They are safe for concurrent use.
type ParamHeaders []paramHeader

type paramHeader struct {
	path   []string // from arguments down
	header string   // canonical
}

// ParseParamHeaders finds the annotations in a tool's inputSchema, at any depth of its properties.
// It returns an error for an invalid annotation: on a property that is not a string, integer or
// boolean, with a value that is not a header name, or with a repeated name. Such a tool should not
// be offered.
func ParseParamHeaders(inputSchema json.RawMessage) (ParamHeaders, error) {
	if !rawjson.MayHold(inputSchema, "x-mcp-header") {
		return nil, nil
	}
	var out ParamHeaders
	err := out.collect(inputSchema, nil)
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (p *ParamHeaders) collect(schema []byte, path []string) error {
	properties := rawjson.Get(schema, "properties")
	if !rawjson.IsObject(properties) {
		return nil
	}
	var failed error
	err := rawjson.EachMember(properties, func(m rawjson.Member) bool {
		at := append(path[:len(path):len(path)], string(m.Key))
		if failed = p.property(m.Value, at); failed == nil {
			failed = p.collect(m.Value, at)
		}
		return failed == nil
	})
	if err != nil {
		return err
	}
	return failed
}

func (p *ParamHeaders) property(schema []byte, path []string) error {
	if !rawjson.IsObject(schema) {
		return nil
	}
	var declared, kind []byte
	if err := rawjson.Scan(schema, rawjson.Key("x-mcp-header", &declared), rawjson.Key("type", &kind)); err != nil {
		return err
	}
	if declared == nil {
		return nil
	}
	name := rawjson.Text(declared)
	if !isToken(name) {
		return fmt.Errorf("property %q: x-mcp-header %.80s is no header name", strings.Join(path, "."), declared)
	}
	switch rawjson.Text(kind) {
	case "string", "integer", "boolean":
	default:
		return fmt.Errorf("property %q: x-mcp-header needs the type string, integer or boolean", strings.Join(path, "."))
	}
	header := http.CanonicalHeaderKey(HeaderParamPrefix + name)
	for _, other := range *p {
		if other.header == header {
			return fmt.Errorf("property %q: x-mcp-header %q is that of %q, too", strings.Join(path, "."), name, strings.Join(other.path, "."))
		}
	}
	if len(*p) == maxParamHeaders {
		return fmt.Errorf("more than %d properties have an x-mcp-header", maxParamHeaders)
	}
	*p = append(*p, paramHeader{path: path, header: header})
	return nil
}

// isToken reports whether s is a token of RFC 9110 §5.6.2.
func isToken(s string) bool {
	if s == "" {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return true
}

// Equal reports whether p and q have the same headers for the same arguments.
func (p ParamHeaders) Equal(q ParamHeaders) bool {
	return slices.EqualFunc(p, q, func(a, b paramHeader) bool {
		return a.header == b.header && slices.Equal(a.path, b.path)
	})
}

// Set adds the headers for the params of a tools/call to h. An argument that is absent, null or of
// another type gets no header.
func (p ParamHeaders) Set(h http.Header, params json.RawMessage) {
	if len(p) == 0 {
		return
	}
	arguments := rawjson.Get(params, "arguments")
	for _, ph := range p {
		if v, ok := primitive(rawjson.GetPath(arguments, ph.path...)); ok {
			h[ph.header] = []string{encodeHeaderValue(v)}
		}
	}
}

// Check compares the headers of a received tools/call with its params. If a header is missing,
// differs, or belongs to an absent argument, the error is of mcp.KindHeaderMismatch.
func (p ParamHeaders) Check(h http.Header, params json.RawMessage) error {
	if len(p) == 0 {
		return nil
	}
	arguments := rawjson.Get(params, "arguments")
	for _, ph := range p {
		raw := rawjson.GetPath(arguments, ph.path...)
		want, ok := primitive(raw)
		got := h[ph.header]
		argument := strings.Join(ph.path, ".")
		switch {
		case !ok && len(got) == 0:
			continue
		case !ok:
			return mcp.Errorf(mcp.KindHeaderMismatch, "header %s is there, but the argument %q is absent or no string, integer or boolean", ph.header, argument)
		case len(got) != 1:
			return mcp.Errorf(mcp.KindHeaderMismatch, "header %s must be there once, because the argument %q is", ph.header, argument)
		}
		told, err := decodeHeaderValue(got[0])
		if err != nil {
			return mcp.Errorf(mcp.KindHeaderMismatch, "header %s: %w", ph.header, err)
		}
		if told != want {
			// 42.0 is the integer 42.
			if n, ok := integer(told); !ok || n != want || raw[0] == '"' {
				return mcp.Errorf(mcp.KindHeaderMismatch, "header %s does not say the same as the argument %q", ph.header, argument)
			}
		}
	}
	return nil
}

// primitive returns the text of a string, boolean or safe integer.
func primitive(raw []byte) (string, bool) {
	if len(raw) == 0 {
		return "", false
	}
	switch c := raw[0]; {
	case c == '"':
		s, err := rawjson.String(raw)
		return s, err == nil
	case c == 't', c == 'f':
		return string(raw), true
	case c == '-' || ('0' <= c && c <= '9'):
		return integer(string(raw))
	}
	return "", false
}

// integer returns a number in canonical form if it is an integer that every JSON reader keeps
// exactly.
func integer(s string) (string, bool) {
	const safe = 1<<53 - 1
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f > safe || f < -safe || f != float64(int64(f)) {
		return "", false
	}
	return strconv.FormatInt(int64(f), 10), true
}
