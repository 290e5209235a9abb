package jsonrpc

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// Standard error codes of JSON-RPC 2.0.
const (
	CodeParseError     = -32700
	CodeInvalidRequest = -32600
	CodeMethodNotFound = -32601
	CodeInvalidParams  = -32602
	CodeInternalError  = -32603
)

// Bounds of one message.
const (
	// maxIDBytes bounds an id. Longer ones are invalid requests, because an id is copied and kept
	// while its request runs.
	maxIDBytes = 1024
	// maxMethodBytes bounds a method name.
	maxMethodBytes = 512
	// maxBatch bounds the messages of one batch (2025-03-26).
	maxBatch = 256
)

// Errors of Parse. ErrParse corresponds to code -32700, ErrInvalid to -32600.
var (
	ErrParse   = errors.New("parse error")
	ErrInvalid = errors.New("invalid request")
)

// ID is the raw JSON text of a request id: `1`, `"a"`, `1.5`. The zero ID means that there is none,
// so the message is a notification. Two ids are equal if their bytes are equal.
type ID string

// IntID returns the id n.
func IntID(n int64) ID { return ID(strconv.FormatInt(n, 10)) }

// StringID returns s as an id.
func StringID(s string) ID { return ID(rawjson.Quote(s)) }

// Int returns the value of an id that is an integer in canonical form.
func (id ID) Int() (int64, bool) {
	if id == "" || len(id) > 20 {
		return 0, false
	}
	n, err := strconv.ParseInt(string(id), 10, 64)
	return n, err == nil
}

// Kind is the kind of a message.
type Kind uint8

// The four kinds of message.
const (
	Request Kind = iota + 1
	Notification
	Response
	ErrorResponse
)

// Message is a parsed envelope. Params, Result and Err are slices of the
// input.
type Message struct {
	ID     ID     // zero for a notification, and for an error response with id null
	Method string // requests and notifications
	Params []byte // may be nil
	Result []byte // responses
	Err    []byte // error responses: the raw error object
}

// Kind returns the kind of the message.
func (m *Message) Kind() Kind {
	switch {
	case m.Method != "" && m.ID != "":
		return Request
	case m.Method != "":
		return Notification
	case m.Err != nil:
		return ErrorResponse
	}
	return Response
}

// internedMethods avoids a copy of the name of common methods.
var internedMethods = func() map[string]string {
	m := map[string]string{}
	for _, s := range []string{
		"initialize", "notifications/initialized", "ping", "server/discover", "subscriptions/listen",
		"tools/list", "tools/call", "resources/list", "resources/read", "resources/templates/list",
		"resources/subscribe", "resources/unsubscribe", "prompts/list", "prompts/get", "completion/complete",
		"logging/setLevel", "notifications/progress", "notifications/cancelled", "notifications/message",
		"notifications/tools/list_changed", "notifications/resources/list_changed",
		"notifications/prompts/list_changed", "notifications/resources/updated",
		"sampling/createMessage", "elicitation/create", "roots/list",
	} {
		m[s] = s
	}
	return m
}()

// envelopeKeys are the keys of the envelope.
var envelopeKeys = [...]string{"jsonrpc", "id", "method", "params", "result", "error"}

// envelopeKey returns the envelope key that found equals except for case, or "".
func envelopeKey(found []byte) string {
	if len(found) > 2*len("jsonrpc") { // no letter that folds to ASCII has more than three bytes, and few have more than one
		return ""
	}
	for _, key := range envelopeKeys {
		if strings.EqualFold(string(found), key) {
			return key
		}
	}
	return ""
}

// Parse reads one message. It checks the whole input's syntax. It refuses a duplicate envelope key,
// a key of a request that differs from an envelope key in case only, a missing or wrong "jsonrpc",
// an id that is neither a string nor a number, params that are neither an object nor an array
// (MCP: an object), and a name, a URI or a cursor of over 64 KB in params. The error wraps ErrParse or ErrInvalid. With ErrInvalid the message has the
// parts that could be read, so that the answer can have the id.
func Parse(data []byte) (Message, error) {
	var m Message
	var version, id, method, dup, odd []byte
	var sawResult, called bool
	err := rawjson.EachMember(data, func(f rawjson.Member) bool {
		var slot *[]byte
		switch string(f.Key) {
		case "jsonrpc":
			slot = &version
		case "id":
			slot = &id
		case "method":
			slot = &method
		case "params":
			slot = &m.Params
		case "result":
			slot, sawResult = &m.Result, true
		case "error":
			slot = &m.Err
		default:
			if key := envelopeKey(f.Key); key != "" {
				odd, called = f.Key, called || key == "method"
			}
			return true
		}
		if *slot != nil && dup == nil {
			dup = f.Key
		}
		*slot = f.Value
		return true
	})
	if err != nil {
		if errors.Is(err, rawjson.ErrType) && rawjson.Valid(data) == nil {
			return Message{}, fmt.Errorf("%w: a message is a JSON object", ErrInvalid)
		}
		return Message{}, fmt.Errorf("%w: %v", ErrParse, err)
	}
	invalid := func(format string, args ...any) (Message, error) {
		return m, fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
	}
	nullID := false
	if id != nil {
		switch c := id[0]; {
		case len(id) > maxIDBytes:
			return invalid("an id of more than %d bytes", maxIDBytes)
		case c == '"' || c == '-' || '0' <= c && c <= '9':
			m.ID = ID(id)
		case c == 'n':
			nullID = true
		default:
			return invalid("an id must be a string or a number")
		}
	}
	if dup != nil {
		m.ID = ""
		return invalid("duplicate key %q", dup)
	}
	if odd != nil && (method != nil || called) {
		if envelopeKey(odd) == "id" {
			m.ID = ""
		}
		return invalid("a key %q, which some readers take for %q: leave it out", odd, envelopeKey(odd))
	}
	if string(version) != `"2.0"` {
		return invalid(`"jsonrpc" must be "2.0"`)
	}
	if method != nil {
		if m.Err != nil || sawResult {
			return invalid("a message has either a method or a result")
		}
		if nullID {
			return invalid("a request id must not be null")
		}
		if len(method) > maxMethodBytes || len(method) < 3 || method[0] != '"' {
			return invalid("method must be a string of 1 to %d bytes", maxMethodBytes)
		}
		name := method[1 : len(method)-1]
		if s, ok := internedMethods[string(name)]; ok {
			m.Method = s
		} else if m.Method, err = rawjson.String(method); err != nil {
			return invalid("method: %v", err)
		}
		if m.Params != nil && m.Params[0] != '{' && m.Params[0] != '[' {
			if string(m.Params) != "null" {
				return invalid("params must be an object")
			}
			m.Params = nil
		}
		if err := checkNames(m.Method, m.Params); err != nil {
			return invalid("%v", err)
		}
		return m, nil
	}
	switch {
	case m.Err != nil && sawResult:
		return invalid("a response has either a result or an error")
	case m.Err == nil && !sawResult:
		return invalid("a message needs a method, a result or an error")
	case m.Err != nil && m.Err[0] != '{':
		return invalid("error must be an object")
	case m.ID == "" && m.Err == nil:
		return invalid("a response needs an id")
	}
	return m, nil
}

// CheckText returns ErrParse if data is not UTF-8, which JSON requires, or has half of a surrogate
// pair as an escape, which is no character. Parse does not check the contents of strings. A server
// must check untrusted input: many programs stop at either one, or leave the request unanswered. id
// is the id of the refused request, or "" if it is unknown.
func CheckText(data []byte) (id ID, err error) {
	switch at := rawjson.HalfPair(data, 0); {
	case !utf8.Valid(data):
		err = fmt.Errorf("%w: the text is not UTF-8", ErrParse)
	case at >= 0:
		err = fmt.Errorf(`%w: %s is half of a surrogate pair and no character: the text was cut inside a character`, ErrParse, data[at:at+6])
	default:
		return "", nil
	}
	if e := scan(data); e.method {
		id = e.id
	}
	return id, err
}

// Split returns the messages of a batch as slices of data. If data is not a batch, it is the only
// message. Only MCP 2025-03-26 has batches. An empty batch is ErrInvalid, as JSON-RPC requires, and
// so is one over maxBatch.
func Split(data []byte) (msgs [][]byte, batch bool, err error) {
	if !rawjson.IsArray(data) {
		return [][]byte{data}, false, nil
	}
	err = rawjson.EachElement(data, func(v []byte) bool {
		msgs = append(msgs, v)
		return len(msgs) <= maxBatch
	})
	switch {
	case err != nil:
		return nil, true, fmt.Errorf("%w: %v", ErrParse, err)
	case len(msgs) == 0:
		return nil, true, fmt.Errorf("%w: an empty batch", ErrInvalid)
	case len(msgs) > maxBatch:
		return nil, true, fmt.Errorf("%w: a batch of more than %d messages", ErrInvalid, maxBatch)
	}
	return msgs, true, nil
}
