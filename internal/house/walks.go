package house

import (
	"fmt"
	"go/ast"
	"regexp"
	"strings"
)

var (
	// An item of a walk: a number, then text.
	walkItem = regexp.MustCompile(`^[0-9]+\. (.*)`)
	// A file or a name in backticks. A file holds for the names after it.
	walkName = regexp.MustCompile("`([A-Za-z0-9_/]+\\.go)`|`([A-Za-z][A-Za-z0-9]*)`")
)

func walkRules() []Rule {
	return []Rule{{
		Name:   "the walks go through functions",
		Reason: "a reader follows a walk with the file open, and looks there for what it names",
		Find:   findLost,
	}}
}

// A walkStep is a function that a walk names.
type walkStep struct {
	file, name string
	starts     bool // a new way starts here: nothing before calls it
}

// findLost checks the lists of the section Two walks: each function is in its file, and a function that the list
// has named before mentions it. An item that starts with a word starts a new way.
func findLost(t *Tree) []string {
	files := map[string]*ast.File{}
	for _, p := range t.Packages {
		for _, f := range p.Files {
			files[f.Name] = f.AST
		}
	}
	var found []string
	for i, walk := range t.walks() {
		mentioned := map[string]bool{}
		for n, step := range walk {
			if files[step.file] == nil {
				found = append(found, fmt.Sprintf("%s: walk %d names %s, which is no Go file", design, i+1, step.file))
				continue
			}
			body := bodiesOf(files[step.file], step.name)
			switch {
			case len(body) == 0:
				found = append(found, fmt.Sprintf("%s: walk %d names %s of %s, which is no function there", design, i+1, step.name, step.file))
			// The stack of a call proves the order of the first list: see frames_test.go.
			case i > 0 && n > 0 && !step.starts && !mentioned[step.name]:
				found = append(found, fmt.Sprintf("%s: walk %d names %s of %s, which no function before mentions", design, i+1, step.name, step.file))
			}
			for _, b := range body {
				ast.Inspect(b, func(n ast.Node) bool {
					if id, ok := n.(*ast.Ident); ok {
						mentioned[id.Name] = true
					}
					return true
				})
			}
		}
	}
	return found
}

// bodiesOf returns the bodies of the functions and methods of a file that have a name.
func bodiesOf(f *ast.File, name string) (bodies []ast.Node) {
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Name.Name == name && fn.Body != nil {
			bodies = append(bodies, fn.Body)
		}
	}
	return bodies
}

// walks returns the lists of the section Two walks.
func (t *Tree) walks() (walks [][]walkStep) {
	for _, doc := range t.Documents {
		if doc.Name != design {
			continue
		}
		here, item := false, ""
		take := func() {
			if item != "" && len(walks) > 0 {
				walks[len(walks)-1] = append(walks[len(walks)-1], stepsOf(item)...)
			}
			item = ""
		}
		for _, line := range doc.Lines {
			m := walkItem.FindStringSubmatch(line)
			switch {
			case strings.HasPrefix(line, "## "):
				take()
				here = line == "## Two walks"
			case !here:
			case m != nil:
				take()
				if strings.HasPrefix(line, "1. ") {
					walks = append(walks, nil)
				}
				item = m[1]
			case strings.HasPrefix(line, "  ") && item != "":
				item += " " + strings.TrimSpace(line)
			}
		}
		take()
	}
	return walks
}

// stepsOf returns the functions that an item names. A name without a file before it is none.
func stepsOf(item string) (steps []walkStep) {
	file := ""
	for _, m := range walkName.FindAllStringSubmatch(item, -1) {
		switch {
		case m[1] != "":
			file = m[1]
		case file != "":
			steps = append(steps, walkStep{file, m[2], len(steps) == 0 && !strings.HasPrefix(item, "`")})
		}
	}
	return steps
}
