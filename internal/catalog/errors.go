package catalog

import (
	"fmt"
	"strings"
)

// Code is an error code of the gateway (spec/gateway §3.4).
type Code string

// The error codes of this package.
const (
	ArgsInvalid   Code = "ARGS_INVALID"   // the caller's arguments do not match the schema
	SchemaInvalid Code = "SCHEMA_INVALID" // the upstream's schema is broken
	PathInvalid   Code = "PATH_INVALID"   // not the grammar of paths
	PathNotFound  Code = "PATH_NOT_FOUND" // no such place
)

// Error is the error of Entry.Validate and of browsing. Its message is one line, addressed to the
// caller of the tool.
type Error struct {
	Code     Code
	Message  string
	ID       string    // of the entry, if any
	Path     string    // the browsed path, if any
	Problems []Problem // of the arguments, at most 20, sorted by path
	Err      error     // cause, for operators
}

// Problem is one place where arguments do not match a schema.
type Problem struct {
	Path    string `json:"path"`    // JSON pointer into the arguments
	Keyword string `json:"keyword"` // of the schema
	Message string `json:"message"`
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// maxProblems bounds the problems that are reported at once.
const maxProblems = 20

// argsError returns the error for invalid arguments.
func argsError(id string, problems []Problem) *Error {
	var b strings.Builder
	fmt.Fprintf(&b, "arguments of %s are invalid: ", id)
	const told = 3
	for i, p := range problems[:min(told, len(problems))] {
		if i > 0 {
			b.WriteString("; ")
		}
		if p.Path != "" {
			b.WriteString(clip(p.Path, 60))
			b.WriteString(": ")
		}
		b.WriteString(p.Message)
	}
	if more := len(problems) - told; more > 0 {
		fmt.Fprintf(&b, "; and %d more", more)
	}
	return &Error{Code: ArgsInvalid, Message: b.String(), ID: id, Problems: problems}
}
