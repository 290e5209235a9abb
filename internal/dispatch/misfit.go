package dispatch

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/text"
)

// Bounds of what a message tells of arguments that do not fit.
const (
	toldProblems = 3
	toldUnknown  = 3
	toldKeyChars = 60
)

// misfit says in one line what is wrong with the arguments of a call: the problems that validation
// found, and the keys that the schema does not know, each with the property that it resembles.
func misfit(problems []catalog.Problem, args json.RawMessage, schema []byte) string {
	var parts []string
	told := map[string]bool{}
	for _, p := range problems[:min(len(problems), toldProblems)] {
		part := p.Message
		name := strings.TrimPrefix(p.Path, "/")
		switch {
		case p.Keyword == "required" && name != "":
			part = text.Fit(strings.ReplaceAll(name, "/", "."), toldKeyChars) + " is missing"
		case p.Path != "":
			part = text.Fit(p.Path, toldKeyChars) + ": " + part
		}
		if p.Keyword == "additionalProperties" {
			told[name] = true
		}
		parts = append(parts, part)
	}
	if more := len(problems) - toldProblems; more > 0 {
		parts = append(parts, strconv.Itoa(more)+" more problems")
	}
	return strings.Join(append(parts, unknownKeys(args, schema, told)...), "; ")
}

// unknownKeys names the keys of args that are no properties of the schema. told are the keys that
// validation has named; of these only the resemblance is told.
func unknownKeys(args json.RawMessage, schema []byte, told map[string]bool) (out []string) {
	properties := rawjson.Get(schema, "properties")
	if !rawjson.IsObject(properties) || !rawjson.IsObject(args) {
		return nil
	}
	var names []string
	_ = rawjson.EachMember(properties, func(m rawjson.Member) bool { names = append(names, string(m.Key)); return true })
	unknown := 0
	_ = rawjson.EachMember(args, func(m rawjson.Member) bool {
		key := string(m.Key)
		if rawjson.Get(properties, key) != nil {
			return true
		}
		near := resembling(key, names)
		line := ""
		switch {
		case near != "" && rawjson.Get(args, near) == nil:
			line = text.Fit(key, toldKeyChars) + " is no argument of it; did you mean " + near + "?"
		case !told[key]:
			line = text.Fit(key, toldKeyChars) + " is no argument of it"
		}
		if line != "" {
			unknown++
			out = append(out, line)
		}
		return unknown < toldUnknown
	})
	return out
}

// resembling returns the name that a key was probably meant for, "" if there is none: the same words
// in another spelling, or one that has the other in it.
func resembling(key string, names []string) string {
	plain := func(s string) string {
		return strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(s))
	}
	want, within := plain(key), ""
	for _, name := range names {
		have := plain(name)
		switch {
		case have == want, strings.TrimSuffix(have, "s") == strings.TrimSuffix(want, "s"):
			return name
		case len(have) > 2 && len(want) > 2 && (strings.Contains(want, have) || strings.Contains(have, want)):
			within = name
		}
	}
	return text.Fit(within, toldKeyChars)
}

// schemaToLearn returns a schema as an error carries it: without the member that names the dialect.
func schemaToLearn(schema []byte) []byte {
	if rawjson.Get(schema, "$schema") == nil {
		return schema
	}
	out, err := rawjson.Delete(schema, "$schema")
	if err != nil {
		return schema
	}
	return out
}
