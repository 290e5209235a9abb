package metatool

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	testFunction = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	testName     = regexp.MustCompile("`([a-z]+)\\.((?:Test|Fuzz)\\w+)`")
)

// TestClausesHaveTests reads the table of clauses in docs/gateway.md: each row
// names tests, and each of them is there.
func TestClausesHaveTests(t *testing.T) {
	doc, err := os.ReadFile("../../docs/gateway.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(doc), "## Clauses and their tests\n")
	if !ok {
		t.Fatal("docs/gateway.md has no table of clauses")
	}
	known := map[string]map[string]bool{} // by the last name of the folder
	if err := filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		pkg := filepath.Base(filepath.Dir(path))
		for _, m := range testFunction.FindAllStringSubmatch(string(source), -1) {
			if known[pkg] == nil {
				known[pkg] = map[string]bool{}
			}
			known[pkg][m[1]] = true
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	rows, clauses := 0, map[string]bool{}
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || strings.Contains(line, "---") || strings.Contains(line, "| clause |") {
			continue
		}
		rows++
		for _, clause := range regexp.MustCompile(`§\d(?:\.\d)?`).FindAllString(cells[1], -1) {
			clauses[clause] = true
		}
		named := testName.FindAllStringSubmatch(cells[3], -1)
		if len(named) == 0 {
			t.Errorf("no test for %s", strings.TrimSpace(line))
		}
		for _, m := range named {
			if !known[m[1]][m[2]] {
				t.Errorf("%s: there is no test %s in package %s", strings.TrimSpace(cells[1]), m[2], m[1])
			}
		}
	}
	for _, clause := range []string{"§1.1", "§1.2", "§1.3", "§1.4", "§1.5", "§1.6", "§2.1", "§2.2", "§2.3", "§2.4", "§2.5", "§2.6", "§3.1", "§3.2", "§3.3", "§3.4",
		"§4.1", "§4.2", "§4.3", "§4.4", "§4.5", "§4.6", "§5.1", "§5.2", "§5.3", "§5.4", "§5.5",
		"§6.1", "§6.2", "§6.3", "§6.4", "§6.5"} {
		if !clauses[clause] {
			t.Errorf("%s is in no row", clause)
		}
	}
	if rows < 40 {
		t.Errorf("only %d rows were read", rows)
	}
}
