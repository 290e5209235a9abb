package house

import (
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// TestModule keeps the rules on the module itself.
func TestModule(t *testing.T) {
	tree, err := Load(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	if len(tree.Packages) == 0 || len(tree.Documents) == 0 {
		t.Fatalf("found %d packages and %d documents: the module's root is not where it should be", len(tree.Packages), len(tree.Documents))
	}
	for _, rule := range Rules() {
		t.Run(rule.Name, func(t *testing.T) {
			if found := rule.Find(tree); len(found) > 0 {
				t.Errorf("%s, because %s:\n\t%s", rule.Name, rule.Reason, strings.Join(found, "\n\t"))
			}
		})
	}
}

// A ruleTest is a module, and what a rule finds in it.
type ruleTest struct {
	name, rule string
	files      map[string]string
	want       []string // what findings begin with, all of them in order; none: the rule is kept
}

// TestRules gives each rule a module that breaks it: a rule that finds nothing there would find nothing anywhere.
func TestRules(t *testing.T) {
	const imports = "import _ \"" + Module + "/"
	tests := []ruleTest{
		{"known package", "every package has a place", map[string]string{"internal/metatool/a.go": "package gateway"}, nil},
		{"below a pattern", "every package has a place", map[string]string{"mcp/stdio/a.go": "package stdio"}, nil},
		{"unknown package", "every package has a place", map[string]string{"nowhere/a.go": "package nowhere"}, []string{`nowhere/a.go: package "nowhere" is in no layer: add a line for it to places in internal/house/layers.go`}},
		{"module of its own", "every package has a place", map[string]string{"nowhere/go.mod": "module other", "nowhere/a.go": "package nowhere"}, nil},
		{"program beside a package", "every package has a comment", map[string]string{"mcp/a.go": "// Package mcp speaks.\npackage mcp", "mcp/gen.go": "//go:build ignore\n\n// Gen generates.\npackage main"}, nil},
		{"ignored folders", "every package has a place", map[string]string{"node_modules/a.go": "package a", ".cache/a.go": "package a", "mcp/testdata/a.go": "not Go"}, nil},

		{"down", "imports point down", map[string]string{"internal/metatool/a.go": "package gateway\n" + imports + "internal/catalog\""}, nil},
		{"up", "imports point down", map[string]string{"internal/catalog/a.go": "package catalog\n" + imports + "internal/metatool\""}, []string{"internal/catalog/a.go:2: internal/catalog (contracts) imports internal/metatool (parts)"}},
		{"up in a test", "imports point down", map[string]string{"internal/catalog/a_test.go": "package catalog\n" + imports + "internal/demo\""}, nil},
		{"beside, named", "imports point down", map[string]string{"internal/search/eval/a.go": "package eval\n" + imports + "internal/search\""}, nil},
		{"beside, not named", "imports point down", map[string]string{"internal/catalog/a.go": "package catalog\n" + imports + "internal/bridge\""}, []string{"internal/catalog/a.go:2: internal/catalog imports internal/bridge beside it (both contracts)"}},

		{"beside, imported", "every arrow beside is drawn", map[string]string{"internal/search/eval/a.go": "package eval\n" + imports + "internal/search\""}, nil},
		{"beside, imported in a test", "every arrow beside is drawn", map[string]string{"internal/search/eval/a_test.go": "package eval\n" + imports + "internal/search\""}, []string{`internal/house/layers.go: the line of internal/search/eval allows "internal/search"`}},

		{"cmd imported", "nothing imports cmd", map[string]string{"internal/demo/a_test.go": "package demo\n" + imports + "cmd/weir\""}, []string{"internal/demo/a_test.go:2: internal/demo imports cmd/weir"}},
		{"helper in product", "test helpers stay in tests", map[string]string{"mcp/a.go": "package mcp\n" + imports + "internal/testkit/leak\""}, []string{"mcp/a.go:2: mcp imports internal/testkit/leak"}},
		{"helper in test", "test helpers stay in tests", map[string]string{"mcp/a_test.go": "package mcp\n" + imports + "internal/testkit/leak\""}, nil},

		{
			"banned by a detour", "some packages never meet",
			map[string]string{"internal/metatool/a.go": "package gateway\n" + imports + "internal/upstream\"", "internal/upstream/a.go": "package upstream\n" + imports + "socketio\""},
			[]string{"internal/metatool/a.go:2: internal/metatool ▶ internal/upstream ▶ socketio: the gateway asks Peers"},
		},
		{"banned in a test", "some packages never meet", map[string]string{"socketio/a_test.go": "package socketio\n" + imports + "mcp/stdio\""}, []string{"socketio/a_test.go:2: socketio ▶ mcp/stdio"}},
		{
			"another's test is no detour", "some packages never meet",
			map[string]string{"internal/metatool/a.go": "package gateway\n" + imports + "internal/upstream\"", "internal/upstream/a_test.go": "package upstream\n" + imports + "socketio\""}, nil,
		},
		{"allowed meeting", "some packages never meet", map[string]string{"internal/metatool/a.go": "package gateway\n" + imports + "mcp\""}, nil},

		{"SDK in product", "the Go SDK is not in the forwarding path", map[string]string{"internal/upstream/a.go": "package upstream\nimport _ \"" + sdk + "/mcp\""}, []string{"internal/upstream/a.go:2: internal/upstream imports " + sdk}},
		{"SDK in its adapter and tests", "the Go SDK is not in the forwarding path", map[string]string{"s2sp/gosdk/a.go": "package gosdk\nimport _ \"" + sdk + "/mcp\"", "mcp/a_test.go": "package mcp\nimport _ \"" + sdk + "/mcp\""}, nil},

		{"no comment", "every package has a comment", map[string]string{"mcp/a.go": "package mcp", "mcp/b.go": "package mcp"}, []string{"mcp/a.go: package mcp has no comment"}},
		{"one comment", "every package has a comment", map[string]string{"mcp/a.go": "// Package mcp speaks.\npackage mcp", "mcp/b.go": "package mcp"}, nil},
		{"two comments", "every package has a comment", map[string]string{"mcp/a.go": "// Package mcp speaks.\npackage mcp", "mcp/b.go": "// Package mcp too.\npackage mcp"}, []string{"mcp/b.go: package mcp has a second comment"}},
		{"wrong name", "every package has a comment", map[string]string{"mcp/a.go": "// Package other speaks.\npackage mcp"}, []string{"mcp/a.go: the comment of package mcp does not begin"}},
		{"comment in a test only", "every package has a comment", map[string]string{"mcp/a.go": "package mcp", "mcp/a_test.go": "// Package mcp speaks.\npackage mcp"}, []string{"mcp/a.go: package mcp has no comment"}},
		{"command", "every package has a comment", map[string]string{"cmd/weir/main.go": "// Weir is a gateway.\npackage main"}, nil},

		{"environment in product", "the environment is read in cmd, cli, config and agentclient only", map[string]string{"mcp/a.go": "package mcp\nimport \"os\"\nvar a = os.Getenv(\"A\")\nvar b = os.Args"}, []string{"mcp/a.go:3: os.Getenv: take the value"}},
		{"environment under another name", "the environment is read in cmd, cli, config and agentclient only", map[string]string{"mcp/a.go": "package mcp\nimport sys \"os\"\nvar a = sys.Environ"}, []string{"mcp/a.go:3: sys.Environ"}},
		{"environment where it belongs", "the environment is read in cmd, cli, config and agentclient only", map[string]string{"cmd/weir/a.go": "package main\nimport \"os\"\nvar a = os.Getenv(\"A\")", "internal/config/a.go": "package config\nimport \"os\"\nvar a = os.LookupEnv", "mcp/a_test.go": "package mcp\nimport \"os\"\nvar a = os.Environ()"}, nil},

		{"global logger", "loggers are injected", map[string]string{"mcp/a.go": "package mcp\nimport (\"log\"; \"log/slog\")\nfunc f() { slog.Info(\"a\"); log.Println(\"a\") }"}, []string{"mcp/a.go:3: slog.Info", "mcp/a.go:3: log.Println"}},
		{"injected logger", "loggers are injected", map[string]string{"mcp/a.go": "package mcp\nimport \"log/slog\"\nfunc f(log *slog.Logger) { log.Info(\"a\") }"}, nil},

		{"server without timeout", "HTTP servers have timeouts", map[string]string{"mcp/a.go": "package mcp\nimport \"net/http\"\nvar s = &http.Server{Addr: \"x\"}\nvar l = http.ListenAndServe"}, []string{"mcp/a.go:4: http.ListenAndServe", "mcp/a.go:3: http.Server without"}},
		{"server with timeout", "HTTP servers have timeouts", map[string]string{"mcp/a.go": "package mcp\nimport \"net/http\"\nvar s = http.Server{ReadHeaderTimeout: 1}"}, nil},

		{"leftovers", "no folder for leftovers", map[string]string{"mcp/util/a.go": "package util"}, []string{`mcp/util/a.go: folder "util"`}},

		{"long file", "files stay short", map[string]string{"mcp/a.go": "package mcp\n" + strings.Repeat("\n", maxLines), "interop/a.mjs": strings.Repeat("x\n", maxLines+1)}, []string{"interop/a.mjs: 701 lines", "mcp/a.go: 701 lines"}},
		{"long enough file", "files stay short", map[string]string{"mcp/a.go": "package mcp\n" + strings.Repeat("\n", maxLines-1)}, nil},
		{"generated file", "files stay short", map[string]string{"mcp/a.go": "// Code generated by stringer. DO NOT EDIT.\n\npackage mcp\n" + strings.Repeat("\n", maxLines)}, nil},

		{
			"mirror", "lock files name the public registry only",
			map[string]string{"interop/package-lock.json": "{\n\"resolved\": \"https://registry.npmjs.org/a/-/a-1.0.0.tgz\",\n\"resolved\": \"http://mirror.example/a-1.0.0.tgz\"\n}"},
			[]string{`interop/package-lock.json:3: "resolved": "http://mirror.example`},
		},

		{
			"dangling", "documents name what exists",
			map[string]string{"docs/a.md": "See `mcp/` and `gone/`.\n[here](b.md#x) [there](../mcp) [web](https://example.com/x)\n`mcp/x.go` `/mcps/{name}/mcp` `a/b`\n\n    mcp/      the contract\n    gone2/    nothing\n    `code/`\n", "mcp/a.go": "package mcp", "docs/b.md": ""},
			[]string{`docs/a.md:1: "gone/" does not exist`, `docs/a.md:3: "mcp/x.go" does not exist`, `docs/a.md:6: "gone2/" does not exist`},
		},
		{
			"cited", "cited clauses exist",
			map[string]string{"docs/spec/gateway.md": "# Gateway\n\n## 4. Execution\n\n### 4.5 Controls\n", "mcp/a.go": "// Package mcp speaks (spec/gateway\n// §4 and §4.5, RFC 6570 §2.3).\npackage mcp"}, nil,
		},
		{
			"cited in vain", "cited clauses exist",
			map[string]string{"docs/spec/gateway.md": "## 4. Execution\n", "mcp/a.go": "// Package mcp speaks (spec/gateway §4 and §5).\npackage mcp\n\n// F is of gateway-surface §4.\nfunc F() {}"},
			[]string{"mcp/a.go:1: spec/gateway §5 is no heading", "mcp/a.go:4: §4 has no source"},
		},
		{"long line", "documents wrap at 100 columns", map[string]string{"a.md": "Short.\n" + strings.Repeat("word ", 21)}, []string{"a.md:2: 105 columns"}},
		{"long line of code, a table, a link", "documents wrap at 100 columns", map[string]string{"a.md": "| " + strings.Repeat("cell ", 30) + "|\n\n    " + strings.Repeat("code ", 30) + "\n\n```\n" + strings.Repeat("code ", 30) + "\n```\n- [x](https://example.com/" + strings.Repeat("x", 100) + ")"}, nil},
		{"generated", "documents wrap at 100 columns", map[string]string{"a.md": "<!-- generated: a -->\n" + strings.Repeat("word ", 30) + "\n<!-- end -->\n" + strings.Repeat("word ", 30)}, []string{"a.md:4: 150 columns"}},

		{"banned word", "comments are plain English", map[string]string{"internal/text/a.go": "// Package text answers whoever asks.\npackage text\n\n// A is free, all\n// the same.\nvar A = \"nobody\""}, []string{`internal/text/a.go:1: "whoever" in a comment`, `internal/text/a.go:4: "all the same" in a comment`}},
		{"banned word in a document", "documents are plain English", map[string]string{"a.md": "Fine.\nIt is all\nthe same to `whoever`.\n\n```\nnobody\n```\nSay *nobody* but for once."}, []string{`a.md:2: "all the same"`, `a.md:8: "but for"`}},
		{"banned word in a test, in a longer word", "comments are plain English", map[string]string{"internal/text/a_test.go": "package text // nobody", "internal/text/a.go": "// Package text answers besides others.\npackage text"}, nil},

		{"dangling link", "documents name what exists", map[string]string{"README.md": "[x](docs/none.md)\n```\n[y](z.md)\n```\n", "CHANGELOG.md": "`gone/`"}, []string{`README.md:1: "docs/none.md" does not exist`}},
	}
	for _, test := range slices.Concat(tests, nameTests(), packageDocTests(), skipTests(), pictureTests(), walkTests(), weightTests()) {
		t.Run(test.rule+"/"+test.name, func(t *testing.T) {
			fsys := fstest.MapFS{}
			for name, text := range test.files {
				fsys[name] = &fstest.MapFile{Data: []byte(text)}
			}
			tree, err := Load(fsys)
			if err != nil {
				t.Fatal(err)
			}
			found := ruleNamed(t, test.rule).Find(tree)
			if len(found) != len(test.want) {
				t.Fatalf("found %q, want %q", found, test.want)
			}
			for i, want := range test.want {
				if !strings.HasPrefix(found[i], want) {
					t.Errorf("finding %d is %q, want it to begin with %q", i, found[i], want)
				}
			}
		})
	}
}

func ruleNamed(t *testing.T, name string) Rule {
	t.Helper()
	for _, rule := range Rules() {
		if rule.Name == name {
			return rule
		}
	}
	t.Fatalf("no rule %q", name)
	return Rule{}
}

// TestEveryRuleHasAReason holds for the table of packages as well.
func TestEveryRuleHasAReason(t *testing.T) {
	for _, rule := range Rules() {
		if rule.Name == "" || rule.Reason == "" {
			t.Errorf("rule %q has no name or no reason", rule.Name)
		}
	}
	for _, p := range places {
		if p.reason == "" {
			t.Errorf("%s has no reason for its place in layers.go", p.path)
		}
	}
}

func TestLoadReportsWhatDoesNotParse(t *testing.T) {
	_, err := Load(fstest.MapFS{"mcp/a.go": {Data: []byte("package")}})
	if err == nil || !strings.Contains(err.Error(), "mcp/a.go") {
		t.Errorf("error = %v, want one that names mcp/a.go", err)
	}
}
