package metatool

import (
	"encoding/json"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// Small models write the arguments of meta-tools in other unambiguous forms. These are accepted;
// errors are the same as for the usual form:
//
//	tool_view     the members of the selector next to the handle; the selector as a string of JSON
//	tool_execute  "arguments" in place of "args"
//	resource_read "uri", as links spell it, in place of "resource_id"

// understoodView returns the arguments of tool_view in the usual form.
func understoodView(arguments json.RawMessage) json.RawMessage {
	if !rawjson.IsObject(arguments) {
		return arguments
	}
	if selector := rawjson.Get(arguments, "selector"); selector != nil {
		if inner := []byte(rawjson.Text(selector)); selector[0] == '"' && rawjson.IsObject(inner) && rawjson.Valid(inner) == nil {
			return replaced(arguments, "selector", inner)
		}
		return arguments
	}
	if rawjson.Get(arguments, "type") == nil {
		return arguments
	}
	var handle []byte
	twice := false
	selector := rawjson.NewWriter(nil).Object()
	err := rawjson.EachMember(arguments, func(m rawjson.Member) bool {
		if string(m.Key) == "handle" {
			twice, handle = handle != nil, m.Value
		} else {
			selector.Key(string(m.Key)).Raw(m.Value)
		}
		return !twice
	})
	if err != nil || handle == nil || twice { // the reader of the arguments says so
		return arguments
	}
	return rawjson.NewWriter(nil).Object().Key("handle").Raw(handle).Key("selector").Raw(selector.EndObject().Bytes()).EndObject().Bytes()
}

// understoodExecute returns the arguments of tool_execute in the usual form.
func understoodExecute(arguments json.RawMessage) json.RawMessage {
	return renamed(arguments, "arguments", "args")
}

// understoodRead returns the arguments of resource_read in the usual form.
func understoodRead(arguments json.RawMessage) json.RawMessage {
	return renamed(arguments, "uri", "resource_id")
}

// renamed returns an object with a member under its usual name, unless both names are there.
func renamed(arguments json.RawMessage, from, to string) json.RawMessage {
	if !rawjson.IsObject(arguments) || rawjson.Get(arguments, to) != nil {
		return arguments
	}
	value := rawjson.Get(arguments, from)
	if value == nil {
		return arguments
	}
	without, err := rawjson.Delete(arguments, from)
	if err != nil {
		return arguments
	}
	return replaced(without, to, value)
}

// replaced returns an object with a new value of a member, or the object itself if that is
// impossible.
func replaced(object json.RawMessage, key string, value []byte) json.RawMessage {
	out, err := rawjson.Set(object, key, value)
	if err != nil {
		return object
	}
	return out
}
