package guard

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/mcp"
)

// maxScopes bounds the scopes of a challenge.
const maxScopes = 64

// ByName returns an Options.Authenticate for bearer tokens that stand for nothing but a principal.
func ByName(lookup func(bearer string) (principal string, ok bool)) func(*http.Request, string) (*identity.Identity, error) {
	if lookup == nil {
		return nil
	}
	return func(r *http.Request, bearer string) (*identity.Identity, error) {
		if principal, ok := lookup(bearer); ok && bearer != "" && Scheme(r.Header) != DPoP {
			return &identity.Identity{Principal: principal}, nil
		}
		return nil, mcp.Errorf(mcp.KindUnauthorized, "the bearer token is not known here")
	}
}

// InsufficientScope returns an error of mcp.KindInsufficientScope. scopes are all scopes that the
// call needs, not only the missing ones, because a client asks its issuer for exactly these.
func InsufficientScope(scopes []string, format string, args ...any) error {
	err := mcp.Errorf(mcp.KindInsufficientScope, format, args...)
	err.Data, _ = json.Marshal(struct {
		Kind   string   `json:"kind"`
		Scopes []string `json:"scopes"`
	}{mcp.KindInsufficientScope.String(), requestable(scopes)})
	return err
}

// SetChallenge sets the header WWW-Authenticate of the response to a request, if err is of
// mcp.KindInsufficientScope and a Guard with Options.Challenge let the request pass. ctx is the
// request's. It reports whether err is of that kind; the status of the response is 403 then.
func SetChallenge(ctx context.Context, h http.Header, err error) bool {
	if k, ours := mcp.KindOf(err); !ours || k != mcp.KindInsufficientScope {
		return false
	}
	if c, ok := ctx.Value(challengeKey{}).(challenger); ok && c.g.challenge != nil {
		h.Set("WWW-Authenticate", c.g.challengeValue(c.r, err, true))
	}
	return true
}

// proofError is the cause of an error about the proof of a token.
type proofError struct{ code, nonce, algs string }

func (e *proofError) Error() string { return e.code }

// BadProof returns an error of mcp.KindUnauthorized about a DPoP proof, or about a token that needs one. code is the error
// of RFC 9449, "" for invalid_token. nonce is for the next proof, or "". algs are the algorithms that proofs may have.
func BadProof(code, nonce string, algs []string, format string, args ...any) error {
	err := mcp.Errorf(mcp.KindUnauthorized, format, args...)
	err.Err = &proofError{code: code, nonce: nonce, algs: strings.Join(algs, " ")}
	return err
}

type recheckedKey struct{}

// Rechecked reports whether the credentials of a request are checked again, by Identify: what proves that the request is
// no copy was checked with the request.
func Rechecked(ctx context.Context) bool { return ctx.Value(recheckedKey{}) != nil }

type challengeKey struct{}

// challenger makes challenges for one request.
type challenger struct {
	g     *Guard
	r     *http.Request
	check Check // of CheckedBy; nil: none
	lasts bool  // the request may start a stream
	// drains is the result of Streams.seen when the request started.
	drains uint64
}

// Identify returns who made a request, as Wrap finds out. Use it to check again who is at the other
// end of a connection that started with the request. Without Options.Authenticate every caller is
// the local one.
func (g *Guard) Identify(r *http.Request) (*identity.Identity, error) {
	if id := vouched(r.Context()); id != nil {
		return id, nil // the node that vouches checks it again
	}
	if g.authenticate == nil {
		return identity.From(context.Background()), nil
	}
	id, err := g.identify(r.WithContext(context.WithValue(r.Context(), recheckedKey{}, true)))
	if err == nil && g.admit != nil {
		err = g.admit(id)
	}
	if err != nil {
		return nil, err
	}
	return id, nil
}

// identify asks Authenticate if the request shows anything. A browser sends a client certificate by
// itself, so the certificate counts for no page that has not been given the right to call.
func (g *Guard) identify(r *http.Request) (*identity.Identity, error) {
	bearer := bearer(r.Header)
	if bearer == "" && (r.TLS == nil || len(r.TLS.PeerCertificates) == 0 || !g.mayShowCertificate(r)) {
		if g.login != nil && r.Header.Get("Authorization") == "" {
			if id, err := g.login(r); id != nil || err != nil {
				return id, err
			}
		}
		return nil, mcp.Errorf(mcp.KindUnauthorized, "this server needs a bearer token: send the header Authorization: Bearer <token>")
	}
	return g.authenticate(r, bearer)
}

// refuseCaller responds to a request whose caller is unknown or cannot be checked.
func (g *Guard) refuseCaller(w http.ResponseWriter, r *http.Request, err error) {
	k, _ := mcp.KindOf(err)
	status := k.Info().HTTP
	switch k {
	case mcp.KindUnauthorized, mcp.KindInsufficientScope:
		w.Header().Set("WWW-Authenticate", g.challengeValue(r, err, bearer(r.Header) != ""))
		var proof *proofError
		if errors.As(err, &proof) && proof.nonce != "" {
			w.Header().Set("DPoP-Nonce", proof.nonce)
			w.Header().Set("Cache-Control", "no-store")
		}
	case mcp.KindIdentityUnavailable:
		if wait := mcp.RetryAfter(err); wait > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
		}
	}
	g.refuse(w, r, status, err)
}

// challengeValue returns the value of WWW-Authenticate. shown says that the request had a token.
func (g *Guard) challengeValue(r *http.Request, err error, shown bool) string {
	var parts []string
	var metadata string
	var scopes []string
	if g.challenge != nil {
		metadata, scopes = g.challenge(r)
	}
	if metadata == "" {
		parts = append(parts, `realm="`+strings.Map(quotable, g.realm)+`"`)
	} else {
		parts = append(parts, `resource_metadata="`+strings.Map(quotable, metadata)+`"`)
	}
	code := ""
	switch k, _ := mcp.KindOf(err); {
	case k == mcp.KindInsufficientScope:
		code = "insufficient_scope"
		scopes = scopesOf(err)
	case shown:
		code = "invalid_token"
	}
	scheme := "Bearer "
	var proof *proofError
	if errors.As(err, &proof) || shown && Scheme(r.Header) == DPoP {
		scheme = "DPoP "
		if proof != nil && proof.algs != "" {
			parts = append(parts, `algs="`+proof.algs+`"`)
		}
		if proof != nil && proof.code != "" {
			code = proof.code
		}
	}
	if scopes = requestable(scopes); len(scopes) > 0 {
		parts = append(parts, `scope="`+strings.Map(quotable, strings.Join(scopes, " "))+`"`)
	}
	if code != "" {
		parts = append(parts, `error="`+code+`"`)
	}
	return scheme + strings.Join(parts, ", ")
}

// scopesOf returns the scopes of an error of InsufficientScope.
func scopesOf(err error) []string {
	var data struct {
		Scopes []string `json:"scopes"`
	}
	var e *mcp.Error
	if errors.As(err, &e) {
		_ = json.Unmarshal(e.Data, &data) // another form has no scopes
	}
	return data.Scopes
}

// requestable returns the scopes that a client may ask for, sorted. offline_access is left out: a
// client decides by itself whether it wants a refresh token.
func requestable(scopes []string) []string {
	out := slices.DeleteFunc(slices.Clone(scopes), func(s string) bool { return s == "" || s == "offline_access" || strings.ContainsAny(s, " \t") })
	slices.Sort(out)
	out = slices.Compact(out)
	return out[:min(len(out), maxScopes)]
}

func quotable(c rune) rune {
	if c < 0x20 || c > 0x7e || c == '"' || c == '\\' {
		return -1
	}
	return c
}
