package computer

import (
	"encoding/json"
	"reflect"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// Apply is a confirmation rule: it selects the tool calls that need no confirmation.
type Apply string

// Values of auto_apply. "" means unset; the default is ApplyAsk.
const (
	ApplyAsk      Apply = "ask"       // false: every call is confirmed
	ApplyReadOnly Apply = "read_only" // calls of tools that their server declares read-only need no confirmation
	ApplyAll      Apply = "all"       // true: no call is confirmed
)

// UnmarshalJSON reads true, false, null or "read_only".
func (a *Apply) UnmarshalJSON(raw []byte) error {
	switch string(raw) {
	case "null":
		*a = ""
	case "true":
		*a = ApplyAll
	case "false":
		*a = ApplyAsk
	case `"read_only"`:
		*a = ApplyReadOnly
	default:
		return &json.UnmarshalTypeError{Value: string(raw), Type: reflect.TypeFor[Apply]()}
	}
	return nil
}

// MarshalJSON writes true or false, the only values that agents know. read_only is written as false
// in a configuration; the listing of a tool has the decided value.
func (a Apply) MarshalJSON() ([]byte, error) {
	if a == ApplyAll {
		return []byte("true"), nil
	}
	return []byte("false"), nil
}

// decide returns the rule for a tool with the given definition: ApplyAll, ApplyAsk, or "" if unset.
func (a Apply) decide(definition json.RawMessage) Apply {
	if a != ApplyReadOnly {
		return a
	}
	if string(rawjson.GetPath(definition, "annotations", "readOnlyHint")) == "true" {
		return ApplyAll
	}
	return ApplyAsk
}
