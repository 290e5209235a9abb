package oauth

import (
	"errors"
	"net/http"
	"net/url"

	"github.com/weir-mcp/weir/internal/access/dpop"
	"github.com/weir-mcp/weir/internal/identity"
)

// Access is what weir shows a server: an access token, with the key that it is bound to.
type Access struct {
	Token identity.Secret // "" if there is none
	key   *dpop.Key       // nil for a bearer token
}

// maxNonce bounds the nonce of a server.
const maxNonce = 1024

// newNonce returns the nonce that an answer has, "" if it has none that serves.
func newNonce(text string) string {
	if len(text) > maxNonce {
		return ""
	}
	return text
}

// prove makes a request to the token endpoint of a grant, with a proof if the grant has a key. If the issuer asks for a
// nonce, prove makes it once more.
func (c *Client) prove(g *grant, header http.Header, post func() error) error {
	if g.Key == nil {
		return post()
	}
	at, err := url.Parse(g.Token)
	if err != nil {
		return err
	}
	for tries := 0; ; tries++ {
		nonce, _ := c.nonces.Get(g.Token)
		proof, err := g.Key.Proof(http.MethodPost, at, "", nonce, c.now())
		if err != nil {
			return err
		}
		header.Set(dpop.Header, proof)
		err = post()
		var f *failure
		if !errors.As(err, &f) || newNonce(f.nonce) == "" {
			return err
		}
		c.nonces.Put(g.Token, f.nonce, 0)
		if tries > 0 || f.code != dpop.UseNonce {
			return err
		}
	}
}

// showing returns a request with what weir shows its server, and how it is sent over base.
func (c *Client) showing(base http.RoundTripper, req *http.Request, a Access) (send func(*http.Request) (*http.Response, error), out *http.Request) {
	switch {
	case a.Token == "":
		return base.RoundTrip, req
	case a.key != nil:
		return func(req *http.Request) (*http.Response, error) { return c.proven(base, req, a) }, req
	}
	req = req.Clone(req.Context())
	req.Header.Set("Authorization", "Bearer "+string(a.Token))
	return base.RoundTrip, req
}

// proven sends a request with a token and a proof of its key. A request that the server wants with a nonce is sent once more.
func (c *Client) proven(base http.RoundTripper, req *http.Request, a Access) (*http.Response, error) {
	at := req.URL.Scheme + "://" + req.URL.Host
	for tries := 0; ; tries++ {
		nonce, _ := c.nonces.Get(at)
		signed := req.Clone(req.Context())
		signed.Header.Set("Authorization", "DPoP "+string(a.Token))
		if err := a.key.Sign(signed, a.Token, nonce, c.now()); err != nil {
			closeBody(req)
			return nil, err
		}
		resp, err := base.RoundTrip(signed)
		if err != nil {
			return nil, err
		}
		next := newNonce(resp.Header.Get(dpop.NonceHeader))
		if next != "" {
			c.nonces.Put(at, next, 0)
		}
		if tries > 0 || next == "" || next == nonce || resp.StatusCode != http.StatusUnauthorized || challengeOf(resp.StatusCode, resp.Header).Error != dpop.UseNonce {
			return resp, nil
		}
		repeat, ok := again(req)
		if !ok {
			return resp, nil
		}
		Drop(resp)
		req = repeat
	}
}
