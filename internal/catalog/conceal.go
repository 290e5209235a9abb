package catalog

import (
	"bytes"
	"encoding/json"

	"github.com/weir-mcp/weir/internal/rawjson"
)

// Concealed returns the listing with replace applied to the texts of its definitions,
// for what must be shown to nobody, such as a server's credentials in its own
// descriptions. Names, URIs, patterns and the values that a schema allows stay: they
// mean what they are. replace returns its argument where there is nothing to do.
// Definitions that hold no such text keep their bytes.
func (l Listing) Concealed(replace func(string) string) Listing {
	for _, list := range []*[]json.RawMessage{&l.Tools, &l.Resources, &l.ResourceTemplates, &l.Prompts} {
		var changed []json.RawMessage // a copy of *list, made for the first change
		for i, raw := range *list {
			clean := conceal(raw, replace)
			if len(clean) == 0 || &clean[0] == &raw[0] {
				continue
			}
			if changed == nil {
				changed = append(changed, *list...)
			}
			changed[i] = clean
		}
		if changed != nil {
			*list = changed
		}
	}
	return l
}

// conceal applies replace to the texts of one definition.
func conceal(raw []byte, replace func(string) string) []byte {
	var out []byte
	done := 0 // raw up to here is in out
	key := ""
	for i := 0; i < len(raw); {
		n := bytes.IndexByte(raw[i:], '"')
		if n < 0 {
			break
		}
		start := i + n
		end, err := rawjson.Skip(raw, start)
		if err != nil {
			return raw // no JSON: whoever reads it says so
		}
		i = end
		text := rawjson.Text(raw[start:end])
		if colon := rawjson.SkipSpace(raw, end); colon < len(raw) && raw[colon] == ':' {
			key = text
			value := rawjson.SkipSpace(raw, colon+1)
			if value < len(raw) && raw[value] == '[' && means(key) {
				if i, err = rawjson.Skip(raw, value); err != nil {
					return raw
				}
			}
			continue
		}
		name := key
		key = ""
		if means(name) {
			continue
		}
		if clean := replace(text); clean != text {
			out = rawjson.AppendString(append(out, raw[done:start]...), clean)
			done = end
		}
	}
	if done == 0 {
		return raw
	}
	return append(out, raw[done:]...)
}

// means reports whether a text, or a list of texts, under a key means what it is: to
// replace it would make it another tool, or another schema.
func means(key string) bool {
	switch key {
	case "name", "uri", "uriTemplate", "enum", "const", "pattern", "required", "type", "format", "$ref", "$id", "$schema", "$anchor", "$dynamicRef", "mimeType":
		return true
	}
	return false
}
