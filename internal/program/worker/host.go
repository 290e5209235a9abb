package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"modernc.org/quickjs"

	"github.com/weir-mcp/weir/internal/program/wire"
)

// Codes of failures, as package program names them.
const (
	syntax     = "PROGRAM_SYNTAX"
	thrown     = "PROGRAM_ERROR"
	timeout    = "PROGRAM_TIMEOUT"
	memory     = "PROGRAM_MEMORY"
	tooMany    = "PROGRAM_CALLS"
	stuck      = "PROGRAM_STUCK"
	unreturned = "PROGRAM_RESULT"
)

// maxText bounds the texts of a failure, of a name and of an id.
const maxText = 4 << 10

var kinds = map[string]wire.Kind{"call": wire.Call, "find": wire.Find, "open": wire.Open}

// send is host.send(kind, id, n, subject, server, name, again, stack, body) of scope.js.
func (e *engine) send(args []any) (any, error) {
	if e.failed != nil || e.broken != nil {
		return nil, nil
	}
	r := wire.Request{Tool: argument[string](args, 3), Server: argument[string](args, 4), Name: argument[string](args, 5),
		N: argument[int](args, 2), Again: argument[bool](args, 6)}
	if len(r.Tool)+len(r.Server)+len(r.Name) > maxText {
		return nil, fmt.Errorf("a name or an id is longer than %d bytes", maxText)
	}
	r.Line, _ = place(argument[string](args, 7))
	head, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	e.flying++
	e.broken = wire.Write(e.out, kinds[argument[string](args, 0)], uint32(argument[int](args, 1)), head, []byte(argument[string](args, 8)))
	return nil, nil
}

// log is host.log(line).
func (e *engine) log(args []any) (any, error) {
	line := argument[string](args, 0)
	if e.failed != nil || e.broken != nil {
		return nil, nil
	}
	// A line costs a little more than its text, so that empty ones end as well.
	if e.logged += int64(len(line)) + lineCost; e.logged > e.limits.Output {
		e.cut++
		return nil, nil
	}
	e.broken = wire.Write(e.out, wire.Log, 0, nil, []byte(line))
	return nil, nil
}

const lineCost = 16

// end is host.end(body): the program has returned.
func (e *engine) end(args []any) (any, error) {
	e.value = []byte(argument[string](args, 0))
	return nil, nil
}

// stop is host.stop(kind, stack): the program has made too many requests. It runs no further.
func (e *engine) stop(args []any) (any, error) {
	line, column := place(argument[string](args, 1))
	e.failed = &wire.Failure{Code: tooMany, Line: line, Column: column,
		Message: fmt.Sprintf("more than %d of %s(…) in one program", e.limits.Calls, argument[string](args, 0))}
	e.vm.Interrupt()
	return nil, errors.New("too many requests")
}

// fail is host.fail(kind, name, message, stack, tool).
func (e *engine) fail(args []any) (any, error) {
	if e.failed != nil {
		return nil, nil
	}
	name, message, stack := argument[string](args, 1), argument[string](args, 2), argument[string](args, 3)
	e.failed = failure(name, message, stack)
	if argument[string](args, 0) == "result" {
		e.failed.Code = unreturned
	}
	if tool := argument[string](args, 4); tool != "" {
		var refusal wire.Refusal
		if err := json.Unmarshal([]byte(tool), &refusal); err == nil && len(tool) <= wire.MaxHead/2 {
			e.failed.Tool = &refusal
		}
	}
	return nil, nil
}

// describe is the failure of an error of the engine.
func (e *engine) describe(err error) *wire.Failure {
	var q *quickjs.Error
	if !errors.As(err, &q) {
		return failure("", err.Error(), "")
	}
	f := failure(q.Name, q.Message, q.Stack)
	if q.Name == "SyntaxError" && e.flying == 0 {
		f.Code = syntax
	}
	return f
}

func failure(name, message, stack string) *wire.Failure {
	f := &wire.Failure{Code: thrown, Message: clip(message)}
	f.Line, f.Column = place(stack)
	switch {
	case name == "InternalError" && message == "out of memory" || name == "null":
		f.Code, f.Message = memory, "the values of the program have no room in its memory"
	case name != "" && name != "Error" && name != "ToolError":
		f.Message = clip(name + ": " + message)
	}
	return f
}

func clip(text string) string {
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "…"
	}
	return text
}

// place returns the innermost line and column of the program in a stack, 0 if there is none.
func place(stack string) (line, column int) {
	for {
		_, rest, ok := strings.Cut(stack, "<eval>:")
		if !ok {
			return 0, 0
		}
		lines, after := digits(rest)
		if columns, _ := digits(strings.TrimPrefix(after, ":")); lines > above {
			return lines - above, columns
		}
		stack = rest
	}
}

// digits returns the number at the start of a text, and the rest.
func digits(text string) (n int, rest string) {
	end := 0
	for end < len(text) && isDigit(text[end]) {
		end++
	}
	n, err := strconv.Atoi(text[:end])
	if err != nil {
		n = 0 // there is none, or it is no line
	}
	return n, text[end:]
}

// argument returns an argument of a host function, the zero value if it is of another type.
func argument[T any](args []any, i int) (v T) {
	if i < len(args) {
		v, _ = args[i].(T)
	}
	return v
}
