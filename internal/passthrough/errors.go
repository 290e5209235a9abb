package passthrough

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/weir-mcp/weir/internal/bridge"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
	"github.com/weir-mcp/weir/mcp/streamable"
)

// retryAfter is the Retry-After, in seconds, for an upstream that is starting.
const retryAfter = "1"

// maxNames bounds the names listed for a caller who mistyped one.
const maxNames = 100

func errShuttingDown() error {
	return mcp.Errorf(mcp.KindShuttingDown, "weir is shutting down; try again when it is back")
}

// unknown returns the error for an unknown name. It lists the names that the caller may reach.
func (rt *Router) unknown(principal, name string) error {
	names := slices.DeleteFunc(slices.Clone(rt.o.Names()), func(name string) bool { return !rt.allowed(principal, name) })
	slices.Sort(names)
	if len(names) > maxNames {
		names = names[:maxNames]
	}
	if names == nil {
		names = []string{}
	}
	e := mcp.Errorf(mcp.KindNotFound, "Agent '%s' not found", clip(name))
	e.Data, _ = json.Marshal(map[string]any{"kind": mcp.KindNotFound.String(), "agents": names})
	return e
}

// failedToReach explains in the router's words why an upstream gave no answer. Other errors stay
// unchanged.
func failedToReach(err error) error {
	var e *mcp.Error
	if !errors.As(err, &e) || errors.Is(err, errNotReached) {
		return err
	}
	out := notReached(e.Kind, err, e.Message)
	switch {
	case e.Kind == mcp.KindUpstreamUnavailable:
	case e.Kind == mcp.KindUnauthorized:
		// The upstream rejects weir's own credentials. A 401 would tell the agent that weir rejects
		// the agent's token.
		out.Kind = mcp.KindUpstreamProtocol
		out.Data = signInData(e, out.Kind)
	case e.Kind == mcp.KindUpstreamProtocol && errors.Is(err, mcp.ErrFinal):
	default:
		return err
	}
	out.SetRetryAfter(mcp.RetryAfter(err))
	return out
}

// signInData returns the data of an error of kind k in the place of one about the credential of a
// caller: the server, and the remedy for the person (spec/signin §4 and §11). It is nil for all
// others.
func signInData(e *mcp.Error, k mcp.Kind) json.RawMessage {
	server := rawjson.Get(e.Data, "server")
	if server == nil {
		return nil
	}
	data := fmt.Appendf(nil, `{"kind":%q,"server":%s`, k, server)
	for _, name := range []string{"command", "connect_url", "claims", "scopes"} {
		if value := rawjson.Get(e.Data, name); value != nil {
			data = fmt.Appendf(data, `,%q:%s`, name, value)
		}
	}
	return append(data, '}')
}

// errNotReached is the cause of the errors of notReached.
var errNotReached = errors.New("the agent was not reached")

// notReached returns the error for an upstream that gave no answer, in the words that agents know.
func notReached(k mcp.Kind, cause error, reason string) *mcp.Error {
	return &mcp.Error{Kind: k, Message: "Failed to reach agent: " + reason, Err: errors.Join(errNotReached, cause)}
}

// plainCode gives an error of an agent server the code for callers that post without session and
// version, as the first clients of agent servers do. The agent server cannot do that, because it is
// called in a session of the router.
func plainCode(ctx context.Context, r *mcp.Request, err error) error {
	var wire *jsonrpc.Error
	if r.Modern() || bridge.Greeted(r.Session) || !errors.As(err, &wire) {
		return err
	}
	if h := streamable.Header(ctx); h == nil || h.Get(streamable.HeaderVersion) != "" {
		return err
	}
	kind := rawjson.Text(rawjson.Get(wire.Data, "kind"))
	for k, code := range mcp.Sessionless {
		if kind == k.String() {
			return &jsonrpc.Error{Code: code, Message: wire.Message, Data: wire.Data}
		}
	}
	return err
}

// status returns the HTTP status of a response that contains only err, and sets the matching
// headers. Zero means the transport's default.
func status(err error, h http.Header) int {
	k, ours := mcp.KindOf(err)
	if !ours {
		return 0
	}
	switch k {
	case mcp.KindUpstreamStarting:
		h["Retry-After"] = []string{retryAfter}
	case mcp.KindOverloaded, mcp.KindRateLimited:
		h["Retry-After"] = []string{waitOf(err)}
	case mcp.KindUpstreamUnavailable:
		if mcp.RetryAfter(err) > 0 {
			h["Retry-After"] = []string{waitOf(err)}
		}
	case mcp.KindUpstreamProtocol, mcp.KindUpstreamTimeout, mcp.KindShuttingDown, mcp.KindNotFound:
	default:
		return 0
	}
	return k.Info().HTTP
}

// waitOf returns the wait in seconds from the data of an error.
func waitOf(err error) string {
	if wait := mcp.RetryAfter(err); wait > 0 {
		return strconv.FormatFloat(math.Ceil(wait.Seconds()), 'f', 0, 64)
	}
	return retryAfter
}

// statusOf is status with the table's value in place of zero.
func statusOf(err error, h http.Header) int {
	if code := status(err, h); code != 0 {
		return code
	}
	k, _ := mcp.KindOf(err)
	return k.Info().HTTP
}

// writeError answers with err.
func writeError(w http.ResponseWriter, id jsonrpc.ID, err error) {
	guard.WriteError(w, statusOf(err, w.Header()), id, err)
}

// writeMalformed answers a body that is not a message, or that contradicts its headers.
func writeMalformed(w http.ResponseWriter, id jsonrpc.ID, err error) {
	var e *mcp.Error
	if !errors.As(err, &e) {
		guard.WriteError(w, http.StatusBadRequest, id, mcp.ParseFailure(err))
		return
	}
	writeError(w, id, err)
}

// refuse answers a request that is not forwarded. It reads the body only for the id.
func (rt *Router) refuse(w http.ResponseWriter, r *http.Request, err error) {
	refuse(w, r, rt.o.MaxBody, rt.o.Memory, err)
}

func refuse(w http.ResponseWriter, r *http.Request, maxBody int64, pool *memory.Pool, err error) {
	var id jsonrpc.ID
	if r.Method == http.MethodPost {
		b := getBody()
		defer b.release()
		if readErr := b.read(w, r, maxBody, pool); readErr != nil {
			id = guard.RequestID(readErr)
		} else if m, parseErr := jsonrpc.Parse(b.buf); parseErr == nil && m.Kind() == jsonrpc.Request {
			id = m.ID
		}
	}
	writeError(w, id, err)
}

// refuseUnknown answers a request to an unknown agent. A malformed body is reported first, because
// it would be wrong for any agent.
func (rt *Router) refuseUnknown(w http.ResponseWriter, r *http.Request, err error) {
	if r.Method != http.MethodPost {
		writeError(w, "", err)
		return
	}
	b := getBody()
	defer b.release()
	if readErr := b.read(w, r, rt.o.MaxBody, rt.o.Memory); readErr != nil {
		writeError(w, guard.RequestID(readErr), err)
		return
	}
	id, malformed := checkFormat(r.Header, b.buf)
	if malformed != nil {
		writeMalformed(w, id, malformed)
		return
	}
	writeError(w, id, err)
}

// checkFormat returns the id of a request, and an error if the body is neither a message nor a
// batch.
func checkFormat(h http.Header, data []byte) (jsonrpc.ID, error) {
	if id, err := jsonrpc.CheckText(data); err != nil {
		return id, err
	}
	if rawjson.IsArray(data) {
		return "", new(envelope).readBatch(h, data)
	}
	m, err := jsonrpc.Parse(data)
	if err == nil && m.Kind() != jsonrpc.Request {
		return "", nil
	}
	return m.ID, err
}

// transportFailure returns the reason why a request got no response. It does not show the URL,
// which may contain a key.
func transportFailure(name string, err error) *mcp.Error {
	for u := (*url.Error)(nil); errors.As(err, &u); {
		err = u.Err
	}
	var (
		op      *net.OpError
		dns     *net.DNSError
		cert    *tls.CertificateVerificationError
		unknown x509.UnknownAuthorityError
		record  tls.RecordHeaderError
		timeout net.Error
	)
	what := "closed the connection before it had answered"
	switch {
	case errors.As(err, &dns):
		what = "cannot be found: the host name of its url has no address"
	case errors.As(err, &cert), errors.As(err, &unknown):
		what = "has a TLS certificate that is not trusted"
	case errors.As(err, &record):
		what = "does not speak TLS: its url should begin with http:"
	case errors.As(err, &op) && op.Op == "dial" && errors.Is(err, syscall.ECONNREFUSED):
		what = "refused the connection: is it running?"
	case errors.As(err, &op) && op.Op == "dial" && errors.As(err, &timeout) && timeout.Timeout():
		what = "did not take the connection in time"
	case errors.As(err, &op) && op.Op == "dial":
		what = "cannot be reached"
	}
	return notReached(mcp.KindUpstreamUnavailable, err, fmt.Sprintf("upstream %q %s", name, what))
}

// tooSlow returns the error for a call that exceeded its time limit.
func tooSlow(name, method string, limit time.Duration) *mcp.Error {
	if method == "" {
		method = "the request"
	}
	return &mcp.Error{
		Kind: mcp.KindUpstreamTimeout, Err: context.DeadlineExceeded,
		Message: fmt.Sprintf("upstream %q did not answer %s within %v; its limit is mcpServers.%s.timeout", name, clip(method), limit, name),
	}
}

// clip bounds a client's text before it is put into a message.
func clip(s string) string { return text.Fit(s, 101) }
