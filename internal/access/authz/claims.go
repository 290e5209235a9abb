package authz

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
)

// usedClaims are the claims that expressions look at.
type usedClaims struct {
	names []string // selected by name, sorted
	// others means that an expression reads claims in another way, such as claims.exists or a name
	// that is computed.
	others bool
}

// claimsIn returns the claims that an expression looks at.
func claimsIn(e ast.Expr) usedClaims {
	var used usedClaims
	idents, selected := 0, 0
	isClaims := func(e ast.Expr) bool {
		return e.Kind() == ast.IdentKind && strings.TrimPrefix(e.AsIdent(), ".") == "claims"
	}
	ast.PostOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.IdentKind:
			if isClaims(e) {
				idents++
			}
		case ast.SelectKind:
			if s := e.AsSelect(); isClaims(s.Operand()) {
				selected++
				used.names = append(used.names, s.FieldName())
			}
		case ast.CallKind:
			if from, key := lookedUp(e.AsCall()); from != nil && isClaims(from) && key.Kind() == ast.LiteralKind {
				if name, ok := key.AsLiteral().Value().(string); ok {
					selected++
					used.names = append(used.names, name)
				}
			}
		}
	}))
	used.names, used.others = sorted(used.names), idents > selected
	return used
}

// lookedUp returns the operands of from[key] and of key in from, nil for any other call.
func lookedUp(call ast.CallExpr) (from, key ast.Expr) {
	args := call.Args()
	if len(args) != 2 {
		return nil, nil
	}
	switch call.FunctionName() {
	case operators.Index:
		return args[0], args[1]
	case operators.In, operators.OldIn:
		return args[1], args[0]
	}
	return nil, nil
}

// and returns the claims that either looks at.
func (u usedClaims) and(other usedClaims) usedClaims {
	return usedClaims{sorted(slices.Concat(u.names, other.names)), u.others || other.others}
}

// ofToken are claims about a token, whose values differ from one token of a caller to the next.
var ofToken = []string{"exp", "iat", "jti", "nbf"}

// write writes the claims of a caller that are looked at. If others is set, it writes all claims, but
// of those in ofToken that no expression selects only whether the caller has them.
func (u usedClaims) write(w *writer, claims map[string]any) {
	names := u.names
	if u.others {
		names = slices.DeleteFunc(slices.Collect(maps.Keys(claims)), func(name string) bool { return slices.Contains(ofToken, name) })
		names = sorted(append(names, u.names...))
		for _, name := range ofToken {
			_, there := claims[name]
			w.flag(there)
		}
	}
	for _, name := range names {
		value, there := claims[name]
		raw, err := json.Marshal(value) // of decoded JSON: cannot fail, and sorts keys
		w.texts(name, string(raw))
		w.flag(there && err == nil)
	}
}

func sorted(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}
