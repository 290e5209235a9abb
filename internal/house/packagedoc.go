package house

import (
	"fmt"
	"path"
	"slices"
)

func packageDocRules() []Rule {
	return []Rule{{
		Name:   "the comment of a package with several files is in doc.go",
		Reason: "a reader should find what a package is for without opening each of its files",
		Find:   findHiddenDocs,
	}}
}

// findHiddenDocs finds package comments outside doc.go. In a package with one file the comment may be
// in that file. Packages without a comment are findings of another rule.
func findHiddenDocs(t *Tree) []string {
	var found []string
	for _, p := range t.Packages {
		product := slices.DeleteFunc(slices.Clone(p.Files), func(f *GoFile) bool { return f.Test })
		if len(product) < 2 {
			continue
		}
		for _, file := range product {
			if file.AST.Doc != nil && path.Base(file.Name) != "doc.go" {
				found = append(found, fmt.Sprintf("%s: move the comment of package %s to %s", file.Name, p.Path, path.Join(p.Path, "doc.go")))
			}
		}
	}
	return found
}
