package result

import (
	"encoding/json"
	"errors"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/text"
)

// Code is a kind of gateway failure (spec/gateway §3.4). Agents branch on it, so its spelling is
// part of the contract.
type Code string

// Codes of spec/gateway §3.4 and §6.4. [Codes] describes them.
const (
	PathInvalid         Code = "PATH_INVALID"
	PathNotFound        Code = "PATH_NOT_FOUND"
	ArgsInvalid         Code = "ARGS_INVALID"
	SchemaInvalid       Code = "SCHEMA_INVALID"
	UpstreamError       Code = "UPSTREAM_ERROR"
	UpstreamTimeout     Code = "UPSTREAM_TIMEOUT"
	UpstreamUnavailable Code = "UPSTREAM_UNAVAILABLE"
	AuthFailed          Code = "AUTH_FAILED"
	PermissionDenied    Code = "PERMISSION_DENIED"
	RateLimited         Code = "RATE_LIMITED"
	HydrateFailed       Code = "HYDRATE_FAILED"
	ViewFailed          Code = "VIEW_FAILED"
	ResourceNotFound    Code = "RESOURCE_NOT_FOUND"
	PromptNotFound      Code = "PROMPT_NOT_FOUND"
)

// Codes of tool_run.
const (
	ProgramFailed  Code = "PROGRAM_FAILED"
	OutcomeUnknown Code = "OUTCOME_UNKNOWN"
)

// CodeInfo describes one Code.
type CodeInfo struct {
	Code      Code
	Retryable bool   // the same call may succeed later
	Meaning   string // one sentence for documentation
}

// codes is the one table of error codes.
var codes = [...]CodeInfo{
	{PathInvalid, false, "the browse path breaks the path grammar"},
	{PathNotFound, false, "the browse path is well formed and leads nowhere in the current catalog"},
	{ArgsInvalid, false, "the caller's arguments do not fit; nothing was called, unless the message says that the tool has run"},
	{SchemaInvalid, false, "the tool's own schema is broken, so its arguments cannot be checked; nothing was called"},
	{UpstreamError, false, "the upstream answered with an error that fits no other code, or what it answered cannot be used"},
	{UpstreamTimeout, true, "the upstream did not answer in time"},
	{UpstreamUnavailable, true, "the upstream cannot be reached, or its connection broke during the call"},
	{AuthFailed, false, "the upstream refused the gateway's credentials"},
	{PermissionDenied, false, "the credentials are good and this call is not allowed"},
	{RateLimited, true, "too many calls; wait before the next"},
	{HydrateFailed, false, "no tool has exactly this tool_id"},
	{ViewFailed, false, "the handle or the selector of a view cannot be used"},
	{ResourceNotFound, false, "no resource has this id or URI"},
	{PromptNotFound, false, "no prompt has this id"},
	{ProgramFailed, false, "a program of tool_run ended without a result; the details say where, and which of its calls ran"},
	{OutcomeUnknown, false, "an earlier run of the program was cut during this call, which may have run; only programs see this error"},
}

// Codes returns the table of all codes in a fixed order.
func Codes() []CodeInfo { return append([]CodeInfo(nil), codes[:]...) }

// Retryable reports whether the same call may succeed later.
func (c Code) Retryable() bool {
	for i := range codes {
		if codes[i].Code == c {
			return codes[i].Retryable
		}
	}
	return false
}

// Error is a failure that the gateway returns as a tool result with isError (spec/gateway §3.4).
type Error struct {
	Code    Code
	Message string          // what a model reads; [AppendJSON] makes it one bounded line
	Path    string          // the browse path, id or handle concerned, or empty
	Details json.RawMessage // optional, one JSON object
	Cause   error           // for the operator's log; never on the wire
	// Again says that the same call may succeed later although others of the code do not.
	Again bool
	// Ran says that the tool has run, so that another call runs it again. It becomes the member
	// executed of the details.
	Ran bool
	// Final says that the same call fails again although others of the code may succeed.
	Final bool

	Scope string // the exhausted quota, for events
}

// Error returns the code and the message.
func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Is reports whether target is an *Error of the same code, so that errors.Is
// works with &Error{Code: ViewFailed}.
func (e *Error) Is(target error) bool {
	var t *Error
	return errors.As(target, &t) && t.Code == e.Code
}

// Retryable reports whether the same call may succeed later.
func (e *Error) Retryable() bool { return !e.Final && (e.Again || e.Code.Retryable()) }

// AppendJSON appends the error's wire form (spec/gateway §3.4) to dst. The
// message is redacted with r, one line, without control characters and at most
// MaxMessageChars long.
func (e *Error) AppendJSON(dst []byte, r *Redactor) []byte {
	dst = append(dst, `{"error":`...)
	dst = rawjson.AppendString(dst, string(e.Code))
	dst = append(dst, `,"message":`...)
	dst = rawjson.AppendString(dst, told(e.Message, r))
	dst = append(dst, `,"path":`...)
	dst = rawjson.AppendString(dst, told(e.Path, r))
	dst = append(dst, `,"retryable":`...)
	if e.Retryable() {
		dst = append(dst, "true"...)
	} else {
		dst = append(dst, "false"...)
	}
	details := e.Details
	if e.Ran {
		if len(details) == 0 {
			details = json.RawMessage("{}")
		}
		if with, err := rawjson.Set(details, "executed", json.RawMessage("true")); err == nil {
			details = with
		}
	}
	if len(details) > 0 {
		dst = append(append(dst, `,"details":`...), details...)
	}
	return append(dst, '}')
}

// told returns the text of an error for a model. It redacts the text before cutting it, and again
// if invisible characters had split a secret.
func told(content string, r *Redactor) string {
	line := text.Line(r.Redact(content), text.MaxMessageChars)
	if clean := r.Redact(line); clean != line {
		return text.Line(clean, text.MaxMessageChars)
	}
	return line
}
