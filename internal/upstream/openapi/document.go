package openapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// node is an object of a document.
type node = map[string]any

// maxRefs bounds a chain of references to references.
const maxRefs = 16

// document is an OpenAPI document as it was written; references are followed where they are used.
type document struct {
	root    node
	version string
}

// parse reads a document, which is JSON or YAML.
func parse(data []byte) (*document, error) {
	var root any
	data = bytes.TrimPrefix(bytes.TrimSpace(data), []byte("\xef\xbb\xbf"))
	if bytes.HasPrefix(data, []byte("{")) {
		d := json.NewDecoder(bytes.NewReader(data))
		d.UseNumber()
		if err := d.Decode(&root); err != nil {
			return nil, fmt.Errorf("it is not JSON: %w", err)
		}
	} else {
		if err := yaml.Unmarshal(data, &root); err != nil {
			return nil, fmt.Errorf("it is not YAML: %w", err)
		}
		root = plain(root)
	}
	d := &document{}
	d.root, _ = root.(node)
	d.version, _ = d.root["openapi"].(string)
	switch {
	case d.root["swagger"] != nil:
		return nil, errors.New("it is of Swagger 2.0; convert it to OpenAPI 3")
	case !strings.HasPrefix(d.version, "3."):
		return nil, errors.New(`it has no key "openapi" with a version 3.x`)
	}
	return d, nil
}

// plain gives all objects of a decoded YAML document the type of JSON's: keys such as 200 are texts.
func plain(v any) any {
	switch v := v.(type) {
	case node:
		for k, e := range v {
			v[k] = plain(e)
		}
	case map[any]any:
		out := make(node, len(v))
		for k, e := range v {
			out[fmt.Sprint(k)] = plain(e)
		}
		return out
	case []any:
		for i, e := range v {
			v[i] = plain(e)
		}
	}
	return v
}

// find returns the value at a local reference such as #/components/schemas/Pet, nil if there is none.
func (d *document) find(ref string) any {
	pointer, local := strings.CutPrefix(ref, "#/")
	if !local {
		return nil
	}
	var at any = d.root
	for part := range strings.SplitSeq(pointer, "/") {
		part = strings.NewReplacer("~1", "/", "~0", "~", "%7B", "{", "%7D", "}", "%20", " ").Replace(part)
		switch v := at.(type) {
		case node:
			at = v[part]
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(v) {
				return nil
			}
			at = v[i]
		default:
			return nil
		}
	}
	return at
}

// object returns v, or the object that it refers to; nil if there is none.
func (d *document) object(v any) node {
	for range maxRefs {
		n, _ := v.(node)
		ref, is := n["$ref"].(string)
		if !is {
			return n
		}
		v = d.find(ref)
	}
	return nil
}

// str returns a member that is a text.
func str(n node, key string) string {
	s, _ := n[key].(string)
	return s
}

// yes returns a member that is true or false.
func yes(n node, key string) bool {
	b, _ := n[key].(bool)
	return b
}

// list returns a member that is an array.
func list(n node, key string) []any {
	l, _ := n[key].([]any)
	return l
}
