package dpop

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/access/jwk"
	"github.com/weir-mcp/weir/internal/identity"
)

const typ = "dpop+jwt"

// Bounds of proofs.
const (
	// window is how far the iat of a proof may be from now, and how old a nonce may be.
	window = 5 * time.Minute
	// ahead is how far in the future a moment may be: the clocks of clients and of nodes differ.
	ahead = 10 * time.Second
	// kept is how long a proof may be accepted after it was seen.
	kept     = window + ahead
	maxProof = 8 << 10
	maxJTI   = 256
)

// Algorithms returns the algorithms that a proof may be signed with, sorted.
func Algorithms() []string { return slices.Sorted(maps.Keys(jwk.Algorithms)) }

// Options configures a Verifier.
type Options struct {
	// Secret makes nonces, 32 bytes. All processes of a gateway have the same one. A random one where empty.
	Secret []byte
	// Once notes that a proof was used, and reports whether it is the first time in all processes of a gateway, for at
	// least ttl. Nil remembers the proofs of this process.
	Once func(ctx context.Context, proof string, ttl time.Duration) (first bool, err error)
	// Now is the clock; time.Now where nil.
	Now func() time.Time
}

// Verifier checks proofs. It is safe for concurrent use.
type Verifier struct {
	o    Options
	seen *seen // nil with Options.Once
}

// NewVerifier returns a Verifier.
func NewVerifier(o Options) *Verifier {
	if o.Now == nil {
		o.Now = time.Now
	}
	if len(o.Secret) == 0 {
		o.Secret = make([]byte, 32)
		_, _ = rand.Read(o.Secret) // it does not fail
	}
	v := &Verifier{o: o}
	if o.Once == nil {
		v.seen = newSeen(o.Now())
	}
	return v
}

// Expect is what a proof has to prove.
type Expect struct {
	Method string
	URL    string // of the request as its client writes it; the query does not count
	// Token is the access token of the request, "" at a token endpoint.
	Token identity.Secret
	// Thumbprint is of the key that the token is bound to; "" takes any key.
	Thumbprint string
	// Nonce says that the proof has to carry a nonce.
	Nonce bool
}

// Codes of refusals (RFC 9449 §7.1 and §9).
const (
	badProof = "invalid_dpop_proof"
	UseNonce = "use_dpop_nonce"
)

// Refusal is the error for a proof that is not accepted.
type Refusal struct {
	Code   string // invalid_dpop_proof or UseNonce
	Nonce  string // for the next proof; "" where it would not help
	Reason string
}

// Error implements error.
func (r *Refusal) Error() string { return r.Reason }

func bad(format string, args ...any) error {
	return &Refusal{Code: badProof, Reason: fmt.Sprintf(format, args...)}
}

// errUnavailable says that it cannot be found out whether a proof was used before.
var errUnavailable = errors.New("it cannot be checked now whether the proof was used before")

// Check checks the proof of a request (RFC 9449 §4.3), and returns the thumbprint of its key. A proof is accepted once.
// Any other error than a *Refusal says
// that it cannot be found out now whether the proof was used.
func (v *Verifier) Check(ctx context.Context, h http.Header, want Expect) (thumbprint string, err error) {
	texts := h.Values(Header)
	switch {
	case len(texts) == 0 || texts[0] == "":
		return "", bad("the request has no proof: send the header DPoP with each request")
	case len(texts) > 1:
		return "", bad("the request has %d headers DPoP; send one", len(texts))
	}
	key, claims, err := parse(texts[0])
	if err != nil {
		return "", bad("the DPoP proof is not accepted: %v", err)
	}
	thumbprint = key.Thumbprint()
	text := func(name string) string { s, _ := claims[name].(string); return s }
	jti := text("jti")
	switch {
	case jti == "" || len(jti) > maxJTI:
		return "", bad("the DPoP proof is not accepted: its jti is not a text of 1 to %d bytes", maxJTI)
	case text("htm") != want.Method:
		return "", bad("the DPoP proof is not accepted: its htm is not %s, the method of this request", want.Method)
	case !sameAddress(text("htu"), want.URL):
		return "", bad("the DPoP proof is not accepted: its htu is not %.300s, the URL of this request", want.URL)
	case want.Token != "" && subtle.ConstantTimeCompare([]byte(text("ath")), []byte(hashOf(want.Token))) != 1:
		return "", bad("the DPoP proof is not accepted: its ath is not the hash of the access token")
	case want.Thumbprint != "" && subtle.ConstantTimeCompare([]byte(thumbprint), []byte(want.Thumbprint)) != 1:
		return "", bad("the access token is bound to another key than the DPoP proof was signed with")
	}
	now := v.o.Now()
	m, err := v.moment(claims, want.Nonce, now)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(thumbprint + "\x00" + jti))
	first, err := v.once(ctx, sum, m, now)
	switch {
	case err != nil:
		return "", err
	case !first:
		return "", bad("the DPoP proof was used before: make one for each request (jti)")
	}
	return thumbprint, nil
}

// parse reads a proof and verifies its signature with the key in its header.
func parse(text string) (key jwk.Key, claims map[string]any, err error) {
	head, rest, _ := strings.Cut(text, ".")
	body, tail, ok := strings.Cut(rest, ".")
	if !ok || len(text) > maxProof || strings.Contains(tail, ".") {
		return key, nil, fmt.Errorf("it is not one JWT of at most %d bytes", maxProof)
	}
	header, err := jwk.DecodePart(head)
	if err != nil {
		return key, nil, errors.New("its header is not JSON")
	}
	for _, name := range []string{"jku", "x5u", "crit"} {
		if _, there := header[name]; there {
			return key, nil, errors.New("its header has " + name + ", which is not accepted")
		}
	}
	alg, _ := header["alg"].(string)
	public, _ := header["jwk"].(map[string]any)
	switch {
	case header["typ"] != typ:
		return key, nil, errors.New("its typ is not dpop+jwt")
	case jwk.Algorithms[alg] == nil:
		return key, nil, errors.New("its alg is none of RS, PS, ES and EdDSA")
	case public == nil:
		return key, nil, errors.New("its header has no jwk")
	}
	for _, private := range []string{"d", "p", "q", "dp", "dq", "qi", "oth", "k"} {
		if _, there := public[private]; there {
			return key, nil, errors.New("its jwk has a private key: that key is not secret any more")
		}
	}
	if key, ok = jwk.Of(public); !ok {
		return key, nil, errors.New("its jwk is not a usable public key")
	}
	signature, err := jwk.Base64.DecodeString(tail)
	if err != nil || !key.Verify(alg, text[:len(head)+1+len(body)], signature) {
		return key, nil, errors.New("its jwk did not make its signature")
	}
	if claims, err = jwk.DecodePart(body); err != nil {
		return key, nil, errors.New("its claims are not JSON")
	}
	return key, claims, nil
}

// sameAddress reports whether an htu is the URL of a request: both without query and fragment (RFC 9449 §4.3), the host
// in any case, with or without the port of its scheme.
func sameAddress(htu, want string) bool {
	a, err := url.Parse(htu)
	b, werr := url.Parse(want)
	if err != nil || werr != nil || a.User != nil || a.RawQuery != "" || a.ForceQuery || a.Fragment != "" || a.Opaque != "" {
		return false
	}
	path := func(u *url.URL) string {
		if u.Path == "" {
			return "/"
		}
		return u.EscapedPath()
	}
	host := func(u *url.URL) string {
		name := strings.ToLower(u.Host)
		if u.Scheme == "https" {
			return strings.TrimSuffix(name, ":443")
		}
		return strings.TrimSuffix(name, ":80")
	}
	return strings.EqualFold(a.Scheme, b.Scheme) && host(a) == host(b) && path(a) == path(b)
}

// moment returns when a proof was made: the time of its nonce, else its iat.
func (v *Verifier) moment(claims map[string]any, nonce bool, now time.Time) (moment, error) {
	if raw, there := claims["nonce"]; there {
		text, _ := raw.(string)
		at, ok := v.nonceTime(text)
		if !ok || now.Sub(at) > window || at.Sub(now) > ahead {
			return moment{}, v.useNonce("the nonce of the DPoP proof is not a current one of this server: use the one of this answer", now)
		}
		return moment{at: at}, nil
	}
	if nonce {
		return moment{}, v.useNonce("the DPoP proof has no nonce: use the one of this answer", now)
	}
	number, _ := claims["iat"].(json.Number)
	seconds, err := number.Float64()
	if err != nil || seconds < 0 || seconds > math.MaxInt32*100 {
		return moment{}, bad("the DPoP proof is not accepted: its iat is not a time")
	}
	at := time.Unix(int64(seconds), 0)
	switch off := at.Sub(now).Abs(); {
	case off > window:
		return moment{}, &Refusal{Code: badProof, Nonce: v.nonce(now), Reason: "the DPoP proof is not accepted: its iat is more than 5 minutes from now; set the clock, or use the nonce of this answer"}
	case at.After(now.Add(ahead)):
		return moment{}, v.useNonce("the DPoP proof is from the future: use the nonce of this answer", now)
	}
	return moment{at: at, said: true}, nil
}

func (v *Verifier) useNonce(reason string, now time.Time) error {
	return &Refusal{Code: UseNonce, Nonce: v.nonce(now), Reason: reason}
}

// once reports whether a proof is used for the first time.
func (v *Verifier) once(ctx context.Context, proof [sha256.Size]byte, m moment, now time.Time) (bool, error) {
	if v.seen != nil {
		first, known := v.seen.add([16]byte(proof[:16]), m, now)
		if !known {
			return false, v.useNonce("the DPoP proof is from before this server remembers which ones were used: use the nonce of this answer", now)
		}
		return first, nil
	}
	first, err := v.o.Once(ctx, base64.RawURLEncoding.EncodeToString(proof[:]), kept)
	if err != nil {
		return false, fmt.Errorf("%w: %w", errUnavailable, err)
	}
	return first, nil
}

// A nonce is its time in milliseconds, and the start of a MAC of it: nothing is stored for it.
const (
	nonceTime = 8
	nonceMAC  = 16
)

func (v *Verifier) nonce(now time.Time) string {
	raw := binary.BigEndian.AppendUint64(make([]byte, 0, nonceTime+nonceMAC), uint64(now.UnixMilli()))
	return base64.RawURLEncoding.EncodeToString(append(raw, v.mac(raw)...))
}

func (v *Verifier) mac(raw []byte) []byte {
	h := hmac.New(sha256.New, v.o.Secret)
	h.Write(raw)
	return h.Sum(nil)[:nonceMAC]
}

// nonceTime returns when a nonce was made; ok is false for a text that is none of v's.
func (v *Verifier) nonceTime(nonce string) (at time.Time, ok bool) {
	raw, err := jwk.Base64.DecodeString(nonce)
	if err != nil || len(raw) != nonceTime+nonceMAC || !hmac.Equal(v.mac(raw[:nonceTime]), raw[nonceTime:]) {
		return at, false
	}
	return time.UnixMilli(int64(binary.BigEndian.Uint64(raw))), true
}
