package house

import (
	"bytes"
	"encoding/json"
	"flag"
	"go/ast"
	"go/constant"
	"go/doc"
	"go/parser"
	"go/printer"
	"go/token"
	"go/types"
	"io"
	"maps"
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

// optional are the types of stores and nodes that are nil where a gateway has none.
var optional = []string{
	"internal/store.Docs", "internal/store.Blobs", "internal/store.Bus", "*internal/cluster.Node", "*internal/cluster.Claim", "*internal/office/roster.Shared",
	"*internal/link.Messages", "*internal/store/natsstore.Store", "*internal/store/nodestore.Store",
	"*internal/upstream.members", "*internal/upstream/listings.listingStore", "*internal/bridge.Nodes",
}

// Reasons why a function compares a store or a node with nil.
const (
	option  = "an option that is not set has a default"
	library = "smcp/hub is a library: a hub without a cluster has no store, and keeps its offices in memory"
	sole    = "the hub of the only node has no connections to other hubs"
	once    = "documents that end with the process would be a second copy of what is in memory"
)

// asksNil are the functions that compare a store or a node with nil, each with its reason.
var asksNil = map[string]string{
	"internal/bridge.NewRounds":               option,
	"internal/office/roster.NewShared":        option,
	"internal/gateway.New":                    option,
	"internal/cluster.Claim.Held":             "no claim is held: callers have one or none",
	"internal/metatool/ranking.newEmbeddings": once,
	"internal/metatool.recalls.join":          once,
	"internal/passthrough.newFace":            once,
	"internal/tasks.Registry.keeps":           once,
	"internal/upstream.lists.perCaller":       "a server lists for all callers or for each of them",
	"internal/office.Offices.Close":           sole,
	"internal/office.Offices.ServePeer":       sole,
	"smcp/hub.New":                            library,
	"smcp/hub.Hub.Shutdown":                   library,
	"smcp/hub.Hub.join":                       library,
	"smcp/hub.Hub.leave":                      library,
	"smcp/hub.Hub.leaveLocked":                library,
	"smcp/hub.fabric.spread":                  library,
	"smcp/hub.remote.sendUp":                  library,
}

// TestNilStores finds comparisons of stores and nodes with nil, by their static types: a store is always there, and a
// function that asks for it has a reason.
func TestNilStores(t *testing.T) {
	judgeAsking(t, asksNil, "compares a store or a node with nil", nil, func(p typed, n ast.Node) bool {
		b, ok := n.(*ast.BinaryExpr)
		if !ok || b.Op != token.EQL && b.Op != token.NEQ {
			return false
		}
		if y, ok := b.Y.(*ast.Ident); !ok || y.Name != "nil" {
			return false
		}
		return slices.Contains(optional, types.TypeString(p.info.TypeOf(b.X), func(p *types.Package) string { return strings.TrimPrefix(p.Path(), Module+"/") }))
	})
}

// asksLasts are the functions that ask what a store outlasts or whether a node is the only one, each with its
// reason: texts may depend on it, and what a gateway does may not, but where a reason says so.
var asksLasts = map[string]string{
	"internal/web.Server.mountAPI":                    "a text: the API tells operators whether there are other nodes",
	"internal/web.Server.atNode":                      "a text: the error for a node where there are no others",
	"internal/web.build":                              "requests of other nodes are looked for in each body, which costs a reading of it",
	"internal/web.states":                             "the state in a request is looked for in its body, which costs a reading of it",
	"internal/store/nodestore.Store.Sessions":         "ids of sessions that end with the process need no seal, and have none",
	"internal/store/nodestore.Store.Documents":        once,
	"internal/store/nodestore.Store.Figures":          "a text: /metrics has figures of a cluster only in one",
	"internal/gateway.restore":                        "quotas that nothing outlasts are counted in place: documents cost a tenth of a call (BenchmarkKept)",
	"internal/upstream/placement.Programs.ForManager": "sessions of the only node have a program each; those of several nodes share one for each principal",
	"internal/upstream/membership.New":                "nodes that share agents renew them together, so their lease is longer",
	"internal/office.Offices.shareOffices":            library,
	"internal/office.Offices.joinRemote":              "the only node joins a hub at once; of several, the one that has the claim joins",
}

// TestLasts finds calls of Lasts, and comparisons of a node's Inc with "", outside the store and the cluster.
func TestLasts(t *testing.T) {
	apart := func(path string) bool {
		return within(path, "internal/store") && path != "internal/store/nodestore" || within(path, "internal/cluster")
	}
	judgeAsking(t, asksLasts, "asks what the store outlasts", apart, asksOutlasting)
}

// judgeAsking finds the functions that have a node of the syntax, and compares them with those that have a reason.
// apart says which packages are not looked at; nil is for none.
func judgeAsking(t *testing.T, reasons map[string]string, does string, apart func(path string) bool, asks func(typed, ast.Node) bool) {
	t.Helper()
	used := map[string]bool{}
	for _, p := range typedPackages(t) {
		if apart != nil && apart(p.path) {
			continue
		}
		for _, file := range p.files {
			for _, decl := range file.Decls {
				name := p.path + "."
				if f, ok := decl.(*ast.FuncDecl); ok {
					if f.Recv != nil {
						name += strings.TrimPrefix(types.ExprString(f.Recv.List[0].Type), "*") + "."
					}
					name += f.Name.Name
				}
				ast.Inspect(decl, func(n ast.Node) bool {
					if !asks(p, n) {
						return true
					}
					used[name] = true
					if reasons[name] == "" {
						t.Errorf("%s: %s %s: do without, or say why in the list of this test", typedFset.Position(n.Pos()), name, does)
					}
					return true
				})
			}
		}
	}
	for name := range reasons {
		if !used[name] {
			t.Errorf("%s no longer %s: take it from the list", name, does)
		}
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
	"s2sp":              6,
	"s2sp/columnar":     125,
	"s2sp/gosdk":        34,
	"s2sp/plane":        5,
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

// keyRooms are the prefixes of internal/store/keys.go that rooms of more than one folder take, with the reason. The
// other prefixes belong to one room each.
var keyRooms = map[string]string{
	"ClaimKeys": "claims of the cluster: the hash of what is claimed starts with the key of the configuration that names it",
	"NodeKeys":  "nodes write their documents, and the offices of a cluster follow them",
	"TaskKeys":  "groups of queues; a gateway has the groups gw and gwid, which queues refuse",
}

// TestKeys: each prefix of the keys of documents belongs to one room, no prefix starts another one, and no room writes
// one of them as a text of its own.
func TestKeys(t *testing.T) {
	prefixes, rooms := map[string]string{}, map[string]map[string]bool{}
	for _, p := range typedPackages(t) {
		if p.path != "internal/store" {
			continue
		}
		for _, name := range p.types.Scope().Names() {
			if c, ok := p.types.Scope().Lookup(name).(*types.Const); ok && strings.HasSuffix(name, "Keys") && filepath.Base(typedFset.Position(c.Pos()).Filename) == "keys.go" {
				prefixes[name], rooms[name] = constant.StringVal(c.Val()), map[string]bool{}
			}
		}
	}
	if len(prefixes) < 15 {
		t.Fatalf("%d prefixes", len(prefixes))
	}
	for a, prefix := range prefixes {
		for b, other := range prefixes {
			if a != b && strings.HasPrefix(other, prefix) {
				t.Errorf("%s %q starts %s %q", a, prefix, b, other)
			}
		}
		if strings.Count(prefix, ".") != 1 || !strings.HasSuffix(prefix, ".") {
			t.Errorf("%s: a prefix ends at the first dot, and %q does not", a, prefix)
		}
	}
	for _, p := range typedPackages(t) {
		if within(p.path, "internal/store") || isTestOnly(p.path) || !slices.ContainsFunc(p.types.Imports(), func(i *types.Package) bool { return i.Path() == Module+"/internal/store" }) {
			continue
		}
		for _, file := range p.files {
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.SelectorExpr:
					if o := p.info.Uses[n.Sel]; o != nil && o.Pkg() != nil && o.Pkg().Path() == Module+"/internal/store" && rooms[n.Sel.Name] != nil {
						rooms[n.Sel.Name][room(p.path)] = true
					}
				case *ast.CallExpr:
					if at, ok := p.keyOf(n); ok {
						t.Errorf("%s: the key of a document starts with a text of its own: take a prefix of internal/store/keys.go, or add one", typedFset.Position(at))
					}
				}
				return true
			})
		}
	}
	for name, in := range rooms {
		_, shared := keyRooms[name]
		switch {
		case len(in) == 0:
			t.Errorf("%s is a prefix that no room takes", name)
		case len(in) > 1 && !shared:
			t.Errorf("%s is the prefix of %v: one room has it, or keyRooms says why", name, slices.Sorted(maps.Keys(in)))
		case len(in) == 1 && shared:
			t.Errorf("keyRooms names %s, which one room takes", name)
		}
	}
}

// keyOf reports whether a call is one of the store whose key starts with a literal, and where.
func (p typed) keyOf(call *ast.CallExpr) (at token.Pos, literal bool) {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return 0, false
	}
	o, ok := p.info.Uses[f.Sel].(*types.Func)
	if !ok || o.Pkg() == nil || o.Pkg().Path() != Module+"/internal/store" {
		return 0, false
	}
	params := o.Signature().Params()
	for i, arg := range call.Args {
		if i >= params.Len() || params.At(i).Name() != "key" && params.At(i).Name() != "prefix" {
			continue
		}
		for {
			b, ok := arg.(*ast.BinaryExpr)
			if !ok {
				break
			}
			arg = b.X
		}
		if lit, ok := arg.(*ast.BasicLit); ok {
			return lit.Pos(), true
		}
	}
	return 0, false
}
