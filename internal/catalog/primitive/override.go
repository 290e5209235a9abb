package primitive

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// Overrides are the changes of the tools of one server, by the server's names of the tools.
type Overrides map[string]*Override

// Shown returns the Override of the tool that agents see under a name, nil if none changes it. ok is false
// for a name that no tool has any more.
func (all Overrides) Shown(name string) (o *Override, ok bool) {
	for _, o := range all {
		if o.Name == name || o.Name == "" && o.Tool == name {
			return o, true
		}
	}
	return nil, all[name] == nil
}

// Override is what an operator changes of the definition of a tool:
//
//	the server's definition ─▶ Apply ─▶ what agents see
//	the arguments of a call ─▶ Check ─▶ Fill ─▶ what the server gets
//
// It is immutable.
type Override struct {
	// Tool is the server's name of the tool.
	Tool string
	// Name, Title and Description stand in place of what the server says. "" changes nothing.
	Name, Title, Description string
	// Hidden are parameters that agents do not see and cannot set, fixed ones included.
	Hidden map[string]bool
	// Values stand for fixed parameters, and for parameters that a call leaves out.
	Values map[string]json.RawMessage
	// Annotations are an object whose members replace the same ones of the server, or nil.
	Annotations json.RawMessage
}

// Apply returns the definition that agents see. The error says which parameter the server requires and
// the Override hides without a value; it names the key of the configuration below overrides.TOOL.
func (o *Override) Apply(raw json.RawMessage) (json.RawMessage, error) {
	var err error
	set := func(key string, value []byte) {
		if err == nil {
			raw, err = rawjson.Set(raw, key, value)
		}
	}
	for _, text := range []struct{ key, value string }{{"name", o.Name}, {"title", o.Title}, {"description", o.Description}} {
		if text.value != "" {
			set(text.key, rawjson.Quote(text.value))
		}
	}
	if len(o.Annotations) > 0 || o.Title != "" {
		annotations := merged(rawjson.Get(raw, "annotations"), o.Annotations)
		if o.Title != "" && rawjson.Get(annotations, "title") != nil {
			annotations, _ = rawjson.Set(annotations, "title", rawjson.Quote(o.Title))
		}
		if len(annotations) > 0 {
			set("annotations", annotations)
		}
	}
	if schema := rawjson.Get(raw, "inputSchema"); rawjson.IsObject(schema) && len(o.Hidden)+len(o.Values) > 0 {
		shown, problem := o.schema(schema)
		if problem != nil {
			return nil, problem
		}
		set("inputSchema", shown)
	}
	return raw, err
}

// merged returns an object with the members of over in place of its own.
func merged(object, over []byte) []byte {
	if !rawjson.IsObject(object) {
		return over
	}
	_ = rawjson.EachMember(over, func(m rawjson.Member) bool {
		if next, err := rawjson.Set(object, string(m.Key), m.Value); err == nil {
			object = next
		}
		return true
	})
	return object
}

// schema returns the schema of the arguments that agents see.
func (o *Override) schema(schema []byte) ([]byte, error) {
	var required []string
	var problem error
	_ = rawjson.EachElement(rawjson.Get(schema, "required"), func(value []byte) bool {
		name := rawjson.Text(value)
		switch _, has := o.Values[name]; {
		case has:
		case o.Hidden[name]:
			problem = fmt.Errorf("hide: the server requires the parameter %q; give it a value in default or fixed, or show it", name)
		default:
			required = append(required, name)
		}
		return problem == nil
	})
	if problem != nil {
		return nil, problem
	}
	properties := rawjson.Get(schema, "properties")
	var err error
	for _, name := range slices.Sorted(maps.Keys(o.Hidden)) {
		if properties, err = rawjson.Delete(properties, name); err != nil {
			return nil, err
		}
	}
	for name, value := range o.Values {
		property := rawjson.Get(properties, name)
		if o.Hidden[name] || !rawjson.IsObject(property) {
			continue
		}
		if property, err = rawjson.Set(property, "default", value); err == nil {
			properties, err = rawjson.Set(properties, name, property)
		}
		if err != nil {
			return nil, err
		}
	}
	if properties != nil {
		if schema, err = rawjson.Set(schema, "properties", properties); err != nil {
			return nil, err
		}
	}
	if rawjson.Get(schema, "required") == nil {
		return schema, nil
	}
	if required == nil {
		return rawjson.Delete(schema, "required")
	}
	list, err := json.Marshal(required)
	if err != nil {
		return nil, err
	}
	return rawjson.Set(schema, "required", list)
}

// Unknown returns the parameters that the Override names and the schema of the server lacks, sorted.
func (o *Override) Unknown(raw json.RawMessage) (names []string) {
	properties := rawjson.GetPath(raw, "inputSchema", "properties")
	for name := range o.Hidden {
		if rawjson.Get(properties, name) == nil {
			names = append(names, name)
		}
	}
	for name := range o.Values {
		if rawjson.Get(properties, name) == nil && !o.Hidden[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Check returns an error for arguments that set a hidden parameter. o may be nil.
func (o *Override) Check(args json.RawMessage) error {
	if o == nil || len(o.Hidden) == 0 || !rawjson.IsObject(args) {
		return nil
	}
	var set []string
	err := rawjson.EachMember(args, func(m rawjson.Member) bool {
		for name := range o.Hidden {
			if strings.EqualFold(name, string(m.Key)) { // servers that ignore case would take it
				set = append(set, name)
			}
		}
		return true
	})
	if err == nil && set != nil {
		err = fmt.Errorf("the tool has no parameter %q: leave it out", strings.Join(set, `", "`))
	}
	return err
}

// errNoObject says that arguments are no object.
var errNoObject = errors.New("the arguments are not an object")

// Fill returns the arguments that the server gets. o may be nil.
func (o *Override) Fill(args json.RawMessage) (json.RawMessage, error) {
	if o == nil || len(o.Values) == 0 {
		return args, nil
	}
	if args = bytes.TrimSpace(args); len(args) == 0 || string(args) == "null" {
		args = json.RawMessage("{}")
	}
	if !rawjson.IsObject(args) {
		return nil, errNoObject
	}
	var err error
	for _, name := range slices.Sorted(maps.Keys(o.Values)) {
		if !o.Hidden[name] && rawjson.Get(args, name) != nil {
			continue
		}
		if args, err = rawjson.Set(args, name, o.Values[name]); err != nil {
			return nil, err
		}
	}
	return args, nil
}
