package splice

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Format is the language of a document.
type Format int

// The formats. JSON includes comments and trailing commas.
const (
	JSON Format = iota
	TOML
	YAML
)

func (f Format) String() string {
	if f < JSON || f > YAML {
		return fmt.Sprintf("format %d", int(f))
	}
	return [...]string{"JSON", "TOML", "YAML"}[f]
}

// Path names a value by the keys from the root. In a list, "name=NAME" selects the item with a member
// "name" of that value.
type Path []string

// String joins the keys by dots, for messages. Keys that have dots are quoted.
func (p Path) String() string {
	quoted := make([]string, len(p))
	for i, key := range p {
		quoted[i] = key
		if key == "" || strings.ContainsAny(key, ".\"\n") {
			quoted[i] = quote(key)
		}
	}
	return strings.Join(quoted, ".")
}

// Object is a mapping with its members in the order of the file.
type Object []Member

// Member is one key of an Object. Its Value is a string, a bool, nil, a json.Number, an int, a []any or
// an Object.
type Member struct {
	Key   string
	Value any
}

// Get returns the value of a key, nil if the Object does not have it.
func (o Object) Get(key string) any {
	for _, m := range o {
		if m.Key == key {
			return m.Value
		}
	}
	return nil
}

// Unproven reports an edit that would have changed something else, or would not have changed what was
// asked for. The document stays as it is.
type Unproven struct {
	Path   Path
	Reason string
}

func (u *Unproven) Error() string {
	return fmt.Sprintf("cannot edit %s and leave all else as it is: %s. Edit it by hand", u.Path, u.Reason)
}

// Errors of edits that name a value which is, or is not, there.
var (
	ErrTaken   = errors.New("the name is taken")
	ErrMissing = errors.New("there is no such key")
)

// maxSize is the largest document, and maxDepth its deepest nesting.
const (
	maxSize  = 64 << 20
	maxDepth = 10_000
)

// bom is the byte order mark that some editors put first.
const bom = "\uFEFF"

// A patch replaces del bytes at off by ins.
type patch struct {
	off, del int
	ins      string
}

// A language edits documents of one format.
type language interface {
	// parse returns the tree of a document. Its ranges are offsets into doc.
	parse(doc []byte) (*node, error)
	// add plans a new member at the end of a node: rest[0] is the first key that is missing.
	add(d *document, at *node, rest Path, v any) ([]patch, error)
	// replace plans a new value in the place of the last node of a chain.
	replace(d *document, chain []*node, v any) ([]patch, error)
	// cut plans the removal of the last node of a chain.
	cut(d *document, chain []*node) ([]patch, error)
}

// A document is a parsed file.
type document struct {
	lang language
	src  []byte // without byte order mark
	mark string // the byte order mark, or ""
	root *node
	eol  string
	unit string // one step of indentation
	path Path   // of the edit, for errors and headers
}

func languageOf(f Format) (language, error) {
	switch f {
	case JSON:
		return jsonLanguage{}, nil
	case TOML:
		return tomlLanguage{}, nil
	case YAML:
		return yamlLanguage{}, nil
	}
	return nil, fmt.Errorf("%s cannot be edited", f)
}

// open parses a document.
func open(doc []byte, f Format, p Path) (*document, error) {
	lang, err := languageOf(f)
	if err != nil {
		return nil, err
	}
	if len(doc) > maxSize {
		return nil, fmt.Errorf("the document has %d bytes, more than %d", len(doc), maxSize)
	}
	src, marked := bytes.CutPrefix(doc, []byte(bom))
	d := &document{lang: lang, src: src[:len(src):len(src)], eol: "\n", path: p}
	if marked {
		d.mark = bom
	}
	if i := bytes.IndexByte(src, '\n'); i > 0 && src[i-1] == '\r' {
		d.eol = "\r\n"
	}
	if !utf8.Valid(src) {
		return nil, fmt.Errorf("the document is not UTF-8")
	}
	if d.root, err = lang.parse(d.src); err != nil {
		return nil, fmt.Errorf("the document is no %s: %w", f, err)
	}
	d.unit = unitOf(d.src)
	return d, nil
}

// apply returns the document after patches, which are in the order of their places.
func (d *document) apply(patches []patch) ([]byte, error) {
	out := make([]byte, 0, len(d.src)+1024)
	out = append(out, d.mark...)
	at := 0
	for _, p := range patches {
		if p.off < at || p.off+p.del > len(d.src) {
			return nil, &Unproven{d.path, "the places to edit overlap"}
		}
		out = append(out, d.src[at:p.off]...)
		out = append(out, p.ins...)
		at = p.off + p.del
	}
	return append(out, d.src[at:]...), nil
}

// Set returns the document with v at p. It replaces the value that is there, or adds one with the
// parents that are missing.
func Set(doc []byte, f Format, p Path, v any) ([]byte, error) {
	d, err := open(doc, f, p)
	if err != nil {
		return nil, err
	}
	want, err := normal(v, 0)
	if err != nil {
		return nil, err
	}
	return d.set(f, want)
}

func (d *document) set(f Format, v any) ([]byte, error) {
	chain, rest, err := d.find()
	if err != nil {
		return nil, err
	}
	parent := chain[len(chain)-1]
	if len(rest) == 0 {
		parent = chain[len(chain)-2]
	}
	if name, _ := nameOf(d.path[len(d.path)-1]); parent.kind == list && len(rest) <= 1 {
		v = named(name, v)
	}
	var patches []patch
	if len(rest) == 0 {
		patches, err = d.lang.replace(d, chain, v)
	} else {
		patches, err = d.lang.add(d, chain[len(chain)-1], rest, v)
	}
	if err != nil {
		return nil, err
	}
	out, err := d.apply(patches)
	if err != nil {
		return nil, err
	}
	if err := d.proveSet(out, f, len(chain)-1, plain(v)); err != nil {
		return nil, err
	}
	return out, nil
}

// Remove returns the document without the value at p, and what was cut for [Restore]. Comments above
// the value stay; a comment on its last line goes with it.
func Remove(doc []byte, f Format, p Path) (out []byte, cut Cut, err error) {
	d, err := open(doc, f, p)
	if err != nil {
		return nil, Cut{}, err
	}
	chain, rest, err := d.find()
	if err != nil {
		return nil, Cut{}, err
	}
	if len(rest) > 0 {
		return nil, Cut{}, fmt.Errorf("%s: %w", p, ErrMissing)
	}
	if last := len(p) - 1; p[last] == "name" && len(chain) > 2 && chain[last-1].kind == list {
		return nil, Cut{}, &Unproven{p, "the name is what selects the item"}
	}
	patches, err := d.lang.cut(d, chain)
	if err != nil {
		return nil, Cut{}, err
	}
	if out, err = d.apply(patches); err != nil {
		return nil, Cut{}, err
	}
	if err := d.proveCut(out, f, chain); err != nil {
		return nil, Cut{}, err
	}
	return out, d.cutOf(chain[len(chain)-1], patches, out), nil
}

// Decode returns the values of a document: Objects in the order of the file, and numbers as text.
func Decode(doc []byte, f Format) (any, error) {
	d, err := open(doc, f, nil)
	if err != nil {
		return nil, err
	}
	return d.root.decode()
}

// Lookup returns the value at p, and whether the document has one.
func Lookup(doc []byte, f Format, p Path) (any, bool, error) {
	n, _, err := lookup(doc, f, p)
	if n == nil || err != nil {
		return nil, false, err
	}
	v, err := n.decode()
	return v, err == nil, err
}

// Raw returns the bytes of the value at p as the file has them. A TOML table that several sections make
// has none; ok is false for it.
func Raw(doc []byte, f Format, p Path) (raw []byte, ok bool, err error) {
	n, d, err := lookup(doc, f, p)
	if n == nil || err != nil || !n.placed() {
		return nil, false, err
	}
	return d.src[n.start:n.end], true, nil
}

// lookup returns the node at p, nil if there is none.
func lookup(doc []byte, f Format, p Path) (*node, *document, error) {
	d, err := open(doc, f, p)
	if err != nil {
		return nil, nil, err
	}
	chain, rest, err := d.find()
	if err != nil || len(rest) > 0 {
		return nil, d, err
	}
	return chain[len(chain)-1], d, nil
}
