package computer

import (
	"encoding/json"
	"reflect"

	"github.com/weir-mcp/weir/internal/rawjson"
)

// Apply says which calls of a tool are made without asking its owner.
type Apply string

// The values of auto_apply. "" says nothing, which is ApplyAsk where nothing else
// says more.
const (
	ApplyAsk      Apply = "ask"       // false: none
	ApplyReadOnly Apply = "read_only" // those of tools whose server says that they only read
	ApplyAll      Apply = "all"       // true: every one
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

// MarshalJSON writes true or false, because agents know nothing else. read_only
// is false in a configuration; in the listing of a tool it has been decided.
func (a Apply) MarshalJSON() ([]byte, error) {
	if a == ApplyAll {
		return []byte("true"), nil
	}
	return []byte("false"), nil
}

// decide returns what holds for a tool with a definition: ApplyAll, ApplyAsk, or
// "" where nothing is said.
func (a Apply) decide(definition json.RawMessage) Apply {
	if a != ApplyReadOnly {
		return a
	}
	if string(rawjson.GetPath(definition, "annotations", "readOnlyHint")) == "true" {
		return ApplyAll
	}
	return ApplyAsk
}
