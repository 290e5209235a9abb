package house

import (
	"fmt"
	"strings"
	"testing"
)

// weightTests break the rules about the weight of types and rooms, or keep them narrowly. TestRules runs them.
func weightTests() []ruleTest {
	const job, together, room, words, few = "a type has one job", "a struct holds what belongs together", "tests are in the room they test", "comments use plain words", "a package knows few others"
	repeat := func(n int, line string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, line+"\n", i)
		}
		return b.String()
	}
	imports := func(n int) string { return "package mcp\n" + repeat(n, "import _ \""+Module+"/internal/p%d\"") }
	const shapes = "package mcp\nimport \"context\"\ntype Room struct { a, b int; k *keeper }\ntype face struct { *Room }\ntype keeper struct { r *Room }\n"
	return []ruleTest{
		{"few methods", job, map[string]string{"mcp/a.go": shapes + repeat(maxMethods, "func (r *Room) m%d() {}")}, nil},
		{"methods", job, map[string]string{"mcp/a.go": shapes + repeat(maxMethods, "func (r *Room) m%d() {}"), "mcp/b.go": "package mcp\nfunc (Room) last() {}"}, []string{"mcp.Room: 51 true methods"}},
		{"methods of a generic type", job, map[string]string{"mcp/a.go": "package mcp\ntype Room[T any] struct{}\n" + repeat(maxMethods+1, "func (r *Room[T]) m%d() {}")}, []string{"mcp.Room: 51 true methods"}},
		{"methods in a test", job, map[string]string{"mcp/a.go": shapes + repeat(maxMethods, "func (r *Room) m%d() {}"), "mcp/a_test.go": "package mcp\nfunc (Room) last() {}"}, nil},
		{"functions that take it first", job, map[string]string{"mcp/a.go": shapes + repeat(maxMethods, "func (r *Room) m%d() {}") + "func last(ctx context.Context, r *Room, n int) {}"}, []string{"mcp.Room: 51 true methods"}},
		{"functions that take it later", job, map[string]string{"mcp/a.go": shapes + repeat(maxMethods, "func (r *Room) m%d() {}") + "func last(n int, r *Room) {}"}, nil},
		{"wrappers", job, map[string]string{"mcp/a.go": shapes + repeat(maxMethods, "func (r *Room) m%d() {}") + "func (f face) last() {}"}, []string{"mcp.Room: 51 true methods"}},
		{"parts", job, map[string]string{"mcp/a.go": shapes + repeat(maxMethods, "func (r *Room) m%d() {}") + "func (k *keeper) last() {}"}, []string{"mcp.Room: 51 true methods"}},
		{"a ceiling that may fall", job, map[string]string{"internal/cli/a.go": "package cli\ntype process struct{ a, b int }"}, []string{"internal/house/ceilings.go: internal/cli.process has 0 true methods: lower its ceiling"}},

		{"imports", few, map[string]string{"mcp/a.go": imports(maxImports + 1)}, []string{"mcp: imports 26 packages of the module, at most 25"}},
		{"few imports, and one twice", few, map[string]string{"mcp/a.go": imports(maxImports), "mcp/b.go": imports(1)}, nil},

		{"fields", together, map[string]string{"mcp/a.go": "package mcp\ntype Room struct {\n" + repeat(maxFields+1, "f%d int") + "}\nfunc (Room) m() {}"}, []string{"mcp.Room: 21 fields"}},
		{"few fields, and data", together, map[string]string{"mcp/a.go": "package mcp\ntype Room struct {\n" + repeat(maxFields, "f%d int") + "}\nfunc (Room) m() {}\ntype Data struct {\n" + repeat(maxFields+1, "f%d int") + "}"}, nil},

		{"tests elsewhere", room, map[string]string{"mcp/a.go": "package mcp\n" + strings.Repeat("\n", smallRoom), "mcp/a_test.go": "package mcp\n"}, []string{"mcp: 1 lines of tests for 301 of code"}},
		{"tests in it", room, map[string]string{"mcp/a.go": "package mcp\n" + strings.Repeat("\n", smallRoom), "mcp/a_test.go": "package mcp\n" + strings.Repeat("\n", smallRoom/2)}, nil},
		{"a small room", room, map[string]string{"mcp/a.go": "package mcp\n" + strings.Repeat("\n", smallRoom-1)}, nil},

		{"fancy words", words, map[string]string{"mcp/a.go": "package mcp\n\n// Begin anew, that of one alone, too.\nvar A int\n" + repeat(40, "\n// Plain words.\nvar b%d int")}, []string{
			`comments of mcp: 97 rare words in 1,000 lines, at most 10: \b(that|those) of\b 1 times, write the noun; \banew\b 1 times, write again; , too\b 1 times`}},
		{"few fancy words", words, map[string]string{"mcp/a.go": "package mcp\n\n// Begin anew, alone, too.\nvar A int\n"}, nil},
		{"plain words, and code", words, map[string]string{"mcp/a.go": "package mcp\n\n// Starts again.\nvar A = \"anew\""}, nil},
	}
}

// TestCeilings: a ceiling is for something that exists.
func TestCeilings(t *testing.T) {
	tree := module(t)
	types := tree.types()
	for _, ceilings := range []map[string]ceiling{methodCeilings, fieldCeilings} {
		for name := range ceilings {
			if types[name] == nil {
				t.Errorf("ceilings.go names %s, which does not exist", name)
			}
		}
	}
	packages := map[string]bool{}
	for _, p := range tree.Packages {
		packages[p.Path] = true
	}
	for path := range importCeilings {
		if !packages[path] {
			t.Errorf("ceilings.go names %s, which does not exist", path)
		}
	}
	for _, ceilings := range []map[string]ceiling{methodCeilings, fieldCeilings, importCeilings} {
		for name, c := range ceilings {
			if len(strings.Fields(c.reason)) < 3 {
				t.Errorf("ceilings.go says no reason for %s: %q", name, c.reason)
			}
		}
	}
	rooms := map[string]bool{}
	for _, p := range tree.Packages {
		rooms[room(p.Path)] = true
	}
	for name := range wordCeilings {
		if !rooms[name] {
			t.Errorf("ceilings.go names %s, which does not exist", name)
		}
	}
	for path, reason := range testedElsewhere {
		if reason == "" {
			t.Errorf("%s has no reason", path)
		}
	}
}

// TestOrdered: the order of files has few arrows that run up, and the same ones each time.
func TestOrdered(t *testing.T) {
	arrows := func(list string) map[string]map[string]bool {
		uses := map[string]map[string]bool{}
		for _, arrow := range strings.Fields(list) {
			for _, file := range strings.Split(arrow, ">") {
				if uses[file] == nil {
					uses[file] = map[string]bool{}
				}
			}
			from, to, _ := strings.Cut(arrow, ">")
			uses[from][to] = true
		}
		return uses
	}
	for list, want := range map[string]int{"a>b b>c a>c": 0, "c>b b>a c>a": 0, "a>b b>a": 1, "a>b b>c c>a": 1, "a>b b>a a>c b>c c>d": 1, "a>b b>a c>d d>c": 2} {
		uses := arrows(list)
		rank, up := ordered(uses), 0
		for from, all := range uses {
			for to := range all {
				if rank[to] < rank[from] {
					up++
				}
			}
		}
		if up != want || len(rank) != len(uses) {
			t.Errorf("%s: %d arrows run up, want %d: %v", list, up, want, rank)
		}
	}
}
