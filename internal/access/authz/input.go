package authz

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"

	"github.com/weir-mcp/weir/internal/identity"
)

// Parts is a set of parts of a request.
type Parts uint32

// The parts.
const (
	Principal Parts = 1 << iota
	Groups
	Roles
	Scopes
	Claims
	Client
	Server
	ToolID    // id of the tool
	ToolName  // its name at its server
	ToolHints // its tags and the effect of a call by its server
	ToolSpace // its namespace
	Args
	Method
	Session
	Now
	Source
	Profile // the URL that the request was made to
	Run
	Read // what the model has read
)

// OfCall are the parts that differ from one call of a tool to the next.
const OfCall = Args | Method | Session | Now | Source | Run | Read

// OfEntry are the parts that say which entry is called, and how.
const OfEntry = Server | ToolID | ToolName | ToolHints | ToolSpace | Args

// Tool is the entry that a request concerns.
type Tool struct {
	ID, Namespace, Name                          string
	Tags                                         []string
	ReadOnly, Destructive, Idempotent, OpenWorld bool
}

// Input has the values that conditions look at. An Input serves one goroutine.
type Input struct {
	Identity *identity.Identity // never nil
	Server   string
	Tool     *Tool // nil: the request concerns no entry
	// Args is the raw object of the arguments; nil means none.
	Args    json.RawMessage
	Method  string
	Source  string // the caller's network address; "" fails expressions that look at it
	Profile string // that the request was made to; "" for none
	Calls   int64  // calls of the session before this one
	Age     time.Duration
	Now     time.Time
	// RunCalls is the number of calls that the program has made before this one. RunWrites counts only calls
	// of tools that are not read-only. Both are 0 for a call that no program makes.
	RunCalls, RunWrites int64

	// Flow returns the labels of what the model has read. Nil fails expressions that look at them.
	Flow func() Flow

	// Unknown are the parts that are not known. With Scopes, a scope that the caller lacks counts as
	// not known, because the caller could get it.
	Unknown Parts
	// Granted means that the caller has all scopes that a condition asks for.
	Granted bool
	// UnknownArgs are the arguments whose values are not known, by name.
	UnknownArgs []string

	decodedArgs

	texts      texts  // of the expression that looks at the arguments
	mistakable string // a name that it looked for and that some servers find elsewhere
}

// Flow is what a session, or the program that makes the call, has read.
type Flow struct {
	Integrity                string
	Confidentiality, Sources []string
	ArgsTrusted              bool
}

func (f Flow) resolve(name string) (any, bool) {
	switch name {
	case "flow.integrity":
		return types.String(f.Integrity), true
	case "flow.confidentiality":
		return orEmpty(f.Confidentiality), true
	case "flow.sources":
		return orEmpty(f.Sources), true
	case "flow.args_trusted":
		return types.Bool(f.ArgsTrusted), true
	}
	return nil, false
}

func orEmpty(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// decodedArgs are Args as values.
type decodedArgs struct {
	args    any
	decoded bool
	bad     bool // Args cannot be decoded, or are too large
}

// maxArgs bounds the arguments that are decoded, in bytes. Larger ones are unknown.
const maxArgs = 1 << 20

// SetArgs replaces the arguments.
func (in *Input) SetArgs(args json.RawMessage) {
	in.Args, in.args, in.decoded, in.bad = args, nil, false, false
}

// decodeArgs returns the arguments as the values of an expression. Whole numbers of 64 bits are
// integers, all others are floats.
func (in *Input) decodeArgs() (args any, ok bool) {
	if in.decoded {
		return in.args, !in.bad
	}
	in.decoded = true
	if len(in.Args) == 0 {
		in.args = newObject(in, nil)
		return in.args, true
	}
	if len(in.Args) > maxArgs {
		in.bad = true
		return nil, false
	}
	d := json.NewDecoder(bytes.NewReader(in.Args))
	d.UseNumber()
	var value map[string]any
	if err := d.Decode(&value); err != nil || value == nil {
		in.bad = true
		return nil, false
	}
	in.args = numbers(value, in)
	return in.args, true
}

// numbers replaces the numbers of decoded JSON by integers and floats, and with an input also the
// objects by objects that note in it the names that an expression looks for.
func numbers(v any, in *Input) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, err := v.Float64()
		if err != nil {
			return types.NewErr("a number does not fit: %v", err)
		}
		return f
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, value := range v {
			out[key] = numbers(value, in)
		}
		if in != nil {
			return newObject(in, out)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, value := range v {
			out[i] = numbers(value, in)
		}
		return out
	}
	return v
}

// ResolveName implements cel.Activation. A part that is not there, such as the tool of a request that
// concerns none, fails the expression.
func (in *Input) ResolveName(name string) (any, bool) {
	switch name {
	case "principal":
		return types.String(in.Identity.Principal), true
	case "groups":
		return in.Identity.Groups, !in.Identity.GroupsMissing
	case "roles":
		return in.Identity.Roles, len(in.Identity.RolesMissing) == 0
	case "scopes":
		return in.Identity.Scopes, true
	case "claims":
		return in.claims(), true
	case "client":
		return types.String(in.Identity.Client), true
	case "server":
		return types.String(in.Server), in.Server != ""
	case "args":
		return in.decodeArgs()
	case "method":
		return types.String(in.Method), true
	case "session.calls":
		return types.Int(in.Calls), true
	case "session.age":
		return types.Duration{Duration: in.Age}, true
	case "run.calls":
		return types.Int(in.RunCalls), true
	case "run.writes":
		return types.Int(in.RunWrites), true
	case "now":
		return types.Timestamp{Time: in.Now}, true
	case "source":
		return types.String(in.Source), in.Source != ""
	case "profile":
		return types.String(in.Profile), true
	}
	if strings.HasPrefix(name, "flow.") {
		if in.Flow == nil {
			return nil, false
		}
		return in.Flow().resolve(name)
	}
	if in.Tool == nil {
		return nil, false
	}
	return in.Tool.resolve(name)
}

// Parent implements cel.Activation.
func (in *Input) Parent() cel.Activation { return nil }

func (in *Input) claims() any {
	if in.Identity.Claims == nil {
		return map[string]any{}
	}
	return numbers(in.Identity.Claims, nil)
}

func (t *Tool) resolve(name string) (any, bool) {
	switch name {
	case "tool.id":
		return types.String(t.ID), true
	case "tool.name":
		return types.String(t.Name), true
	case "tool.namespace":
		return types.String(t.Namespace), true
	case "tool.tags":
		return t.Tags, true
	case "tool.read_only":
		return types.Bool(t.ReadOnly), true
	case "tool.destructive":
		return types.Bool(t.Destructive), true
	case "tool.idempotent":
		return types.Bool(t.Idempotent), true
	case "tool.open_world":
		return types.Bool(t.OpenWorld), true
	}
	return nil, false
}
