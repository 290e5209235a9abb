package catalog

import (
	"fmt"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// OnInvalid decides about an entry whose schema is invalid or over a limit.
type OnInvalid string

const (
	// flagInvalid keeps the entry and reports a finding. It is the default.
	flagInvalid OnInvalid = "flag"
	// rejectInvalid leaves the entry out.
	rejectInvalid OnInvalid = "reject"
)

// Limits bound the schemas of upstreams, which are untrusted (spec/gateway §4.4), and say what operators
// change of their tools. Zero fields have their defaults.
type Limits struct {
	SchemaBytes      int       // serialized size; default 65,536
	SchemaDepth      int       // nesting; default 32
	SchemaProperties int       // properties of all objects together; default 512
	OnInvalid        OnInvalid // default Flag

	// Strict refuses a listing as a whole where two of its tools have one id, where a card is over its
	// budget, and where OnInvalid rejects a schema; the catalog stays as it was. Paths have groups at
	// levels of any size (spec/gateway §7).
	Strict bool

	// Overrides returns the changes of the tools of a server, nil without any. Nil changes nothing.
	Overrides func(upstream string) primitive.Overrides
}

// overridesOf returns the changes of the tools of a server.
func (l Limits) overridesOf(upstream string) primitive.Overrides {
	if l.Overrides == nil {
		return nil
	}
	return l.Overrides(upstream)
}

// most returns the number of children up to which a level is not divided.
func (l Limits) most() int {
	if l.Strict {
		return 1
	}
	return maxLevel
}

func (l Limits) withDefaults() Limits {
	if l.SchemaBytes <= 0 {
		l.SchemaBytes = 65536
	}
	if l.SchemaDepth <= 0 {
		l.SchemaDepth = 32
	}
	if l.SchemaProperties <= 0 {
		l.SchemaProperties = 512
	}
	if l.OnInvalid == "" {
		l.OnInvalid = flagInvalid
	}
	return l
}

// excess returns the limit that a schema exceeds, or "".
func (l Limits) excess(schema []byte) string {
	if len(schema) > l.SchemaBytes {
		return fmt.Sprintf("%d bytes, schema_limits.bytes is %d", len(schema), l.SchemaBytes)
	}
	depth, properties := measure(schema)
	switch {
	case depth > l.SchemaDepth:
		return fmt.Sprintf("%d levels deep, schema_limits.depth is %d", depth, l.SchemaDepth)
	case properties > l.SchemaProperties:
		return fmt.Sprintf("%d properties, schema_limits.properties is %d", properties, l.SchemaProperties)
	}
	return ""
}

// measure returns a schema's nesting depth and its number of properties. It is a single pass
// without recursion, so deep schemas are safe.
func measure(schema []byte) (depth, properties int) {
	// levels records for each open object or array whether its members are properties.
	const (
		array = iota
		object
		propertyMap
	)
	var levels []byte
	afterProperties := false // the value of a "properties" key is next
	for i := 0; i < len(schema); i++ {
		switch schema[i] {
		case '{', '[':
			level := byte(array)
			if schema[i] == '{' {
				level = object
				if afterProperties {
					level = propertyMap
				}
			}
			levels = append(levels, level)
			depth = max(depth, len(levels))
			afterProperties = false
		case '}', ']':
			if len(levels) > 0 {
				levels = levels[:len(levels)-1]
			}
		case ',':
			afterProperties = false
		case '"':
			end, err := rawjson.Skip(schema, i)
			if err != nil {
				return depth, properties // cannot happen: validated before
			}
			colon := rawjson.SkipSpace(schema, end)
			if colon < len(schema) && schema[colon] == ':' && len(levels) > 0 {
				switch levels[len(levels)-1] {
				case propertyMap:
					properties++
					afterProperties = false
				case object:
					afterProperties = string(schema[i:end]) == `"properties"`
				}
			}
			i = end - 1
		}
	}
	return depth, properties
}
