package house

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strconv"
	"strings"
)

// maxLines is the longest a source file may be. The house aims at 600; the rest is room for finishing a thought.
const maxLines = 700

func sourceRules() []Rule {
	return []Rule{
		{
			Name:   "every package has a comment",
			Reason: "the comment is where a reader learns what a package is for, what it knows nothing of and how its parts flow",
			Find:   findUncommented,
		},
		{
			Name:   "the environment is read in cmd, cli, config and agentclient only",
			Reason: "what a program does must follow from its flags and its configuration; a variable read elsewhere is a setting that cannot be found or tested. agentclient is for programs that a router starts with its address in the environment",
			Find: func(t *Tree) []string {
				return t.findCalls("os", []string{"Getenv", "LookupEnv", "Environ", "ExpandEnv"}, []string{"cmd", "internal/cli", "internal/config", "agentclient"},
					"take the value, or a lookup function, as an option")
			},
		},
		{
			Name:   "loggers are injected",
			Reason: "two gateways in one process, and every test, need logs of their own",
			Find: func(t *Tree) []string {
				return append(
					t.findCalls("log/slog", []string{"Default", "SetDefault", "Debug", "Info", "Warn", "Error", "Log", "LogAttrs", "DebugContext", "InfoContext", "WarnContext", "ErrorContext"}, []string{"cmd", "internal/cli", "examples"},
						"take a *slog.Logger as an option, slog.New(slog.DiscardHandler) when it is nil"),
					t.findCalls("log", []string{"Print", "Printf", "Println", "Fatal", "Fatalf", "Fatalln", "Panic", "Panicf", "Panicln", "Default"}, []string{"examples"},
						"take a *slog.Logger as an option")...)
			},
		},
		{
			Name:   "HTTP servers have timeouts",
			Reason: "a server without them keeps a connection for every client that stops in the middle of a header",
			Find:   findServers,
		},
		{
			Name:   "no folder for leftovers",
			Reason: "a folder named after nothing collects everything; name what is in it",
			Find:   findLeftovers,
		},
		{
			Name:   "files stay short",
			Reason: fmt.Sprintf("a file of more than %d lines tells more than one story; its parts deserve names", maxLines),
			Find:   findLong,
		},
		{
			Name:   "lock files name the public registry only",
			Reason: "a package resolved at somebody's mirror cannot be installed anywhere else",
			Find:   findMirrors,
		},
	}
}

func findUncommented(t *Tree) []string {
	var found []string
	for _, p := range t.Packages {
		product := slices.DeleteFunc(slices.Clone(p.Files), func(f *GoFile) bool { return f.Test })
		if len(product) == 0 {
			continue // A folder with tests only documents itself in them.
		}
		var comments []*GoFile
		for _, file := range product {
			if file.AST.Doc != nil {
				comments = append(comments, file)
			}
		}
		switch {
		case len(comments) == 0:
			found = append(found, fmt.Sprintf("%s: package %s has no comment: add one above its package clause, or a doc.go", product[0].Name, p.Path))
		case len(comments) > 1:
			found = append(found, fmt.Sprintf("%s: package %s has a second comment, the first is in %s", comments[1].Name, p.Path, comments[0].Name))
		default:
			text := comments[0].AST.Doc.Text()
			name := comments[0].AST.Name.Name
			want := "Package " + name + " "
			if name != "main" && !strings.HasPrefix(text, want) {
				found = append(found, fmt.Sprintf("%s: the comment of package %s does not begin with %q", comments[0].Name, p.Path, want))
			}
		}
	}
	return found
}

// findCalls lists uses of functions of a package of the standard library in product code outside some folders.
func (t *Tree) findCalls(importPath string, functions, except []string, instead string) []string {
	var found []string
	for _, p := range t.Packages {
		if slices.ContainsFunc(except, func(dir string) bool { return within(p.Path, dir) }) {
			continue
		}
		for _, file := range p.Files {
			name, imported := importName(file.AST, importPath)
			if file.Test || !imported {
				continue
			}
			ast.Inspect(file.AST, func(n ast.Node) bool {
				selector, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				if x, ok := selector.X.(*ast.Ident); ok && x.Name == name && slices.Contains(functions, selector.Sel.Name) {
					found = append(found, fmt.Sprintf("%s: %s.%s: %s", t.at(n.Pos()), name, selector.Sel.Name, instead))
				}
				return true
			})
		}
	}
	return found
}

// importName is the name a file uses for an imported package.
func importName(file *ast.File, importPath string) (string, bool) {
	for _, spec := range file.Imports {
		if p, err := strconv.Unquote(spec.Path.Value); err != nil || p != importPath {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name, true
		}
		return path.Base(importPath), true
	}
	return "", false
}

// findServers looks for servers that can have no timeout: the shortcuts of net/http, and a literal without
// ReadHeaderTimeout or ReadTimeout.
func findServers(t *Tree) []string {
	found := t.findCalls("net/http", []string{"ListenAndServe", "ListenAndServeTLS", "Serve", "ServeTLS"}, nil, "make an http.Server with ReadHeaderTimeout")
	for _, p := range t.Packages {
		for _, file := range p.Files {
			name, imported := importName(file.AST, "net/http")
			if file.Test || !imported {
				continue
			}
			ast.Inspect(file.AST, func(n ast.Node) bool {
				literal, ok := n.(*ast.CompositeLit)
				if !ok {
					return true
				}
				selector, ok := literal.Type.(*ast.SelectorExpr)
				if !ok || selector.Sel.Name != "Server" {
					return true
				}
				if x, ok := selector.X.(*ast.Ident); ok && x.Name == name && !hasKey(literal, "ReadHeaderTimeout", "ReadTimeout") {
					found = append(found, fmt.Sprintf("%s: %s.Server without ReadHeaderTimeout", t.at(n.Pos()), name))
				}
				return true
			})
		}
	}
	return found
}

func hasKey(literal *ast.CompositeLit, keys ...string) bool {
	return slices.ContainsFunc(literal.Elts, func(e ast.Expr) bool {
		pair, ok := e.(*ast.KeyValueExpr)
		if !ok {
			return false
		}
		key, ok := pair.Key.(*ast.Ident)
		return ok && slices.Contains(keys, key.Name)
	})
}

func findLeftovers(t *Tree) []string {
	leftovers := []string{"util", "utils", "common", "pkg", "helpers", "misc", "lib"}
	var found []string
	for _, p := range t.Packages {
		for part := range strings.SplitSeq(p.Path, "/") {
			if slices.Contains(leftovers, part) {
				found = append(found, fmt.Sprintf("%s: folder %q", p.Files[0].Name, part))
			}
		}
	}
	return found
}

func findLong(t *Tree) []string {
	var found []string
	for _, file := range t.Files {
		if n := len(file.Lines); n > maxLines {
			found = append(found, fmt.Sprintf("%s: %d lines", file.Name, n))
		}
	}
	return found
}

func findMirrors(t *Tree) []string {
	const registry = `"resolved": "https://registry.npmjs.org/`
	var found []string
	for _, lock := range t.Locks {
		for i, line := range lock.Lines {
			if strings.Contains(line, `"resolved":`) && !strings.Contains(line, registry) {
				found = append(found, fmt.Sprintf("%s:%d: %s", lock.Name, i+1, strings.TrimSpace(line)))
			}
		}
	}
	return found
}
