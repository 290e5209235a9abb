package house

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Module is the import path of the module whose rules these are.
const Module = "github.com/weir-mcp/weir"

// A Rule is one habit the module keeps. Find returns a line for each place that breaks it, starting with the file.
type Rule struct {
	Name   string
	Reason string
	Find   func(*Tree) []string
}

// Rules returns all rules, those about the shape of the module first.
func Rules() []Rule {
	return slices.Concat(layerRules(), nameRules(), sourceRules(), documentRules(), proseRules(), packageDocRules(), citationRules(), skipRules(), pictureRules(), walkRules(), weightRules())
}

// A Tree is the source of a module, parsed.
type Tree struct {
	Packages  []*Package // sorted by path
	Files     []*File    // every source file that people read, in any language, sorted by name
	Documents []*File    // Markdown
	Locks     []*File    // package-lock.json
	Fset      *token.FileSet

	names map[string]bool // every file and folder
}

// A Package is one folder with Go files.
type Package struct {
	Path  string // inside the module, "." for its root
	Files []*GoFile
}

// A GoFile is a parsed Go file.
type GoFile struct {
	Name string // path inside the module
	Test bool
	AST  *ast.File
}

// A File is a file as text.
type File struct {
	Name  string // path inside the module
	Lines []string
}

// sources are the endings of files that are written by hand and read by people.
var sources = []string{".go", ".mjs", ".js", ".py", ".sh", ".html", ".css"}

// Load reads the module at the root of fsys. Folders that are hidden, named testdata, vendor or node_modules, or that hold a
// go.mod of their own, are not part of it.
func Load(fsys fs.FS) (*Tree, error) {
	tree := &Tree{Fset: token.NewFileSet(), names: map[string]bool{}}
	packages := map[string]*Package{}
	err := fs.WalkDir(fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name == "." {
			return nil
		}
		tree.names[name] = true
		base := path.Base(name)
		if entry.IsDir() {
			_, nested := fs.Stat(fsys, path.Join(name, "go.mod"))
			if nested == nil || base == "testdata" || base == "vendor" || base == "node_modules" || (base[0] == '.' && base != ".ci") {
				return fs.SkipDir
			}
			return nil
		}
		switch ext := path.Ext(name); {
		case ext == ".md":
			return tree.addText(fsys, name, &tree.Documents)
		case base == "package-lock.json":
			return tree.addText(fsys, name, &tree.Locks)
		case ext == ".go":
			return tree.addGo(fsys, name, packages)
		case slices.Contains(sources, ext):
			return tree.addText(fsys, name, &tree.Files)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the module: %w", err)
	}
	for _, p := range packages {
		tree.Packages = append(tree.Packages, p)
	}
	slices.SortFunc(tree.Packages, func(a, b *Package) int { return strings.Compare(a.Path, b.Path) })
	return tree, nil
}

func (t *Tree) addText(fsys fs.FS, name string, list *[]*File) error {
	data, err := fs.ReadFile(fsys, name)
	if err != nil {
		return err
	}
	*list = append(*list, textOf(name, data))
	return nil
}

func textOf(name string, data []byte) *File {
	return &File{Name: name, Lines: strings.Split(string(bytes.TrimSuffix(data, []byte("\n"))), "\n")}
}

func (t *Tree) addGo(fsys fs.FS, name string, packages map[string]*Package) error {
	data, err := fs.ReadFile(fsys, name)
	if err != nil {
		return err
	}
	file, err := parser.ParseFile(t.Fset, name, data, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	if !ast.IsGenerated(file) {
		t.Files = append(t.Files, textOf(name, data))
	}
	if isIgnored(file) {
		return nil
	}
	dir := path.Dir(name)
	if packages[dir] == nil {
		packages[dir] = &Package{Path: dir}
	}
	packages[dir].Files = append(packages[dir].Files, &GoFile{Name: name, Test: strings.HasSuffix(name, "_test.go"), AST: file})
	return nil
}

// isIgnored reports whether a file is a program of its own in the folder of a package, run with go run: its build constraint is "ignore".
func isIgnored(file *ast.File) bool {
	for _, group := range file.Comments {
		if group.Pos() > file.Package {
			return false
		}
		for _, comment := range group.List {
			if strings.TrimSpace(comment.Text) == "//go:build ignore" {
				return true
			}
		}
	}
	return false
}

// An edge is one import of a package of the module, or of any other path.
type edge struct {
	To    string // path inside the module, or the import path of foreign code
	Local bool
	Test  bool
	Where string // file:line
}

// imports returns the imports of a package, each path as often as it is written.
func (t *Tree) imports(p *Package) []edge {
	var edges []edge
	for _, file := range p.Files {
		for _, spec := range file.AST.Imports {
			to := strings.Trim(spec.Path.Value, "`\"")
			local := to == Module || strings.HasPrefix(to, Module+"/")
			if local {
				to = cmp.Or(strings.TrimPrefix(strings.TrimPrefix(to, Module), "/"), ".")
			}
			edges = append(edges, edge{To: to, Local: local, Test: file.Test, Where: t.at(spec.Pos())})
		}
	}
	return edges
}

// at is file:line of a position.
func (t *Tree) at(pos token.Pos) string {
	p := t.Fset.Position(pos)
	return fmt.Sprintf("%s:%d", p.Filename, p.Line)
}

// within reports whether name is dir or below it.
func within(name, dir string) bool {
	return name == dir || strings.HasPrefix(name, dir+"/")
}
