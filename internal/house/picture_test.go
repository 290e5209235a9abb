package house

// pictureTests break the rule about the picture of the house, or keep it narrowly. TestRules runs them.
func pictureTests() []ruleTest {
	const rule = "every package is in the picture"
	const doc = "# Design\n\n    internal/passthrough/  before the house\n\n## The house\n\nAn `internal/config/` above the picture.\n\n" +
		"    internal/cli/       commands\n    ──── faces\n    internal/web/       serves a gateway; internal/web/api answers viewers\n    ──── contracts\n    internal/catalog/   what can be called\n" +
		"    ──── protocols\n    mcp/                the contract; mcp/stdio is a transport\n\nOutside the house: `internal/house` (rules), `bench/`.\n\n## Two walks\n\n`internal/text/redact/a.go`\n"
	at := func(path string) map[string]string {
		return map[string]string{path + "/a.go": "package a", design: doc}
	}
	drawn := func(paths ...string) map[string]string {
		files := map[string]string{design: doc}
		for _, path := range paths {
			files[path+"/a.go"] = "package a"
		}
		return files
	}
	return []ruleTest{
		{"drawn", rule, drawn("internal/cli", "internal/web", "internal/web/api", "internal/catalog", "mcp", "mcp/stdio"), nil},
		{"outside the house", rule, drawn("internal/house", "bench/socketio"), nil},
		{"not drawn", rule, at("mcp/sse"), []string{`mcp/sse/a.go: package "mcp/sse" (protocols) is in the picture of docs/design.md not at all`}},
		{"on another floor", rule, map[string]string{"internal/web/attach/a.go": "package a", design: "## The house\n\n    ──── faces\n    ──── ground\n    internal/web/attach/ carries lines\n"}, []string{`internal/web/attach/a.go: package "internal/web/attach" (faces) is in the picture of docs/design.md on the floor of ground`}},
		{"above the picture, before it and after it", rule, drawn("internal/config", "internal/passthrough", "internal/text/redact"), []string{"internal/config/a.go", "internal/passthrough/a.go", "internal/text/redact/a.go"}},
		{"no house", rule, map[string]string{"mcp/a.go": "package mcp"}, []string{"mcp/a.go"}},
	}
}
