package a2c

import (
	"encoding/json"
	"fmt"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/smcp"
)

// Errors whose texts peers compare.
var (
	ErrPayload   = &smcp.Error{Code: smcp.CodeInvalid, Message: "Invalid request payload"}
	ErrMismatch  = &smcp.Error{Code: smcp.CodeForbidden, Message: "Role or name mismatch with existing session"}
	ErrOnlyAgent = &smcp.Error{Code: smcp.CodeForbidden, Message: "Only agents may issue client:* calls"}
	ErrRoomTaken = &smcp.Error{Code: smcp.CodeRoomTaken, Message: "Agent already in room", Legacy: "Internal server error: Agent already in room", Draft: "Agent sid should equal office_id"}
	// ErrOfficeID is the first draft's error for an Agent whose robot_id is not its office_id.
	ErrOfficeID  = &smcp.Error{Code: smcp.CodeForbidden, Message: "Agent sid should equal office_id"}
	ErrOtherRoom = &smcp.Error{Code: smcp.CodeOtherRoom, Message: "Agent already in another room", Legacy: "Internal server error: Agent sid already in room"}
	ErrNoRoom    = &smcp.Error{Code: smcp.CodeNoRoom, Message: "Not in any room"}
	ErrCrossRoom = &smcp.Error{Code: smcp.CodeCrossRoom, Message: "Cross-room access denied"}
	ErrInternal  = &smcp.Error{Code: smcp.CodeInternal, Message: "Internal error"}
)

// NoComputer returns the error for an unknown Computer.
func NoComputer(name string) *smcp.Error {
	return smcp.Errorf(smcp.CodeNotFound, "Computer with name '%s' not found", name).With("computer_name", name)
}

// DuplicateComputer returns the error of a join under a name that is in use.
func DuplicateComputer(name, office string) *smcp.Error {
	e := smcp.Errorf(smcp.CodeForbidden, "Computer with name '%s' already exists in room '%s'", name, office)
	e.Legacy = "Internal server error: " + e.Message
	return e
}

// NewerProcess returns the error for a process whose key another process uses. The other process
// joined later and is alive.
func NewerProcess(name, office string) *smcp.Error {
	e := DuplicateComputer(name, office)
	const why = ": a newer process has joined with the same key"
	e.Message, e.Legacy = e.Message+why, e.Legacy+why
	return e
}

// RoleMismatch returns the error of a join in another role than before.
func RoleMismatch(wanted, has smcp.Role) *smcp.Error {
	e := *ErrMismatch
	e.Legacy = fmt.Sprintf("Role mismatch, expected %s, but %s use this sid exists", wanted, has)
	return &e
}

// ReadError returns the protocol error in an ack, in either shape, or nil.
func ReadError(ack json.RawMessage) *smcp.Error {
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
	return &smcp.Error{Code: *e.Code, Message: *e.Message, Details: e.Details}
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
		return flat(&smcp.Error{Code: smcp.CodeInternal, Message: text})
	}
	return ack
}
