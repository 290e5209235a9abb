package catalog

import (
	"slices"
	"strings"
)

// Nearest returns up to n ids of the same kind that resemble an unknown id, best first. They are
// suggestions: never call one in its place.
func (c *Catalog) Nearest(id string, n int) []string {
	if n <= 0 {
		return nil
	}
	kind, body := splitKind(strings.ToLower(clip(id, maxIDLen)))
	namespace, name := splitBody(body)
	type match struct {
		id       string
		distance int
	}
	var best []match
	limit := max(2, len(name)/2) // no resemblance beyond this distance
	for _, s := range c.spaces {
		for _, e := range s.entries {
			if e.Kind.Surface() != kind {
				continue
			}
			penalty := 0
			if namespace != "" && e.Namespace != namespace {
				penalty = min(3, 1+lengthGap(e.Namespace, namespace))
			}
			d := penalty + editDistance(name, e.Name, limit-penalty)
			if d > limit {
				continue
			}
			at, _ := slices.BinarySearchFunc(best, match{e.ID, d}, func(a, b match) int {
				if a.distance != b.distance {
					return a.distance - b.distance
				}
				return strings.Compare(a.id, b.id)
			})
			if at >= n {
				continue
			}
			best = slices.Insert(best, at, match{e.ID, d})
			if len(best) > n {
				best = best[:n]
			}
			if len(best) == n {
				limit = best[n-1].distance
			}
		}
	}
	ids := make([]string, len(best))
	for i, m := range best {
		ids[i] = m.id
	}
	return ids
}

// splitBody splits a possible id into namespace (may be "") and name.
func splitBody(body string) (namespace, name string) {
	name = body
	if before, after, ok := strings.Cut(body, ":"); ok {
		namespace, name = before, after
	} else if before, after, ok := strings.Cut(body, "/"); ok {
		namespace, name = before, after
	}
	if i := strings.IndexAny(name, "@#"); i > 0 {
		name = name[:i]
	}
	return namespace, name
}

func lengthGap(a, b string) int {
	return max(len(a)-len(b), len(b)-len(a))
}

// editDistance returns the number of bytes to insert, delete, change or swap to turn a into b,
// ignoring the case of b. It returns limit+1 if there are more than limit.
func editDistance(a, b string, limit int) int {
	if limit < 0 || lengthGap(a, b) > limit {
		return limit + 1
	}
	var rows [3][maxNameLen + 2]int
	if len(b) > maxNameLen || len(a) > maxIDLen {
		return limit + 1
	}
	before, last, row := rows[0][:len(b)+1], rows[1][:len(b)+1], rows[2][:len(b)+1]
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		least := i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == lower(b[j-1]) {
				cost = 0
			}
			d := min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == lower(b[j-2]) && a[i-2] == lower(b[j-1]) {
				d = min(d, before[j-2]+1)
			}
			row[j] = d
			least = min(least, d)
		}
		if least > limit {
			return limit + 1
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

func lower(c byte) byte {
	if isUpper(c) {
		return c + 'a' - 'A'
	}
	return c
}
