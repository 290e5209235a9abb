package house

import (
	"fmt"
	"regexp"
	"strings"
)

// design is the document with the picture of the house, in its section The house.
const design = "docs/design.md"

var (
	// A line between two floors of the picture, which names the one below it.
	floor = regexp.MustCompile(`^ {4}─+ ([a-z]+)$`)
	// A folder in the picture: a path of several parts, or a name that ends in a slash.
	folder = regexp.MustCompile(`[a-z0-9]+(?:/[a-z0-9]+)+/?|[a-z0-9]+/`)
)

func pictureRules() []Rule {
	return []Rule{{
		Name:   "every package is in the picture",
		Reason: "a reader takes docs/design.md for the house as it stands",
		Find:   findUndrawn,
	}}
}

// findUndrawn compares the packages and their layers with the picture. A package that is outside the
// house, in the paragraph below the picture, is there with all that is below it.
func findUndrawn(t *Tree) []string {
	floors, outside := t.picture()
	var found []string
	for _, p := range t.Packages {
		line, ok := placeOf(p.Path)
		if !ok || p.Path == "." || inside(outside, p.Path) || floors[line.layer.String()][p.Path] {
			continue // findUnplaced reports packages in no layer; the root is drawn as its file
		}
		where := "not at all"
		for name, drawn := range floors {
			if drawn[p.Path] {
				where = "on the floor of " + name
			}
		}
		found = append(found, fmt.Sprintf("%s: package %q (%s) is in the picture of %s %s: draw it there on its floor", p.Files[0].Name, p.Path, line.layer, design, where))
	}
	return found
}

// picture returns the packages that each floor of the picture names, and those outside the house.
func (t *Tree) picture() (floors map[string]map[string]bool, outside []string) {
	floors = map[string]map[string]bool{}
	for _, doc := range t.Documents {
		if doc.Name != design {
			continue
		}
		here, drawn := false, map[string]bool{}
		floors[programs.String()] = drawn
		for _, line := range doc.Lines {
			if strings.HasPrefix(line, "## ") {
				here = line == "## The house"
			}
			if m := floor.FindStringSubmatch(line); here && m != nil {
				drawn = map[string]bool{}
				floors[m[1]] = drawn
				continue
			}
			for _, name := range folder.FindAllString(line, -1) {
				switch name = strings.TrimSuffix(name, "/"); {
				case here && strings.HasPrefix(line, "    "):
					drawn[name] = true
				case here && len(floors) > 1: // below the picture
					outside = append(outside, name)
				}
			}
		}
	}
	return floors, outside
}

// inside reports whether a package is one of those folders or below it.
func inside(folders []string, path string) bool {
	for _, dir := range folders {
		if within(path, dir) {
			return true
		}
	}
	return false
}
