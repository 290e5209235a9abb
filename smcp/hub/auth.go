package hub

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/net/address"
	"github.com/weir-mcp/weir/internal/office/a2c"
	"github.com/weir-mcp/weir/smcp"
	"github.com/weir-mcp/weir/socketio/engineio"
)

// Credentials are the credentials that a peer sends when it connects.
type Credentials struct {
	Header     http.Header
	Auth       json.RawMessage // of the Socket.IO CONNECT
	RemoteAddr string
	TLS        *tls.ConnectionState // nil without TLS
}

// Tokens returns the bearer secrets: the x-api-key header, the Authorization header, and token and
// Authorization of the CONNECT auth. There may be several, because an Authorization header may be
// meant for a proxy.
func (c Credentials) Tokens() []string {
	var out []string
	for _, t := range []string{
		c.Header.Get("X-Api-Key"), bearer(c.Header.Get("Authorization")),
		rawjson.Text(rawjson.Get(c.Auth, "token")), bearer(rawjson.Text(rawjson.Get(c.Auth, "Authorization"))), bearer(rawjson.Text(rawjson.Get(c.Auth, "authorization"))),
	} {
		if t != "" && !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	return out
}

// bearer removes the scheme, if any, from an Authorization value.
func bearer(value string) string {
	scheme, token, ok := strings.Cut(value, " ")
	if ok && strings.EqualFold(scheme, "bearer") {
		return strings.TrimSpace(token)
	}
	return value
}

// Loopback reports whether the peer runs on this machine. It is false for peers behind a proxy on
// this machine.
func (c Credentials) Loopback() bool {
	ip, ok := address.Source(c.Header, c.RemoteAddr)
	return ok && ip.IsLoopback()
}

// Grant has the rights of a connected peer.
type Grant struct {
	// Principal is the owner of the credentials, for the log.
	Principal string
	// Role is the only role the peer may take; "" for either.
	Role smcp.Role
	// Offices are patterns of the offices that the peer may join, as in path.Match; nil allows all.
	Offices []string
	// NeedsProof means that the peer must first join with the proof of a key.
	NeedsProof bool
	// Until is when the hub asks the Authenticator about the peer again, with the credentials that
	// the peer sent when it connected. A refusal then ends the connection. The zero Until asks only
	// after SetAccess.
	Until time.Time
	// Expires is the end of the credentials; zero for none. Past it, an Authenticator that cannot
	// decide ends the connection as well.
	Expires time.Time
}

// Allows reports whether the grant covers a role in an office.
func (g Grant) Allows(role smcp.Role, office string) bool {
	return (g.Role == "" || g.Role == role) && officeIn(g.Offices, office)
}

func officeIn(patterns []string, office string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, office)
		return err == nil && ok
	})
}

// Authenticator decides who may connect. It is called concurrently and must not retain the
// credentials. An error of mcp.KindIdentityUnavailable is answered with 503, so that the peer tries
// again, and one of
// mcp.KindPermissionDenied or mcp.KindInsufficientScope with 403; all others are answered with 401.
type Authenticator interface {
	Authenticate(ctx context.Context, c Credentials) (Grant, error)
}

// ErrRefused is returned by an Authenticator that rejects the credentials.
var ErrRefused = errors.New("the credentials are missing or unknown")

// Token is one static secret of a hub. Only its hash is stored.
type Token struct {
	Name    string
	SHA256  string // hexadecimal
	Role    smcp.Role
	Offices []string
}

// Device binds the name of a Computer to a key: only the holder of the key may join under the name.
type Device struct {
	Name    string
	Key     ed25519.PublicKey
	Offices []string // as in Grant
}

// Static is an Authenticator with fixed tokens. Without tokens it admits all peers on this machine,
// and from elsewhere only Computers with a known key.
type Static struct {
	Tokens  []Token
	Devices []Device
	// Local authenticates peers on this machine when there are no Tokens. It returns the rights of the
	// peer; a rejected peer needs a known key. Local is called concurrently with the tokens that the
	// peer sent. A nil Local admits all.
	Local func(tokens []string) (Grant, error)
}

var _ Authenticator = Static{}

// Authenticate implements Authenticator.
func (s Static) Authenticate(_ context.Context, c Credentials) (Grant, error) {
	tokens := c.Tokens()
	for _, token := range tokens {
		if t := s.lookup(token); t != nil {
			return Grant{Principal: t.Name, Role: t.Role, Offices: t.Offices}, nil
		}
	}
	refused := ErrRefused
	if len(s.Tokens) == 0 && c.Loopback() {
		if s.Local == nil {
			return Grant{Principal: "local"}, nil
		}
		grant, err := s.Local(tokens)
		if err == nil {
			return grant, nil
		}
		refused = err
	}
	key := rawjson.Text(rawjson.Get(c.Auth, "key"))
	if key != "" && slices.ContainsFunc(s.Devices, func(d Device) bool { return smcp.EncodeKey(d.Key) == key }) {
		return Grant{Principal: "key", Role: smcp.RoleComputer, NeedsProof: true}, nil
	}
	return Grant{}, refused
}

// lookup compares all hashes, so that its duration reveals nothing.
func (s Static) lookup(token string) *Token {
	sum := sha256.Sum256([]byte(token))
	var found *Token
	for i := range s.Tokens {
		want, err := hex.DecodeString(s.Tokens[i].SHA256)
		if err == nil && subtle.ConstantTimeCompare(sum[:], want) == 1 {
			found = &s.Tokens[i]
		}
	}
	return found
}

// device returns the binding of a Computer's name, or nil.
func device(devices []Device, name string) *Device {
	i := slices.IndexFunc(devices, func(d Device) bool { return d.Name == name })
	if i < 0 {
		return nil
	}
	return &devices[i]
}

// handshake has the facts that the hub learned of a connection before its CONNECT.
type handshake struct {
	version a2c.Version
	said    string // the version text of the peer; "" for none
	trusted bool   // an in-process peer, see Hub.Attach
	known   bool   // the request's own headers were accepted
}

// Trusts reports whether the sender of a request may see who is connected. It is true if the hub
// would admit the sender in any role and office, with the credentials and the address of the request.
func (h *Hub) Trusts(r *http.Request) bool {
	h.mu.Lock()
	auth := h.access.auth
	h.mu.Unlock()
	grant, err := auth.Authenticate(r.Context(), Credentials{Header: r.Header, RemoteAddr: r.RemoteAddr, TLS: r.TLS})
	return err == nil && grant.Role == "" && len(grant.Offices) == 0 && !grant.NeedsProof
}

// checkHandshake implements engineio's Authenticate. It checks the version and the credentials in
// headers before anything of Socket.IO is read.
func (h *Hub) checkHandshake(r *http.Request) (any, *engineio.Refusal) {
	if refusal := (fabric{h}).ending(); refusal != nil {
		return nil, refusal
	}
	v, refusal := a2c.CheckVersion(r.URL.Query(), h.o.StrictVersion)
	if refusal != nil {
		h.log.Debug("a handshake was refused for its version", "remote", r.RemoteAddr, "version", v.String())
		return nil, &engineio.Refusal{Status: refusal.Status, Header: refusal.Header, Body: refusal.Body}
	}
	shake := handshake{version: v, said: r.URL.Query().Get(a2c.QueryVersion)}
	if len(shake.said) > maxVersionBytes {
		shake.said = v.String()
	}
	var stranger *engineio.Refusal
	shake.known, stranger = h.checkHeader(r)
	return shake, stranger
}
