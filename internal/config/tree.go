package config

import (
	"errors"

	"go.yaml.in/yaml/v3"
)

// Tree reads a file that is JSON (comments and trailing commas allowed) or
// YAML, as its name or its first character says, for a package that has a
// configuration of its own. The root is nil where the file is empty. The error
// is an [*Error] with the place of the fault.
func Tree(name string, data []byte) (*yaml.Node, error) {
	read := readYAML
	if isJSON, _ := sourceKind(name, data); isJSON {
		read = readJSON
	}
	if len(data) > maxFile {
		return nil, &Error{Problems: []Problem{{File: name, Message: "the file is too large"}}}
	}
	root, err := read(data)
	if err != nil {
		p := Problem{File: name, Message: err.Error(), err: err}
		var syntax *syntaxError
		if errors.As(err, &syntax) {
			p.Line, p.Column = syntax.line, syntax.column
		}
		return nil, &Error{Problems: []Problem{p}}
	}
	return root, nil
}

// Nearest returns the candidate that a person most likely meant, or "".
func Nearest(word string, candidates []string) string { return nearest(word, candidates) }
