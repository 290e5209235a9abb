package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// Kind classifies an error independently of the protocol that reports it. The table [Kinds] maps
// each kind to the codes of every protocol.
type Kind uint8

// The kinds of error.
const (
	KindInternal Kind = iota
	KindParse
	KindInvalidRequest
	KindMethodNotFound
	KindInvalidParams
	KindHeaderMismatch
	KindMissingCapability
	KindUnsupportedVersion
	KindResourceNotFound
	KindSessionNotFound
	KindUnauthorized
	KindPermissionDenied
	KindNotFound
	KindTooLarge
	KindRateLimited
	KindOverloaded
	KindNoBackChannel
	KindUpstreamStarting
	KindUpstreamUnavailable
	KindUpstreamTimeout
	KindUpstreamProtocol
	KindCancelled
	KindShuttingDown
	KindToolExecution
	KindQueueFull
	KindTimeout
	KindMemory
	KindInsufficientScope
	KindIdentityUnavailable
	KindAuditUnavailable
	KindStoreUnavailable
	KindNodeGone
)

// KindInfo is one row of the error table.
type KindInfo struct {
	Kind Kind
	// Name is the stable name, as in the error's data.kind.
	Name string
	// JSONRPC is the code of the JSON-RPC error.
	JSONRPC int
	// HTTP is the status of a response that contains only this error.
	HTTP int
	// Gateway is the code in a meta-tool's error result (spec/gateway §3.4).
	Gateway string
	// Retryable says that the same call may succeed later.
	Retryable bool
	// Meaning is one sentence for the documentation.
	Meaning string
}

// Kinds is the table of all kinds. docs/errors.md is generated from it.
var Kinds = []KindInfo{
	{KindInternal, "internal", jsonrpc.CodeInternalError, http.StatusInternalServerError, "UPSTREAM_ERROR", false, "Something in weir failed; the log has the details."},
	{KindParse, "parse_error", jsonrpc.CodeParseError, http.StatusBadRequest, "ARGS_INVALID", false, "The message is not JSON."},
	{KindInvalidRequest, "invalid_request", jsonrpc.CodeInvalidRequest, http.StatusBadRequest, "ARGS_INVALID", false, "The message is JSON but no JSON-RPC request, or it may not be sent now."},
	{KindMethodNotFound, "method_not_found", jsonrpc.CodeMethodNotFound, http.StatusNotFound, "UPSTREAM_ERROR", false, "No handler here serves this method."},
	{KindInvalidParams, "invalid_params", jsonrpc.CodeInvalidParams, http.StatusBadRequest, "ARGS_INVALID", false, "The params do not fit the method."},
	{KindHeaderMismatch, "header_mismatch", -32020, http.StatusBadRequest, "ARGS_INVALID", false, "A header says something else than the body, or is missing (2026-07-28)."},
	{KindMissingCapability, "missing_capability", -32021, http.StatusBadRequest, "PERMISSION_DENIED", false, "The request needs a capability that the client did not declare (2026-07-28)."},
	{KindUnsupportedVersion, "unsupported_version", -32022, http.StatusBadRequest, "ARGS_INVALID", false, "The protocol version is not spoken here; data lists those that are."},
	{KindResourceNotFound, "resource_not_found", -32002, http.StatusNotFound, "RESOURCE_NOT_FOUND", false, "No such resource."},
	{KindSessionNotFound, "session_not_found", -32001, http.StatusNotFound, "UPSTREAM_UNAVAILABLE", true, "The session has ended or never was; start a new one."},
	{KindUnauthorized, "unauthorized", -32001, http.StatusUnauthorized, "AUTH_FAILED", false, "The bearer token is missing or unknown."},
	{KindPermissionDenied, "permission_denied", -32001, http.StatusForbidden, "PERMISSION_DENIED", false, "The caller is known but may not do this."},
	{KindNotFound, "not_found", jsonrpc.CodeMethodNotFound, http.StatusNotFound, "HYDRATE_FAILED", false, "The named upstream or tool does not exist; the message lists what does."},
	{KindTooLarge, "too_large", jsonrpc.CodeInvalidRequest, http.StatusRequestEntityTooLarge, "ARGS_INVALID", false, "The message is over the configured bound."},
	{KindRateLimited, "rate_limited", -32005, http.StatusTooManyRequests, "RATE_LIMITED", true, "Too many calls; data says when to try again."},
	{KindOverloaded, "overloaded", -32005, http.StatusServiceUnavailable, "RATE_LIMITED", true, "A queue here is full, or limits.memory has no room for what the request takes; nothing was done."},
	{KindNoBackChannel, "no_back_channel", jsonrpc.CodeInternalError, http.StatusInternalServerError, "UPSTREAM_ERROR", false, "The server asked the client something, but no one client can be told to be the one meant."},
	{KindUpstreamStarting, "upstream_starting", jsonrpc.CodeInternalError, http.StatusServiceUnavailable, "UPSTREAM_UNAVAILABLE", true, "The upstream has not become ready within its budget."},
	{KindUpstreamUnavailable, "upstream_unavailable", jsonrpc.CodeInternalError, http.StatusBadGateway, "UPSTREAM_UNAVAILABLE", true, "The upstream cannot be reached or ended during the call."},
	{KindUpstreamTimeout, "upstream_timeout", -32003, http.StatusGatewayTimeout, "UPSTREAM_TIMEOUT", true, "The upstream did not answer in time."},
	{KindUpstreamProtocol, "upstream_protocol", jsonrpc.CodeInternalError, http.StatusBadGateway, "UPSTREAM_ERROR", false, "The upstream answered something that is not MCP, a status that no other attempt would change, or more than the bound on responses."},
	{KindCancelled, "cancelled", -32800, 499, "UPSTREAM_ERROR", false, "The caller cancelled the request or went away."},
	{KindShuttingDown, "shutting_down", jsonrpc.CodeInternalError, http.StatusServiceUnavailable, "UPSTREAM_UNAVAILABLE", true, "weir, or the agent, is shutting down and did not finish the call."},
	{KindToolExecution, "tool_execution", -32000, http.StatusInternalServerError, "UPSTREAM_ERROR", false, "A command or function of an agent server failed; a tool that fails says so in its result instead, with this code in _meta."},
	{KindQueueFull, "queue_full", -32002, http.StatusServiceUnavailable, "RATE_LIMITED", true, "The task queue is full; data has the limit and the queue's status."},
	{KindTimeout, "timeout", -32003, http.StatusGatewayTimeout, "UPSTREAM_TIMEOUT", true, "The execution took longer than its limit, counted from its start."},
	{KindMemory, "out_of_memory", -32005, http.StatusServiceUnavailable, "UPSTREAM_ERROR", true, "There is no room for the message: limits.memory is taken, and what goes to files finds none there either. What an upstream answered is lost, so another call runs the tool again."},
	{KindInsufficientScope, "insufficient_scope", -32001, http.StatusForbidden, "PERMISSION_DENIED", false, "The caller's token lacks scopes that the call needs; WWW-Authenticate and data.scopes list all of them."},
	{KindIdentityUnavailable, "identity_unavailable", jsonrpc.CodeInternalError, http.StatusServiceUnavailable, "AUTH_FAILED", true, "The issuer of the caller's token cannot be asked about it now; the token may be good."},
	{KindAuditUnavailable, "audit_unavailable", jsonrpc.CodeInternalError, http.StatusServiceUnavailable, "UPSTREAM_ERROR", true, "The call was not made because the audit log, which must record it first, cannot be written."},
	{KindStoreUnavailable, "store_unavailable", jsonrpc.CodeInternalError, http.StatusServiceUnavailable, "UPSTREAM_UNAVAILABLE", true, "The store of the configuration does not answer or is full, and the request needs what is in it."},
	{KindNodeGone, "node_gone", jsonrpc.CodeInternalError, http.StatusBadGateway, "UPSTREAM_UNAVAILABLE", true, "The node of the cluster that ran the request, or that has what it needs, has gone; data says which one, and whether the request may have run."},
}

// Sessionless has the JSON-RPC codes for a caller that posts to an agent server without session and
// version, as its first clients do. It lists the kinds whose code differs from the table's.
var Sessionless = map[Kind]int{
	KindResourceNotFound: -32001,
}

// SessionlessError returns the WireError for a caller without session and version.
func SessionlessError(err error) *jsonrpc.Error {
	out := WireError(err, "")
	k, ours := KindOf(err)
	if code, ok := Sessionless[k]; ours && ok {
		out.Code = code
	}
	return out
}

// Info returns the kind's row of the table.
func (k Kind) Info() KindInfo {
	if int(k) < len(Kinds) {
		return Kinds[k]
	}
	return Kinds[KindInternal]
}

// String returns the kind's stable name.
func (k Kind) String() string { return k.Info().Name }

// Error is an error that weir itself reports. An error that another side answered is a
// *jsonrpc.Error instead, and is passed on unchanged.
type Error struct {
	Kind    Kind
	Message string          // for a person: names the thing, the owner and the fix
	Data    json.RawMessage // the JSON-RPC error's data; nil means {"kind":…}
	Err     error           // the cause, for errors.Is; never shown
}

// Errorf returns an Error. A %w verb sets its cause.
func Errorf(k Kind, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Kind: k, Message: err.Error(), Err: errors.Unwrap(err)}
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// MethodNotFound returns the error for a method without a handler.
func MethodNotFound(method string) error {
	return Errorf(KindMethodNotFound, "method not found: %s", method)
}

// KindOf returns the kind of err: the kind of an *Error, cancelled or timed out for the context's
// errors, else KindInternal. ok is false for an answered *jsonrpc.Error, which has no kind.
func KindOf(err error) (k Kind, ok bool) {
	var e *Error
	var wire *jsonrpc.Error
	switch {
	case errors.As(err, &e):
		return e.Kind, true
	case errors.As(err, &wire):
		return KindInternal, false
	case errors.Is(err, context.Canceled):
		return KindCancelled, true
	case errors.Is(err, context.DeadlineExceeded):
		return KindUpstreamTimeout, true
	}
	return KindInternal, true
}

// maxRetryAfter bounds the wait that another side may ask for.
const maxRetryAfter = 24 * time.Hour

// RetryAfter returns the time to wait before the next attempt, or zero if err does not state one.
// It reads data.retry_after, in seconds, of weir's own errors and of errors that another side
// answered.
func RetryAfter(err error) time.Duration {
	var e *Error
	var wire *jsonrpc.Error
	var data json.RawMessage
	switch {
	case errors.As(err, &e) && e.Data != nil:
		data = e.Data
	case errors.As(err, &wire):
		data = wire.Data
	}
	var told struct {
		RetryAfter float64 `json:"retry_after"`
	}
	if len(data) == 0 || json.Unmarshal(data, &told) != nil || !(told.RetryAfter > 0) {
		return 0
	}
	return time.Duration(min(told.RetryAfter, maxRetryAfter.Seconds()) * float64(time.Second))
}

// SetRetryAfter sets the time to wait before the next attempt. Zero changes nothing.
func (e *Error) SetRetryAfter(d time.Duration) {
	if d > 0 {
		e.Data = fmt.Appendf(nil, `{"kind":%q,"retry_after":%g}`, e.Kind, d.Seconds())
	}
}

// IsAnswer reports whether err is an answer of the other side, in contrast to a failure on the way.
func IsAnswer(err error) bool { return errors.As(err, new(*jsonrpc.Error)) }

// WireError returns the JSON-RPC error for a client that speaks the given version. An error that
// the other side of an upstream answered passes unchanged. Any other error that is not an *Error
// becomes "internal error" without its text, which may contain secrets; the caller logs it.
func WireError(err error, version string) *jsonrpc.Error {
	var wire *jsonrpc.Error
	if errors.As(err, &wire) {
		return wire
	}
	k, _ := KindOf(err)
	out := &jsonrpc.Error{Code: k.Info().JSONRPC, Message: "internal error"}
	var e *Error
	switch {
	case errors.As(err, &e):
		out.Message, out.Data = e.Message, e.Data
	case k == KindCancelled:
		out.Message = "the request was cancelled"
	case k == KindUpstreamTimeout:
		out.Message = "the request timed out"
	}
	if k == KindResourceNotFound && IsModern(version) {
		out.Code = jsonrpc.CodeInvalidParams
	}
	if out.Data == nil {
		out.Data = json.RawMessage(`{"kind":"` + k.String() + `"}`)
	}
	return out
}
