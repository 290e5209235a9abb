package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"regexp"
	"strconv"
	"strings"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/text/lazy"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// Classify converts the failure of a call to an upstream into an error of spec/gateway §3.4. A
// result with isError is not a failure of the call. If the agent has disconnected, Classify returns
// its context's error.
func Classify(ctx context.Context, upstream string, err error) error {
	if ctx.Err() != nil && errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	var own *mcp.Error
	if errors.As(err, &own) {
		code := result.Code(own.Kind.Info().Gateway)
		switch own.Kind {
		case mcp.KindParse, mcp.KindInvalidRequest, mcp.KindHeaderMismatch, mcp.KindUnsupportedVersion:
			code = result.UpstreamError // about weir's message, not about the agent's
		}
		if details := signInDetails(own); details != nil {
			again := rawjson.Get(details, "command") != nil // else the same call fails again
			return &result.Error{Code: code, Message: own.Message, Details: details, Cause: err, Again: again}
		}
		return &result.Error{Code: code, Message: own.Message, Details: retryDetails(err), Cause: err, Again: own.Kind == mcp.KindAuditUnavailable}
	}
	var answered *jsonrpc.Error
	if errors.As(err, &answered) {
		said := answered.Message
		if strings.TrimSpace(said) == "" {
			said = "(it gave no message)"
		}
		return &result.Error{Code: answeredCode(answered), Details: retryDetails(err), Cause: err,
			Message: fmt.Sprintf("server %q answered with error %d: %s", upstream, answered.Code, said)}
	}
	var network net.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return &result.Error{Code: result.UpstreamTimeout, Message: fmt.Sprintf("server %q did not answer in time", upstream), Cause: err}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.ErrClosedPipe), errors.Is(err, net.ErrClosed):
		return &result.Error{Code: result.UpstreamUnavailable, Message: fmt.Sprintf("server %q closed the connection before it answered", upstream), Cause: err}
	}
	// An error without an answer (mcp.Peer) means that the connection failed.
	return &result.Error{Code: result.UpstreamUnavailable, Message: fmt.Sprintf("server %q cannot be reached", upstream), Cause: err}
}

// signInDetails returns the server of an error about the credential of a caller, and what helps the
// person: a command and a page for a sign-in, or what the token of the caller lacks. It returns nil for
// any other error (spec/signin §4, §9 and §11).
func signInDetails(e *mcp.Error) json.RawMessage {
	server := rawjson.Get(e.Data, "server")
	if e.Kind != mcp.KindUnauthorized || server == nil {
		return nil
	}
	details := fmt.Appendf(nil, `{"server":%s`, server)
	for _, name := range []string{"command", "connect_url", "claims", "scopes"} {
		if value := rawjson.Get(e.Data, name); value != nil {
			details = fmt.Appendf(details, `,%q:%s`, name, value)
		}
	}
	return append(details, '}')
}

// retryDetails returns how many seconds an upstream asks to wait, or nil.
func retryDetails(err error) json.RawMessage {
	wait := mcp.RetryAfter(err)
	if wait == 0 {
		return nil
	}
	return fmt.Appendf(nil, `{"retry_after":%g}`, math.Ceil(wait.Seconds()))
}

// answeredCode classifies an error that an upstream returned: by another weir's data, by an HTTP
// status, or by common words. JSON-RPC codes say little here, because servers invent their own.
func answeredCode(e *jsonrpc.Error) result.Code {
	if name := rawjson.Text(rawjson.Get(e.Data, "kind")); name != "" {
		for _, k := range mcp.Kinds {
			if k.Name == name {
				if code := result.Code(k.Gateway); code != result.ArgsInvalid && code != result.HydrateFailed {
					return code
				}
				return result.UpstreamError // about weir's message, not about the agent's
			}
		}
	}
	status := string(rawjson.Get(e.Data, "status"))
	if status == "" {
		status = string(rawjson.Get(e.Data, "statusCode"))
	}
	if status == "" && e.Code > 0 { // JSON-RPC codes are negative: this is an HTTP status
		status = strconv.Itoa(e.Code)
	}
	message := strings.ToLower(e.Message)
	for _, c := range answeredCodes {
		if strings.Contains(c.statuses, " "+status+" ") && status != "" || c.words().MatchString(message) {
			return c.code
		}
	}
	return result.UpstreamError
}

var answeredCodes = []struct {
	code     result.Code
	statuses string
	words    func() *regexp.Regexp
}{
	{result.RateLimited, " 429 ", lazy.Pattern(`rate.?limit|too many requests|quota exceeded|throttl|\b429\b`)},
	{result.AuthFailed, " 401 ", lazy.Pattern(`unauthori[sz]ed|unauthenticated|authentication (?:failed|required|error)|not authenticated|not logged in|(?:invalid|expired|missing|bad) (?:api.?key|(?:access |bearer |auth )?token|credentials?)|\b401\b`)},
	{result.PermissionDenied, " 403 ", lazy.Pattern(`permission denied|access denied|forbidden|not (?:allowed|permitted|authori[sz]ed)|insufficient (?:permission|scope|privilege)|\b403\b`)},
	{result.UpstreamTimeout, " 408 504 ", lazy.Pattern(`timed? ?out\b|deadline exceeded|\b504\b`)},
	{result.UpstreamUnavailable, " 502 503 ", lazy.Pattern(`\bunavailable\b|connection (?:refused|reset|closed)|econnrefused|econnreset|no such host|\b50[23]\b`)},
}
