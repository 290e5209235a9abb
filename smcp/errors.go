package smcp

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/weir-mcp/weir/internal/rawjson"
)

// Codes of errors.
const (
	CodeInvalid      = 400
	CodeForbidden    = 403
	CodeNotFound     = 404
	CodeTimeout      = 408 // to peers without a version
	CodeBusy         = 429
	CodeInternal     = 500
	CodeTimeout02    = 4004 // the same from 0.2 on
	CodeVersion      = 4008
	CodeNoServer     = 4014 // no such MCP server, no such skill
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

// Error is an error of the protocol.
type Error struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Details json.RawMessage `json:"details,omitempty"` // an object, or nil
	// Server and Capability go with CodeNoServer and CodeNoCapability.
	Server     string `json:"mcp_server,omitempty"`
	Capability string `json:"capability,omitempty"`
	// Legacy is the text of a failed join where the dialect has no codes; ""
	// where it is Message.
	Legacy string `json:"-"`
	// Draft is the same for peers of the first draft; "" where it is Legacy.
	Draft string `json:"-"`
}

// Errorf makes an Error.
func Errorf(code int, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// With returns a copy with details, given as key and value in turn.
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

// AsError returns the *Error in err, and an internal one where there is none:
// then the text stays here, because it may hold what is nobody's business.
func AsError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Code: CodeInternal, Message: "Internal error"}
}

// Errors with exact texts.
var (
	ErrPayload   = &Error{Code: CodeInvalid, Message: "Invalid request payload"}
	ErrMismatch  = &Error{Code: CodeForbidden, Message: "Role or name mismatch with existing session"}
	ErrOnlyAgent = &Error{Code: CodeForbidden, Message: "Only agents may issue client:* calls"}
	ErrRoomTaken = &Error{Code: CodeRoomTaken, Message: "Agent already in room", Legacy: "Internal server error: Agent already in room", Draft: "Agent sid should equal office_id"}
	// ErrOfficeID is the first draft's error for an Agent whose robot_id is not its office_id.
	ErrOfficeID  = &Error{Code: CodeForbidden, Message: "Agent sid should equal office_id"}
	ErrOtherRoom = &Error{Code: CodeOtherRoom, Message: "Agent already in another room", Legacy: "Internal server error: Agent sid already in room"}
	ErrNoRoom    = &Error{Code: CodeNoRoom, Message: "Not in any room"}
	ErrCrossRoom = &Error{Code: CodeCrossRoom, Message: "Cross-room access denied"}
	ErrInternal  = &Error{Code: CodeInternal, Message: "Internal error"}
)

// NoComputer is the error for a Computer that is not there.
func NoComputer(name string) *Error {
	return Errorf(CodeNotFound, "Computer with name '%s' not found", name).With("computer_name", name)
}

// DuplicateComputer is the error of a join under a name that is taken.
func DuplicateComputer(name, office string) *Error {
	e := Errorf(CodeForbidden, "Computer with name '%s' already exists in room '%s'", name, office)
	e.Legacy = "Internal server error: " + e.Message
	return e
}

// NewerProcess is the error of a join by one of two processes with the same key:
// the other has joined since and answers.
func NewerProcess(name, office string) *Error {
	e := DuplicateComputer(name, office)
	const why = ": a newer process has joined with the same key"
	e.Message, e.Legacy = e.Message+why, e.Legacy+why
	return e
}

// RoleMismatch is the error of a join in another role than before.
func RoleMismatch(wanted, has Role) *Error {
	e := *ErrMismatch
	e.Legacy = fmt.Sprintf("Role mismatch, expected %s, but %s use this sid exists", wanted, has)
	return &e
}

// ReadError returns the protocol error that an ack is, in either shape, or nil
// where it is none.
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

// Unwrap takes the {"Ok":…} or {"Err":"…"} off an ack that Rust peers of 0.1 put
// around it. An Err that is no error of the protocol becomes one in the flat shape.
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
