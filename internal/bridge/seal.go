package bridge

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"hash"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/mcp"
)

// parkID names a parked call.
type parkID [16]byte

// sealer writes and reads the states that agents carry:
//
//	weir1-TAG.PAYLOAD.MAC    PAYLOAD: parkID, expiry in Unix seconds
//
// MAC is an HMAC-SHA256 under a key over everything before it, the principal, the profile and the
// request. TAG names the key, which the process has made: a state with another tag belongs to another
// weir further along the way.
//
// In a cluster the key is the cluster's, and a state names the node that has the call:
//
//	weir2.INC-TAG.PAYLOAD.MAC
//
// PAYLOAD then ends with a digest of the question if the state is whole: see IsWhole.
type sealer struct {
	kind   string // solePrefix or clusterPrefix
	length int    // of a state up to PAYLOAD
	nodes  *Nodes
	keys   []stateKey
}

// stateKey is a key of states. The first one of a sealer writes, all of them open.
type stateKey struct {
	tag string // "-TAG."
	key [32]byte
}

// Nodes makes the states of a Rounds known to the other nodes of a cluster.
type Nodes struct {
	Inc func() string // the incarnation of this node: incChars letters and digits, "" for the only node
	// Keys are the cluster's keys, the current one first. States of the others open, so that a new key
	// ends no call that waits.
	Keys [][]byte
	// Once notes the use of an id at one node of the cluster, for longer than a call waits. errUsed says that
	// it was used before; after any other error it may have been noted. It is called concurrently. Nil lets
	// each call end with its node.
	Once func(ctx context.Context, id string) error
}

// NewNodes returns how the states of agents name a node: by its inc, sealed with keys. The uses of approvals are
// in documents that all nodes share.
func NewNodes(inc func() string, keys [][]byte, docs store.Docs) *Nodes {
	return &Nodes{Inc: inc, Keys: keys, Once: func(ctx context.Context, id string) error { return useOnce(ctx, docs, id) }}
}

const (
	solePrefix    = "weir1"
	clusterPrefix = "weir2."
	incChars      = 6
)

// StateNode returns the INC of the node that has the call of a state, or the program that gave it, "" for a
// state that names none.
func StateNode(state string) string {
	if inc := nodeIn(state, clusterPrefix); inc != "" {
		return inc
	}
	return markedNode(state)
}

// nodeIn returns the INC behind a prefix of a state, "" if there is none.
func nodeIn(state, prefix string) string {
	rest, ok := strings.CutPrefix(state, prefix)
	if !ok || len(rest) <= incChars || rest[incChars] != '-' {
		return ""
	}
	return rest[:incChars]
}

const (
	payloadLen = len(parkID{}) + 8
	wholeLen   = payloadLen + len(digest{})
)

// soleNode returns the Nodes of a Rounds that no other process knows.
func soleNode() *Nodes {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	return &Nodes{Inc: func() string { return "" }, Keys: [][]byte{key}}
}

func newSealer(nodes *Nodes) sealer {
	s := sealer{kind: solePrefix, nodes: nodes}
	if nodes.Inc() != "" {
		s.kind = clusterPrefix
	}
	for _, key := range nodes.Keys {
		tag := sha256.Sum256(append([]byte("state tag\x00"), key...))
		s.keys = append(s.keys, stateKey{"-" + hex.EncodeToString(tag[:4]) + ".", sha256.Sum256(append([]byte("state key\x00"), key...))})
	}
	s.length = len(s.begin())
	return s
}

// begin returns the start of a new state.
func (s *sealer) begin() string { return s.kind + s.nodes.Inc() + s.keys[0].tag }

// owns reports whether a state names this process, or a node of its cluster. It may still be forged.
func (s *sealer) owns(state string) bool { return s.keyOf(state) != nil }

// keyOf returns the key that a state names; nil if it is no key of this sealer.
func (s *sealer) keyOf(state string) *stateKey {
	if len(state) < s.length || !strings.HasPrefix(state, s.kind) {
		return nil
	}
	for i := range s.keys {
		if strings.HasSuffix(state[:s.length], s.keys[i].tag) {
			return &s.keys[i]
		}
	}
	return nil
}

// close writes the state of a parked call of r, a whole one if asked is a digest.
func (s *sealer) close(ctx context.Context, id parkID, r *mcp.Request, expires time.Time, asked digest) string {
	payload := binary.BigEndian.AppendUint64(append(make([]byte, 0, wholeLen), id[:]...), uint64(expires.Unix()))
	if asked != (digest{}) {
		payload = append(payload, asked[:]...)
	}
	body := s.begin() + base64.RawURLEncoding.EncodeToString(payload)
	mac, _ := s.mac(ctx, body, r) // the request has been parsed before
	return body + "." + base64.RawURLEncoding.EncodeToString(mac)
}

// open returns the call that a state names, and the digest of a whole state. If the state was changed, has expired, or belongs to
// another request, profile or principal, the error is of mcp.KindInvalidParams.
func (s *sealer) open(ctx context.Context, state string, r *mcp.Request, now time.Time) (id parkID, asked digest, err error) {
	wrong := mcp.Errorf(mcp.KindInvalidParams, "requestState is not for this request: it was changed, or came with another request, at another profile or for another principal; make the call again without it")
	at := strings.LastIndexByte(state, '.')
	if at < s.length {
		return id, asked, wrong
	}
	given, err := base64.RawURLEncoding.DecodeString(state[at+1:])
	mac, ok := s.mac(ctx, state[:at], r)
	if err != nil || !ok || !hmac.Equal(given, mac) {
		return id, asked, wrong
	}
	payload, err := base64.RawURLEncoding.DecodeString(state[s.length:at])
	if err != nil || len(payload) != payloadLen && len(payload) != wholeLen {
		return id, asked, wrong
	}
	copy(id[:], payload)
	copy(asked[:], payload[payloadLen:])
	if expires := int64(binary.BigEndian.Uint64(payload[len(id):payloadLen])); now.Unix() > expires {
		return id, asked, mcp.Errorf(mcp.KindInvalidParams, "requestState has expired: the answers came too late; make the call again without it")
	}
	return id, asked, nil
}

// mac returns the MAC of a state under a request, whose context has its profile. ok is false if the params cannot be read, or no key is the state's.
func (s *sealer) mac(ctx context.Context, body string, r *mcp.Request) (sum []byte, ok bool) {
	k := s.keyOf(body)
	if k == nil {
		return nil, false
	}
	h := hmac.New(sha256.New, k.key[:])
	part(h, []byte(body))
	part(h, []byte(r.Session.Principal()))
	part(h, []byte(identity.RouteOf(ctx).Profile))
	part(h, []byte(r.Method))
	// The MAC omits the members that differ between rounds: the answers, the state and _meta.
	// Arguments may be re-encoded, so it covers their normal form.
	p := r.Fields()
	if p.Unique("name", "uri", "arguments") != nil {
		return nil, false
	}
	for _, raw := range []json.RawMessage{p.Name, p.URI, p.Arguments} {
		if raw == nil {
			part(h, nil)
			continue
		}
		canonical, ok := rawjson.AppendCanonical(nil, raw)
		if !ok {
			canonical = raw
		}
		part(h, canonical)
	}
	return h.Sum(nil), true
}

// part adds a text so that different lists of texts give different sums.
func part(h hash.Hash, text []byte) {
	_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(text)))) // writing to a hash does not fail
	_, _ = h.Write(text)
}
