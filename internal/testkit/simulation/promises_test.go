package simulation_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	testFunction = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	proof        = regexp.MustCompile("`([^`]+)`")
)

// TestPromisesHaveTests reads the table of promises in docs/cluster.md: each of the twelve names tests and drivers that
// are there.
func TestPromisesHaveTests(t *testing.T) {
	doc, err := os.ReadFile("../../../docs/cluster.md")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	read := func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, m := range testFunction.FindAllStringSubmatch(string(source), -1) {
			known[filepath.Base(filepath.Dir(path))+"."+m[1]] = true
		}
		return err
	}
	if err := errors.Join(filepath.WalkDir("../..", read), filepath.WalkDir("../../../smcp", read)); err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(doc), "## What holds, and its tests\n")
	table, _, _ = strings.Cut(table, "\n## ")
	rows := 0
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || strings.Contains(line, "---") || strings.Contains(line, "| promise |") {
			continue
		}
		rows++
		named := proof.FindAllStringSubmatch(cells[3], -1)
		if len(named) == 0 {
			t.Errorf("no test for promise %s", cells[1])
		}
		for _, m := range named {
			_, err := os.Stat(filepath.Join("../../..", m[1]))
			if !known[m[1]] && (err != nil || !strings.HasPrefix(m[1], "interop/")) {
				t.Errorf("promise%sis proved by %s, which is not there", cells[1], m[1])
			}
		}
	}
	if rows != 12 {
		t.Errorf("%d promises, want 12", rows)
	}
}
