package credentials

import (
	"context"
	"net/http"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/signin/oauth"
	"github.com/weir-mcp/weir/internal/upstream"
)

// forwardTransport puts the token that a caller showed weir on requests to a server that the token
// names, too. It is the only place from which such a token leaves weir.
type forwardTransport struct {
	signIns *SignIns
	server  *config.Server
	of      upstream.Owner
	base    http.RoundTripper
}

// RoundTrip implements http.RoundTripper. A request to another origin gets no token. The error is a
// *oauth.SignInError, as the cause of an *mcp.Error, if the token of the caller does not serve, or the
// server refuses it, also for want of scopes.
func (t *forwardTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if !isAt(t.server, req.URL) {
		return t.base.RoundTrip(req)
	}
	id := t.signIns.shown.of(req.Context(), t.of)
	if err := t.signIns.shown.refusal(t.server, id); err != nil {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, err
	}
	sent := req.Clone(req.Context())
	sent.Header.Set("Authorization", "Bearer "+string(id.Bearer))
	t.signIns.inUse(string(id.Bearer))
	resp, err := t.base.RoundTrip(sent)
	if err != nil {
		return nil, err
	}
	if short := oauth.TooFewScopes(t.server.Name, resp, id.Bearer, "call with a token of the issuer "+id.Issuer+" that has them, too"); short != nil {
		oauth.Drop(resp)
		return nil, short.Refused()
	}
	if resp.StatusCode != http.StatusUnauthorized {
		return resp, nil
	}
	oauth.Drop(resp)
	return nil, (&oauth.SignInError{
		Server: t.server.Name, Reason: "it refuses the token, although aud names it",
		Fix: "ask its administrator to accept tokens of the issuer " + id.Issuer,
	}).Refused()
}

// strangerTransport lists a server that takes the credential from callers before one has shown a token.
type strangerTransport struct {
	server *config.Server
	base   http.RoundTripper
}

// RoundTrip implements http.RoundTripper. The error for a server that answers 401 is as that of
// forwardTransport.
func (t *strangerTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.base.RoundTrip(req)
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		return resp, err
	}
	oauth.Drop(resp)
	return nil, (&oauth.SignInError{Server: t.server.Name, Reason: "no caller has shown weir one that serves there", Fix: "call with an access token of an issuer in auth.issuers"}).Refused()
}

// fromCaller returns a transport that takes the credential from the token of the caller.
func (s *SignIns) fromCaller(c *config.Server, of upstream.Owner, base http.RoundTripper) http.RoundTripper {
	switch {
	case of.Principal == oauth.Anonymous:
		return &strangerTransport{c, base}
	case c.Forwards():
		return &forwardTransport{s, c, of, base}
	}
	server, ok := SignInServer(c)
	if !ok {
		return base // an Authorization header is configured
	}
	return s.traded.Transport(server, func(ctx context.Context) (oauth.Subject, error) {
		id := s.shown.of(ctx, of)
		if err := s.shown.refusal(c, id); err != nil {
			return oauth.Subject{}, err
		}
		s.inUse(string(id.Bearer))
		return oauth.Subject{Principal: id.Principal, Grant: id.Grant(), Issuer: id.Issuer, Token: id.Bearer}, nil
	}, base)
}
