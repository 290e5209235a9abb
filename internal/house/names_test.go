package house

import (
	"fmt"
	"strings"
)

// nameTests break the rules about names, or keep them narrowly. TestRules runs them.
func nameTests() []ruleTest {
	consts := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "const C%d = 1\n", i)
		}
		return b.String()
	}
	const used, few, plain = "what internal packages export is used elsewhere",
		"public packages export few names", "public signatures name public types only"
	const imports = "import _ \"" + Module + "/"
	const catalog = "import \"" + Module + "/internal/catalog\"\n"
	return []ruleTest{
		{"unused", used, map[string]string{"internal/catalog/a.go": "package catalog\nfunc F() { F() }\nvar V int", "internal/catalog/a_test.go": "package catalog\nvar x = V"},
			[]string{"internal/catalog/a.go:2: internal/catalog.F is used by no other package", "internal/catalog/a.go:3: internal/catalog.V is used by no other package"}},
		{"used, and shown by what is used", used, map[string]string{
			"internal/catalog/a.go":  "package catalog\nfunc F(A) {}\ntype A struct { B B; c c }\ntype B int\ntype c int\nfunc (B) M() D { return 0 }\ntype D int\nconst (\nD1 D = iota\nD2\n)",
			"internal/metatool/a.go": "package gateway\n" + catalog + "var x = catalog.F\nvar y = catalog.D1",
		}, nil},
		{"shown by an unexported field only", used, map[string]string{
			"internal/catalog/a.go":  "package catalog\ntype A struct { b B }\ntype B int",
			"internal/metatool/a.go": "package gateway\nimport c \"" + Module + "/internal/catalog\"\nvar x c.A",
		}, []string{"internal/catalog/a.go:3: internal/catalog.B is used by no other package"}},
		{"used by a test of another package", used, map[string]string{"internal/catalog/a.go": "package catalog\nfunc F() {}", "internal/metatool/a_test.go": "package gateway\n" + catalog + "var x = catalog.F"},
			[]string{"internal/catalog/a.go:2: internal/catalog.F is used by tests of other packages only"}},
		{"used by the test package beside it", used, map[string]string{"internal/catalog/a.go": "package catalog\nfunc F() {}", "internal/catalog/a_test.go": "package catalog_test\n" + catalog + "var x = catalog.F"},
			[]string{"internal/catalog/a.go:2: internal/catalog.F is used by tests of other packages only"}},
		{"used by a test, with a reason", used, map[string]string{"internal/json/rawjson/a.go": "package rawjson\nconst MaxDepth = 1", "mcp/a_test.go": "package mcp\nimport \"" + Module + "/internal/json/rawjson\"\nvar x = rawjson.MaxDepth"}, nil},
		{"a reason that is over", used, map[string]string{"internal/json/rawjson/a.go": "package rawjson"}, []string{"internal/house/names.go: no test needs internal/json/rawjson.MaxDepth"}},
		{"unused in a public package", used, map[string]string{"mcp/a.go": "package mcp\nfunc F() {}"}, nil},

		{"many names", few, map[string]string{"mcp/a.go": "package mcp\n" + consts(maxExported-1), "s2sp/a.go": "package s2sp\ntype A int\nfunc (A) M() {}"},
			[]string{fmt.Sprintf("%d exported names in public packages (mcp %d, s2sp 2)", maxExported+1, maxExported-1)}},
		{"names that are not public", few, map[string]string{"mcp/a.go": "package mcp\n" + consts(maxExported), "mcp/a_test.go": "package mcp\nconst C = 1", "internal/catalog/a.go": "package catalog\nconst C = 1", "s2sp/a.go": "package s2sp\ntype a int\nfunc (a) M() {}"}, nil},

		{"a leak", plain, map[string]string{
			"internal/catalog/a.go": "package catalog\ntype Entry int",
			"mcp/a.go":              "package mcp\n" + catalog + "func F(catalog.Entry) {}\nfunc f(catalog.Entry) {}\ntype O struct { E []*catalog.Entry; e catalog.Entry }",
		}, []string{"mcp/a.go:3: mcp.F shows internal/catalog.Entry", "mcp/a.go:5: mcp.O shows internal/catalog.Entry"}},
		{"a leak with a reason", plain, map[string]string{"mcp/a.go": "package mcp\nimport \"" + Module + "/internal/limit/memory\"\ntype O struct { A *memory.Account }"}, nil},

		{"public on public and on what its line allows", publicArrows, map[string]string{"mcp/stdio/a.go": "package stdio\n" + imports + "mcp\"\n" + imports + "internal/host/child\""}, nil},
		{"public on internal", publicArrows, map[string]string{"s2sp/table/a.go": "package table\n" + imports + "internal/catalog\""},
			[]string{"s2sp/table/a.go:2: s2sp/table imports internal/catalog"}},
		{"internal on internal", publicArrows, map[string]string{"internal/metatool/a.go": "package gateway\n" + imports + "internal/catalog\""}, nil},
	}
}
