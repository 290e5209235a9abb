package splice

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
)

// Cut is what [Remove] took out of a document: the bytes, and where they stood. It marshals to JSON.
type Cut struct {
	Path   Path    `json:"path"`
	Pieces []Piece `json:"pieces"` // in the order of their places
	Value  []byte  `json:"value"`  // the value, as JSON
	Raw    []byte  `json:"raw"`    // the bytes of the value, if they are one range
	After  string  `json:"after"`  // SHA-256 of the document without it
}

// Piece is one range of bytes of a [Cut].
type Piece struct {
	At    int    `json:"at"`            // the offset in the document without the value
	Text  []byte `json:"text"`          // what stood there
	Put   []byte `json:"put,omitempty"` // what stands there instead
	Left  []byte `json:"left"`          // what stands before it
	Right []byte `json:"right"`         // what stands after it
}

// around is the number of bytes next to a piece that find its place again.
const around = 64

// A verbatim is a value with its bytes, for documents that can take them as they are.
type verbatim struct {
	text  string
	value any
}

// plain returns the value of a verbatim, and any other value as it is.
func plain(v any) any {
	if raw, ok := v.(verbatim); ok {
		return raw.value
	}
	return v
}

// hash names the contents of a document, without its byte order mark.
func hash(src []byte) string {
	sum := sha256.Sum256(src)
	return hex.EncodeToString(sum[:])
}

// cutOf records patches that were applied, so that they can be taken back.
func (d *document) cutOf(n *node, patches []patch, out []byte) Cut {
	after := out[len(d.mark):]
	value, _ := n.decode() // it was decoded for the proof
	cut := Cut{Path: d.path, After: hash(after), Value: []byte((&document{eol: "\n", root: &node{}}).jsonText(portable(value), "", false))}
	if n.placed() {
		cut.Raw = d.src[n.start:n.end]
	}
	shift := 0
	for _, p := range patches {
		at := p.off + shift
		end := at + len(p.ins)
		cut.Pieces = append(cut.Pieces, Piece{
			At: at, Text: d.src[p.off : p.off+p.del], Put: []byte(p.ins),
			Left: after[max(0, at-around):at], Right: after[end:min(len(after), end+around)],
		})
		shift += len(p.ins) - p.del
	}
	return cut
}

// Restore returns the document with the bytes of a Cut under their key. It fails with [ErrTaken] if the
// key has a value by now.
func Restore(doc []byte, f Format, cut Cut) ([]byte, error) {
	d, err := open(doc, f, cut.Path)
	if err != nil {
		return nil, err
	}
	chain, rest, err := d.find()
	if err != nil {
		return nil, err
	}
	if len(rest) == 0 {
		return nil, fmt.Errorf("%s: %w", cut.Path, ErrTaken)
	}
	value, err := Decode(cut.Value, JSON)
	if err != nil {
		return nil, fmt.Errorf("the record of %s is damaged: %w", cut.Path, err)
	}
	value = native(value)
	prove := func(patches []patch, ok bool) []byte {
		if !ok {
			return nil
		}
		out, err := d.apply(patches)
		if err != nil || d.proveSet(out, f, len(chain)-1, value) != nil {
			return nil
		}
		return out
	}
	if hash(d.src) == cut.After {
		if out := prove(d.exact(cut.Pieces)); out != nil {
			return out, nil
		}
	}
	if out := prove(d.nearby(cut.Pieces)); out != nil {
		return out, nil
	}
	if f == JSON && len(cut.Raw) > 0 {
		if out, err := d.set(f, verbatim{string(cut.Raw), value}); err == nil {
			return out, nil
		}
	}
	return d.set(f, value)
}

// exact returns the patches that take the cut back in the very document that it left.
func (d *document) exact(pieces []Piece) ([]patch, bool) {
	var patches []patch
	for _, p := range pieces {
		if p.At < 0 || p.At+len(p.Put) > len(d.src) {
			return nil, false
		}
		patches = append(patches, patch{p.At, len(p.Put), string(p.Text)})
	}
	return patches, true
}

// nearby finds the place of each piece by the bytes next to it.
func (d *document) nearby(pieces []Piece) ([]patch, bool) {
	var patches []patch
	for _, p := range pieces {
		at, err := d.place(p)
		if err != nil {
			return nil, false
		}
		patches = append(patches, patch{at, len(p.Put), string(p.Text)})
	}
	return patches, true
}

var errNoPlace = errors.New("the place cannot be found")

// place returns the offset of the one place that looks as the place of a piece did: both sides, the
// left side, or the right side.
func (d *document) place(p Piece) (int, error) {
	for _, side := range []struct{ left, right []byte }{{p.Left, p.Right}, {p.Left, nil}, {nil, p.Right}} {
		text := bytes.Join([][]byte{side.left, p.Put, side.right}, nil)
		if len(side.left)+len(side.right) < around/4 {
			continue
		}
		if i := bytes.Index(d.src, text); i >= 0 && bytes.LastIndex(d.src, text) == i {
			return i + len(side.left), nil
		}
	}
	return 0, errNoPlace
}

// literalKey marks a number or a date that JSON cannot write, such as 0x1f.
const literalKey = "\x00literal"

// portable returns a value that JSON can write.
func portable(v any) any {
	if number, ok := v.(json.Number); ok {
		if _, err := normal(number, 0); err != nil {
			return Object{{literalKey, string(number)}}
		}
	}
	return mapped(v, portable)
}

// mapped returns a value with f applied to the values directly in it.
func mapped(v any, f func(any) any) any {
	switch v := v.(type) {
	case Object:
		out := make(Object, len(v))
		for i, m := range v {
			out[i] = Member{m.Key, f(m.Value)}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = f(item)
		}
		return out
	}
	return v
}

// native undoes portable.
func native(v any) any {
	if object, ok := v.(Object); ok && len(object) == 1 && object[0].Key == literalKey {
		text, _ := object[0].Value.(string)
		return json.Number(text)
	}
	return mapped(v, native)
}
