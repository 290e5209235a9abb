package access

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/access/issuers"
	"github.com/weir-mcp/weir/internal/access/jwk"
	"github.com/weir-mcp/weir/internal/net/egress"
)

// Bounds of requests to issuers.
const (
	fetchTimeout = 10 * time.Second
	maxDocument  = 1 << 20
	maxRedirects = 3
)

// newClient returns the client for requests to issuers.
func newClient() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 4
	return &http.Client{Transport: transport, Timeout: fetchTimeout, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		switch {
		case r.Method != http.MethodGet:
			return errors.New("a redirect of a request with credentials is not followed")
		case len(via) > maxRedirects:
			return fmt.Errorf("more than %d redirects", maxRedirects)
		case via[0].URL.Scheme == "https" && r.URL.Scheme != "https":
			return errors.New("a redirect leads from https to http")
		}
		return nil
	}}
}

// source makes requests to an issuer and to the URLs of its metadata (spec/identity §4).
type source struct {
	zone   *egress.Zone
	client *http.Client
}

// source returns the client for requests to the issuer at a URL. Hosts of the configured URLs are
// asked by the client of the options, which may use a proxy. All others have to be public, and are
// dialed at an address that was checked.
func (o Options) source(issuer string, configured ...string) source {
	s := source{zone: o.Network.Zone(issuer, configured...)}
	client := *o.Client
	plain := client.Transport
	if plain == nil {
		plain = http.DefaultTransport
	}
	client.Transport = guarded{s.zone, plain}
	s.client = &client
	return s
}

// guarded sends requests for hosts of the configuration by plain, and others within the zone.
type guarded struct {
	zone  *egress.Zone
	plain http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (g guarded) RoundTrip(r *http.Request) (*http.Response, error) {
	if g.zone.Free(r.URL) {
		return g.plain.RoundTrip(r)
	}
	if err := g.zone.Check(r.URL, r.Method != http.MethodGet); err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, err
	}
	return g.zone.Transport().RoundTrip(r)
}

// allows returns why a person must not be sent to a URL that the issuer's metadata name.
func (s source) allows(address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return fmt.Errorf("%.300q is not a URL", address)
	}
	if s.zone.Free(u) {
		return nil
	}
	return s.zone.Check(u, true)
}

// fetchKeys returns the keys of an issuer and how long they are fresh. With an empty address, the
// metadata of the issuer names it.
func (s source) fetchKeys(ctx context.Context, issuer, address string) (keys []jwk.Key, age time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	if address == "" {
		if address, err = s.discover(ctx, issuer); err != nil {
			return nil, 0, err
		}
	}
	raw, header, err := s.get(ctx, address)
	if egress.Refused(err) {
		return nil, 0, fmt.Errorf("%w; if the issuer's keys are there, write their URL as jwks", err)
	}
	if err != nil {
		return nil, 0, err
	}
	if keys, err = jwk.ParseSet(raw); err != nil {
		return nil, 0, fmt.Errorf("%s: %w", address, err)
	}
	return keys, egress.Freshness(header, defaultKeyAge, minKeyAge, maxKeyAge), nil
}

// discover returns the address of an issuer's keys.
func (s source) discover(ctx context.Context, issuer string) (found string, err error) {
	err = s.metadata(ctx, issuer, func(raw []byte) (err error) {
		found, err = keysURL(raw, issuer)
		return err
	})
	return found, err
}

// metadata hands an issuer's metadata to read: the metadata of RFC 8414, then of OpenID Connect in
// both of its places, until read accepts one.
func (s source) metadata(ctx context.Context, issuer string, read func(raw []byte) error) error {
	places := issuers.Documents(issuer)
	if places == nil {
		return errors.New("it is not the URL of an issuer")
	}
	var first error
	for _, address := range places {
		raw, _, err := s.get(ctx, address)
		if err == nil {
			if err = read(raw); err == nil {
				return nil
			}
			err = fmt.Errorf("%s: %w", address, err)
		}
		if first == nil {
			first = err
		}
		if ctx.Err() != nil {
			break
		}
	}
	return first
}

// keysURL reads metadata. It must be of this very issuer: the texts are compared, because
// https://a and https://a/ may be two tenants.
func keysURL(raw []byte, issuer string) (string, error) {
	var meta struct {
		Issuer string `json:"issuer"`
		Keys   string `json:"jwks_uri"`
	}
	if err := json.Unmarshal(raw, &meta); err != nil {
		return "", errors.New("the metadata is not JSON")
	}
	if meta.Issuer != issuer {
		return "", otherIssuer(meta.Issuer, issuer)
	}
	if !secureURL(meta.Keys, issuer) {
		return "", errors.New("jwks_uri is missing, or not https")
	}
	return meta.Keys, nil
}

func otherIssuer(got, want string) error {
	return fmt.Errorf("the metadata is of the issuer %.200q, and not of %q as configured (auth.issuers)", got, want)
}

// secureURL reports whether an endpoint of an issuer is a URL of https, or of http where the issuer is.
func secureURL(address, issuer string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Host != "" && (u.Scheme == "https" || u.Scheme == "http" && strings.HasPrefix(issuer, "http:"))
}

// get fetches a document.
func (s source) get(ctx context.Context, address string) ([]byte, http.Header, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, nil, err
	}
	return s.do(r)
}

func (s source) do(r *http.Request) ([]byte, http.Header, error) {
	r.Header.Set("Accept", "application/json")
	resp, err := s.client.Do(r)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument+1))
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("%s: %w", r.URL.Redacted(), err)
	case resp.StatusCode != http.StatusOK:
		var oauth struct { // RFC 6749 §5.2
			Error string `json:"error"`
		}
		_ = json.Unmarshal(body, &oauth)
		return nil, nil, &answerError{r.URL.Redacted(), resp.StatusCode, oauth.Error}
	case len(body) > maxDocument:
		return nil, nil, fmt.Errorf("%s: the answer is over %d bytes", r.URL.Redacted(), maxDocument)
	}
	return body, resp.Header, nil
}

// answerError is a refusal of an issuer, with the code of RFC 6749 §5.2 if it has one.
type answerError struct {
	address string
	status  int
	code    string
}

func (e *answerError) Error() string {
	if e.code == "" {
		return fmt.Sprintf("%s: status %d", e.address, e.status)
	}
	return fmt.Sprintf("%s: status %d, %.80q", e.address, e.status, e.code)
}
