package strict

import (
	"errors"

	"go.yaml.in/yaml/v3"
)

// Node is a value of a file, with its place.
type Node = yaml.Node

// Read returns the root of a file, which is JSON (comments and trailing commas allowed) or YAML, as its name or its
// first character says; nil where the file is empty. The error is an [*Error] with the place of the fault.
func Read(name string, data []byte) (*Node, error) {
	read := readYAML
	if isJSON, _ := KindOfFile(name, data); isJSON {
		read = readJSON
	}
	if len(data) > MaxFile {
		return nil, &Error{Problems: []Problem{{File: name, Message: "the file is too large"}}}
	}
	root, err := read(data)
	if err != nil {
		p := Problem{File: name, Message: oneLine(err.Error())}
		var syntax *syntaxError
		if errors.As(err, &syntax) {
			p.Line, p.Column = syntax.line, syntax.column
		}
		return nil, &Error{Problems: []Problem{p}}
	}
	return root, nil
}
