package house

import (
	"os"
	"testing"
)

// skipTests break the rule about tests that are left out, or keep it narrowly. TestRules runs them.
func skipTests() []ruleTest {
	const rule, head = "tests are left out for known reasons", "package mcp\nimport (\"runtime\"; \"testing\")\nfunc TestA(t *testing.T) {\n"
	doc := func(text string) string {
		return "# Rough edges\n\nsignals\n\n## Tests\n\n" + text + "\n\n## Other\n\nsignals\n"
	}
	return []ruleTest{
		{"named", rule, map[string]string{"mcp/a_test.go": head + `t.Skip("Windows has no signals") }`, "docs/rough_edges.md": doc("Some tests need\nsignals.")}, nil},
		{"in another section only", rule, map[string]string{"mcp/a_test.go": head + `t.Skip("Windows has no signals") }`, "docs/rough_edges.md": doc("None.")}, []string{`mcp/a_test.go:4: docs/rough_edges.md, Tests, does not name "signals"`}},
		{"another reason", rule, map[string]string{"mcp/a_test.go": head + "t.Skip(\"flaky\")\nt.SkipNow()\nt.Skipf(\"on %s\", runtime.GOOS) }", "docs/rough_edges.md": doc("signals")}, []string{`mcp/a_test.go:4: "flaky" is no reason`, `mcp/a_test.go:5: "" is no reason`, `mcp/a_test.go:6: "" is no reason`}},
		{"of a helper", rule, map[string]string{"internal/testkit/leak/a.go": "package leak\nimport \"testing\"\nfunc Need(tb testing.TB) { tb.Skip(\"later\") }"}, []string{`internal/testkit/leak/a.go:3: "later" is no reason`}},
		{"of a package", rule, map[string]string{"mcp/a_test.go": "package mcp\nimport (\"testing\"; \"" + Module + "/internal/json/rawjson\")\nfunc TestA(t *testing.T) { rawjson.Skip(nil, 0) }"}, nil},
		{"silent", rule, map[string]string{"mcp/a_test.go": head + "if runtime.GOOS == \"windows\" {\nt.Log(\"not here\")\nreturn\n}\nif testing.Short() { return } }"}, []string{"mcp/a_test.go:4: this return", "mcp/a_test.go:8: this return"}},
		{"a branch", rule, map[string]string{"mcp/a_test.go": head + "n := 10\nif testing.Short() { n = 1 }\nif n == 0 { return } }\nfunc mode() { if runtime.GOOS == \"windows\" { return } }"}, nil},
	}
}

// TestSkipsAreInUse: a reason that no test has leaves the table.
func TestSkipsAreInUse(t *testing.T) {
	tree, err := Load(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	used := map[skip]bool{}
	for _, p := range tree.Packages {
		for _, file := range p.Files {
			if _, tests := importName(file.AST, "testing"); !tests {
				continue
			}
			for _, call := range skipCalls(file.AST) {
				reason, _ := reasonOf(call)
				used[reason] = true
			}
		}
	}
	for _, s := range skips {
		if !used[s] {
			t.Errorf("no test is left out because %q: remove the line of skips and its words in docs/rough_edges.md", s.reason)
		}
	}
}
