package authz

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/types"
)

const (
	// maxCost bounds the cost of one evaluation, in the units of CEL.
	maxCost = 10_000
	// maxSource bounds the text of an expression, in characters.
	maxSource = 4096
)

// variables are the variables of expressions.
var variables = []struct {
	name string
	of   *cel.Type
	is   Parts
}{
	{"principal", cel.StringType, Principal},
	{"groups", cel.ListType(cel.StringType), Groups},
	{"roles", cel.ListType(cel.StringType), Roles},
	{"scopes", cel.ListType(cel.StringType), Scopes},
	{"claims", cel.MapType(cel.StringType, cel.DynType), Claims},
	{"client", cel.StringType, Client},
	{"server", cel.StringType, Server},
	{"tool.id", cel.StringType, ToolID},
	{"tool.name", cel.StringType, ToolName},
	{"tool.namespace", cel.StringType, ToolSpace},
	{"tool.tags", cel.ListType(cel.StringType), ToolHints},
	{"tool.read_only", cel.BoolType, ToolHints},
	{"tool.destructive", cel.BoolType, ToolHints},
	{"tool.idempotent", cel.BoolType, ToolHints},
	{"tool.open_world", cel.BoolType, ToolHints},
	{"args", cel.MapType(cel.StringType, cel.DynType), Args},
	{"method", cel.StringType, Method},
	{"session.calls", cel.IntType, Session},
	{"session.age", cel.DurationType, Session},
	{"run.calls", cel.IntType, Run},
	{"run.writes", cel.IntType, Run},
	{"flow.integrity", cel.StringType, Read},
	{"flow.confidentiality", cel.ListType(cel.StringType), Read},
	{"flow.sources", cel.ListType(cel.StringType), Read},
	{"flow.args_trusted", cel.BoolType, Read},
	{"now", cel.TimestampType, Now},
	{"source", cel.StringType, Source},
	{"profile", cel.StringType, Profile},
}

// hints are the variables that the server of a tool sets and weir does not verify.
var hints = []string{"tool.read_only", "tool.destructive", "tool.idempotent", "tool.open_world"}

// environment makes the environment of all expressions, which is large, when the first one is
// compiled.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	options := []cel.EnvOption{
		cel.ParserExpressionSizeLimit(maxSource),
		cel.ParserRecursionLimit(64),
		cel.DefaultUTCTimeZone(true),
		cel.CrossTypeNumericComparisons(true),
		cel.RegexProgramSizeLimit(1000),
	}
	for _, v := range variables {
		options = append(options, cel.Variable(v.name, v.of))
	}
	return cel.NewEnv(options...)
})

// Expression is a compiled expression. The zero value always fails. It is safe for concurrent use.
type Expression struct {
	text    string
	uses    Parts
	claims  usedClaims
	texts   texts
	hints   []string    // variables in it that a server sets
	exact   cel.Program // where all parts are known and the cost is proven
	partial cel.Program // where a part is not known
	tracked cel.Program // counts the cost; nil if the cost is proven for requests within sizes
}

// A SyntaxError is a mistake in an expression, with its place.
type SyntaxError struct {
	Line, Column int // in the expression; both start at 1
	Message      string
}

// Error implements error.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Message)
}

// Compile compiles an expression. Its value must be a truth value. The error is a *SyntaxError if the
// expression is wrong.
func Compile(text string) (*Expression, error) {
	env, err := environment()
	if err != nil {
		return nil, err
	}
	ast, issues := env.Compile(text)
	if issues != nil && issues.Err() != nil {
		first := &SyntaxError{Line: 1, Column: 1, Message: issues.Err().Error()}
		if all := issues.Errors(); len(all) > 0 {
			message, _, _ := strings.Cut(all[0].Message, " (in container")
			first = &SyntaxError{Line: max(1, all[0].Location.Line()), Column: all[0].Location.Column() + 1, Message: message}
		}
		return nil, first
	}
	if of := ast.OutputType(); !of.IsExactType(cel.BoolType) && !of.IsExactType(cel.DynType) {
		return nil, &SyntaxError{Line: 1, Column: 1, Message: fmt.Sprintf("the value is of type %s, and must be true or false", of)}
	}
	x := &Expression{text: text, claims: claimsIn(ast.NativeRep().Expr()), texts: textsIn(ast.NativeRep().Expr())}
	for _, r := range ast.NativeRep().ReferenceMap() {
		for _, v := range variables {
			if r.Name == v.name {
				x.uses |= v.is
				if slices.Contains(hints, v.name) && !slices.Contains(x.hints, v.name) {
					x.hints = append(x.hints, v.name)
				}
			}
		}
	}
	slices.Sort(x.hints)
	estimate, err := env.EstimateCost(ast, sizes{})
	if err != nil {
		return nil, &SyntaxError{Line: 1, Column: 1, Message: err.Error()}
	}
	if x.tracked, err = env.Program(ast, cel.CostLimit(maxCost)); err != nil {
		return nil, &SyntaxError{Line: 1, Column: 1, Message: err.Error()}
	}
	x.exact = x.tracked
	if estimate.Max <= maxCost {
		if x.exact, err = env.Program(ast); err != nil {
			return nil, &SyntaxError{Line: 1, Column: 1, Message: err.Error()}
		}
	}
	x.partial, err = env.Program(ast, cel.CostLimit(maxCost), cel.EvalOptions(cel.OptPartialEval))
	if err != nil {
		return nil, &SyntaxError{Line: 1, Column: 1, Message: err.Error()}
	}
	return x, nil
}

// String returns the text of the expression.
func (x *Expression) String() string { return x.text }

// Uses returns the parts of a request that the expression looks at.
func (x *Expression) Uses() Parts { return x.uses }

// Hints returns the variables of the expression that a tool's server sets and weir does not verify.
func (x *Expression) Hints() []string { return x.hints }

// Eval returns the value of the expression. For Failed and Unknown, the error says why.
func (x *Expression) Eval(in *Input) (Truth, error) {
	if x.exact == nil {
		return Failed, errors.New("the expression is wrong")
	}
	in.texts, in.mistakable = x.texts, ""
	return in.unlessMistaken(x.eval(in))
}

func (x *Expression) eval(in *Input) (Truth, error) {
	unknown := in.Unknown & x.uses
	if x.uses&Args != 0 && unknown&Args == 0 {
		if len(in.Args) > maxArgs {
			unknown |= Args
		} else if len(in.UnknownArgs) > 0 {
			return x.evalPartial(in, unknown)
		}
	}
	if unknown != 0 {
		return x.evalPartial(in, unknown)
	}
	program := x.exact
	if !within(in) {
		program = x.tracked
	}
	out, _, err := program.Eval(in)
	if err != nil {
		return Failed, cleaned(err)
	}
	if value, ok := out.(types.Bool); ok {
		return truth(bool(value)), nil
	}
	return Failed, errors.New("its value is neither true nor false")
}

var errUnknown = errors.New("it depends on a part of the call that is not known here")

// evalPartial evaluates the expression while parts of the request are not known. An error counts as
// Unknown then: with the parts known, there may be none.
func (x *Expression) evalPartial(in *Input, unknown Parts) (Truth, error) {
	var patterns []*cel.AttributePatternType
	for _, v := range variables {
		if v.is&unknown != 0 {
			patterns = append(patterns, cel.AttributePattern(v.name))
		}
	}
	for _, name := range in.UnknownArgs {
		patterns = append(patterns, cel.AttributePattern("args").QualString(name))
	}
	vars, err := cel.PartialVars(in, patterns...)
	if err != nil {
		return Failed, err
	}
	out, _, err := x.partial.Eval(vars)
	if err != nil {
		return Unknown, cleaned(err)
	}
	if value, ok := out.(types.Bool); ok {
		return truth(bool(value)), nil
	}
	return Unknown, errUnknown
}

// maxReason bounds the text of a failed evaluation. Its text may quote keys of arguments.
const maxReason = 200

func cleaned(err error) error {
	text := strings.Join(strings.Fields(err.Error()), " ")
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "") + "…"
	}
	return errors.New(text)
}

// Sizes up to which the cost of an expression is proven when it is compiled. The cost of an
// evaluation for a larger request is counted.
const (
	maxList = 500 // of groups, roles, scopes and tags
	maxText = 256 // bytes of one of them
	maxName = 512 // bytes of other texts
)

// within reports whether a request is within the sizes.
func within(in *Input) bool {
	id := in.Identity
	if len(id.Principal) > maxName || len(id.Client) > maxName || len(in.Server) > maxName || len(in.Source) > maxName || len(in.Method) > maxName {
		return false
	}
	if t := in.Tool; t != nil && (len(t.ID) > maxName || len(t.Name) > maxName || len(t.Namespace) > maxName || !short(t.Tags)) {
		return false
	}
	return short(id.Groups) && short(id.Roles) && short(id.Scopes)
}

func short(list []string) bool {
	return len(list) <= maxList && !slices.ContainsFunc(list, func(s string) bool { return len(s) > maxText })
}

// sizes implements cost.Estimator: how large the variables are at most.
type sizes struct{}

// EstimateSize implements cost.Estimator.
func (sizes) EstimateSize(element cost.AstNode) *cost.SizeEstimate {
	path := strings.Join(element.Path(), ".")
	switch path {
	case "groups", "roles", "scopes", "tool.tags":
		return &cost.SizeEstimate{Max: maxList}
	case "groups.@items", "roles.@items", "scopes.@items", "tool.tags.@items":
		return &cost.SizeEstimate{Max: maxText}
	case "principal", "client", "server", "tool.id", "tool.name", "tool.namespace", "method", "source", "profile":
		return &cost.SizeEstimate{Max: maxName}
	}
	return nil
}

// EstimateCallCost implements cost.Estimator.
func (sizes) EstimateCallCost(string, string, *cost.AstNode, []cost.AstNode) *cost.CallEstimate {
	return nil
}
