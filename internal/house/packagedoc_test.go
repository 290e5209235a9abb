package house

// packageDocTests break the rule about doc.go, or keep it narrowly. TestRules runs them.
func packageDocTests() []ruleTest {
	const rule = "the comment of a package with several files is in doc.go"
	const comment, clause = "// Package mcp speaks.\n", "package mcp"
	return []ruleTest{
		{"in doc.go", rule, map[string]string{"mcp/a.go": clause, "mcp/doc.go": comment + clause}, nil},
		{"in another file", rule, map[string]string{"mcp/a.go": comment + clause, "mcp/b.go": clause},
			[]string{"mcp/a.go: move the comment of package mcp to mcp/doc.go"}},
		{"in the only file", rule, map[string]string{"mcp/a.go": comment + clause, "mcp/a_test.go": clause}, nil},
		{"of a test", rule, map[string]string{"mcp/a.go": clause, "mcp/doc.go": comment + clause, "mcp/a_test.go": comment + clause}, nil},
		{"of the root", rule, map[string]string{"a.go": "// Package weir is.\npackage weir", "b.go": "package weir"},
			[]string{"a.go: move the comment of package . to doc.go"}},
	}
}
