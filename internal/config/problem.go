package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrNotFound is what [Find] wraps when a folder holds no configuration.
var ErrNotFound = errors.New("no configuration found")

// Problem is one thing wrong with a configuration.
type Problem struct {
	File    string // as given to Load or Parse
	Line    int    // from 1; 0 when the problem has no place in the file
	Column  int    // in characters, from 1; 0 when unknown
	Key     string // path of the key, such as mcpServers.files.url; may be empty
	Message string // what is wrong and what to do, one line

	err error
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

// Warning is a problem that does not keep weir from working.
type Warning Problem

// String is the warning with its place.
func (w Warning) String() string { return Problem(w).String() }

// Error is a configuration that cannot be used. It holds every problem, in the
// file's order.
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
		if p.err != nil {
			causes = append(causes, p.err)
		}
	}
	return causes
}

func byPlace(a, b Problem) int {
	return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
}

// nearest returns the candidate that a person most likely meant, or "": the one
// with the fewest mistakes, else the only one that begins with word.
func nearest(word string, candidates []string) string {
	const (
		longest  = 64 // no key is that long, and the distance is quadratic
		shortest = 3  // fewer letters begin anything
	)
	if len(word) > longest {
		return ""
	}
	flat := flatten(word)
	best, bestDistance := "", len(flat)/3+1
	for _, c := range slices.Sorted(slices.Values(candidates)) {
		if len(c) > longest {
			continue
		}
		if d := distance(flat, flatten(c)); d < bestDistance || d == 0 {
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
		if !strings.HasPrefix(flatten(c), flat) {
			continue
		}
		if best != "" {
			return ""
		}
		best = c
	}
	return best
}

// flatten drops what people confuse: case, hyphens and underscores.
func flatten(word string) string {
	return strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(word))
}

// distance counts insertions, deletions, substitutions and swaps of neighbours.
func distance(a, b string) int {
	rows := [3][]int{make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)}
	for j := range rows[1] {
		rows[1][j] = j
	}
	before, last, now := rows[0], rows[1], rows[2]
	for i := 1; i <= len(a); i++ {
		now[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			now[j] = min(last[j]+1, now[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				now[j] = min(now[j], before[j-2]+1)
			}
		}
		before, last, now = last, now, before
	}
	return last[len(b)]
}
