package office

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/access"
	"github.com/weir-mcp/weir/internal/access/callers"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/smcp"
	"github.com/weir-mcp/weir/smcp/hub"
)

// issuedRenewal is the longest time after which a token of a connected peer is checked again: then a
// key that was withdrawn, or a token that was revoked, ends the connection (spec/offices §2).
const issuedRenewal = 5 * time.Minute

// issuedPeers admits peers of a hub by tokens of auth.issuers. It has the keys of issuers for itself,
// because a hub may run without a gateway. The caller closes it.
type issuedPeers struct {
	callers *access.Authenticator
	entries atomic.Pointer[[]config.HubIssuer]
}

// newIssuedPeers returns an issuedPeers that admits none before apply.
func newIssuedPeers(log *slog.Logger) *issuedPeers {
	p := &issuedPeers{callers: access.New(access.Options{Logger: log})}
	p.entries.Store(&[]config.HubIssuer{})
	return p
}

// apply follows a configuration. Without hub.issuers it knows no issuer, and asks none.
func (p *issuedPeers) apply(c *config.Config) {
	policy := access.Policy{}
	if len(c.Hub.Issuers) > 0 {
		policy = callers.Policy(c, nil)
		policy.Tokens, policy.Login, policy.Certificates = nil, nil, false
	}
	p.entries.Store(&c.Hub.Issuers)
	p.callers.Apply(policy)
}

// close ends requests to issuers.
func (p *issuedPeers) close() {
	if p != nil {
		p.callers.Close()
	}
}

// hubRules is the hub.Authenticator of a configuration: the static rules first, then the issuers.
type hubRules struct {
	hub.Static
	issued *issuedPeers
}

// Authenticate implements hub.Authenticator. A key without a token is a claim to be proven, so a token
// of an issuer comes before it.
func (a hubRules) Authenticate(ctx context.Context, c hub.Credentials) (hub.Grant, error) {
	grant, err := a.Static.Authenticate(ctx, c)
	if err == nil && !grant.NeedsProof {
		return grant, nil
	}
	issued, found, failed := a.issued.authenticate(ctx, c)
	switch {
	case found:
		return issued, nil
	case failed != nil && err != nil:
		return hub.Grant{}, failed
	}
	return grant, err
}

// authenticate looks for a token of an issuer. err is nil if the peer showed none that may be one. If
// it shows several, an issuer that cannot be asked decides about err: its token may be good.
func (p *issuedPeers) authenticate(ctx context.Context, c hub.Credentials) (grant hub.Grant, found bool, err error) {
	entries := *p.entries.Load()
	if len(entries) == 0 {
		return hub.Grant{}, false, nil
	}
	// Peers connect at /socket.io/ or /smcp/, which have the resource of the whole gateway.
	r := (&http.Request{Method: http.MethodGet, URL: &url.URL{Path: "/smcp/"}, Header: c.Header, RemoteAddr: c.RemoteAddr, TLS: c.TLS}).WithContext(ctx)
	for _, token := range c.Tokens() {
		if strings.ContainsRune(token, ' ') {
			continue // an Authorization header of another scheme, which is for a proxy
		}
		id, failed := p.callers.Authenticate(r, token)
		if failed == nil {
			if grant, err := grantOf(entries, id, time.Now()); err == nil {
				return grant, true, nil
			}
			failed = mcp.Errorf(mcp.KindPermissionDenied, "no entry of hub.issuers fits %q; the operator adds its group or its name there", id.Principal)
		}
		if k, _ := mcp.KindOf(err); k != mcp.KindIdentityUnavailable {
			err = failed
		}
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", hub.ErrRefused, err)
	}
	return hub.Grant{}, false, err
}

// grantOf returns what the first entry that fits an identity allows.
func grantOf(entries []config.HubIssuer, id *identity.Identity, now time.Time) (grant hub.Grant, err error) {
	i := slices.IndexFunc(entries, func(e config.HubIssuer) bool { return fits(e, id) })
	if i < 0 {
		return hub.Grant{}, hub.ErrRefused
	}
	until := now.Add(issuedRenewal)
	if end := id.Expires; !end.IsZero() && end.Before(until) {
		until = end
	}
	return hub.Grant{Principal: id.Principal, Role: smcp.Role(entries[i].Role), Offices: entries[i].Offices, Until: until, Expires: id.Expires}, nil
}

func fits(e config.HubIssuer, id *identity.Identity) bool {
	if e.Issuer != id.Issuer {
		return false
	}
	return len(e.Principals) == 0 && len(e.Groups) == 0 || slices.Contains(e.Principals, id.Principal) || slices.ContainsFunc(e.Groups, id.InGroup)
}
