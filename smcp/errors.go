package smcp

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/weir-mcp/weir/internal/rawjson"
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

// Errors whose texts peers compare.
var (
	ErrPayload   = &Error{Code: CodeInvalid, Message: "Invalid request payload"}
	ErrMismatch  = &Error{Code: CodeForbidden, Message: "Role or name mismatch with existing session"}
	ErrOnlyAgent = &Error{Code: CodeForbidden, Message: "Only agents may issue client:* calls"}
	ErrRoomTaken = &Error{Code: CodeRoomTaken, Message: "Agent already in room", Legacy: "Internal server error: Agent already in room", Draft: "Agent sid should equal office_id"}
	// ErrOfficeID rejects an Agent of the first draft whose robot_id differs from its office_id.
	ErrOfficeID  = &Error{Code: CodeForbidden, Message: "Agent sid should equal office_id"}
	ErrOtherRoom = &Error{Code: CodeOtherRoom, Message: "Agent already in another room", Legacy: "Internal server error: Agent sid already in room"}
	ErrNoRoom    = &Error{Code: CodeNoRoom, Message: "Not in any room"}
	ErrCrossRoom = &Error{Code: CodeCrossRoom, Message: "Cross-room access denied"}
	ErrInternal  = &Error{Code: CodeInternal, Message: "Internal error"}
)

// NoComputer returns the error for an unknown Computer.
func NoComputer(name string) *Error {
	return Errorf(CodeNotFound, "Computer with name '%s' not found", name).With("computer_name", name)
}

// DuplicateComputer returns the error of a join under a name that is in use.
func DuplicateComputer(name, office string) *Error {
	e := Errorf(CodeForbidden, "Computer with name '%s' already exists in room '%s'", name, office)
	e.Legacy = "Internal server error: " + e.Message
	return e
}

// NewerProcess returns the error for a process whose key another process uses. The other process
// joined later and is alive.
func NewerProcess(name, office string) *Error {
	e := DuplicateComputer(name, office)
	const suffix = ": a newer process has joined with the same key"
	e.Message, e.Legacy = e.Message+suffix, e.Legacy+suffix
	return e
}

// RoleMismatch returns the error of a join in another role than before.
func RoleMismatch(wanted, has Role) *Error {
	e := *ErrMismatch
	e.Legacy = fmt.Sprintf("Role mismatch, expected %s, but %s use this sid exists", wanted, has)
	return &e
}

// ReadError returns the protocol error in an ack, in either shape, or nil.
func ReadError(ack json.RawMessage) *Error {
	if !rawjson.IsObject(ack) {
		return nil
	}
	obj := ack
	if nested := rawjson.Get(ack, "error"); rawjson.IsObject(nested) {
		obj = nested
	} else if rawjson.Get(ack, "content") != nil || rawjson.Get(ack, "req_id") != nil && rawjson.Get(ack, "message") == nil {
		return nil
	}
	var e struct {
		Code    *int            `json:"code"`
		Message *string         `json:"message"`
		Details json.RawMessage `json:"details"`
	}
	if json.Unmarshal(obj, &e) != nil || e.Code == nil || e.Message == nil {
		return nil
	}
	return &Error{Code: *e.Code, Message: *e.Message, Details: e.Details}
}

// Unwrap removes the {"Ok":…} or {"Err":"…"} that Rust peers of 0.1 put around an ack. An Err that is
// not a protocol error becomes one in the flat shape.
func Unwrap(ack json.RawMessage) json.RawMessage {
	if !rawjson.IsObject(ack) {
		return ack
	}
	var key string
	var value json.RawMessage
	n := 0
	err := rawjson.EachMember(ack, func(m rawjson.Member) bool {
		key, value = string(m.Key), m.Value
		n++
		return n < 2
	})
	if err != nil || n != 1 {
		return ack
	}
	switch key {
	case "Ok":
		return value
	case "Err":
		if ReadError(value) != nil {
			return value
		}
		text := rawjson.Text(value)
		if text == "" {
			text = string(value)
		}
		return (&Error{Code: CodeInternal, Message: text}).flat()
	}
	return ack
}
