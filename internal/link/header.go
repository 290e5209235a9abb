package link

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/bounded"
)

// Headers of requests between nodes. Requests of the public lose them.
const (
	headerAs   = "Weir-As"   // who makes the request: the entry node has found it out
	headerFrom = "Weir-From" // INC of the entry node
	headerTo   = "Weir-To"   // INC of the node that the request is for
	headerHops = "Weir-Hops" // how many nodes have passed the request on
	headerAddr = "Weir-Addr" // the address of the client at the entry node, "" for a request of that node itself
	// HeaderOwner, in a response of status 421, has the INC of the owner, "" if the thing has none.
	HeaderOwner = "Weir-Owner"
	// headerUnreached, in a response of status 502, says that a third node could not reach the owner either:
	// "unsent", or "unknown" if the owner may have got the request.
	headerUnreached = "Weir-Unreached"
)

// Headers is how many headers a request gets on its way to another node.
const Headers = 5

// keyHeaders are headers of clients that [http.Transport] takes for leave to send a request again when its
// connection breaks off, even if the other node has got it. They have another name between nodes: only
// this package knows which requests may run twice.
var keyHeaders = []string{"Idempotency-Key", "X-Idempotency-Key"}

// prefixKey is in front of the names of keyHeaders between nodes.
const prefixKey = "Weir-"

// Values of headerUnreached.
const (
	unreachedUnsent  = "unsent"
	unreachedUnknown = "unknown"
)

// maxHops bounds how often a request is passed on: to its owner, or through a third node.
const maxHops = 2

// rename moves the values of a header to another name.
func rename(h http.Header, from, to string) {
	if values, ok := h[from]; ok {
		delete(h, from)
		h[to] = values
	}
}

// first returns the first value of a header, whose name is in the form that [http.Header] has.
func first(h http.Header, name string) string {
	if values := h[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

func hops(h http.Header) int {
	said := first(h, headerHops)
	if said == "" {
		return 0
	}
	count, err := strconv.Atoi(said)
	if err != nil || count < 0 {
		return 0
	}
	return count
}

// address sets the headers of a request of one node for another.
func address(from, to string, r *http.Request) {
	h := r.Header
	values := []string{to, strconv.Itoa(hops(h) + 1), "", ""}
	h[headerTo], h[headerHops] = values[0:1:1], values[1:2:2]
	if first(h, headerFrom) == "" {
		values[2], values[3] = from, r.RemoteAddr
		h[headerFrom], h[headerAddr] = values[2:3:3], values[3:4:4]
	}
	for _, name := range keyHeaders {
		rename(h, name, prefixKey+name)
	}
}

// Strip removes the headers of requests between nodes from a request of the public.
func Strip(h http.Header) {
	for _, name := range []string{headerAs, headerFrom, headerTo, headerHops, headerAddr, HeaderOwner, headerUnreached} {
		delete(h, name)
	}
	for _, name := range keyHeaders {
		delete(h, prefixKey+name)
	}
}

// DropHop deletes the headers of a request that belong only to its connection, with the headers
// that its Connection header names (RFC 9110 §7.6.1). Headers of MCP stay.
func DropHop(h http.Header) {
	for _, v := range h["Connection"] {
		for name := range strings.SplitSeq(v, ",") {
			if name = http.CanonicalHeaderKey(strings.TrimSpace(name)); !strings.HasPrefix(name, "Mcp-") {
				delete(h, name)
			}
		}
	}
	for _, name := range []string{"Connection", "Keep-Alive", "Proxy-Connection", "Transfer-Encoding", "Te", "Upgrade", "Expect"} {
		delete(h, name)
	}
}

// caller is what headerAs says.
type caller struct {
	identity.Identity
	HasBearer bool // the token is in Authorization
}

// SetCaller tells the other node who makes a request. The credential is not told: it stands in the
// header Authorization of the same request.
func SetCaller(h http.Header, id *identity.Identity) { h[headerAs] = []string{asHeader(id)} }

// asHeader returns the value of headerAs for an identity.
func asHeader(id *identity.Identity) string {
	if value, ok := asPrincipal(id); ok {
		return value
	}
	c := caller{*id, id.Bearer != ""}
	c.Bearer = ""
	raw, err := json.Marshal(c)
	if err != nil {
		raw, _ = json.Marshal(caller{Identity: identity.Identity{Principal: id.Principal}}) // claims that are no JSON
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

// asPrincipal returns the value of headerAs for an identity of which there is no more than a name, as the guard makes
// them for static tokens. It is the JSON of caller without its empty members.
func asPrincipal(id *identity.Identity) (value string, ok bool) {
	plain := id.Issuer == "" && id.Client == "" && len(id.Groups)+len(id.Roles)+len(id.Scopes)+len(id.Needed)+len(id.RolesMissing) == 0 &&
		id.Claims == nil && !id.GroupsMissing && id.Expires.IsZero() && !id.Revocable
	if !plain {
		return "", false
	}
	raw := append(make([]byte, 0, 128), `{"Principal":`...)
	raw = rawjson.AppendString(raw, id.Principal)
	if id.Bearer != "" {
		raw = append(raw, `,"HasBearer":true`...)
	}
	return base64.RawURLEncoding.EncodeToString(append(raw, '}')), true
}

// Bounds of the values of headerAs that a node remembers, so that it does not decode one for each request.
const (
	maxCallers     = 1024
	maxCallerBytes = 1 << 20
)

// callers are the decoded values of headerAs.
type callers struct {
	known *bounded.Map[string, *caller]
}

func newCallers() callers {
	return callers{bounded.New(bounded.Options[string, *caller]{MaxCount: maxCallers, MaxBytes: maxCallerBytes, KeepUsed: true})}
}

// read returns the identity of a request of another node. It must not be changed.
func (k callers) read(h http.Header) (*identity.Identity, bool) {
	value := first(h, headerAs)
	if value == "" {
		return nil, false
	}
	c, known := k.known.Get(value)
	if !known {
		raw, err := base64.RawURLEncoding.DecodeString(value)
		c = &caller{}
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber() // as the guard decodes claims: a number of 17 digits stays what it is
		if err != nil || d.Decode(c) != nil || c.Principal == "" {
			return nil, false
		}
		c.Bearer = ""
		k.known.Put(value, c, int64(2*len(value)))
	}
	if scheme, token, ok := strings.Cut(h.Get("Authorization"), " "); c.HasBearer && ok && strings.EqualFold(scheme, "bearer") {
		shown := c.Identity
		shown.Bearer = identity.Secret(strings.TrimSpace(token))
		return &shown, true
	}
	return &c.Identity, true
}

// Caller returns who makes a request that came from another node, and the INC of the entry node. ok is false
// for requests of the public.
func Caller(ctx context.Context) (id *identity.Identity, from string, ok bool) {
	c, ok := ctx.Value(callerKey{}).(carried)
	return c.id, c.from, ok
}

// Misdirected reports whether a request came from another node and is for another incarnation of this one.
func Misdirected(ctx context.Context) bool {
	c, _ := ctx.Value(callerKey{}).(carried)
	return c.misdirected
}

type callerKey struct{}

type carried struct {
	id          *identity.Identity
	from        string
	misdirected bool // it is for another incarnation
}
