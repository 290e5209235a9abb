package result

import (
	"encoding/json"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// Text returns a result of one text block, in one allocation.
func Text(text []byte) json.RawMessage {
	const head, tail = `{"content":[{"type":"text","text":`, `}],"isError":false}`
	out := append(make([]byte, 0, len(head)+rawjson.QuotedLen(text)+len(tail)), head...)
	return append(rawjson.AppendText(out, text), tail...)
}

// Texts returns a result of text blocks, and of structuredContent unless it is nil. An empty block
// is omitted if there are others.
func Texts(structured []byte, texts ...string) json.RawMessage {
	var blocks []byte
	for _, text := range texts {
		if text != "" || len(texts) == 1 {
			blocks = AppendText(blocks, text)
		}
	}
	out := append([]byte(`{"content":[`), blocks...)
	out = append(out, ']')
	if structured != nil {
		out = append(append(out, `,"structuredContent":`...), structured...)
	}
	return append(out, `,"isError":false}`...)
}

func AppendBlock(dst, raw []byte) []byte {
	if len(dst) > 0 {
		dst = append(dst, ',')
	}
	return append(dst, raw...)
}

func AppendText(dst []byte, text string) []byte {
	if len(dst) > 0 {
		dst = append(dst, ',')
	}
	dst = append(dst, `{"type":"text","text":`...)
	return append(rawjson.AppendString(dst, text), '}')
}

// Result returns the error as a tool result. r removes secrets from its message. FormatJSON adds
// the error as structuredContent. FormatRaw adds MetaError, because a tool's own error could
// otherwise look the same.
func (e *Error) Result(r *Redactor, format Format) json.RawMessage {
	doc := e.AppendJSON(nil, r)
	out := append([]byte(`{"content":[`), AppendText(nil, string(doc))...)
	out = append(out, ']')
	if format == FormatJSON {
		out = append(append(out, `,"structuredContent":`...), doc...)
	}
	if format == FormatRaw {
		out = append(out, `,"_meta":{"`+MetaError+`":true}`...)
	}
	return append(out, `,"isError":true}`...)
}

// NewError returns an Error without a cause.
func NewError(code Code, message string) *Error { return &Error{Code: code, Message: message} }
