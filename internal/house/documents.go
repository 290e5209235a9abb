package house

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

var (
	// A folder or file in backticks: `mcp/stdio/`, `internal/house/layers.go`. Anything with a space, a brace or a wildcard in
	// it is an example, and a path that starts with a slash is a URL's.
	quoted = regexp.MustCompile("`([A-Za-z0-9._-]+(?:/[A-Za-z0-9._-]+)*/?)`")
	// A Markdown link with a relative target, without its anchor.
	link = regexp.MustCompile(`\]\(([^)#:?\s]+)(?:#[^)\s]*)?\)`)
	// A line of a drawn layout: a folder, then its purpose.
	layout = regexp.MustCompile(`^\s{2,}([a-z0-9._-]+(?:/[a-z0-9._-]+)*/)\s{2,}\S`)
)

func documentRules() []Rule {
	return []Rule{{
		Name:   "documents name what exists",
		Reason: "a reader who follows a path to nowhere stops trusting the rest of the page",
		Find:   findDangling,
	}}
}

// findDangling checks folders and linked files that Markdown files name. A path may be written from the module's root or from
// the document's own folder.
func findDangling(t *Tree) []string {
	var found []string
	for _, doc := range t.Documents {
		if strings.HasSuffix(doc.Name, "CHANGELOG.md") {
			continue // It describes the past.
		}
		fenced := false
		for i, line := range doc.Lines {
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				fenced = !fenced
			}
			for _, name := range namedPaths(line, fenced) {
				if !t.has(path.Dir(doc.Name), name) {
					found = append(found, fmt.Sprintf("%s:%d: %q does not exist", doc.Name, i+1, name))
				}
			}
		}
	}
	return found
}

// namedPaths returns the paths a line promises to exist.
func namedPaths(line string, fenced bool) []string {
	var names []string
	if m := layout.FindStringSubmatch(line); m != nil {
		names = append(names, m[1])
	}
	if fenced || strings.HasPrefix(line, "    ") || strings.HasPrefix(line, "\t") {
		return names // Code: its backticks and brackets mean something else.
	}
	for _, m := range quoted.FindAllStringSubmatch(line, -1) {
		// A word without a folder is rarely a path; one that ends in a slash always is.
		isFile := strings.Contains(m[1], "/") && isSource(m[1])
		if strings.HasSuffix(m[1], "/") || isFile {
			names = append(names, m[1])
		}
	}
	for _, m := range link.FindAllStringSubmatch(line, -1) {
		names = append(names, m[1])
	}
	return names
}

func isSource(name string) bool {
	switch path.Ext(name) {
	case ".go", ".md", ".mjs", ".py", ".yaml", ".sh":
		return true
	}
	return false
}

func (t *Tree) has(dir, name string) bool {
	clean := path.Clean(name)
	return clean == "." || t.names[clean] || t.names[path.Join(dir, clean)]
}
