package program

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// A Program is one run of a program.
type Program struct {
	Source string          // the body of an async function
	Input  json.RawMessage // its variable input; empty: null
	Limits Limits          // in place of the Pool's, where they are not zero
}

// Limits bound one run.
type Limits struct {
	Calls    int           // requests of each kind to the Host: Call, Find, Open
	Parallel int           // requests that the Host gets at once
	Memory   int64         // bytes of the program's values; also the most of one answer and of the result
	Output   int64         // bytes of its log
	Timeout  time.Duration // of the whole run
}

// A Host answers the requests of one program. Its methods may run concurrently. ctx ends with the run.
// An error is thrown into the program as a ToolError; see also Stop.
//
// Bytes of requests are valid until the method returns. An answer belongs to the run from then on: the
// Host must not change it.
type Host interface {
	// Call calls a tool and returns its result as a JSON value.
	Call(ctx context.Context, call Call) (json.RawMessage, error)
	// Find searches for tools. options is a JSON object or empty.
	Find(ctx context.Context, query string, options json.RawMessage) (json.RawMessage, error)
	// Open reads a held-back result. selector is a JSON value or empty.
	Open(ctx context.Context, handle string, selector json.RawMessage) (json.RawMessage, error)
	// Log takes a line of log(…) while the program runs. Lines come one at a time, and only up to Limits.Output.
	Log(text string)
}

// A Call is a call of a tool by a program: call(Tool, …), or tools.Server.Name(…).
type Call struct {
	N            int             // its number in the run, from 1, in the order in which the program made them
	Tool         string          // the id; "" for a call by names
	Server, Name string          // the names, if Tool is ""
	Args         json.RawMessage // an object
	Again        bool            // {again: true}: the program accepts that the call may run twice
	Line         int             // the line of the program, from 1; 0: unknown
}

// An Outcome is the result of a run that has ended.
type Outcome struct {
	Value json.RawMessage // the return value; null if there is none
	Log   []string        // the lines of log(…); the last one says how many were left out
}

// A ToolError is an error of the Host as the program sees it: an Error with these properties.
type ToolError struct {
	Code      string          `json:"code"`
	Message   string          `json:"message"`
	Retryable bool            `json:"retryable"`
	Details   json.RawMessage `json:"details,omitempty"`
}

func (e *ToolError) Error() string { return e.Code + ": " + e.Message }

// Stop makes an error of a Host end the run: the program cannot catch it, and Run returns err.
func Stop(err error) error { return &stop{err} }

type stop struct{ err error }

func (s *stop) Error() string { return s.err.Error() }
func (s *stop) Unwrap() error { return s.err }

// A Code is the kind of an Error.
type Code string

// The kinds of errors of a run.
const (
	Syntax      Code = "PROGRAM_SYNTAX"      // the source is not a program
	Thrown      Code = "PROGRAM_ERROR"       // the program threw a value that it did not catch
	Timeout     Code = "PROGRAM_TIMEOUT"     // Limits.Timeout is over
	Memory      Code = "PROGRAM_MEMORY"      // the values have no room in Limits.Memory
	TooMany     Code = "PROGRAM_CALLS"       // the program made more requests than Limits.Calls
	Stuck       Code = "PROGRAM_STUCK"       // the program waits for a promise that no request will settle
	Unreturned  Code = "PROGRAM_RESULT"      // the return value is not JSON, or larger than Limits.Memory
	Crashed     Code = "PROGRAM_CRASHED"     // the worker ended or broke its protocol
	Unavailable Code = "PROGRAM_UNAVAILABLE" // no worker could be started
)

// An Error is the end of a run without a result. Errors of contexts and of Stop are returned as they are.
type Error struct {
	Code         Code
	Message      string
	Line, Column int        // in the program, from 1; 0: unknown
	Source       string     // the line of the program, cut if it is long
	Tool         *ToolError // the error of the Host that the program did not catch, if it was one
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return e.Message
	}
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Message)
}
