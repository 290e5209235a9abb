package house

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// shown are the internal types that public packages show in exported declarations, each with the
// reason. Users of the packages leave such a field nil, or hand on a value without naming its type.
var shown = map[use]string{
	{"internal/limit/memory", "Account"}: "weir counts the bytes of all its connections in one place; programs of others leave it nil and count none",
	{"internal/limit/memory", "Pool"}:    "see Account",
	{"internal/limit/memory", "Block"}:   "the bytes of a large message, with their release; see Account",
	{"internal/host/child", "Keeper"}:    "weir ends all of its programs together; programs of others leave it nil",
	{"internal/office/roster", "Shared"}: "weir's hubs share offices in a cluster; programs of others leave it nil",
	{"internal/queue", "Status"}:         "a struct of numbers to read",
	{"internal/artifact", "Tokens"}:      "the store of tables; made by package s2sp, handed on by its users",
	{"internal/artifact", "Rows"}:        "see Tokens",
	{"internal/net/address", "Rule"}:     "which addresses a peer may name; the zero value decides as weir does",
	{"internal/limit/work", "Meter"}:     "weir bounds what queries of strangers compute; others call Query",
	{"internal/office/member", "State"}:  "a name to print and compare",
	{"internal/json/strict", "Decoder"}:  "how package strict reads the type; only that package calls it",
	{"internal/json/strict", "Node"}:     "see Decoder",
}

// foundations are the internal packages that public packages may import, with what those import
// themselves. A program of others gets them in addition to the public package.
var foundations = map[string][]string{
	".":                 {"internal/gateway", "internal/audit/trail", "internal/observe", "internal/web", "internal/config", "internal/host/sandbox", "internal/host/secret", "internal/net/httpserver", "internal/part", "internal/program", "internal/setup/machine", "internal/store/nodestore", "internal/upstream/lineage"},
	"mcp":               {"internal/identity", "internal/limit/memory", "internal/json/rawjson"},
	"mcp/jsonrpc":       {"internal/json/rawjson"},
	"mcp/sse":           {"internal/net/guard", "internal/identity", "internal/limit/inflight", "internal/limit/memory", "internal/json/rawjson"},
	"mcp/stdio":         {"internal/host/child", "internal/limit/memory", "internal/json/rawjson", "internal/text", "internal/text/visible"},
	"mcp/streamable":    {"internal/net/guard", "internal/net/hop", "internal/limit/inflight", "internal/limit/memory", "internal/json/rawjson", "internal/text"},
	"s2sp":              {"internal/net/address", "internal/artifact", "internal/json/rawjson"},
	"s2sp/gosdk":        {"internal/json/rawjson"},
	"s2sp/dispatch":     {"internal/limit/bounded", "internal/json/rawjson"},
	"s2sp/columnar":     {"internal/columnar/codec"},
	"s2sp/plane":        {"internal/net/address", "internal/artifact", "internal/columnar", "internal/limit/memory", "internal/json/rawjson"},
	"s2sp/table":        {"internal/columnar", "internal/json/rawjson", "internal/limit/work"},
	"agentserver":       {"internal/catalog", "internal/catalog/primitive", "internal/host/child", "internal/net/guard", "internal/protocol/invocation", "internal/protocol/listchange", "internal/host/place", "internal/json/rawjson", "internal/text/redact", "internal/json/strict", "internal/queue", "internal/store", "internal/text", "internal/text/uritemplate", "internal/limit/work"},
	"agentclient":       {"internal/json/rawjson"},
	"smcp/agent":        {"internal/office/a2c", "internal/office/member", "internal/json/rawjson"},
	"smcp/computer":     {"internal/office/a2c", "internal/bridge", "internal/catalog/primitive", "internal/config/mcpserver", "internal/config/otlp", "internal/office/member", "internal/host/place", "internal/json/rawjson", "internal/text/redact", "internal/json/strict", "internal/observe/trace", "internal/upstream"},
	"smcp/hub":          {"internal/office/a2c", "internal/net/address", "internal/limit/memory", "internal/ownership", "internal/json/rawjson", "internal/office/roster", "internal/text/visible"},
	"socketio":          {"internal/json/rawjson", "internal/limit/memory"},
	"socketio/engineio": {"internal/limit/memory"},
}

// maxExported is the largest number of names that all public packages together export: functions,
// types, methods, constants and variables.
const maxExported = 885

func nameRules() []Rule {
	return []Rule{
		{
			Name:   "what internal packages export is used elsewhere",
			Reason: "an exported name says that other packages need it; where none does, a reader looks for a caller that does not exist",
			Find:   findUnused,
		},
		{
			Name:   "public packages export few names",
			Reason: fmt.Sprintf("others build on every exported name, so each is kept for good; %d for all public packages together are many to learn", maxExported),
			Find:   findTooMany,
		},
		{
			Name:   "public signatures name public types only",
			Reason: "a type of an internal package in a public signature cannot be written by the users of the package",
			Find:   findLeaks,
		},
		{
			Name:   publicArrows,
			Reason: "a program that imports one public package links all that stands below it, and must not get a gateway with a codec",
			Find:   findHeavy,
		},
	}
}

const publicArrows = "public packages stand on few internal ones"

// isPublic reports whether programs of others may import a package. Programs, benchmarks and
// examples are not imported.
func isPublic(p *Package) bool {
	for _, dir := range []string{"internal", "cmd", "bench", "examples", "interop"} {
		if within(p.Path, dir) {
			return false
		}
	}
	return p.name() != "main"
}

// name returns the name of the package in its clause, "" without product files.
func (p *Package) name() string {
	for _, file := range p.Files {
		if !file.Test {
			return file.AST.Name.Name
		}
	}
	return ""
}

// receiverOf returns the name of the type of a method.
func receiverOf(f *ast.FuncDecl) string {
	expr := f.Recv.List[0].Type
	for {
		switch x := expr.(type) {
		case *ast.StarExpr:
			expr = x.X
		case *ast.IndexExpr:
			expr = x.X
		case *ast.IndexListExpr:
			expr = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

// A declaration is one name that a package declares at its top level, or a method.
type declaration struct {
	Name     string // Dial, or Session.Close for a method
	Pos      token.Pos
	Mentions []ast.Node // the parts that a user of the name sees: the signature, exported fields, the type
	Group    *ast.GenDecl
}

// exportedOf returns the exported declarations of the product code of a package. Methods count if
// their type is exported as well.
func exportedOf(p *Package) []declaration {
	var out []declaration
	for _, file := range p.Files {
		if file.Test {
			continue
		}
		for _, decl := range file.AST.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				name := d.Name.Name
				if d.Recv != nil {
					if !ast.IsExported(receiverOf(d)) {
						continue
					}
					name = receiverOf(d) + "." + name
				}
				if d.Name.IsExported() {
					out = append(out, declaration{Name: name, Pos: d.Pos(), Mentions: []ast.Node{d.Type}})
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					out = append(out, exportedIn(d, spec)...)
				}
			}
		}
	}
	return out
}

func exportedIn(group *ast.GenDecl, spec ast.Spec) []declaration {
	var out []declaration
	switch s := spec.(type) {
	case *ast.TypeSpec:
		if s.Name.IsExported() {
			out = append(out, declaration{Name: s.Name.Name, Pos: s.Pos(), Mentions: visibleParts(s)})
		}
	case *ast.ValueSpec:
		for _, name := range s.Names {
			if !name.IsExported() {
				continue
			}
			d := declaration{Name: name.Name, Pos: name.Pos(), Group: group}
			if s.Type != nil {
				d.Mentions = append(d.Mentions, s.Type)
			}
			out = append(out, d)
		}
	}
	return out
}

// visibleParts returns the parts of a type that its users see: type parameters and, of a struct,
// exported and embedded fields; of anything else all.
func visibleParts(s *ast.TypeSpec) []ast.Node {
	var parts []ast.Node
	if s.TypeParams != nil {
		parts = append(parts, s.TypeParams)
	}
	structure, ok := s.Type.(*ast.StructType)
	if !ok {
		return append(parts, s.Type)
	}
	for _, field := range structure.Fields.List {
		if len(field.Names) == 0 || slices.ContainsFunc(field.Names, func(n *ast.Ident) bool { return n.IsExported() }) {
			parts = append(parts, field.Type)
		}
	}
	return parts
}

// A use is an exported name of a package.
type use struct{ pkg, name string }

// forTests are the internal names that tests of other packages need and no product code, each with
// the reason. A test in a package of its own, such as artifact_test, counts as another package.
var forTests = map[use]string{
	{"internal/net/address", "Private"}:             "the rules are tested against the ranges they stand on",
	{"internal/upstream/lineage", "InheritedNames"}: "tests give a gateway a clean environment",
	{"internal/host/sandbox", "Container"}:          "tests try each way by itself",
	{"internal/host/sandbox", "Bubblewrap"}:         "see Container",
	{"internal/host/sandbox", "Landlock"}:           "see Container",
	{"internal/host/sandbox", "None"}:               "see Container",
	{"internal/cluster", "Start"}:                   "tests of rooms make nodes over documents and messages that fail",
	{"internal/cluster", "Options"}:                 "see Start",
	{"internal/artifact", "ErrUnknown"}:             "the contract of a store tells failures apart",
	{"internal/artifact", "ErrExpired"}:             "see ErrUnknown",
	{"internal/artifact", "ErrEvicted"}:             "see ErrUnknown",
	{"internal/artifact", "ErrTooLarge"}:            "see ErrUnknown",
	{"internal/artifact", "ErrFull"}:                "see ErrUnknown",
	{"internal/artifact", "ErrClosed"}:              "see ErrUnknown",
	{"internal/setup/bundle", "ReadFolder"}:         "weir import will read extensions of Claude Desktop with it",
	{"internal/dispatch", "Deny"}:                   "tests of the gateway write policies; weir takes the actions from the configuration, where they are words",
	{"internal/setup/journal", "ErrLost"}:           "the example tells a lost write from other failures",
	{"internal/limit/memory", "WithScope"}:          "tests count the bytes of one request",
	{"internal/testkit/runstest", "New"}:            "the rooms around programs run programs in their tests",
	{"internal/json/rawjson", "MaxDepth"}:           "tests nest values just too deep",
	{"internal/program", "ErrNotSelf"}:              "tests tell it from other failures",
	{"internal/program", "ErrClosed"}:               "tests tell the end of the gateway from other failures",
	{"internal/program", "Syntax"}:                  "tests tell it from other failures",
	{"internal/search", "ErrEmbedding"}:             "the tests of endpoints tell it from other failures",
	{"internal/search/selection", "Property"}:       "tests read the schemas that offer ids",
	{"internal/json/splice", "Unproven"}:            "tells a refusal from a document that cannot be read",
	{"internal/store", "NewMemory"}:                 "tests of rooms keep documents without a disk; weir keeps none without a folder",
	{"internal/store", "NewMemoryBus"}:              "see NewMemory",
	{"internal/store", "NewMemoryBlobs"}:            "see NewMemory",
	{"internal/store/natsstore", "OpenBlobs"}:       "artifacts.backup will keep copies of results with it",
	{"internal/upstream/subscription", "AckTime"}:   "tests let it pass in the time of a bubble",
	{"internal/text/visible", "Controls"}:           "tests build texts of each class",
	{"internal/link", "NodeName"}:                   "the peer link needs it",
	{"internal/setup/doctor", "Markdown"}:           "docs/troubleshooting.md is tested against the table of findings",
}

// eachUse calls f with every exported name that the files of a package take from another package of
// the module, and whether a test takes it. Benchmarks under bench count as product: all of their
// files are tests.
func (t *Tree) eachUse(p *Package, f func(u use, test bool)) {
	for _, file := range p.Files {
		own := file.AST.Name.Name == p.name() // not a test package next to the code
		imported := map[string]string{}
		for _, spec := range file.AST.Imports {
			to := strings.Trim(spec.Path.Value, "`\"")
			to, local := strings.CutPrefix(to, Module+"/")
			if !local {
				continue
			}
			name := t.packageName(to)
			if spec.Name != nil {
				name = spec.Name.Name
			}
			if to != p.Path || !own {
				imported[name] = to
			}
		}
		ast.Inspect(file.AST, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && imported[x.Name] != "" {
					f(use{imported[x.Name], s.Sel.Name}, file.Test && !within(p.Path, "bench"))
				}
			}
			return true
		})
	}
}

// packageName returns the name by which files call the package of a path.
func (t *Tree) packageName(path string) string {
	for _, p := range t.Packages {
		if p.Path == path && p.name() != "" {
			return p.name()
		}
	}
	return path[strings.LastIndexByte(path, '/')+1:]
}

// findUnused looks at functions, types, constants and variables. A type counts as used if a used
// declaration shows it, and a constant if another one of its group is used: an enumeration is
// exported whole. Methods are left out, because an interface may need them.
func findUnused(t *Tree) []string {
	used, tested, asked := map[use]bool{}, map[use]bool{}, map[use]bool{}
	for _, p := range t.Packages {
		t.eachUse(p, func(u use, test bool) {
			switch {
			case !test || isTestOnly(u.pkg):
				used[u] = true
			case forTests[u] != "":
				used[u], asked[u] = true, true
			default:
				tested[u] = true
			}
		})
	}
	var found []string
	for _, p := range t.Packages {
		if !within(p.Path, "internal") || p.name() == "main" || p.Path == "internal/house" {
			continue
		}
		for u := range forTests {
			if u.pkg == p.Path && !asked[u] {
				found = append(found, fmt.Sprintf("internal/house/names.go: no test needs %s.%s: take it off forTests", u.pkg, u.name))
			}
		}
		declared := exportedOf(p)
		for spread(p, declared, used) {
		}
		for _, d := range declared {
			u := use{p.Path, d.Name}
			switch {
			case strings.Contains(d.Name, ".") || used[u]:
			case tested[u]:
				found = append(found, fmt.Sprintf("%s: %s.%s is used by tests of other packages only: unexport it, or say in forTests of internal/house/names.go why they need it", t.at(d.Pos), p.Path, d.Name))
			default:
				found = append(found, fmt.Sprintf("%s: %s.%s is used by no other package: unexport or delete it", t.at(d.Pos), p.Path, d.Name))
			}
		}
	}
	return found
}

// spread marks the names that the used declarations of a package show, and reports whether it
// marked any.
func spread(p *Package, declared []declaration, used map[use]bool) bool {
	more := false
	mark := func(name string) {
		if u := (use{p.Path, name}); !used[u] {
			used[u], more = true, true
		}
	}
	groups := map[*ast.GenDecl]bool{}
	for _, d := range declared {
		owner, _, _ := strings.Cut(d.Name, ".")
		if !used[use{p.Path, owner}] {
			continue
		}
		if d.Group != nil && d.Group.Tok == token.CONST {
			groups[d.Group] = true
		}
		for _, part := range d.Mentions {
			ast.Inspect(part, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok && id.IsExported() {
					mark(id.Name)
				}
				return true
			})
		}
	}
	for _, d := range declared {
		if d.Group != nil && groups[d.Group] {
			mark(d.Name)
		}
	}
	return more
}

// findTooMany counts the exported names of public packages.
func findTooMany(t *Tree) []string {
	total := 0
	var counts []string
	for _, p := range t.Packages {
		if isPublic(p) {
			n := len(exportedOf(p))
			total += n
			counts = append(counts, fmt.Sprintf("%s %d", p.Path, n))
		}
	}
	if total <= maxExported {
		return nil
	}
	return []string{fmt.Sprintf("%d exported names in public packages (%s)", total, strings.Join(counts, ", "))}
}

// findLeaks looks for types of internal packages in the exported names of a public package.
func findLeaks(t *Tree) []string {
	var found []string
	for _, p := range t.Packages {
		if !isPublic(p) {
			continue
		}
		hidden := map[string]map[string]string{} // file, name in it, path of an internal package
		for _, file := range p.Files {
			hidden[file.Name] = map[string]string{}
			for _, spec := range file.AST.Imports {
				if to, ok := strings.CutPrefix(strings.Trim(spec.Path.Value, "`\""), Module+"/"); ok && within(to, "internal") {
					name := t.packageName(to)
					if spec.Name != nil {
						name = spec.Name.Name
					}
					hidden[file.Name][name] = to
				}
			}
		}
		for _, d := range exportedOf(p) {
			for _, part := range d.Mentions {
				ast.Inspect(part, func(n ast.Node) bool {
					s, ok := n.(*ast.SelectorExpr)
					if !ok {
						return true
					}
					x, _ := s.X.(*ast.Ident)
					if x == nil {
						return true
					}
					if to := hidden[t.Fset.Position(s.Pos()).Filename][x.Name]; to != "" && shown[use{to, s.Sel.Name}] == "" {
						found = append(found, fmt.Sprintf("%s: %s.%s shows %s.%s: declare a type of its own, or an interface", t.at(s.Pos()), p.Path, d.Name, to, s.Sel.Name))
					}
					return true
				})
			}
		}
	}
	return found
}

// findHeavy compares the internal imports of public packages with foundations.
func findHeavy(t *Tree) []string {
	var found []string
	for _, p := range t.Packages {
		if !isPublic(p) {
			continue
		}
		for _, e := range t.imports(p) {
			if e.Local && !e.Test && within(e.To, "internal") && !slices.Contains(foundations[p.Path], e.To) {
				found = append(found, fmt.Sprintf("%s: %s imports %s: do without it, or name it in foundations of internal/house/names.go", e.Where, p.Path, e.To))
			}
		}
	}
	return found
}
