package streamable

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// maxErrorBody bounds the bytes read of an error response.
const maxErrorBody = 64 << 10

// StatusError is the cause of an error that comes from an HTTP status. Callers use it to react to
// the status (OAuth); its text is never shown.
type StatusError struct {
	Status          int
	WWWAuthenticate []string      // of a 401 or 403, at most 8 values of 4096 bytes
	RetryAfter      time.Duration // zero if the server sent none
	refused         bool
	final           bool
}

// Error implements error.
func (e *StatusError) Error() string { return "HTTP status " + strconv.Itoa(e.Status) }

// Is makes a status that refuses the message as a whole an mcp.ErrRefused, and a status that a
// retry cannot change an mcp.ErrFinal.
func (e *StatusError) Is(target error) bool {
	return e.refused && target == mcp.ErrRefused || e.final && target == mcp.ErrFinal
}

// final reports whether a retry would get the same status. That is true for redirects, faults of
// the request, and a success without a response, after which the server may be working.
func final(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return status < 500 || status == http.StatusNotImplemented
}

// refused returns the error for a response whose status is not 200, and closes it. If the server
// can have looked at the message, a JSON-RPC error in the body is the answer.
func (c *Client) refused(resp *http.Response, out outgoing, id jsonrpc.ID) (result []byte, err error) {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	resp.Body.Close()
	answer, answerID := errorBody(body)
	own := answer != nil && id != "" && answerID == id
	switch code := resp.StatusCode; {
	case code == http.StatusUnauthorized, code == http.StatusForbidden, code == http.StatusTooManyRequests:
	case out.session && sessionGone(code, answer, answerID, own):
		return nil, c.sessionLost()
	case own, answer != nil && code < 500 && id != "" && answerID == "":
		return nil, withRetryAfter(answer, resp.Header)
	}
	return nil, StatusFailure(c.who, out.method, resp)
}

// StatusFailure returns the *mcp.Error for an HTTP response that is not a success. It names the
// server and the request. Its cause is a *StatusError. It does not read or show the body.
func StatusFailure(who, what string, resp *http.Response) error {
	status := &StatusError{Status: resp.StatusCode, RetryAfter: retryAfter(resp.Header.Get("Retry-After")), final: final(resp.StatusCode)}
	fail := func(k mcp.Kind, format string, args ...any) error {
		e := mcp.Errorf(k, "%s %s", who, fmt.Sprintf(format, args...))
		e.Err = status
		e.SetRetryAfter(status.RetryAfter)
		return e
	}
	told := strconv.Itoa(resp.StatusCode)
	if text := http.StatusText(resp.StatusCode); text != "" {
		told += " " + text
	}
	switch code := resp.StatusCode; {
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		for _, v := range resp.Header.Values("Www-Authenticate") {
			if len(v) <= 4<<10 && len(status.WWWAuthenticate) < 8 {
				status.WWWAuthenticate = append(status.WWWAuthenticate, v)
			}
		}
		if code == http.StatusUnauthorized {
			return fail(mcp.KindUnauthorized, "does not accept the credentials (401): check the Authorization header that is configured for it")
		}
		return fail(mcp.KindPermissionDenied, "does not allow %s with the configured credentials (403)", what)
	case code == http.StatusTooManyRequests:
		return fail(mcp.KindRateLimited, "limits the rate of calls (429)")
	case code == http.StatusRequestEntityTooLarge:
		return fail(mcp.KindTooLarge, "does not take a message as large as this %s (413)", what)
	case code == http.StatusRequestTimeout, code == http.StatusGatewayTimeout:
		return fail(mcp.KindUpstreamTimeout, "did not answer %s in time (%s)", what, told)
	case code == http.StatusProxyAuthRequired:
		return fail(mcp.KindUnauthorized, "is behind a proxy that wants credentials (407): check the proxy that is configured for weir")
	case code >= 500 && code != http.StatusNotImplemented, code == http.StatusTooEarly:
		return fail(mcp.KindUpstreamUnavailable, "failed to answer %s (%s)", what, told)
	case code >= 300 && code < 400:
		return fail(mcp.KindUpstreamProtocol, "redirects to another place (%s), where weir does not follow with its headers: configure that url", told)
	case code < 300:
		return fail(mcp.KindUpstreamProtocol, "answered %s with %s instead of a response", what, told)
	}
	status.refused = true
	switch resp.StatusCode {
	case http.StatusBadRequest, http.StatusNotAcceptable, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		return fail(mcp.KindInvalidRequest, "does not take this %s (%s), without saying why in JSON-RPC", what, told)
	}
	switch resp.StatusCode {
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusGone, http.StatusNotImplemented:
		return fail(mcp.KindUpstreamProtocol, "does not take %s (%s): check that the url is that of its MCP endpoint", what, told)
	}
	return fail(mcp.KindUpstreamProtocol, "refuses %s (%s), without saying why in JSON-RPC", what, told)
}

// withRetryAfter adds the Retry-After header of an error response to the error's data, unless the
// data has a time already or cannot hold one.
func withRetryAfter(answer *jsonrpc.Error, h http.Header) *jsonrpc.Error {
	wait := retryAfter(h.Get("Retry-After"))
	if wait == 0 || len(answer.Data) > 0 && !rawjson.IsObject(answer.Data) || rawjson.Get(answer.Data, "retry_after") != nil {
		return answer
	}
	data := answer.Data
	if len(data) == 0 {
		data = json.RawMessage("{}")
	}
	told, err := rawjson.Set(data, "retry_after", fmt.Appendf(nil, "%g", wait.Seconds()))
	if err != nil {
		return answer
	}
	out := *answer
	out.Data = told
	return &out
}

// AnsweredError reads the JSON-RPC error of a response, or returns nil if there is none. The caller
// closes the body.
func AnsweredError(resp *http.Response) *jsonrpc.Error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	if err != nil {
		return nil
	}
	answer, _ := errorBody(body)
	return answer
}

// errorBody reads a JSON-RPC error response.
func errorBody(body []byte) (*jsonrpc.Error, jsonrpc.ID) {
	body = rawjson.RepairText(body)
	if !rawjson.IsObject(body) {
		return nil, ""
	}
	m, err := jsonrpc.Parse(body)
	if err != nil || m.Err == nil {
		return nil, ""
	}
	return jsonrpc.ParseError(m.Err), m.ID
}

// sessionGone reports whether a response says that the session of the message does not exist. The
// standard's answer is 404. The TypeScript SDK's example servers answer 400 after a restart, with
// an error that belongs to no request. An error that belongs to the request is its answer, unless
// its code means that the session was not found.
func sessionGone(code int, answer *jsonrpc.Error, id jsonrpc.ID, own bool) bool {
	switch code {
	case http.StatusNotFound:
		return !own || answer.Code == mcp.KindSessionNotFound.Info().JSONRPC
	case http.StatusBadRequest:
		return answer != nil && id == "" && answer.Code == -32000 && strings.Contains(strings.ToLower(answer.Message), "session")
	}
	return false
}

// retryAfter reads a Retry-After header: seconds or a date, at most a day.
func retryAfter(v string) time.Duration {
	var d time.Duration
	if s, err := strconv.ParseUint(v, 10, 32); err == nil {
		d = time.Duration(s) * time.Second
	} else if t, err := http.ParseTime(v); err == nil {
		d = time.Until(t).Round(time.Second)
	}
	return min(max(d, 0), 24*time.Hour)
}

// transportCause removes the URL, which may contain a key, from an error of net/http.
func transportCause(err error) error {
	var u *url.Error
	for errors.As(err, &u) {
		err = u.Err
	}
	return err
}

func (c *Client) transportError(err error) error { return TransportFailure(c.who, err) }

// TransportFailure returns the *mcp.Error for an HTTP exchange with who that failed with err
// instead of a response. If the message certainly was not sent, mcp.ErrNotSent is its cause. The
// URL, which may contain a key, is removed.
func TransportFailure(who string, err error) error {
	if e := (*mcp.Error)(nil); errors.As(err, &e) {
		return e
	}
	err = transportCause(err)
	var (
		op      *net.OpError
		dns     *net.DNSError
		cert    *tls.CertificateVerificationError
		unknown x509.UnknownAuthorityError
		record  tls.RecordHeaderError
		timeout net.Error
	)
	isTimeout := errors.As(err, &timeout) && timeout.Timeout()
	kind, what, sent := mcp.KindUpstreamUnavailable, "", false
	switch {
	case errors.As(err, &dns):
		what = "cannot be found: its host name has no address"
	case errors.As(err, &cert), errors.As(err, &unknown):
		what = "has a TLS certificate that is not trusted"
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		what = "does not speak TLS: the url should begin with http:"
	case errors.As(err, &op) && op.Op == "dial":
		switch {
		case errors.Is(err, syscall.ECONNREFUSED):
			what = "refused the connection: is it running?"
		case isTimeout:
			what = "did not take the connection in time"
		default:
			what = "cannot be reached"
		}
	case isTimeout:
		kind, what, sent = mcp.KindUpstreamTimeout, "did not answer in time", true
	default:
		what, sent = "closed the connection before it had answered", true
	}
	if !sent {
		err = unsentError{err}
	}
	return &mcp.Error{Kind: kind, Message: who + " " + what, Err: err}
}

// unsentError makes its cause an mcp.ErrNotSent.
type unsentError struct{ error }

func (e unsentError) Unwrap() error   { return e.error }
func (e unsentError) Is(t error) bool { return t == mcp.ErrNotSent }
