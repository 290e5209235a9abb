package dispatch

import (
	"context"
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/result"
)

// Rules of tolerant argument normalisation (spec/gateway §4.4). There are no others: no key is
// renamed or dropped, nothing is guessed.
const (
	ruleStringifiedObject = "parse_stringified_object"
	ruleStrToInteger      = "str_to_integer"
	ruleStrToNumber       = "str_to_number"
	ruleStrToBoolean      = "str_to_boolean"
	ruleStrToNull         = "str_to_null"
)

// Normalise repairs arguments before their validation: an object that was written as a string, and
// strings where the schema of a top-level field requires another scalar. It records each repair in
// the provenance.
func Normalise() Step {
	return Step{Phase: PhaseMend, Name: "normalise", Before: func(_ context.Context, c *Call) error {
		c.Args, c.Provenance.ArgRepairs = normalise(c.Args, c.Entry.InputSchema)
		return nil
	}}
}

// normalise returns args with all possible repairs. The validation refuses the rest. Arguments
// without a repair are returned as they are.
func normalise(args, schema json.RawMessage) (json.RawMessage, []result.ArgRepair) {
	var repairs []result.ArgRepair
	if len(args) > 0 && args[0] == '"' {
		text := strings.TrimPrefix(rawjson.Text(args), "\ufeff")
		object := []byte(strings.TrimSpace(text))
		if len(object) == 0 || object[0] != '{' || rawjson.Valid(object) != nil || rawjson.HalfPair(object, 0) >= 0 {
			return args, nil
		}
		args = object
		repairs = append(repairs, result.ArgRepair{Path: "$", Rule: ruleStringifiedObject})
	}
	if len(args) == 0 || args[0] != '{' {
		return args, repairs
	}
	var fields map[string]typeSet // nil until needed
	var out []byte
	done := 0 // args[:done] has been copied to out
	err := rawjson.EachMember(args, func(m rawjson.Member) bool {
		value := literalIn(m.Value)
		if value == "" {
			return true
		}
		if fields == nil {
			fields = fieldTypes(schema)
		}
		value, rule := coerce(value, fields[string(m.Key)])
		if rule == "" {
			return true
		}
		out = append(append(out, args[done:m.End-len(m.Value)]...), value...)
		done = m.End
		repairs = append(repairs, result.ArgRepair{Path: "$." + string(m.Key), Rule: rule})
		return true
	})
	if err != nil || done == 0 {
		return args, repairs
	}
	return append(out, args[done:]...), repairs
}

// literalIn returns the text of a JSON string if it may be the literal of another scalar, "" if not or
// if raw is no string. Texts that are none need no look at the schema.
func literalIn(raw []byte) string {
	if raw[0] != '"' {
		return ""
	}
	switch c := raw[1]; {
	case c == '-', c >= '0' && c <= '9', c == 't', c == 'f', c == 'n', c == '\\':
	default:
		return ""
	}
	text := rawjson.Text(raw)
	for _, t := range [...]typeSet{schemaInteger, schemaNumber, schemaBoolean, schemaNull} {
		if _, rule := coerce(text, t); rule != "" {
			return text
		}
	}
	return ""
}

// fieldTypes returns the types of the top-level fields in a schema.
func fieldTypes(schema json.RawMessage) map[string]typeSet {
	of, fields := Schemas{schema}, map[string]typeSet{}
	of.each(schema, func(one []byte) bool {
		if properties := rawjson.Get(one, "properties"); rawjson.IsObject(properties) {
			// The operator has been told of a truncated schema; the part that was read counts.
			_ = rawjson.EachMember(properties, func(m rawjson.Member) bool {
				fields[string(m.Key)] |= of.types(m.Value)
				return true
			})
		}
		return true
	})
	return fields
}

// coerce returns the JSON of a string whose field must have one of types, and the rule, or "" if
// none applies. It never coerces a field that may be a string, or whose types are unknown. Digits
// stay as written, so nothing is rounded.
func coerce(value string, types typeSet) (raw, rule string) {
	if types&schemaString != 0 {
		return "", ""
	}
	for _, r := range [...]struct {
		target typeSet
		rule   string
		fits   func(string) bool
	}{
		{schemaInteger, ruleStrToInteger, integerLiteral},
		{schemaNumber, ruleStrToNumber, finiteNumber},
		{schemaBoolean, ruleStrToBoolean, func(s string) bool { return s == "true" || s == "false" }},
		{schemaNull, ruleStrToNull, func(s string) bool { return s == "null" }},
	} {
		if types&r.target != 0 && r.fits(value) {
			return value, r.rule
		}
	}
	return "", ""
}

// integerLiteral reports whether s is an integer as JSON writes one.
func integerLiteral(s string) bool {
	digits := strings.TrimPrefix(s, "-")
	if digits == "" || len(digits) > 1 && digits[0] == '0' {
		return false
	}
	return strings.Trim(digits, "0123456789") == ""
}

// finiteNumber reports whether s is a number as JSON writes one that a float
// can hold.
func finiteNumber(s string) bool {
	if s == "" || s[0] != '-' && (s[0] < '0' || s[0] > '9') || rawjson.Valid([]byte(s)) != nil || strings.TrimSpace(s) != s {
		return false
	}
	f, err := strconv.ParseFloat(s, 64)
	return err == nil && !math.IsInf(f, 0)
}
