package house

import (
	"bytes"
	"encoding/json"
	"flag"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/printer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the goldens in testdata/")

// module loads the module that this package is of.
func module(t *testing.T) *Tree {
	t.Helper()
	tree, err := Load(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// TestPublicAPI: what public packages export stays as it is, unless a change means to.
func TestPublicAPI(t *testing.T) {
	var b strings.Builder
	for _, p := range module(t).Packages {
		if isPublic(p) && p.name() != "" {
			b.WriteString("package " + p.Path + "\n")
			exported(t, &b, p)
			b.WriteString("\n")
		}
	}
	golden(t, "api.txt", b.String())
}

// exported writes the exported declarations of a package, without comments and bodies.
func exported(t *testing.T, w *strings.Builder, p *Package) {
	t.Helper()
	fset := token.NewFileSet()
	var files []*ast.File
	for _, f := range p.Files {
		if f.Test {
			continue
		}
		file, err := parser.ParseFile(fset, filepath.Join("../..", f.Name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if ignored := file.Name.Name != p.name(); !ignored {
			files = append(files, file)
		}
	}
	d, err := doc.NewFromFiles(fset, files, Module+"/"+p.Path)
	if err != nil {
		t.Fatal(err)
	}
	show := func(decl ast.Node) {
		if err := (&printer.Config{Mode: printer.UseSpaces, Tabwidth: 4}).Fprint(w, fset, decl); err != nil {
			t.Fatal(err)
		}
		w.WriteString("\n")
	}
	values := func(list []*doc.Value) {
		for _, v := range list {
			show(v.Decl)
		}
	}
	functions := func(list []*doc.Func) {
		for _, f := range list {
			f.Decl.Body = nil
			show(f.Decl)
		}
	}
	values(d.Consts)
	values(d.Vars)
	functions(d.Funcs)
	for _, typ := range d.Types {
		show(typ.Decl)
		values(typ.Consts)
		values(typ.Vars)
		functions(typ.Funcs)
		functions(typ.Methods)
	}
}

// golden compares a text with a file of testdata.
func golden(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if text == string(want) {
		return
	}
	got, old := strings.Split(text, "\n"), strings.Split(string(want), "\n")
	for i, line := range got {
		if i >= len(old) || line != old[i] {
			t.Fatalf("%s:%d: %q is not what it was; a change that means it runs go test ./internal/house -update", path, i+1, line)
		}
	}
	t.Fatalf("%s: lines are gone; a change that means it runs go test ./internal/house -update", path)
}

// A listed package is what go list tells of it.
type listed struct {
	ImportPath, Dir, Export string
	Standard                bool
	GoFiles, Imports        []string
}

// list returns the packages of the module and all that they need, by import path.
func list(t *testing.T) map[string]*listed {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-export", "-json=ImportPath,Dir,Export,Standard,GoFiles,Imports", "./...")
	cmd.Dir = "../.."
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, errs.String())
	}
	all := map[string]*listed{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		p := &listed{}
		if err := d.Decode(p); err == io.EOF {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all[p.ImportPath] = p
	}
}

// optional are the types of stores and nodes that are nil where a gateway has none, and maxNil how often
// code asks for that. The number only falls.
var optional = []string{
	"internal/store.Docs", "internal/store.Blobs", "internal/store.Bus", "*internal/cluster.Node", "*internal/cluster.Claim", "*internal/office/roster.Shared",
	"*internal/link.Messages", "*internal/store/natsstore.Store", "*internal/store/nodestore.Store",
	"*internal/upstream.members", "*internal/upstream/listings.listingStore", "*internal/bridge.Nodes",
}

const maxNil = 19

// TestNilStores counts comparisons of stores and nodes with nil, by their static types.
func TestNilStores(t *testing.T) {
	var places []string
	for _, p := range typedPackages(t) {
		for _, file := range p.files {
			ast.Inspect(file, func(n ast.Node) bool {
				b, ok := n.(*ast.BinaryExpr)
				if !ok || b.Op != token.EQL && b.Op != token.NEQ {
					return true
				}
				if y, ok := b.Y.(*ast.Ident); !ok || y.Name != "nil" {
					return true
				}
				name := types.TypeString(p.info.TypeOf(b.X), func(p *types.Package) string { return strings.TrimPrefix(p.Path(), Module+"/") })
				if slices.Contains(optional, name) {
					places = append(places, typedFset.Position(b.Pos()).String()+" "+name)
				}
				return true
			})
		}
	}
	if len(places) > maxNil {
		slices.Sort(places)
		t.Errorf("%d comparisons of stores and nodes with nil, at most %d:\n%s", len(places), maxNil, strings.Join(places, "\n"))
	}
	if len(places) < maxNil {
		t.Errorf("%d comparisons of stores and nodes with nil: lower maxNil of %d", len(places), maxNil)
	}
}

// asksLasts are the functions that ask what a store outlasts or whether a node is the only one, each with its
// reason; six at most. maxLasts is how often all others ask. The number only falls: texts may depend on it,
// and what a gateway does may not.
var asksLasts = map[string]string{
	"internal/web.Server.mountAPI":                    "a text: the API tells operators whether there are other nodes",
	"internal/web.Server.atNode":                      "a text: the error for a node where there are no others",
	"internal/store/nodestore.Store.Sessions":         "ids of sessions that end with the process need no seal, and have none",
	"internal/gateway.restore":                        "quotas that nothing outlasts are counted in place: documents cost a tenth of a call (BenchmarkKept)",
	"internal/upstream/placement.Programs.ForManager": "sessions of the only node have a program each; those of several nodes share one for each principal",
	"internal/store/nodestore.Store.Figures":          "a text: /metrics has figures of a cluster only in one",
}

const maxLasts = 6

// TestLasts finds calls of Lasts, and comparisons of a node's Inc with "", outside the store and the cluster.
func TestLasts(t *testing.T) {
	if len(asksLasts) > 6 {
		t.Errorf("%d functions ask what the store outlasts", len(asksLasts))
	}
	var places []string
	used := map[string]bool{}
	for _, p := range typedPackages(t) {
		if within(p.path, "internal/store") && p.path != "internal/store/nodestore" || within(p.path, "internal/cluster") {
			continue
		}
		for _, file := range p.files {
			for _, decl := range file.Decls {
				name := strings.TrimPrefix(p.path, Module+"/") + "."
				if f, ok := decl.(*ast.FuncDecl); ok {
					if f.Recv != nil {
						name += strings.TrimPrefix(types.ExprString(f.Recv.List[0].Type), "*") + "."
					}
					name += f.Name.Name
				}
				ast.Inspect(decl, func(n ast.Node) bool {
					if !asksOutlasting(p, n) {
						return true
					}
					if _, ok := asksLasts[name]; ok {
						used[name] = true
						return true
					}
					places = append(places, typedFset.Position(n.Pos()).String()+" "+name)
					return true
				})
			}
		}
	}
	for name := range asksLasts {
		if !used[name] {
			t.Errorf("%s does not ask what the store outlasts: take it from the list", name)
		}
	}
	if len(places) > maxLasts {
		t.Errorf("%d places ask what the store outlasts, at most %d:\n%s", len(places), maxLasts, strings.Join(places, "\n"))
	}
	if len(places) < maxLasts {
		t.Errorf("%d places ask what the store outlasts: lower maxLasts of %d", len(places), maxLasts)
	}
}

// asksOutlasting reports whether a node of the syntax is a call of Lasts, or compares the Inc of a node with "".
func asksOutlasting(p typed, n ast.Node) bool {
	switch n := n.(type) {
	case *ast.CallExpr:
		s, ok := n.Fun.(*ast.SelectorExpr)
		return ok && s.Sel.Name == "Lasts" && types.TypeString(p.info.TypeOf(n), nil) == Module+"/internal/store.Lasts"
	case *ast.BinaryExpr:
		call, ok := n.X.(*ast.CallExpr)
		if !ok || n.Op != token.EQL && n.Op != token.NEQ {
			return false
		}
		s, ok := call.Fun.(*ast.SelectorExpr)
		y, lit := n.Y.(*ast.BasicLit)
		return ok && s.Sel.Name == "Inc" && lit && y.Value == `""` && types.TypeString(p.info.TypeOf(s.X), nil) == "*"+Module+"/internal/cluster.Node"
	}
	return false
}

// foreign are the packages of others that come with a public package, at most.
var foreign = map[string]int{
	".":                 244,
	"agentclient":       5,
	"agentserver":       29,
	"mcp/sse":           5,
	"mcp/stdio":         1,
	"mcp/streamable":    5,
	"s2sp":              131,
	"s2sp/gosdk":        158,
	"s2sp/plane":        130,
	"s2sp/table":        125,
	"smcp/agent":        1,
	"smcp/computer":     9,
	"smcp/hub":          12,
	"socketio":          1,
	"socketio/engineio": 1,
}

// TestForeignPackages: who imports one public package gets few packages of others.
func TestForeignPackages(t *testing.T) {
	all := list(t)
	for _, p := range module(t).Packages {
		if !isPublic(p) || p.name() == "" {
			continue
		}
		seen := map[string]bool{}
		var others int
		var walk func(path string)
		walk = func(path string) {
			q := all[path]
			if q == nil || q.Standard || seen[path] {
				return
			}
			seen[path] = true
			if !strings.HasPrefix(path, Module) {
				others++
			}
			for _, next := range q.Imports {
				walk(next)
			}
		}
		walk(strings.TrimSuffix(Module+"/"+p.Path, "/."))
		if most := foreign[p.Path]; others != most {
			t.Errorf("%s comes with %d packages of others; kept_test.go says %d", p.Path, others, most)
		}
	}
}
