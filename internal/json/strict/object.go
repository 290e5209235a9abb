package strict

import (
	"encoding/json"

	"go.yaml.in/yaml/v3"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// Object is a mapping of the file as a JSON object. Its keys keep their order, and variables of its
// texts are replaced.
type Object json.RawMessage

// DecodeStrict reads the mapping.
func (o *Object) DecodeStrict(d *Decoder, n *Node, path string) {
	if n.Kind != yaml.MappingNode {
		d.Wrong(n, path, "a mapping")
		return
	}
	w := rawjson.NewWriter(nil)
	if writeNode(d, w, n, path, 0) {
		*o = w.Bytes()
	}
}

// maxObjectDepth bounds the depth of an Object.
const maxObjectDepth = 64

// writeNode writes a value of the file as JSON. It reports false if it has reported a problem.
func writeNode(d *Decoder, w *rawjson.Writer, n *Node, path string, depth int) (ok bool) {
	if depth > maxObjectDepth {
		d.Fail(n, path, "%s is nested more than %d deep", path, maxObjectDepth)
		return false
	}
	switch n.Kind {
	case yaml.MappingNode:
		w.Object()
		ok = true
		for _, p := range d.Pairs(n, path) {
			w.Key(p.Key.Value)
			ok = ok && writeNode(d, w, p.Value, Join(path, p.Key.Value), depth+1)
		}
		w.EndObject()
		return ok
	case yaml.SequenceNode:
		w.Array()
		ok = true
		d.Each(n, path, "a list", func(item *Node, here string) {
			ok = ok && writeNode(d, w, item, here, depth+1)
		})
		w.EndArray()
		return ok
	}
	if isScalar(n, "!!str") {
		text, ok := d.Text(n, path)
		w.String(text)
		return ok
	}
	var value any
	err := n.Decode(&value)
	var raw []byte
	if err == nil {
		raw, err = json.Marshal(value)
	}
	if err != nil {
		d.Fail(n, path, "%s has no form in JSON: %v", path, err)
		return false
	}
	w.Raw(raw)
	return true
}
