package house

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strconv"
	"strings"
)

// A skip is a reason for which a test may be left out.
type skip struct {
	reason string // as t.Skip has it
	words  string // of § Tests in docs/rough_edges.md, which name it
}

// skips is the table of reasons. Each is a property of the system, or a wish of the caller of go test.
var skips = []skip{
	{"the servers are shell scripts", "shell scripts as servers"},
	{"Windows has no signals", "signals"},
	{"Windows has no file modes", "file modes"},
	{"links need rights on Windows", "links"},
	{"the record has the paths of a Unix", "paths of a Unix"},
	{"this system does not map files", "mapped files"},
	{"this system cannot remove an open file", "removal of open files"},
	{"the folders are those of Linux", "folders of clients"},
	{"only Linux knows descendants outside the process group", "descendants outside the process group"},
	{"private memory is read from /proc", "`/proc`"},
	{"there is no openssl", "`openssl`"},
	{"there is no systemd-analyze", "`systemd-analyze`"},
	{"this machine confines no programs", "sandboxes"},
	{"this machine watches no system calls", "system calls that are watched"},
	{"there is no podman that starts containers", "`podman`"},
	{"there are no documents of real APIs", "documents of real APIs"},
	{"-short: it builds two programs", "`go test -short`"},
}

func skipRules() []Rule {
	return []Rule{{
		Name:   "tests are left out for known reasons",
		Reason: "a test that is left out in silence looks like one that passes",
		Find:   findSkips,
	}}
}

// findSkips checks the reasons of t.Skip, and looks for tests that return early on some system without
// one.
func findSkips(t *Tree) []string {
	documented := t.section("docs/rough_edges.md", "Tests")
	var found []string
	for _, p := range t.Packages {
		for _, file := range p.Files {
			if _, tests := importName(file.AST, "testing"); !tests {
				continue
			}
			for _, call := range skipCalls(file.AST) {
				reason, known := reasonOf(call)
				switch {
				case !known:
					found = append(found, fmt.Sprintf("%s: %q is no reason of the table: call Skip with a text of skips in internal/house/skips.go, or add a line there and to docs/rough_edges.md, Tests", t.at(call.Pos()), reason.reason))
				case !strings.Contains(documented, reason.words):
					found = append(found, fmt.Sprintf("%s: docs/rough_edges.md, Tests, does not name %q", t.at(call.Pos()), reason.words))
				}
			}
			for _, silent := range silentReturns(file.AST) {
				found = append(found, t.at(silent.Pos())+": this return leaves out the rest of a test: call Skip with a reason")
			}
		}
	}
	return found
}

// section returns the text of a section of a document, in one line.
func (t *Tree) section(name, title string) string {
	var text []string
	for _, doc := range t.Documents {
		inside := false
		for _, line := range doc.Lines {
			if strings.HasPrefix(line, "## ") {
				inside = line == "## "+title
			} else if inside && doc.Name == name {
				text = append(text, strings.Fields(line)...)
			}
		}
	}
	return strings.Join(text, " ")
}

// skipCalls returns the calls of Skip, Skipf and SkipNow of a test's T, B or F. A function Skip of an
// imported package is another one.
func skipCalls(file *ast.File) (calls []*ast.CallExpr) {
	packages := map[string]bool{}
	for _, spec := range file.Imports {
		if p, err := strconv.Unquote(spec.Path.Value); err == nil {
			packages[path.Base(p)] = true
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		selector, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || !slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, selector.Sel.Name) {
			return true
		}
		if x, ok := selector.X.(*ast.Ident); !ok || !packages[x.Name] {
			calls = append(calls, call)
		}
		return true
	})
	return calls
}

// reasonOf returns the line of the table that a call of Skip has. If there is none, the reason is the
// text of the call.
func reasonOf(call *ast.CallExpr) (s skip, known bool) {
	if len(call.Args) == 1 {
		if text, ok := call.Args[0].(*ast.BasicLit); ok {
			s.reason, _ = strconv.Unquote(text.Value)
		}
	}
	if i := slices.IndexFunc(skips, func(line skip) bool { return line.reason == s.reason }); i >= 0 {
		return skips[i], true
	}
	return s, false
}

// silentReturns returns conditions about the system in tests whose branch returns and says nothing.
func silentReturns(file *ast.File) (found []*ast.IfStmt) {
	for _, decl := range file.Decls {
		test, ok := decl.(*ast.FuncDecl)
		if !ok || !strings.HasPrefix(test.Name.Name, "Test") && !strings.HasPrefix(test.Name.Name, "Benchmark") {
			continue
		}
		ast.Inspect(test, func(n ast.Node) bool {
			branch, ok := n.(*ast.IfStmt)
			if !ok || len(branch.Body.List) == 0 || !asksSystem(branch.Cond) {
				return true
			}
			last, ok := branch.Body.List[len(branch.Body.List)-1].(*ast.ReturnStmt)
			if ok && len(last.Results) == 0 {
				found = append(found, branch)
			}
			return true
		})
	}
	return found
}

// asksSystem reports whether a condition looks at the system or at -short.
func asksSystem(cond ast.Expr) (asks bool) {
	ast.Inspect(cond, func(n ast.Node) bool {
		if selector, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := selector.X.(*ast.Ident); ok {
				asks = asks || x.Name == "runtime" && selector.Sel.Name == "GOOS" || x.Name == "testing" && selector.Sel.Name == "Short"
			}
		}
		return true
	})
	return asks
}
