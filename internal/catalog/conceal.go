package catalog

import (
	"bytes"
	"encoding/json"

	"github.com/weir-mcp/weir/internal/rawjson"
)

// Concealed returns the listing with replace applied to the texts of its definitions. It removes
// private texts, such as a server's credentials in its own descriptions. Names, URIs, patterns and
// the values that a schema allows are not changed, because changing them would change the tool.
// replace returns its argument if there is nothing to do. Definitions without such a text keep
// their bytes.
func (l Listing) Concealed(replace func(string) string) Listing {
	for _, list := range []*[]json.RawMessage{&l.Tools, &l.Resources, &l.ResourceTemplates, &l.Prompts} {
		var changed []json.RawMessage // copy of *list, made for the first change
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
	done := 0 // out has raw up to here
	key := ""
	for i := 0; i < len(raw); {
		n := bytes.IndexByte(raw[i:], '"')
		if n < 0 {
			break
		}
		start := i + n
		end, err := rawjson.Skip(raw, start)
		if err != nil {
			return raw // not JSON: reported where it is parsed
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

// means reports whether the texts under a key are significant: replacing them would change the tool
// or its schema.
func means(key string) bool {
	switch key {
	case "name", "uri", "uriTemplate", "enum", "const", "pattern", "required", "type", "format", "$ref", "$id", "$schema", "$anchor", "$dynamicRef", "mimeType":
		return true
	}
	return false
}
