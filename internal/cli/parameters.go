package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// Limits on the description of a tool's parameters.
const (
	maxParameters     = 40
	maxParameterWords = 100 // characters per description
)

// parametersText lists the parameters of a tool, required ones first. It is shown to people whose
// arguments were refused:
//
//	It takes:
//	  sku        string, required          article number, such as BIK-001
//	  warehouse  "berlin", "lyon", "porto" only this warehouse; each one if left out
//
// It returns "" if the schema has no properties.
func parametersText(schema json.RawMessage) string {
	var top struct {
		Properties map[string]schemaPart `json:"properties"`
		Required   []string              `json:"required"`
	}
	if json.Unmarshal(schema, &top) != nil || len(top.Properties) == 0 {
		return ""
	}
	names := slices.SortedFunc(maps.Keys(top.Properties), func(a, b string) int {
		need := func(name string) int {
			if slices.Contains(top.Required, name) {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(need(a), need(b)), cmp.Compare(a, b))
	})
	more := ""
	if n := len(names) - maxParameters; n > 0 {
		names, more = names[:maxParameters], fmt.Sprintf("\n  … and %d more: weir call … -o json has the schema", n)
	}
	rows := make([][3]string, len(names))
	var widths [2]int
	for i, name := range names {
		part := top.Properties[name]
		kind := part.describe()
		if slices.Contains(top.Required, name) {
			kind = strings.TrimPrefix(kind+", required", ", ")
		}
		about := rawjson.Text(rawjson.Get(rawjson.Get(rawjson.Get(schema, "properties"), name), "description"))
		rows[i] = [3]string{name, kind, cut(strings.Join(strings.Fields(about), " "), maxParameterWords)}
		for k := range widths {
			widths[k] = max(widths[k], utf8.RuneCountInString(rows[i][k]))
		}
	}
	var b strings.Builder
	b.WriteString("It takes:")
	for _, row := range rows {
		b.WriteString(strings.TrimRight(fmt.Sprintf("\n  %-*s  %-*s  %s", widths[0], row[0], widths[1], row[1], row[2]), " "))
	}
	return b.String() + more
}

// describe summarizes the values that a part of a schema allows.
func (p schemaPart) describe() string {
	if len(p.Enum) > 0 {
		values := make([]string, len(p.Enum))
		for i, v := range p.Enum {
			values[i] = string(v)
		}
		return cut(strings.Join(values, ", "), maxParameterWords/2)
	}
	types := p.types()
	slices.Sort(types)
	text := strings.Join(slices.Compact(types), " or ")
	if item, ok := p.item(); ok && text == "array" {
		if of := item.types(); len(of) == 1 {
			text += " of " + of[0] + "s"
		}
	}
	return text
}
