package house

import (
	"fmt"
	"go/ast"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Bounds on the weight of a type and of a room. Figures above them have a ceiling in ceilings.go.
const (
	maxMethods = 50  // true methods of a type
	maxFields  = 20  // fields of a struct with methods
	minTests   = 0.4 // lines of tests in a package's own folder, to a line of its code
	smallRoom  = 300 // lines of code, up to which tests may be elsewhere
	maxImports = 25  // packages of the module that a package imports
	maxUpward  = 10  // percent of the arrows between the files of a package that run up
	fewArrows  = 30  // arrows between the files of a package, below which it is read whole
	maxFancy   = 10  // words of fancy in 1,000 lines of the comments of a folder
)

func weightRules() []Rule {
	return []Rule{
		{
			Name:   "a type has one job",
			Reason: fmt.Sprintf("a type of more than %d true methods (its methods, functions that take it first, methods of wrappers and of parts that point back) is a program of its own", maxMethods),
			Find: func(t *Tree) []string {
				weights := map[string]int{}
				for name, s := range t.types() {
					weights[name] = s.weight()
				}
				return judged(weights, maxMethods, methodCeilings, "true methods")
			},
		},
		{
			Name:   "a struct holds what belongs together",
			Reason: fmt.Sprintf("a struct with methods and more than %d fields is several things", maxFields),
			Find: func(t *Tree) []string {
				fields := map[string]int{}
				for name, s := range t.types() {
					if s.methods > 0 {
						fields[name] = s.fields
					}
				}
				return judged(fields, maxFields, fieldCeilings, "fields")
			},
		},
		{
			Name:   "tests are in the room they test",
			Reason: "who changes a room must find in it what breaks",
			Find:   findUntested,
		},
		{
			Name:   "comments use plain words",
			Reason: fmt.Sprintf("a relative clause without its noun has to be read twice; %d such words in 1,000 lines are the most, and where there are more they may only fall", maxFancy),
			Find:   findFancy,
		},
		{
			Name:   "a package knows few others",
			Reason: fmt.Sprintf("a package that imports more than %d others of the module can break with each of them", maxImports),
			Find:   findKnowing,
		},
	}
}

// judged compares figures with a bound, and with the ceilings of those that are above it. A ceiling that
// is too high is a finding as well: it only falls.
func judged(figures map[string]int, bound int, ceilings map[string]ceiling, unit string) []string {
	var found []string
	for _, name := range slices.Sorted(maps.Keys(figures)) {
		n, most := figures[name], bound
		if c, ok := ceilings[name]; ok {
			most = c.most
		}
		switch {
		case n > most:
			found = append(found, fmt.Sprintf("%s: %d %s, at most %d", name, n, unit, most))
		case n < most && most > bound:
			found = append(found, fmt.Sprintf("internal/house/ceilings.go: %s has %d %s: lower its ceiling of %d, or remove it", name, n, unit, most))
		}
	}
	return found
}

// A shape is a type of product code.
type shape struct {
	fields, methods, first int
	refs                   map[string]bool // types of its fields, in its package
	wraps                  string          // the type it is made of, if that is all it is
	wrapped, parts         int             // true methods of its wrappers, and of its parts
}

func (s *shape) weight() int { return s.methods + s.first + s.wrapped + s.parts }

// types returns the types of product code by package and name, with their true methods.
func (t *Tree) types() map[string]*shape {
	all := map[string]*shape{}
	for _, p := range t.Packages {
		in := map[string]*shape{}
		for _, file := range p.Files {
			if !file.Test {
				declared(file.AST, in)
			}
		}
		for _, file := range p.Files {
			if !file.Test {
				attributed(file.AST, in)
			}
		}
		related(in)
		for name, s := range in {
			all[p.Path+"."+name] = s
		}
	}
	return all
}

// declared adds the types of a file.
func declared(file *ast.File, in map[string]*shape) {
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range g.Specs {
			ts, ok := spec.(*ast.TypeSpec)
			if !ok || ts.Assign.IsValid() {
				continue
			}
			s := &shape{refs: map[string]bool{}}
			in[ts.Name.Name] = s
			str, ok := ts.Type.(*ast.StructType)
			if !ok {
				s.wraps = typeName(ts.Type)
				continue
			}
			for _, f := range str.Fields.List {
				s.fields += max(1, len(f.Names))
				s.refs[typeName(f.Type)] = true
			}
			if s.fields == 1 {
				s.wraps = typeName(str.Fields.List[0].Type)
			}
		}
	}
}

// attributed counts the functions of a file for the types that they belong to: the receiver, or the first
// parameter after a context.
func attributed(file *ast.File, in map[string]*shape) {
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		if f.Recv != nil {
			if s := in[typeName(f.Recv.List[0].Type)]; s != nil {
				s.methods++
			}
			continue
		}
		params := f.Type.Params.List
		if len(params) > 0 && isContext(params[0].Type) {
			params = params[1:]
		}
		if len(params) == 0 {
			continue
		}
		if s := in[typeName(params[0].Type)]; s != nil {
			s.first++
		}
	}
}

// related counts the methods of wrappers and parts for the types that they serve.
func related(in map[string]*shape) {
	for name, s := range in {
		if w := in[s.wraps]; w != nil && s.wraps != name && w.fields > 1 {
			w.wrapped += s.methods + s.first
			continue
		}
		for ref := range s.refs {
			if w := in[ref]; w != nil && ref != name && w.refs[name] && w.fields > s.fields {
				w.parts += s.methods + s.first
			}
		}
	}
}

// typeName returns the name of a type of the same package, "" for any other.
func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.ParenExpr:
		return typeName(e.X)
	case *ast.IndexExpr:
		return typeName(e.X)
	case *ast.IndexListExpr:
		return typeName(e.X)
	}
	return ""
}

func isContext(e ast.Expr) bool {
	s, ok := e.(*ast.SelectorExpr)
	return ok && s.Sel.Name == "Context"
}

// findUntested lists packages whose tests are elsewhere.
func findUntested(t *Tree) []string {
	lines := map[string]int{}
	for _, f := range t.Files {
		lines[f.Name] = len(f.Lines)
	}
	var found []string
	for _, p := range t.Packages {
		code, tests := 0, 0
		for _, f := range p.Files {
			if f.Test {
				tests += lines[f.Name]
			} else {
				code += lines[f.Name]
			}
		}
		if isTestOnly(p.Path) || within(p.Path, "bench") || within(p.Path, "examples") {
			continue // those who use a test kit test it, and programs that measure or show are run
		}
		few := code > smallRoom && float64(tests) < minTests*float64(code)
		_, known := testedElsewhere[p.Path]
		switch {
		case few && !known:
			found = append(found, fmt.Sprintf("%s: %d lines of tests for %d of code", p.Path, tests, code))
		case !few && known:
			found = append(found, fmt.Sprintf("internal/house/ceilings.go: %s has its tests: remove it", p.Path))
		}
	}
	return found
}

// fancy are words of comments that plainer ones can replace, with the plainer ones.
var fancy = []struct {
	word    *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`\b(that|those) of\b`), "the noun"},
	{regexp.MustCompile(`\banew\b`), "again"},
	{regexp.MustCompile(`\bbeg[aiu]ns?\b`), "start"},
	{regexp.MustCompile(`, too\b`), "also"},
	{regexp.MustCompile(`\balone\b`), "only"},
}

// findFancy compares how often such words stand in the comments of each folder with the bound, or with the
// ceiling of the folder.
func findFancy(t *Tree) []string {
	lines, counts := map[string]int{}, map[string][]int{}
	for _, p := range t.Packages {
		dir := room(p.Path)
		if counts[dir] == nil {
			counts[dir] = make([]int, len(fancy))
		}
		for _, file := range p.Files {
			if file.Test {
				continue
			}
			for _, group := range file.AST.Comments {
				for line := range strings.SplitSeq(strings.TrimSpace(group.Text()), "\n") {
					lines[dir]++
					for i, f := range fancy {
						counts[dir][i] += len(f.word.FindAllString(line, -1))
					}
				}
			}
		}
	}
	var found []string
	for _, dir := range slices.Sorted(maps.Keys(counts)) {
		total, most := 0, max(maxFancy, wordCeilings[dir])
		var words []string
		for i, f := range fancy {
			if total += counts[dir][i]; counts[dir][i] > 0 {
				words = append(words, fmt.Sprintf("%s %d times, write %s", f.word, counts[dir][i], f.instead))
			}
		}
		rate := 1000 * total / max(1, lines[dir])
		if total > fewWords && rate > most {
			found = append(found, fmt.Sprintf("comments of %s: %d rare words in 1,000 lines, at most %d: %s", dir, rate, most, strings.Join(words, "; ")))
		}
	}
	return found
}

// fewWords of fancy may stand in any folder, however short its comments are.
const fewWords = 3

// room returns the folder of the first level of a package, below internal or in the module.
func room(path string) string {
	parts := strings.Split(path, "/")
	if parts[0] == "internal" && len(parts) > 1 {
		return parts[0] + "/" + parts[1]
	}
	return parts[0]
}

// findKnowing compares how many packages of the module each package imports with the bound, or with its ceiling.
func findKnowing(t *Tree) []string {
	var found []string
	for _, p := range t.Packages {
		known := map[string]bool{}
		for _, e := range t.imports(p) {
			if e.Local && !e.Test {
				known[e.To] = true
			}
		}
		n, most := len(known), max(maxImports, importCeilings[p.Path].most)
		switch {
		case n > most:
			found = append(found, fmt.Sprintf("%s: imports %d packages of the module, at most %d", p.Path, n, most))
		case most > maxImports && n < most-4:
			found = append(found, fmt.Sprintf("internal/house/ceilings.go: %s imports %d packages of the module: lower its ceiling of %d, or remove it", p.Path, n, most))
		}
	}
	return found
}
