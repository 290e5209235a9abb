package bridge

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/mcp"
)

// A state is whole if any node of the cluster can go on with its call: weir has asked a person whether the call
// may run, and the call has done nothing before that question. The repeated request brings the arguments again,
// and the state has the digest of the question:
//
//	asking node ──▶ state: id, expiry, digest of the question and of the params ──▶ agent
//	agent ──▶ its node lives:  forwarded ──▶ Nodes.Once(id) ──▶ resumed
//	      └─▶ its node is gone: any node ──▶ Nodes.Once(id) ──▶ the call from its beginning
//
// The other node checks and judges the call again. The approval counts there only for a question
// with the same digest; for any other one the person is asked again.

// errUsed is the error of Nodes.Once for an id that was used before.
var errUsed = errors.New("used before")

// approvalFirst is the key of an approval that is the first question of its call.
const approvalFirst = "approve-1"

// digest is of an approval's question and of the params that its call runs with; the zero value is none.
type digest [sha256.Size]byte

// IsWhole reports whether a state says that any node can go on with its call. It may be forged.
func IsWhole(state string) bool {
	if nodeIn(state, clusterPrefix) == "" {
		return false
	}
	parts := strings.Split(state[len(clusterPrefix):], ".")
	return len(parts) == 3 && len(parts[1]) == base64.RawURLEncoding.EncodedLen(wholeLen)
}

// yes is a person's answer that came to a node without the call.
type yes struct {
	of     digest
	answer json.RawMessage
}

// once makes sure that the answers of a whole state are used at only one node.
func (x *Rounds) once(ctx context.Context, id parkID) error {
	ctx, cancel := context.WithTimeout(ctx, onceTime)
	defer cancel()
	err := x.o.Nodes.Once(ctx, base64.RawURLEncoding.EncodeToString(id[:]))
	switch {
	case errors.Is(err, errUsed):
		return x.unawaited()
	case err != nil:
		return mcp.Errorf(mcp.KindStoreUnavailable, "the store of this gateway cannot be asked whether these answers were used before, so the call has not run; send the answers again, or make the call again without requestState: %w", err)
	}
	return nil
}

// onceTime bounds the wait for the store.
const onceTime = 5 * time.Second

// goesOn runs the call of a whole state from its beginning, for r, which repeats its request with the answers.
func (x *Rounds) goesOn(ctx context.Context, r *mcp.Request, next mcp.Handler, y yes) (json.RawMessage, error) {
	meta, err := r.Fields().Meta()
	if err != nil {
		return nil, err
	}
	q := *r
	if q.Params, err = withoutAnswers(r.Params); err != nil {
		return nil, mcp.Errorf(mcp.KindInvalidParams, "params: %v", err)
	}
	return x.begin(ctx, &q, next, meta.ClientCapabilities, meta.ProgressToken, y)
}

// withoutAnswers returns params without the members of a round.
func withoutAnswers(params json.RawMessage) (json.RawMessage, error) {
	out, err := rawjson.Delete(params, "inputResponses")
	if err != nil {
		return nil, err
	}
	return rawjson.Delete(out, "requestState")
}

// whole returns the digest for the state of the call, none if other nodes cannot go on with it. A call that brings
// answers to a server is none of theirs: its repeated request has not these answers any more.
func (h *parkedCall) whole() digest {
	n := h.rounds.o.Nodes
	if n.Once == nil || rawjson.Get(h.params, "requestState") != nil || rawjson.Get(h.params, "inputResponses") != nil {
		return digest{}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	q := h.questions[approvalFirst]
	if h.next != 1 || q == nil || q.about == Begun {
		return digest{}
	}
	return digestOf(q.params, q.about, h.params)
}

// approved returns the answer that another node's question has got, if it is the answer to the question in
// params, about the same. It counts once.
func (h *parkedCall) approved(params json.RawMessage, about string) (json.RawMessage, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	y := h.yes
	h.yes = yes{}
	if y.answer == nil || y.of != digestOf(params, about, h.params) {
		return nil, false
	}
	h.next++
	return y.answer, true
}

// digestOf returns the digest of a question about a call with params, none if the params cannot be read.
func digestOf(question json.RawMessage, about string, params json.RawMessage) (d digest) {
	// Members that may differ in each request of a call are left out: the person does not see them
	// either.
	var members, meta []byte
	ok := true
	err := rawjson.EachMember(params, func(m rawjson.Member) bool {
		switch key := string(m.Key); key {
		case "inputResponses", "requestState":
		case "_meta":
			ok = rawjson.EachMember(m.Value, func(m rawjson.Member) bool {
				if !ofRequest(string(m.Key)) {
					meta = appendMember(meta, m)
				}
				return true
			}) == nil
		default:
			members = appendMember(members, m)
		}
		return ok
	})
	if err != nil || !ok {
		return d
	}
	h := sha256.New()
	part(h, question)
	part(h, []byte(about))
	for _, list := range [][]byte{members, meta} {
		canonical, ok := rawjson.AppendCanonical(nil, append(append([]byte{'{'}, bytes.TrimPrefix(list, []byte(","))...), '}'))
		if !ok {
			return d
		}
		part(h, canonical)
	}
	copy(d[:], h.Sum(nil))
	return d
}

func appendMember(list []byte, m rawjson.Member) []byte {
	list = append(rawjson.AppendString(append(list, ','), string(m.Key)), ':')
	return append(list, m.Value...)
}

// ofRequest reports whether a key of _meta belongs to one request, not to its call.
func ofRequest(key string) bool {
	switch key {
	case "progressToken", "traceparent", "tracestate", "baggage":
		return true
	}
	return strings.HasPrefix(key, "io.modelcontextprotocol/") || strings.HasPrefix(key, "weir/")
}
