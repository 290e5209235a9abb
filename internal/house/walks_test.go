package house

// walkTests break the rule about the walks, or keep it narrowly. TestRules runs them.
func walkTests() []ruleTest {
	const rule = "the walks go through functions"
	const code = "package mcp\nfunc First() { second(); t.Third() }\nfunc second() {}\nfunc (T) Third() {}\nfunc Fourth() {}\n"
	with := func(text string) map[string]string {
		return map[string]string{"mcp/a.go": code, design: "## The house\n\n1. `mcp/a.go` `Gone`\n\n## Two walks\n\nA call:\n\n1. `mcp/a.go` `Fourth`\n2. `mcp/a.go` `First`\n\nAnother:\n\n" + text + "\n\n## Decisions\n\n1. `mcp/a.go` `Gone`\n"}
	}
	return []ruleTest{
		{"in order", rule, with("1. `mcp/a.go` `First` calls\n   `second` and `Third`\n2. A consumer comes: `mcp/a.go` `Fourth`"), nil},
		{"not called", rule, with("1. `mcp/a.go` `First`\n2. `mcp/a.go` `Fourth`"), []string{"docs/design.md: walk 2 names Fourth of mcp/a.go, which no function before mentions"}},
		{"no function", rule, with("1. `mcp/a.go` `First`\n2. `mcp/a.go` `fifth`"), []string{"docs/design.md: walk 2 names fifth of mcp/a.go, which is no function there"}},
		{"no file", rule, with("1. `mcp/b.go` `First`"), []string{"docs/design.md: walk 2 names mcp/b.go, which is no Go file"}},
	}
}
