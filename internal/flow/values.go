package flow

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/config"
)

// leafKind is the type of a value without members.
type leafKind uint8

const (
	leafText leafKind = iota
	leafNumber
	leafTruth // true, false and null
)

// maxLeaves bounds the values that are looked at in one message. A message with more is not trusted.
const maxLeaves = 20_000

// eachLeaf calls f with each value of a JSON document that has no members, until f returns false, in the same order each
// time: a question that is made again has to have the same text. A document that cannot be read has one value, its text.
func eachLeaf(raw json.RawMessage, f func(path []string, leaf string, kind leafKind) bool) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if len(raw) == 0 {
		return
	}
	if err := d.Decode(&v); err != nil {
		f(nil, string(raw), leafText)
		return
	}
	n := 0
	walk(v, nil, &n, f)
}

func walk(v any, path []string, n *int, f func(path []string, leaf string, kind leafKind) bool) bool {
	if *n++; *n > maxLeaves {
		return f(path, "too many values", leafText) && false
	}
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if !walk(v[key], append(path[:len(path):len(path)], key), n, f) {
				return false
			}
		}
	case []any:
		for _, value := range v {
			if !walk(value, path, n, f) {
				return false
			}
		}
	case string:
		return f(path, v, leafText)
	case json.Number:
		return f(path, canonicalNumber(v.String()), leafNumber)
	default:
		return f(path, "", leafTruth)
	}
	return true
}

// canonicalNumber returns the same text for 1200 and 1200.0.
func canonicalNumber(s string) string {
	if strings.ContainsAny(s, "eE") {
		return s
	}
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// stands reports whether a value stands in a text as a word, or as words.
func stands(in, value string) bool {
	value = strings.TrimSpace(value)
	for at := 0; value != ""; {
		i := strings.Index(in[at:], value)
		if i < 0 {
			return false
		}
		from, to := at+i, at+i+len(value)
		before, _ := utf8.DecodeLastRuneInString(in[:from])
		after, _ := utf8.DecodeRuneInString(in[to:])
		first, _ := utf8.DecodeRuneInString(value)
		last, _ := utf8.DecodeLastRuneInString(value)
		if !(word(before) && word(first)) && !(word(after) && word(last)) {
			return true
		}
		at = from + 1
	}
	return false
}

func word(r rune) bool { return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r)) }

// isID reports whether a value under a key is an id, which has no room for an instruction.
func isID(path []string, value string) bool {
	if len(path) == 0 || !isName(value) {
		return false
	}
	key := strings.Trim(strings.ToLower(path[len(path)-1]), "_")
	return key == "id" || strings.HasSuffix(key, "_id")
}

// isName reports whether a value is one word of bounded length.
func isName(value string) bool {
	return len(value) > 0 && len(value) <= 64 && !strings.ContainsFunc(value, func(r rune) bool {
		return !(r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '-' || r == '_')
	})
}

// ofTypes reports whether a value is of one of the types of flow.declassify.
func ofTypes(types []string, path []string, leaf string, kind leafKind) bool {
	return slices.ContainsFunc(types, func(one string) bool {
		switch one {
		case config.TypeNumber:
			return kind != leafText
		case config.TypeID:
			return kind == leafText && isID(path, leaf)
		case config.TypeName:
			return kind == leafText && isName(leaf)
		}
		return false
	})
}

// onlyTypes reports whether all that a result says is of some types: each value, and each key as a name.
func onlyTypes(types []string, raw json.RawMessage) bool {
	var r struct {
		Content []struct {
			Type        string          `json:"type"`
			Text        string          `json:"text"`
			Annotations json.RawMessage `json:"annotations"`
			Meta        json.RawMessage `json:"_meta"`
		} `json:"content"`
		Structured json.RawMessage            `json:"structuredContent"`
		Meta       map[string]json.RawMessage `json:"_meta"`
		IsError    bool                       `json:"isError"`
	}
	if json.Unmarshal(raw, &r) != nil || r.IsError || len(r.Content) == 0 && len(r.Structured) == 0 {
		return false
	}
	for key := range r.Meta {
		if !strings.HasPrefix(key, "weir/") {
			return false
		}
	}
	texts := []string{}
	for _, b := range r.Content {
		if b.Type != "text" || b.Annotations != nil || b.Meta != nil {
			return false
		}
		texts = append(texts, b.Text)
	}
	if len(r.Structured) > 0 {
		texts = append(texts, string(r.Structured))
	}
	return !slices.ContainsFunc(texts, func(t string) bool {
		d := json.NewDecoder(strings.NewReader(t))
		d.UseNumber()
		var v any
		if d.Decode(&v) != nil || d.More() {
			return !ofTypes(types, nil, t, leafText)
		}
		return !onlyTypesIn(types, v, nil)
	})
}

func onlyTypesIn(types []string, v any, path []string) bool {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			if !isName(key) || !onlyTypesIn(types, value, append(path[:len(path):len(path)], key)) {
				return false
			}
		}
		return true
	case []any:
		return !slices.ContainsFunc(v, func(one any) bool { return !onlyTypesIn(types, one, path) })
	case string:
		return v == "" || ofTypes(types, path, v, leafText)
	case json.Number:
		return ofTypes(types, path, v.String(), leafNumber)
	case bool:
		return ofTypes(types, path, "", leafTruth)
	}
	return v == nil
}

// textsOf returns the texts of a result of MCP, and the JSON in them, as documents.
func textsOf(raw json.RawMessage) (texts []string) {
	var r struct {
		Content []struct {
			Type     string `json:"type"`
			Text     string `json:"text"`
			Resource struct {
				Text string `json:"text"`
			} `json:"resource"`
		} `json:"content"`
		Structured json.RawMessage `json:"structuredContent"`
	}
	if json.Unmarshal(raw, &r) != nil || len(r.Content) == 0 && r.Structured == nil {
		return []string{string(raw)}
	}
	for _, b := range r.Content {
		switch {
		case b.Text != "":
			texts = append(texts, b.Text)
		case b.Resource.Text != "":
			texts = append(texts, b.Resource.Text)
		}
	}
	if len(r.Structured) > 0 {
		texts = append(texts, string(r.Structured))
	}
	return texts
}
