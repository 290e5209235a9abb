package strict

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/text"
)

// Problem is one thing wrong with a configuration.
type Problem struct {
	File    string // as given to Read
	Line    int    // from 1; 0 when the problem has no place in the file
	Column  int    // in characters, from 1; 0 when unknown
	Key     string // path of the key, such as mcpServers.files.url; may be empty
	Message string // what is wrong and what to do, one line

	Cause error // the error of another package that led to the problem; may be nil
}

// String is the problem with its place: weir.yaml:12:3: unknown key …
func (p Problem) String() string {
	var place strings.Builder
	place.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&place, ":%d", p.Line)
		if p.Column > 0 {
			fmt.Fprintf(&place, ":%d", p.Column)
		}
	}
	if place.Len() > 0 {
		place.WriteString(": ")
	}
	return place.String() + p.Message
}

// Error is a file that cannot be used. It has every problem, in the file's order.
type Error struct{ Problems []Problem }

// Error is one line for each problem.
func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives the causes that came from outside this package, such as a failed
// read or the error of an input.
func (e *Error) Unwrap() []error {
	var causes []error
	for _, p := range e.Problems {
		if p.Cause != nil {
			causes = append(causes, p.Cause)
		}
	}
	return causes
}

// ByPlace compares the places of two problems, for slices.SortStableFunc.
func ByPlace(a, b Problem) int {
	return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
}

// Nearest returns the candidate that a person most likely meant, or "": the one with the fewest mistakes, else the
// only one that starts with word.
func Nearest(word string, candidates []string) string {
	const (
		longest  = 64 // no key is that long, and the distance is quadratic
		shortest = 3  // fewer letters start anything
	)
	if len(word) > longest {
		return ""
	}
	flat := Flatten(word)
	best, bestDistance := "", len(flat)/3+1
	for _, c := range slices.Sorted(slices.Values(candidates)) {
		if len(c) > longest {
			continue
		}
		if d := text.Distance(flat, Flatten(c)); d < bestDistance || d == 0 {
			best, bestDistance = c, d
			if d == 0 {
				break
			}
		}
	}
	if best != "" || len(flat) < shortest {
		return best
	}
	for _, c := range candidates {
		if !strings.HasPrefix(Flatten(c), flat) {
			continue
		}
		if best != "" {
			return ""
		}
		best = c
	}
	return best
}

// Flatten drops what people confuse: case, hyphens and underscores.
func Flatten(word string) string {
	return strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(word))
}
