package oauth

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/access/dpop"
	"github.com/weir-mcp/weir/internal/net/egress"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/mcp"
)

// Bounds of one request.
const (
	maxBody        = 1 << 20
	maxRedirects   = 3
	requestTimeout = 10 * time.Second
)

// web makes requests to URLs that servers and issuers name (spec/signin §5).
type web struct {
	lookup func(ctx context.Context, host string) ([]netip.Addr, error) // nil: the system's resolver
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
	tls    *tls.Config
}

// reach makes requests for one MCP server.
type reach struct{ zone *egress.Zone }

// reach returns the client that makes requests for a server.
func (w *web) reach(server string, configured ...string) *reach {
	return &reach{egress.Network{Lookup: w.lookup, Dial: w.dial, TLS: w.tls}.Zone(server, configured...)}
}

// A probe is a request without a token, which asks a server how to sign in.
type probe struct {
	body   string
	header map[string]string
}

// The probes: the greeting of the legacy era, then a list in the era of the answer. Some servers
// greet everyone and refuse later requests, and others know only the newer era.
var (
	probeHello  = probe{`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"weir","version":"1"}}}`, nil}
	probeLegacy = probe{`{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{}}`, map[string]string{"Mcp-Protocol-Version": mcp.LatestLegacy}}
	probeModern = probe{
		`{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"` + mcp.V20260728 + `","io.modelcontextprotocol/clientInfo":{"name":"weir","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`,
		map[string]string{"Mcp-Protocol-Version": mcp.V20260728, "Mcp-Method": "tools/list"},
	}
)

// ask asks an MCP server without a token and returns its challenge.
func (r *reach) ask(ctx context.Context, server string) (Challenge, error) {
	first, session, err := r.try(ctx, server, probeHello, "")
	if err != nil || first.Status == http.StatusUnauthorized {
		return first, err
	}
	next := probeModern
	if first.Status < 300 {
		next = probeLegacy
	}
	if second, _, err := r.try(ctx, server, next, session); err == nil && second.Status == http.StatusUnauthorized {
		return second, nil
	}
	return first, nil
}

// try sends a probe and returns the parts of the answer that a client may know: its challenge and
// session.
func (r *reach) try(ctx context.Context, server string, p probe, session string) (ch Challenge, begun string, err error) {
	req, err := http.NewRequest(http.MethodPost, server, strings.NewReader(p.body))
	if err != nil {
		return ch, "", fmt.Errorf("%.300q is not a URL", server)
	}
	if err := r.zone.Check(req.URL, false); err != nil {
		return ch, "", err
	}
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Content-Type", "application/json")
	for name, value := range p.header {
		req.Header.Set(name, value)
	}
	if session != "" {
		req.Header.Set("Mcp-Session-Id", session)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	transport := r.zone.Transport()
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(req.WithContext(ctx))
	if err != nil {
		return ch, "", err
	}
	defer resp.Body.Close()
	return challengeOf(resp.StatusCode, resp.Header), resp.Header.Get("Mcp-Session-Id"), nil
}

// do sends a request and reads its answer within the bounds. A POST is not redirected.
func (r *reach) do(ctx context.Context, req *http.Request) (resp *http.Response, body []byte, err error) {
	post := req.Method == http.MethodPost
	if err := r.zone.Check(req.URL, post); err != nil {
		return nil, nil, err
	}
	transport := r.zone.Transport()
	client := http.Client{Transport: transport, CheckRedirect: func(next *http.Request, via []*http.Request) error {
		switch {
		case post:
			return http.ErrUseLastResponse
		case len(via) > maxRedirects:
			return fmt.Errorf("more than %d redirects", maxRedirects)
		}
		return r.zone.Check(next.URL, false)
	}}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	defer transport.CloseIdleConnections()
	resp, err = client.Do(req.WithContext(ctx))
	if err != nil {
		var about *url.Error
		if errors.As(err, &about) {
			err = about.Err // the URL may have secrets, and the caller names it
		}
		return nil, nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	switch {
	case err != nil:
		return nil, nil, err
	case len(body) > maxBody:
		return nil, nil, fmt.Errorf("the answer has more than %d bytes", maxBody)
	case post && resp.StatusCode >= 300 && resp.StatusCode < 400:
		return nil, nil, fmt.Errorf("it answered %d, and a request with credentials is not redirected", resp.StatusCode)
	}
	return resp, body, nil
}

// statusError is the error for an answer that has not the expected status.
type statusError int

func (e statusError) Error() string {
	return strings.TrimSpace(fmt.Sprintf("it answered %d %s", int(e), http.StatusText(int(e))))
}

// get reads a JSON document.
func (r *reach) get(ctx context.Context, from string, into any) error {
	req, err := http.NewRequest(http.MethodGet, from, nil)
	if err != nil {
		return fmt.Errorf("%.300q is not a URL", from)
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("Mcp-Protocol-Version", "2025-11-25")
	resp, body, err := r.do(ctx, req)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return statusError(resp.StatusCode)
	}
	if json.Unmarshal(body, into) != nil {
		return errors.New("the answer is not the JSON object that it should be")
	}
	return nil
}

// failure is the error that an authorization server answered (RFC 6749 §5.2).
type failure struct {
	status      int
	code        string
	description string
	claims      string // the claims for the next sign-in of the person, in the form of Entra
	nonce       string // DPoP-Nonce of the answer
}

func (e *failure) Error() string {
	switch {
	case e.code == "":
		return statusError(e.status).Error()
	case e.description != "":
		return e.code + ": " + e.description
	}
	return e.code
}

// isCode reports whether an authorization server answered with an error code.
func isCode(err error, codes ...string) bool {
	var f *failure
	if !errors.As(err, &f) {
		return false
	}
	for _, code := range codes {
		if f.code == code {
			return true
		}
	}
	return false
}

// post sends a form and reads the JSON answer. hidden are texts that errors must not show.
func (r *reach) post(ctx context.Context, to string, form url.Values, header http.Header, into any, hidden ...string) error {
	return r.send(ctx, to, "application/x-www-form-urlencoded", []byte(form.Encode()), header, into, hidden)
}

func (r *reach) send(ctx context.Context, to, kind string, data []byte, header http.Header, into any, hidden []string) error {
	req, err := http.NewRequest(http.MethodPost, to, bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("%.300q is not a URL", to)
	}
	if header != nil {
		req.Header = header
	}
	req.Header.Set("Content-Type", kind)
	req.Header.Set("Accept", "application/json")
	resp, body, err := r.do(ctx, req)
	if err != nil {
		return err
	}
	status := resp.StatusCode
	if status < 200 || status > 299 {
		f := failureOf(status, body, hidden)
		f.nonce = resp.Header.Get(dpop.NonceHeader)
		return f
	}
	if into == nil {
		return nil
	}
	var told struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(body, &told) == nil && told.Error != "" {
		return failureOf(status, body, hidden) // as GitHub does, with the status 200
	}
	if json.Unmarshal(body, into) != nil {
		return errors.New("the answer is not the JSON object that it should be")
	}
	return nil
}

func failureOf(status int, body []byte, hidden []string) *failure {
	var told struct {
		Error       string `json:"error"`
		Description string `json:"error_description"`
		Claims      string `json:"claims"`
	}
	_ = json.Unmarshal(body, &told) // an answer without them has the status
	return &failure{status: status, code: shown(told.Error, 80, hidden), description: shown(told.Description, 300, hidden), claims: shown(told.Claims, 4096, hidden)}
}

// shown returns a text of another party in one line, without secrets.
func shown(s string, most int, hidden []string) string {
	for _, secret := range hidden {
		if secret != "" {
			s = strings.ReplaceAll(s, secret, "[secret]")
		}
	}
	return text.Line(s, most)
}
