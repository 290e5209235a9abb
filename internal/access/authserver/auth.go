package authserver

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/weir-mcp/weir/internal/access"
	"github.com/weir-mcp/weir/internal/access/dpop"
	"github.com/weir-mcp/weir/internal/net/address"
)

const (
	assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
	// assertionTime bounds the life of an assertion, and leeway what clocks differ.
	assertionTime = 10 * time.Minute
	leeway        = 30 * time.Second
)

// posted reads the form of a program: each member once, and none in the URL, which logs keep.
func (x *exchange) posted() (url.Values, error) {
	kind, _, _ := strings.Cut(x.r.Header.Get("Content-Type"), ";")
	if strings.TrimSpace(strings.ToLower(kind)) != "application/x-www-form-urlencoded" {
		return nil, refused("invalid_request", "the body must be application/x-www-form-urlencoded")
	}
	x.r.Body = http.MaxBytesReader(x.w, x.r.Body, maxForm)
	if err := x.r.ParseForm(); err != nil {
		return nil, refused("invalid_request", "the body cannot be read")
	}
	for name, values := range x.r.PostForm {
		if len(values) > 1 && name != "resource" {
			return nil, refused("invalid_request", "a parameter is there twice")
		}
	}
	return x.r.PostForm, nil
}

// client finds a client by its id. The error is a refusal if there is none.
func (x *exchange) client(ctx context.Context, id string) (*Client, error) {
	if i := slices.IndexFunc(x.p.Clients, func(c Client) bool { return c.ID == id }); i >= 0 {
		c := x.p.Clients[i]
		c.From = configured
		return &c, nil
	}
	switch {
	case id == ownClient && x.p.People == nil && x.p.Pages != "":
		return x.p.own(), nil
	case id == "" || len(id) > maxClientID:
		return nil, unknownClient("client_id is missing or too long")
	case strings.Contains(id, "://"):
		if !x.p.Documents {
			return nil, unknownClient("this server does not admit clients by metadata documents")
		}
		return x.documents.client(ctx, sourceOf(x.r), id)
	case x.p.Registration:
		c, err := x.registered.client(ctx, id)
		if err == nil && x.p.admitsRedirects(c.Redirects) != "" {
			c, err = nil, unknownClient("the client is not admitted here any more; the operator has changed who may register")
		}
		return c, err
	}
	return nil, unknownClient("the client is not known here")
}

// authenticated finds the client of a request and checks that it is this client.
func (x *exchange) authenticated(form url.Values) (*Client, error) {
	id, secret, basic := x.r.BasicAuth()
	if basic { // RFC 6749 §2.3.1
		var err, second error
		id, err = url.QueryUnescape(id)
		secret, second = url.QueryUnescape(secret)
		if err != nil || second != nil {
			return nil, unknownClient("the Authorization header cannot be read")
		}
		if other := form.Get("client_id"); other != "" && other != id {
			return nil, unknownClient("client_id and the Authorization header name different clients")
		}
	} else {
		id, secret = form.Get("client_id"), form.Get("client_secret")
	}
	assertion := form.Get("client_assertion")
	if assertion != "" && id == "" {
		id = assertionClient(assertion)
	}
	c, err := x.client(x.r.Context(), id)
	if err != nil {
		return nil, err
	}
	shown := 0
	for _, there := range []bool{basic, form.Get("client_secret") != "", assertion != ""} {
		if there {
			shown++
		}
	}
	if shown > 1 {
		return nil, refused("invalid_request", "the client shows who it is in more than one way")
	}
	switch method := c.method(); {
	case method == "none":
		if assertion != "" || secret != "" {
			return nil, unknownClient("the client has no secret and no key here")
		}
	case method == "private_key_jwt":
		if form.Get("client_assertion_type") != assertionType || assertion == "" {
			return nil, unknownClient("the client must show a client_assertion")
		}
		if err := x.assertion(c, assertion); err != nil {
			return nil, err
		}
	case assertion != "" || !x.hasSecret(c, secret):
		return nil, unknownClient("the secret of the client is wrong")
	}
	return c, nil
}

// hasSecret compares a secret, in a time that says nothing of it.
func (x *exchange) hasSecret(c *Client, secret string) bool {
	if c.From == registered {
		return x.isMac("client secret", c.ID, secret)
	}
	want, got := sha256.Sum256([]byte(c.Secret)), sha256.Sum256([]byte(secret))
	return subtle.ConstantTimeCompare(want[:], got[:]) == 1 && c.Secret != ""
}

// assertionClient returns the client that an assertion names. Nothing of it is checked.
func assertionClient(text string) string {
	claims := jwt.MapClaims{}
	if _, _, err := jwt.NewParser().ParseUnverified(text, claims); err != nil {
		return ""
	}
	sub, _ := claims["sub"].(string)
	return sub
}

// assertion checks a client assertion (RFC 7523 §3). Each works once.
func (x *exchange) assertion(c *Client, text string) error {
	raw := []byte(c.Keys)
	if len(raw) == 0 {
		var err error
		if raw, err = x.documents.fetch(x.r.Context(), sourceOf(x.r), c.KeysURL); err != nil {
			return unknownClient("the keys of the client cannot be fetched")
		}
	}
	claims, err := access.VerifySigned(text, raw)
	if err != nil {
		return unknownClient("the client_assertion is not accepted: " + err.Error())
	}
	now := x.now()
	expires, err := claims.GetExpirationTime()
	before, early := claims.GetNotBefore()
	audiences, _ := claims.GetAudience()
	id, _ := claims["jti"].(string)
	switch {
	case claims["iss"] != c.ID || claims["sub"] != c.ID:
		return unknownClient("iss and sub of the client_assertion must be the client_id")
	case !slices.Contains(audiences, x.p.Issuer) && !slices.Contains(audiences, x.p.Issuer+tokenPath) && !slices.Contains(audiences, x.p.Issuer+x.r.URL.Path):
		return unknownClient("aud of the client_assertion must be " + x.p.Issuer)
	case err != nil || expires == nil || !now.Before(expires.Add(leeway)) || expires.Sub(now) > assertionTime:
		return unknownClient("exp of the client_assertion is over or too far away")
	case early != nil || before != nil && now.Add(leeway).Before(before.Time):
		return unknownClient("the client_assertion is not valid yet")
	case id == "" || len(id) > 300:
		return unknownClient("the client_assertion has no jti")
	}
	fresh, err := x.once(x.r.Context(), "assertion\n"+c.ID+"\n"+id, assertionTime+2*leeway)
	if err == nil && !fresh {
		err = unknownClient("the client_assertion was used before")
	}
	return err
}

// sourceOf returns where a request comes from, for bounds: addresses of one network of IPv6 count as one.
func sourceOf(r *http.Request) string {
	ip, ok := address.Source(r.Header, r.RemoteAddr)
	if !ok {
		return "behind a proxy"
	}
	if ip.Is6() {
		if network, err := ip.Prefix(64); err == nil {
			return network.String()
		}
	}
	return ip.String()
}

// proved returns the thumbprint of the key that a request proves to have, "" without a proof (RFC 9449 §5).
func (x *exchange) proved(path string) (string, error) {
	switch {
	case len(x.r.Header.Values(dpop.Header)) == 0 && x.p.Bound && path == tokenPath:
		return "", refused("invalid_dpop_proof", "this server binds all tokens to keys: send a proof in the header DPoP")
	case len(x.r.Header.Values(dpop.Header)) == 0:
		return "", nil
	case x.o.Proofs == nil:
		return "", refused("invalid_dpop_proof", "this server binds no tokens to keys")
	}
	thumbprint, err := x.o.Proofs.Check(x.r.Context(), x.r.Header, dpop.Expect{Method: x.r.Method, URL: x.p.Issuer + path, Nonce: x.p.Nonces})
	var no *dpop.Refusal
	if errors.As(err, &no) {
		if no.Nonce != "" {
			x.w.Header().Set(dpop.NonceHeader, no.Nonce)
		}
		err = refused(no.Code, no.Reason)
	}
	return thumbprint, err
}

// context returns the context of an exchange whose client does not wait for it: a code is used up either way.
func (x *exchange) context() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(x.r.Context()), 20*time.Second)
}
