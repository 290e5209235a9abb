package house

import (
	"fmt"
	"regexp"
	"strings"
)

var (
	// A cited clause: its source, unless the comment has named it before, and its number.
	citation = regexp.MustCompile(`(?:(RFC [0-9]+|spec/[a-z0-9-]+),? )?§ ?([0-9]+(?:\.[0-9]+)*)`)
	// A heading of a contract: its number.
	clause = regexp.MustCompile(`^#+ ([0-9]+(?:\.[0-9]+)*)\.? `)
)

func citationRules() []Rule {
	return []Rule{{
		Name:   "cited clauses exist",
		Reason: "a reader who cannot open what a comment cites has to take its word for it",
		Find:   findCitations,
	}}
}

// findCitations checks the clauses that comments cite: spec/gateway §4.4 must be a heading of docs/spec/gateway.md. It does not
// check clauses of an RFC. A number without a source belongs to the source before it in the comment.
func findCitations(t *Tree) []string {
	clauses := map[string]bool{}
	for _, doc := range t.Documents {
		name, ok := strings.CutPrefix(doc.Name, "docs/spec/")
		if !ok {
			continue
		}
		for _, line := range doc.Lines {
			if m := clause.FindStringSubmatch(line); m != nil {
				clauses["spec/"+strings.TrimSuffix(name, ".md")+" "+m[1]] = true
			}
		}
	}
	var found []string
	for _, p := range t.Packages {
		for _, file := range p.Files {
			for _, comment := range file.AST.Comments {
				text := strings.Join(strings.Fields(comment.Text()), " ")
				source := ""
				for _, m := range citation.FindAllStringSubmatch(text, -1) {
					if m[1] != "" {
						source = m[1]
					}
					where := fmt.Sprintf("%s:%d", file.Name, t.Fset.Position(comment.Pos()).Line)
					switch {
					case source == "":
						found = append(found, fmt.Sprintf("%s: §%s has no source: write \"spec/NAME §%[2]s\" or \"RFC NUMBER §%[2]s\"", where, m[2]))
					case strings.HasPrefix(source, "spec/") && !clauses[source+" "+m[2]]:
						found = append(found, fmt.Sprintf("%s: %s §%s is no heading of docs/%s.md", where, source, m[2], source))
					}
				}
			}
		}
	}
	return found
}
