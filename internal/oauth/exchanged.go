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
// returns whose request it is; its error is returned as it is. Requests to another origin, or with an
// Authorization header of their own, are left alone. If the server answers 401, or 403 for want of
// scopes, the transport gets another token and repeats the request once. The error is a *SignInError,
// as the cause of an *mcp.Error, if the server refuses that one for the same reason.
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
	token, err := t.tokens.Token(req.Context(), t.server, sub, "", nil)
	if err != nil {
		closeBody(req)
		return nil, err
	}
	resp, err := t.base.RoundTrip(authorized(req, token))
	if err != nil || resp.StatusCode != http.StatusUnauthorized && resp.StatusCode != http.StatusForbidden {
		return resp, err
	}
	ch := challengeOf(resp.StatusCode, resp.Header)
	repeat, ok := again(req)
	if resp.StatusCode == http.StatusForbidden && ch.Error != "insufficient_scope" || !ok {
		return resp, nil
	}
	next, err := t.tokens.Token(req.Context(), t.server, sub, token, ch.Scopes)
	if err != nil {
		drop(resp)
		return nil, err
	}
	drop(resp)
	resp, err = t.base.RoundTrip(authorized(repeat, next))
	if err != nil {
		return nil, err
	}
	if short := TooFewScopes(t.server.Name, resp, next, "the administrator of the issuer decides which scopes weir's client gets for its callers"); short != nil {
		drop(resp)
		return nil, short.Refused()
	}
	if resp.StatusCode != http.StatusUnauthorized {
		return resp, nil
	}
	drop(resp)
	return nil, (&SignInError{
		Server: t.server.Name, Reason: "it refuses the token that weir got for it",
		Fix: "the operator of weir checks oauth.resource, oauth.audience and oauth.scopes of the server",
	}).Refused()
}
