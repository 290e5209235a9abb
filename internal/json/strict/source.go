package strict

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// MaxFile bounds a file, in bytes. MCP clients keep state in the file that has their mcpServers, so it is generous.
const MaxFile = 8 << 20

// maxDepth bounds nesting in JSON. The YAML reader has a bound of its own.
const maxDepth = 100

// KindOfFile returns what a file's name and first character say of it: isJSON tells JSON from YAML, and foreign is set for a
// JSON file that is not weir's own, such as .mcp.json. data may be nil.
func KindOfFile(name string, data []byte) (isJSON, foreign bool) {
	base := strings.ToLower(filepath.Base(name))
	switch filepath.Ext(base) {
	case ".yaml", ".yml":
		return false, false
	case ".json", ".jsonc":
		return true, base != "weir.json" && base != "weir.jsonc"
	}
	trimmed := bytes.TrimSpace(bytes.TrimPrefix(data, []byte("\ufeff")))
	isJSON = bytes.HasPrefix(trimmed, []byte("{"))
	return isJSON, isJSON
}

// syntaxError is a text that cannot be read at all.
type syntaxError struct {
	line, column int
	message      string
}

func (e *syntaxError) Error() string { return e.message }

// readYAML returns the document's root, or nil for an empty one.
func readYAML(data []byte) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	if err := decoder.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, yamlError(err, data)
	}
	var more yaml.Node
	if err := decoder.Decode(&more); err == nil {
		return nil, &syntaxError{more.Line, 1, "a second document begins here; put everything into one"}
	} else if !errors.Is(err, io.EOF) {
		return nil, yamlError(err, data)
	}
	if len(doc.Content) == 0 {
		return nil, nil
	}
	return doc.Content[0], nil
}

// yamlError takes the line out of the reader's message, and explains the one
// mistake that ${…} invites.
func yamlError(err error, data []byte) error {
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 0
	if m := regexp.MustCompile(`^line (\d+): `).FindStringSubmatch(message); m != nil {
		line, _ = strconv.Atoi(m[1])
		message = strings.TrimPrefix(message, m[0])
	}
	// The reader numbers the lines of its grammar's errors from 0, of its
	// scanner's from 1, and leaves out a 0.
	for _, grammar := range []string{"did not find expected", "found undefined tag handle", "found duplicate %", "found incompatible YAML"} {
		if strings.HasPrefix(message, grammar) {
			line++
		}
	}
	lines := bytes.Split(data, []byte("\n"))
	if line > 0 && line <= len(lines) && bytes.Contains(lines[line-1], []byte("${")) {
		message += "; inside [ ] or { } a text with ${…} needs quotes"
	}
	if strings.Contains(message, "found character that cannot start any token") && line > 0 && line <= len(lines) &&
		bytes.HasPrefix(bytes.TrimLeft(lines[line-1], " "), []byte("\t")) {
		message += "; indent with spaces, not tabs"
	}
	return &syntaxError{line: line, message: "not valid YAML: " + message}
}

// readJSON returns the root of a JSON text in the same form as readYAML. Line and
// block comments and trailing commas, which VS Code's files have, are allowed.
func readJSON(data []byte) (*yaml.Node, error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	r := &jsonReader{text: data, lines: lineStarts(data)}
	if at := firstInvalid(data); at >= 0 {
		return nil, r.fail(at, "not valid JSON: not UTF-8 text")
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, nil
	}
	r.text = blank(data)
	r.decoder = json.NewDecoder(bytes.NewReader(r.text))
	r.decoder.UseNumber()
	root, err := r.value(0)
	if err != nil {
		return nil, err
	}
	at := r.next()
	if _, err := r.decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, r.fail(at, "not valid JSON: text after the end")
	}
	return root, nil
}

type jsonReader struct {
	text    []byte
	lines   []int // offset of each line's first byte
	decoder *json.Decoder

	// The place found last. Tokens come in order, so that counting goes on from
	// here and a file of one long line is not counted from its start each time.
	atOffset, atLine, atColumn int
}

// next is the offset at which the next token starts.
func (r *jsonReader) next() int {
	at := int(r.decoder.InputOffset())
	for at < len(r.text) && bytes.IndexByte([]byte(" \t\r\n,:"), r.text[at]) >= 0 {
		at++
	}
	return at
}

func (r *jsonReader) place(offset int) (line, column int) {
	offset = min(max(offset, 0), len(r.text))
	line, found := slices.BinarySearch(r.lines, offset)
	if !found {
		line--
	}
	from, column := r.lines[line], 0
	if r.atLine == line && r.atOffset >= from && r.atOffset <= offset {
		from, column = r.atOffset, r.atColumn
	}
	column += utf8.RuneCount(r.text[from:offset])
	r.atOffset, r.atLine, r.atColumn = offset, line, column
	return line + 1, column + 1
}

func (r *jsonReader) fail(offset int, message string) error {
	line, column := r.place(offset)
	return &syntaxError{line, column, message}
}

func (r *jsonReader) token() (json.Token, int, error) {
	at := r.next()
	token, err := r.decoder.Token()
	if err == nil {
		return token, at, nil
	}
	if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
		// The offset is that of the byte after the offending one.
		return nil, at, r.fail(max(at, int(syntax.Offset)-1), "not valid JSON: "+syntax.Error())
	}
	return nil, at, r.fail(len(r.text), "not valid JSON: the text ends too early")
}

func (r *jsonReader) value(depth int) (*yaml.Node, error) {
	token, at, err := r.token()
	if err != nil {
		return nil, err
	}
	line, column := r.place(at)
	node := &yaml.Node{Kind: yaml.ScalarNode, Line: line, Column: column}
	switch v := token.(type) {
	case string:
		node.Tag, node.Value = "!!str", v
	case json.Number:
		node.Tag, node.Value = "!!int", v.String()
		if strings.ContainsAny(node.Value, ".eE") {
			node.Tag = "!!float"
		}
	case bool:
		node.Tag, node.Value = "!!bool", strconv.FormatBool(v)
	case nil:
		node.Tag, node.Value = "!!null", "null"
	case json.Delim:
		if depth == maxDepth {
			return nil, r.fail(at, fmt.Sprintf("nested more than %d deep", maxDepth))
		}
		node.Kind, node.Tag = yaml.MappingNode, "!!map"
		if v == '[' {
			node.Kind, node.Tag = yaml.SequenceNode, "!!seq"
		}
		for r.decoder.More() {
			if v == '{' {
				key, at, err := r.token()
				if err != nil {
					return nil, err
				}
				line, column := r.place(at)
				text, _ := key.(string) // the decoder lets nothing else be a key
				node.Content = append(node.Content,
					&yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text, Line: line, Column: column})
			}
			child, err := r.value(depth + 1)
			if err != nil {
				return nil, err
			}
			node.Content = append(node.Content, child)
		}
		if _, _, err := r.token(); err != nil { // the closing bracket
			return nil, err
		}
	}
	return node, nil
}

func lineStarts(data []byte) []int {
	starts := []int{0}
	for i, b := range data {
		if b == '\n' {
			starts = append(starts, i+1)
		}
	}
	return starts
}

// firstInvalid is the offset of the first byte that is not UTF-8, or -1.
func firstInvalid(data []byte) int {
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return -1
}

// blank returns the text with comments and trailing commas replaced by spaces, so
// that every other byte keeps its place.
func blank(data []byte) []byte {
	out := bytes.Clone(data)
	comma := -1 // offset of a comma after which nothing but space has come
	for i := 0; i < len(out); i++ {
		switch c := out[i]; {
		case c == '"':
			comma = -1
			for i++; i < len(out) && out[i] != '"'; i++ {
				if out[i] == '\\' {
					i++
				}
			}
		case c == '/' && i+1 < len(out) && (out[i+1] == '/' || out[i+1] == '*'):
			i = blankComment(out, i) - 1
		case c == ',':
			comma = i
		case c == '}' || c == ']':
			if comma >= 0 {
				out[comma] = ' '
			}
			comma = -1
		case c != ' ' && c != '\t' && c != '\r' && c != '\n':
			comma = -1
		}
	}
	return out
}

// blankComment blanks the comment that starts at offset i and returns the offset after it. Line
// ends stay, and a block comment that does not end is left alone: the reader will report it.
func blankComment(out []byte, i int) int {
	end := len(out)
	if out[i+1] == '/' {
		if n := bytes.IndexByte(out[i:], '\n'); n >= 0 {
			end = i + n
		}
	} else {
		n := bytes.Index(out[i+2:], []byte("*/"))
		if n < 0 {
			return i + 2
		}
		end = i + 2 + n + 2
	}
	for ; i < end; i++ {
		if out[i] != '\n' && out[i] != '\r' {
			out[i] = ' '
		}
	}
	return end
}
