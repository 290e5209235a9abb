package smcp

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Error codes.
const (
	CodeInvalid      = 400
	CodeForbidden    = 403
	CodeNotFound     = 404
	CodeTimeout      = 408 // for peers without a version
	CodeBusy         = 429
	CodeInternal     = 500
	CodeTimeout02    = 4004 // a timeout in 0.2 and later
	CodeVersion      = 4008
	CodeNoServer     = 4014 // unknown MCP server or skill
	CodeNoCapability = 4015
	CodeSkillName    = 4016
	CodeSkillPath    = 4017
	CodeBlob         = 4018
	CodeUpload       = 4019
	CodeRoomTaken    = 4101
	CodeNoRoom       = 4103
	CodeCrossRoom    = 4104
	CodeOtherRoom    = 4106
)

// Error is a protocol error.
type Error struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Details json.RawMessage `json:"details,omitempty"` // an object, or nil
	// Server and Capability belong to CodeNoServer and CodeNoCapability.
	Server     string `json:"mcp_server,omitempty"`
	Capability string `json:"capability,omitempty"`
	// Legacy is the text of a failed join in dialects without codes. If it is "", Message is used.
	Legacy string `json:"-"`
	// Draft is that text for peers of the first draft. If it is "", Legacy is used.
	Draft string `json:"-"`
}

// Errorf returns an Error with a formatted message.
func Errorf(code int, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// With returns a copy with details, given as alternating keys and values.
func (e Error) With(pairs ...any) *Error {
	details := map[string]any{}
	for i := 0; i+1 < len(pairs); i += 2 {
		details[fmt.Sprint(pairs[i])] = pairs[i+1]
	}
	raw, err := json.Marshal(details)
	if err == nil {
		e.Details = raw
	}
	return &e
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("%s (%d)", e.Message, e.Code) }

// AsError returns the *Error in err, or an internal error without err's text, which may be
// confidential.
func AsError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Code: CodeInternal, Message: "Internal error"}
}
