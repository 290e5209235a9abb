package oauth

import (
	"errors"
	"io"
	"net/http"
	"net/url"
)

// transport puts the token of a principal on requests to a server.
type transport struct {
	client    *Client
	server    *Server
	at        *url.URL // of the server; nil: it cannot be read
	principal string
	base      http.RoundTripper
}

// Transport returns a transport for requests of a principal to a server. It does not change requests that go to another
// origin, or have an Authorization header of their own. It sends none if the principal has no token: the server may want
// none. If the server answers 401 and says how to sign in, or 403 for want of scopes, it gets another token and repeats the
// request once. The error is a *SignInError if a person has to sign in; it is the cause of an *mcp.Error.
func (c *Client) Transport(s *Server, principal string, base http.RoundTripper) http.RoundTripper {
	at, _ := url.Parse(s.URL)
	return &transport{c, s, at, principal, base}
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if t.at == nil || !sameOrigin(t.at, req.URL) || req.Header.Get("Authorization") != "" {
		return t.base.RoundTrip(req)
	}
	token, err := t.client.Token(req.Context(), t.server, t.principal)
	var signIn *SignInError
	if err != nil && !errors.As(err, &signIn) {
		closeBody(req)
		return nil, err
	}
	send, out := t.client.showing(t.base, req, token)
	resp, rerr := send(out)
	if rerr != nil || resp.StatusCode != http.StatusUnauthorized && resp.StatusCode != http.StatusForbidden {
		return resp, rerr
	}
	ch := challengeOf(resp.StatusCode, resp.Header)
	if resp.StatusCode == http.StatusForbidden && (ch.Error != "insufficient_scope" || token.Token == "") {
		return resp, nil
	}
	if token.Token == "" && !t.client.tells(req.Context(), t.server, ch) {
		return resp, nil // it wants another kind of credentials
	}
	next, err := t.client.Renew(req.Context(), t.server, t.principal, token, ch)
	if errors.As(err, &signIn) {
		told := *signIn // others share it
		told.URL = t.client.page(t.server.Name)
		err = told.Refused()
	}
	if err != nil {
		Drop(resp)
		return nil, err
	}
	repeat, ok := again(req)
	if !ok {
		return resp, nil
	}
	Drop(resp)
	send, out = t.client.showing(t.base, repeat, next)
	return send(out)
}

// again returns a request that can be sent once more. ok is false if its body is gone.
func again(req *http.Request) (*http.Request, bool) {
	if req.Body == nil || req.Body == http.NoBody {
		return req, true
	}
	if req.GetBody == nil {
		return nil, false
	}
	body, err := req.GetBody()
	if err != nil {
		return nil, false
	}
	req = req.Clone(req.Context())
	req.Body = body
	return req, true
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
}

// Drop closes a response that has been read far enough.
func Drop(resp *http.Response) {
	_, _ = io.CopyN(io.Discard, resp.Body, 4<<10)
	_ = resp.Body.Close()
}
