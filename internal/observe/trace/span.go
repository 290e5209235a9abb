package trace

import (
	"encoding/hex"
	"encoding/json"
	"strconv"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/text"
)

// Kinds of spans, as OTLP numbers them.
const (
	kindServer = 2
	kindClient = 3
)

// Flags of spans: bit 0 says that the trace is sampled, bits 8 and 9 whether the parent is of
// another process.
const (
	flagSampled = 1 << 0
	flagKnown   = 1 << 8
	flagRemote  = 1 << 9
)

// maxName bounds the characters of a name that agents choose.
const maxName = 128

// A span is one operation of a sampled trace. One goroutine fills it in and hands it to the
// exporter; nothing changes it afterwards.
type span struct {
	to     *exporter
	trace  [16]byte
	id     [8]byte
	parent [8]byte // zero for the first span of a trace
	remote bool    // the parent is of another process
	state  string
	kind   int
	method string
	target string // the tool or the prompt
	began  time.Time
	ended  time.Time
	failed bool
	attrs  []attribute
}

// An attribute has a text, or a number if it has none.
type attribute struct {
	key    string
	text   string
	number int64
}

func (s *span) text(key, value string) {
	if value != "" {
		s.attrs = append(s.attrs, attribute{key: key, text: value})
	}
}

func (s *span) number(key string, value int64) {
	s.attrs = append(s.attrs, attribute{key: key, number: value})
}

// begin returns a span of a trace, with the attributes that all operations have. name is the raw
// name in the request's params.
func (e *exporter) begin(kind int, method string, name json.RawMessage, began time.Time) *span {
	s := &span{to: e, id: newSpanID(), kind: kind, method: text.Line(method, maxName), began: began, attrs: make([]attribute, 0, 12)}
	s.text("mcp.method.name", s.method)
	switch method {
	case "tools/call":
		s.target = text.Line(rawjson.Text(name), maxName)
		s.text("gen_ai.operation.name", "execute_tool")
		s.text("gen_ai.tool.name", s.target)
	case "prompts/get":
		s.target = text.Line(rawjson.Text(name), maxName)
		s.text("gen_ai.prompt.name", s.target)
	}
	return s
}

// traceparent returns the context that makes another span a child of s.
func (s *span) traceparent() string {
	out := make([]byte, 0, parentLength)
	out = append(out, "00-"...)
	out = hex.AppendEncode(out, s.trace[:])
	out = append(out, '-')
	out = hex.AppendEncode(out, s.id[:])
	return string(append(out, "-01"...))
}

// carried returns params with the context of s in their _meta. Params that cannot hold it are
// returned unchanged: their reader reports the fault.
func (s *span) carried(params json.RawMessage) json.RawMessage {
	out, err := rawjson.SetPath(params, rawjson.Quote(s.traceparent()), "_meta", "traceparent")
	if err == nil && s.state != "" {
		out, err = rawjson.SetPath(out, rawjson.Quote(s.state), "_meta", "tracestate")
	}
	if err != nil {
		return params
	}
	return out
}

// end hands the span to the exporter.
func (s *span) end(at time.Time, o outcome) {
	s.ended, s.failed = at, o.errorType != ""
	s.text("error.type", o.errorType)
	s.text("rpc.response.status_code", o.status)
	s.to.add(s)
}

// appendJSON appends the span as OTLP has it: ids in hexadecimal, 64-bit numbers as texts.
func (s *span) appendJSON(dst []byte) []byte {
	dst = append(dst, `{"traceId":"`...)
	dst = hex.AppendEncode(dst, s.trace[:])
	dst = append(dst, `","spanId":"`...)
	dst = hex.AppendEncode(dst, s.id[:])
	dst = append(dst, '"')
	flags := flagSampled | flagKnown
	if s.parent != [8]byte{} {
		dst = append(dst, `,"parentSpanId":"`...)
		dst = append(hex.AppendEncode(dst, s.parent[:]), '"')
		if s.remote {
			flags |= flagRemote
		}
	}
	if s.state != "" {
		dst = rawjson.AppendString(append(dst, `,"traceState":`...), s.state)
	}
	dst = strconv.AppendInt(append(dst, `,"flags":`...), int64(flags), 10)
	name := s.method
	if s.target != "" {
		name += " " + s.target
	}
	dst = rawjson.AppendString(append(dst, `,"name":`...), name)
	dst = strconv.AppendInt(append(dst, `,"kind":`...), int64(s.kind), 10)
	dst = strconv.AppendInt(append(dst, `,"startTimeUnixNano":"`...), s.began.UnixNano(), 10)
	// Times come from a clock that may be set back; the length does not.
	dst = strconv.AppendInt(append(dst, `","endTimeUnixNano":"`...), s.began.Add(s.ended.Sub(s.began)).UnixNano(), 10)
	dst = append(dst, `","attributes":`...)
	dst = appendAttributes(dst, s.attrs)
	if s.failed {
		dst = append(dst, `,"status":{"code":2}`...)
	}
	return append(dst, '}')
}

func appendAttributes(dst []byte, attrs []attribute) []byte {
	dst = append(dst, '[')
	for i, a := range attrs {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = rawjson.AppendString(append(dst, `{"key":`...), a.key)
		if a.text != "" {
			dst = rawjson.AppendString(append(dst, `,"value":{"stringValue":`...), a.text)
		} else {
			dst = strconv.AppendInt(append(dst, `,"value":{"intValue":"`...), a.number, 10)
			dst = append(dst, '"')
		}
		dst = append(dst, "}}"...)
	}
	return append(dst, ']')
}
