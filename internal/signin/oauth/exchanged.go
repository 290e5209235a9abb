package oauth

import (
	"context"
	"net/http"
	"net/url"
)

// exchangeTransport puts tokens of callers on requests to a server, which it gets for their own.
type exchangeTransport struct {
	tokens  *Exchanger
	server  *Server
	subject func(ctx context.Context) (Subject, error)
	base    http.RoundTripper
}

// Transport returns a transport for requests to a server whose flow is from the caller. subject
// returns the caller of a request; its error is returned unchanged. Requests to another origin, or
// with an Authorization header of their own, are not changed. If the server answers 401, the
// transport gets another token and repeats the request once. The error is a *SignInError, as the
// cause of an *mcp.Error, if the server refuses that one as well, or wants scopes that the token has
// not.
func (e *Exchanger) Transport(s *Server, subject func(ctx context.Context) (Subject, error), base http.RoundTripper) http.RoundTripper {
	return &exchangeTransport{e, s, subject, base}
}

// RoundTrip implements http.RoundTripper.
func (t *exchangeTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if at, err := url.Parse(t.server.URL); err != nil || !sameOrigin(at, req.URL) || req.Header.Get("Authorization") != "" {
		return t.base.RoundTrip(req)
	}
	sub, err := t.subject(req.Context())
	if err != nil {
		closeBody(req)
		return nil, err
	}
	token, err := t.tokens.Token(req.Context(), t.server, sub, Access{})
	if err != nil {
		closeBody(req)
		return nil, err
	}
	send, out := t.tokens.client.showing(t.base, req, token)
	resp, err := send(out)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusUnauthorized {
		return t.sufficed(resp, token)
	}
	repeat, ok := again(req)
	if !ok {
		return resp, nil
	}
	Drop(resp)
	next, err := t.tokens.Token(req.Context(), t.server, sub, token)
	if err != nil {
		return nil, err
	}
	send, out = t.tokens.client.showing(t.base, repeat, next)
	resp, err = send(out)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusUnauthorized {
		return t.sufficed(resp, next)
	}
	Drop(resp)
	return nil, (&SignInError{
		Server: t.server.Name, Reason: "it refuses the token that weir got for it",
		Fix: "the operator of weir checks oauth.resource, oauth.audience and oauth.scopes of the server",
	}).Refused()
}

// sufficed returns an answer, or the error for one that refuses the token for want of scopes.
func (t *exchangeTransport) sufficed(resp *http.Response, token Access) (*http.Response, error) {
	const fix = "the operator of weir adds them to oauth.scopes of the server, if callers shall have them, and the administrator of the issuer lets weir's client get them"
	short := TooFewScopes(t.server.Name, resp, token.Token, fix)
	if short == nil {
		return resp, nil
	}
	Drop(resp)
	return nil, short.Refused()
}
