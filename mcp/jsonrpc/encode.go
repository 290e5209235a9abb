package jsonrpc

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// AppendRequest appends a request. params may be nil.
func AppendRequest(dst []byte, id ID, method string, params []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = append(dst, id...)
	return appendCall(dst, method, params)
}

// AppendNotification appends a notification. params may be nil.
func AppendNotification(dst []byte, method string, params []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0"`...)
	return appendCall(dst, method, params)
}

func appendCall(dst []byte, method string, params []byte) []byte {
	dst = append(dst, `,"method":`...)
	dst = rawjson.AppendString(dst, method)
	if len(params) > 0 {
		dst = append(dst, `,"params":`...)
		dst = append(dst, params...)
	}
	return append(dst, '}')
}

// AppendResult appends a response. An empty result is written as {}.
func AppendResult(dst []byte, id ID, result []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = append(dst, id...)
	dst = append(dst, `,"result":`...)
	if len(result) == 0 {
		result = []byte("{}")
	}
	return append(append(dst, result...), '}')
}

// AppendError appends an error response. The zero id is written as null.
func AppendError(dst []byte, id ID, e *Error) []byte {
	if id == "" {
		id = "null"
	}
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = append(dst, id...)
	dst = append(dst, `,"error":`...)
	return append(e.Append(dst), '}')
}

// Error is the error object of a response. An error that was read from the wire keeps its bytes and
// is written back unchanged.
type Error struct {
	Code    int
	Message string
	Data    json.RawMessage // may be nil

	raw json.RawMessage
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("%s (%d)", e.Message, e.Code) }

// Append appends the error object's JSON.
func (e *Error) Append(dst []byte) []byte {
	if e.raw != nil {
		return append(dst, e.raw...)
	}
	dst = append(dst, `{"code":`...)
	dst = strconv.AppendInt(dst, int64(e.Code), 10)
	dst = append(dst, `,"message":`...)
	dst = rawjson.AppendString(dst, e.Message)
	if len(e.Data) > 0 {
		dst = append(dst, `,"data":`...)
		dst = append(dst, e.Data...)
	}
	return append(dst, '}')
}

// ParseError reads an error object, as in Message.Err. The bytes are cloned, so the error may
// outlive the message. A code or message of the wrong type leaves the field zero; the bytes are
// kept.
func ParseError(raw []byte) *Error {
	e := &Error{raw: append(json.RawMessage(nil), raw...)}
	var code, message, data []byte
	if rawjson.Scan(e.raw, rawjson.Key("code", &code), rawjson.Key("message", &message), rawjson.Key("data", &data)) == nil {
		if n, err := strconv.Atoi(string(code)); err == nil {
			e.Code = n
		} else if f, err := strconv.ParseFloat(string(code), 64); err == nil {
			e.Code = int(f)
		}
		e.Message = rawjson.Text(message)
		e.Data = data
	}
	return e
}
