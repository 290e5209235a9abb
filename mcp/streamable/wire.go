package streamable

import (
	"encoding/base64"
	"errors"
	"strings"
)

// Names of HTTP headers, in the canonical form of net/http, so that they can be keys of an
// http.Header.
const (
	// HeaderSession contains the id of a legacy session.
	HeaderSession = "Mcp-Session-Id"
	// HeaderVersion contains the protocol version (from 2025-06-18 on).
	HeaderVersion = "Mcp-Protocol-Version"
	// HeaderMethod repeats the body's method (2026-07-28).
	HeaderMethod = "Mcp-Method"
	// HeaderName repeats the name or uri that a request is about (2026-07-28). A value that is
	// not safe in a header is in the base64 form.
	HeaderName = "Mcp-Name"
	// HeaderParamPrefix is the prefix of the headers that repeat arguments whose schema has an
	// "x-mcp-header" (2026-07-28).
	HeaderParamPrefix = "Mcp-Param-"
	// HeaderLastEventID asks for the events after the given one.
	HeaderLastEventID = "Last-Event-Id"
)

// Media types of bodies.
const (
	ContentJSON = "application/json"
	ContentSSE  = "text/event-stream"
	acceptBoth  = ContentJSON + ", " + ContentSSE
)

// The sentinel around a header value that is base64 (2026-07-28).
const (
	sentinelPrefix = "=?base64?"
	sentinelSuffix = "?="
)

// errHeaderEncoding is returned for a header value that has the base64
// sentinel around something that is not base64.
var errHeaderEncoding = errors.New("not base64 between the sentinels =?base64? and ?=")

// encodeHeaderValue returns s as the value of Mcp-Name or Mcp-Param-*: unchanged if that is safe,
// else as base64 between sentinels. Unsafe are control and non-ASCII bytes, white space at either
// end, and text that looks like the sentinel itself.
func encodeHeaderValue(s string) string {
	if headerSafe(s) {
		return s
	}
	return sentinelPrefix + base64.StdEncoding.EncodeToString([]byte(s)) + sentinelSuffix
}

func headerSafe(s string) bool {
	if s == "" {
		return true
	}
	if s[0] == ' ' || s[len(s)-1] == ' ' {
		return false
	}
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			return false
		}
	}
	return !strings.HasPrefix(s, sentinelPrefix) || !strings.HasSuffix(s, sentinelSuffix)
}

// decodeHeaderValue is the inverse of encodeHeaderValue. A value without the
// sentinels is returned as it is.
func decodeHeaderValue(v string) (string, error) {
	body, ok := strings.CutPrefix(v, sentinelPrefix)
	if !ok {
		return v, nil
	}
	if body, ok = strings.CutSuffix(body, sentinelSuffix); !ok {
		return v, nil
	}
	b, err := base64.StdEncoding.DecodeString(body)
	if err != nil {
		return "", errHeaderEncoding
	}
	return string(b), nil
}

// nameParam returns the param that the header Mcp-Name repeats for a method: "name", "uri",
// "taskId" (of the tasks extension), or "" if there is none.
func nameParam(method string) string {
	switch method {
	case "tools/call", "prompts/get":
		return "name"
	case "resources/read":
		return "uri"
	case "tasks/get", "tasks/update", "tasks/cancel":
		return "taskId"
	}
	return ""
}

// ValidSessionID reports whether id may be a session id: 1 to 1024 visible
// ASCII characters.
func ValidSessionID(id string) bool {
	if id == "" || len(id) > 1024 {
		return false
	}
	for i := range len(id) {
		if id[i] < 0x21 || id[i] > 0x7e {
			return false
		}
	}
	return true
}

// mediaType returns the media type of a Content-Type header without its
// parameters, in lower case.
func mediaType(contentType string) string {
	t, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(t))
}
