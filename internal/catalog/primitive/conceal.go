package primitive

import "encoding/json"

// Concealed returns the listing with replace applied to the texts of its definitions. It removes
// private texts, such as a server's credentials in its own descriptions. Names, URIs, patterns and
// the values that a schema allows are not changed, because changing them would change the tool.
// replace returns its argument if there is nothing to do. Definitions without such a text keep
// their bytes.
func (l Listing) Concealed(replace func(string) string) Listing {
	for _, list := range l.Definitions() {
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
	l.Title, l.About, l.Instructions = replace(l.Title), replace(l.About), replace(l.Instructions)
	l.Greeting = Greeting{conceal(l.Greeting.ServerInfo, replace), replace(l.Greeting.Instructions)}
	return l
}

// conceal applies replace to the texts of one definition.
func conceal(raw []byte, replace func(string) string) []byte {
	return replaceTexts(raw, textFilter{elements: true, member: func(key string, value byte) choice {
		switch {
		case !means(key):
			return replaceText
		case value == '[':
			return skipValue
		}
		return keepText
	}}, replace)
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
