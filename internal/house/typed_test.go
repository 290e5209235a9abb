package house

import (
	"cmp"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A typed package is a package of the module with its types. All of them know each other's types, so that a type may
// implement an interface of another package.
type typed struct {
	path  string // inside the module
	files []*ast.File
	info  *types.Info
	types *types.Package
}

var (
	typedOnce sync.Once
	typedFset = token.NewFileSet()
	typedList []typed
	typedErr  error
)

// typedPackages type-checks the product code of the module, without its tests.
func typedPackages(t *testing.T) []typed {
	t.Helper()
	typedOnce.Do(func() { typedList, typedErr = check(list(t)) })
	if typedErr != nil {
		t.Fatal(typedErr)
	}
	return typedList
}

// checked is an importer that knows the packages of the module that have been checked.
type checked struct {
	done  map[string]*types.Package
	other types.Importer
}

func (c checked) Import(path string) (*types.Package, error) {
	if p := c.done[path]; p != nil {
		return p, nil
	}
	return c.other.Import(path)
}

func check(all map[string]*listed) (out []typed, err error) {
	imp := checked{map[string]*types.Package{}, importer.ForCompiler(typedFset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(all[path].Export) })}
	var visit func(path string) error
	visit = func(path string) error {
		p := all[path]
		if p == nil || p.Standard || path != Module && !strings.HasPrefix(path, Module+"/") || imp.done[path] != nil {
			return nil
		}
		for _, next := range p.Imports {
			if err := visit(next); err != nil {
				return err
			}
		}
		one := typed{path: cmp.Or(strings.TrimPrefix(strings.TrimPrefix(path, Module), "/"), "."), info: &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}}}
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(typedFset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			one.files = append(one.files, file)
		}
		if one.types, err = (&types.Config{Importer: imp}).Check(path, typedFset, one.files, one.info); err != nil {
			return err
		}
		imp.done[path] = one.types
		out = append(out, one)
		return nil
	}
	for _, path := range slices.Sorted(maps.Keys(all)) {
		if err := visit(path); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// upward returns the arrows between the files of a package, and those that run up in the order that has the fewest: an
// arrow leads from a file to one that declares what it uses.
func (p typed) upward() (arrows int, up []string) {
	uses := map[string]map[string]bool{}
	for _, file := range p.files {
		from := filepath.Base(typedFset.Position(file.Pos()).Filename)
		uses[from] = map[string]bool{}
		ast.Inspect(file, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if !ok {
				return true
			}
			o := p.info.Uses[id]
			if o == nil || o.Pkg() != p.types {
				return true
			}
			if _, local := o.(*types.PkgName); local {
				return true
			}
			if to := filepath.Base(typedFset.Position(o.Pos()).Filename); to != from {
				uses[from][to] = true
			}
			return true
		})
	}
	for _, to := range uses {
		arrows += len(to)
	}
	rank := ordered(uses)
	for _, from := range slices.Sorted(maps.Keys(uses)) {
		for _, to := range slices.Sorted(maps.Keys(uses[from])) {
			if rank[to] < rank[from] {
				up = append(up, from+" ▶ "+to)
			}
		}
	}
	return arrows, up
}

// ordered puts files in an order in which few arrows run up: again and again, a file that nothing uses comes first, one
// that uses nothing comes last, and between them the one that uses most for what uses it (Eades, Lin and Smyth, 1993).
func ordered(uses map[string]map[string]bool) map[string]int {
	left := map[string]bool{}
	for file := range uses {
		left[file] = true
	}
	degrees := func(file string) (out, in int) {
		for other := range left {
			if uses[file][other] {
				out++
			}
			if uses[other][file] {
				in++
			}
		}
		return out, in
	}
	rank := map[string]int{}
	first, last := 0, len(uses)
	for len(left) > 0 {
		best, most := "", 0
		placed := false
		for _, file := range slices.Sorted(maps.Keys(left)) {
			switch out, in := degrees(file); {
			case out == 0:
				last--
				rank[file] = last
				placed = true
			case in == 0:
				rank[file] = first
				first++
				placed = true
			default:
				if best == "" || out-in > most {
					best, most = file, out-in
				}
				continue
			}
			delete(left, file)
		}
		if !placed {
			rank[best] = first
			first++
			delete(left, best)
		}
	}
	return rank
}

// TestFileArrows: the files of a package can be read in an order in which few of them use what a later one also uses of
// them. A package with few arrows is read whole, in any order.
func TestFileArrows(t *testing.T) {
	ceilings := maps.Clone(arrowCeilings)
	for _, p := range typedPackages(t) {
		arrows, up := p.upward()
		if arrows < fewArrows || isTestOnly(p.path) {
			continue
		}
		percent, ceiling := 100*len(up)/arrows, max(maxUpward, ceilings[p.path])
		delete(ceilings, p.path)
		if percent > ceiling {
			t.Errorf("%s: %d of %d arrows between files run up, at most %d %%:\n\t%s", p.path, len(up), arrows, ceiling, strings.Join(up, "\n\t"))
		}
		if ceiling > maxUpward && percent < ceiling-4 {
			t.Errorf("%s: %d %% of the arrows between files run up: lower its ceiling of %d in ceilings.go, or remove it", p.path, percent, ceiling)
		}
	}
	for path := range ceilings {
		t.Errorf("arrowCeilings of ceilings.go names %s, which has few arrows or is not there", path)
	}
}

// TestSiblings: where two types of one package do the same, there is a reason for the second one.
func TestSiblings(t *testing.T) {
	packages := typedPackages(t)
	var interfaces []*types.TypeName
	for _, p := range packages {
		for _, name := range p.names() {
			if i, ok := name.Type().Underlying().(*types.Interface); ok && i.NumMethods() > 1 && i.IsMethodSet() {
				interfaces = append(interfaces, name)
			}
		}
	}
	known := maps.Clone(siblings)
	for _, p := range packages {
		if isTestOnly(p.path) || within(p.path, "bench") || within(p.path, "examples") {
			continue
		}
		concrete := slices.DeleteFunc(p.names(), func(n *types.TypeName) bool { return types.IsInterface(n.Type()) })
		for _, n := range concrete {
			delete(known, p.path+"."+n.Name())
		}
		told := map[string]bool{} // a pair that satisfies several interfaces is one finding
		for _, i := range interfaces {
			var without []string
			for _, n := range concrete {
				if types.Implements(types.NewPointer(n.Type()), i.Type().Underlying().(*types.Interface)) && siblings[p.path+"."+n.Name()] == "" {
					without = append(without, n.Name())
				}
			}
			if all := strings.Join(without, ", "); len(without) > 1 && !told[all] {
				told[all] = true
				t.Errorf("%s: %s all implement %s.%s: make one of them do, or say in siblings of ceilings.go what each but one is for", p.path, all, i.Pkg().Name(), i.Name())
			}
		}
	}
	for name := range known {
		t.Errorf("siblings of ceilings.go names %s, which is no type of product code", name)
	}
}

// names returns the named types of a package that have no parameters.
func (p typed) names() []*types.TypeName {
	var out []*types.TypeName
	scope := p.types.Scope()
	for _, name := range scope.Names() {
		tn, ok := scope.Lookup(name).(*types.TypeName)
		if !ok || tn.IsAlias() {
			continue
		}
		if n, ok := tn.Type().(*types.Named); ok && n.TypeParams().Len() == 0 {
			out = append(out, tn)
		}
	}
	return out
}
