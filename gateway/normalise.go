package gateway

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-mcp/weir/rawjson"
)

// The rules of tolerant argument normalisation (gateway-surface §4.4). There
// are no others: no key is renamed or dropped, nothing is guessed.
const (
	RuleStringifiedObject = "parse_stringified_object"
	RuleStrToInteger      = "str_to_integer"
	RuleStrToNumber       = "str_to_number"
	RuleStrToBoolean      = "str_to_boolean"
	RuleStrToNull         = "str_to_null"
)

// Normalise is the link that repairs arguments before they are validated: an
// object that was written as a string, and strings where the schema of a
// top-level field demands another scalar. Every repair is in the provenance.
// Without the link nothing is repaired and nothing copied.
func Normalise() Middleware {
	return func(next Dispatcher) Dispatcher {
		return DispatcherFunc(func(ctx context.Context, c *Call) (json.RawMessage, error) {
			c.Args, c.Provenance.ArgRepairs = normalise(c.Args, c.Entry.InputSchema)
			return next.Dispatch(ctx, c)
		})
	}
}

// normalise returns args with the repairs that were possible. What cannot be
// repaired stays for validation to refuse; arguments without a repair are
// returned as they are.
func normalise(args, schema json.RawMessage) (json.RawMessage, []ArgRepair) {
	var repairs []ArgRepair
	if len(args) > 0 && args[0] == '"' {
		text := strings.TrimPrefix(rawjson.Text(args), "\ufeff")
		object := []byte(strings.TrimSpace(text))
		if len(object) == 0 || object[0] != '{' || rawjson.Valid(object) != nil {
			return args, nil
		}
		args = object
		repairs = append(repairs, ArgRepair{"$", RuleStringifiedObject})
	}
	if len(args) == 0 || args[0] != '{' {
		return args, repairs
	}
	properties := rawjson.Get(schema, "properties")
	if !rawjson.IsObject(properties) {
		return args, repairs
	}
	fields := map[string][]byte{} // schemas by name
	if rawjson.EachMember(properties, func(m rawjson.Member) bool {
		fields[string(m.Key)] = m.Value
		return true
	}) != nil {
		return args, repairs
	}
	var out []byte
	done := 0 // args up to here is in out
	err := rawjson.EachMember(args, func(m rawjson.Member) bool {
		if m.Value[0] != '"' {
			return true
		}
		value, rule := coerce(rawjson.Text(m.Value), typesOf(fields[string(m.Key)]))
		if rule == "" {
			return true
		}
		out = append(append(out, args[done:m.End-len(m.Value)]...), value...)
		done = m.End
		repairs = append(repairs, ArgRepair{"$." + string(m.Key), rule})
		return true
	})
	if err != nil || done == 0 {
		return args, repairs
	}
	return append(out, args[done:]...), repairs
}

// coerce returns the JSON that a string stands for where its field must have
// one of types, and the rule, "" if none applies. A field that may be a string
// is never coerced. Digits stay as they were written, so nothing is rounded.
func coerce(value string, types []string) (raw, rule string) {
	if len(types) == 0 || slices.Contains(types, "string") {
		return "", ""
	}
	for _, r := range []struct {
		target, rule string
		fits         func(string) bool
	}{
		{"integer", RuleStrToInteger, integerLiteral},
		{"number", RuleStrToNumber, finiteNumber},
		{"boolean", RuleStrToBoolean, func(s string) bool { return s == "true" || s == "false" }},
		{"null", RuleStrToNull, func(s string) bool { return s == "null" }},
	} {
		if slices.Contains(types, r.target) && r.fits(value) {
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

// typesOf returns the types that a field's schema declares.
func typesOf(schema []byte) []string {
	if !rawjson.IsObject(schema) {
		return nil
	}
	declared := rawjson.Get(schema, "type")
	if !rawjson.IsArray(declared) {
		if t := rawjson.Text(declared); t != "" {
			return []string{t}
		}
		return nil
	}
	var types []string
	if rawjson.EachElement(declared, func(v []byte) bool {
		types = append(types, rawjson.Text(v))
		return true
	}) != nil {
		return nil
	}
	return types
}
