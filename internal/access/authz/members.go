package authz

import (
	"fmt"
	"strings"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// Some servers ignore the case of names in JSON: to them {"n":3,"N":500} has an n of 500. weir does not
// know which servers do. So an expression that looks for a member, and meets one that differs only in
// case, has looked at a value that is not known.

// object is an object among the arguments. It notes in its input the names that an expression looks
// for and some readers find elsewhere.
type object struct {
	traits.Mapper
	in      *Input
	members map[string]any
	// alike counts the members by folded names; nil until the first look.
	alike map[string]int
}

func newObject(in *Input, members map[string]any) *object {
	return &object{Mapper: types.NewStringInterfaceMap(types.DefaultTypeAdapter, members), in: in, members: members}
}

// seek notes that the expression looks for a member.
func (o *object) seek(key ref.Val) {
	name, ok := key.(types.String)
	if !ok {
		return
	}
	n := o.like()[foldCase(string(name))]
	if _, exact := o.members[string(name)]; n > 1 || n == 1 && !exact {
		o.in.mistakable = string(name)
	}
}

// survey notes that the expression looks at all members.
func (o *object) survey() {
	like := o.like()
	for name := range o.members {
		folded := foldCase(name)
		if like[folded] > 1 || o.in.texts.folded[folded] && !o.in.texts.exact[name] {
			o.in.mistakable = name
			return
		}
	}
}

func (o *object) like() map[string]int {
	if o.alike == nil {
		o.alike = make(map[string]int, len(o.members))
		for name := range o.members {
			o.alike[foldCase(name)]++
		}
	}
	return o.alike
}

// Find implements traits.Mapper.
func (o *object) Find(key ref.Val) (ref.Val, bool) {
	o.seek(key)
	return o.Mapper.Find(key)
}

// Get implements traits.Indexer.
func (o *object) Get(key ref.Val) ref.Val {
	o.seek(key)
	return o.Mapper.Get(key)
}

// Contains implements traits.Container.
func (o *object) Contains(key ref.Val) ref.Val {
	o.seek(key)
	return o.Mapper.Contains(key)
}

// Iterator implements traits.Iterable.
func (o *object) Iterator() traits.Iterator {
	o.survey()
	return o.Mapper.Iterator()
}

// Size implements traits.Sizer.
func (o *object) Size() ref.Val {
	o.survey()
	return o.Mapper.Size()
}

// Equal implements ref.Val.
func (o *object) Equal(other ref.Val) ref.Val {
	o.survey()
	return o.Mapper.Equal(other)
}

// foldCase returns the same text for all texts that differ only in case.
func foldCase(s string) string { return strings.ToLower(strings.ToUpper(s)) }

// texts are the literals of an expression, which may be names of members.
type texts struct{ exact, folded map[string]bool }

func textsIn(e ast.Expr) texts {
	t := texts{map[string]bool{}, map[string]bool{}}
	ast.PostOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.LiteralKind {
			return
		}
		if s, ok := e.AsLiteral().Value().(string); ok {
			t.exact[s], t.folded[foldCase(s)] = true, true
		}
	}))
	return t
}

// unlessMistaken returns the value of an expression, or Unknown if the expression looked for members
// that some servers find elsewhere.
func (in *Input) unlessMistaken(value Truth, err error) (Truth, error) {
	if in.mistakable == "" {
		return value, err
	}
	name := in.mistakable
	if len(name) > maxReason {
		name = strings.ToValidUTF8(name[:maxReason], "") + "…"
	}
	return Unknown, fmt.Errorf("the arguments have a member that differs from %q only in case, and some servers take one for the other", name)
}
