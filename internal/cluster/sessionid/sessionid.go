package sessionid

import (
	"context"
	"encoding/json"
	"hash/maphash"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/mcp"
)

const (
	prefix = "w1."
	// nodeMark stands between the incarnation of a node and a session's own id, which has none. Builds of before have
	// written oldNodeMark.
	nodeMark    = "."
	oldNodeMark = "~"
	purpose     = "session"
	// maxState bounds what is sealed: the id is in a header of every request, and has at most maxID
	// characters.
	maxState = 700
	// life is how long after its birth a session can be adopted, and how long the end of one is kept.
	life = 30 * 24 * time.Hour
)

// Sealer seals texts; package seal has one.
type Sealer interface {
	Seal(purpose string, plain, context []byte) string
	Open(purpose, sealed string, context []byte) (plain []byte, ok bool)
	// OpenKept is Open for a text that comes from the store, and may be long.
	OpenKept(purpose, sealed string, context []byte) (plain []byte, ok bool)
}

// Ids makes and opens ids. It is safe for concurrent use.
type Ids struct {
	seal  Sealer
	docs  store.Docs
	log   *slog.Logger
	node  func() string // the incarnation of this node, for new ids; nil: there is one node
	seed  maphash.Seed
	turns [turns]chan struct{} // at a hash of a slot's key: changes of one slot wait for each other
	ends  atomic.Uint64        // of sessions, here

	mu   sync.Mutex // guards below
	live map[live]struct{}
}

// New returns Ids whose ends are kept in a store. The logger hears of sessions for which that has no
// room; nil discards.
func New(s Sealer, d store.Docs, logger *slog.Logger) *Ids {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	i := &Ids{seal: s, docs: d, log: logger, seed: maphash.MakeSeed(), live: map[live]struct{}{}}
	for n := range i.turns {
		i.turns[n] = make(chan struct{}, 1)
	}
	return i
}

// In makes new ids name the incarnation of this node, which node returns. It must be called before the Ids
// are used.
func (i *Ids) In(node func() string) { i.node = node }

// Endpoint is Ids for one endpoint: an id of one endpoint is unknown at another. With Around it is
// what streamable.ServerOptions.Sessions asks for.
type Endpoint struct {
	ids  *Ids
	path []byte
}

// At returns the Endpoint of a path.
func (i *Ids) At(path string) *Endpoint { return &Endpoint{i, []byte(path)} }

// state is what an id says of its session.
type state struct {
	V            int             `json:"v"`
	Principal    string          `json:"p"`
	Version      string          `json:"m"`
	Info         json.RawMessage `json:"i,omitempty"`
	Capabilities json.RawMessage `json:"c,omitempty"`
	Born         int64           `json:"b"` // seconds
	// Large says that the client tells too much of itself for an id: the session cannot be adopted.
	Large bool `json:"l,omitempty"`
}

const stateVersion = 1

// Name returns the id for the client of a session. A session whose client tells too much of itself
// for an id cannot be adopted. In a cluster its id names its node: requests at other nodes reach it.
func (e *Endpoint) Name(s *mcp.Session) string {
	born, ok := Born(s)
	if !ok {
		born = time.Now()
	}
	plain, ok := sealable(s, born)
	if !ok && e.ids.node != nil {
		var err error
		plain, err = json.Marshal(state{V: stateVersion, Principal: s.Principal(), Born: born.Unix(), Large: true})
		ok = err == nil && len(plain) <= maxState
	}
	if !ok {
		return s.ID()
	}
	name := s.ID()
	if e.ids.node != nil {
		name = e.ids.node() + nodeMark + name
	}
	return prefix + name + "." + e.ids.seal.Seal(purpose, plain, e.context(name))
}

// sealable returns what the id of a session says. It returns false if that is too long for an id.
func sealable(s *mcp.Session, born time.Time) (plain []byte, ok bool) {
	st := state{V: stateVersion, Principal: s.Principal(), Version: s.Version(), Born: born.Unix()}
	st.Info, st.Capabilities = s.Client()
	plain, err := json.Marshal(st)
	if len(plain) > maxState && err == nil {
		st.Info = shortInfo(st.Info)
		plain, err = json.Marshal(st)
	}
	return plain, err == nil && len(plain) <= maxState
}

// shortInfo keeps the members of a clientInfo that name it, and leaves out its icons.
func shortInfo(info json.RawMessage) json.RawMessage {
	short := json.RawMessage("{}")
	for _, key := range []string{"name", "title", "version"} {
		if v := rawjson.Get(info, key); v != nil {
			if next, err := rawjson.Set(short, key, v); err == nil {
				short = next
			}
		}
	}
	return short
}

// context binds a seal to its endpoint, to the session's own id and to the node that made it.
func (e *Endpoint) context(name string) []byte {
	return append(append([]byte(name), 0), e.path...)
}

// open returns the session's own id and its state.
func (e *Endpoint) open(id string) (own string, st state, ok bool) {
	plain, name, ok := e.unseal(id)
	if !ok || json.Unmarshal(plain, &st) != nil || st.V != stateVersion {
		return "", state{}, false
	}
	_, own = cutNode(name)
	return own, st, true
}

// unseal returns the state in an id, as it was sealed, and the name of the session.
func (e *Endpoint) unseal(id string) (plain []byte, name string, ok bool) {
	rest, ok := strings.CutPrefix(id, prefix)
	if !ok {
		return nil, "", false
	}
	last := strings.LastIndexByte(rest, '.')
	if last < 0 {
		return nil, "", false
	}
	name, sealed := rest[:last], rest[last+1:]
	plain, ok = e.ids.seal.Open(purpose, sealed, e.context(name))
	return plain, name, ok
}

// cutNode returns the node in the name of a session, "" for a session of a gateway of one node, and
// the session's own id.
func cutNode(name string) (node, own string) {
	if i := strings.IndexAny(name, nodeMark+oldNodeMark); i >= 0 {
		return name[:i], name[i+1:]
	}
	return "", name
}

// Owner returns the incarnation of the node that made the session of an id, and the key of the document in
// which another node says that the session is its own. ok is false for an id that is no session of the
// principal at this endpoint.
func (e *Endpoint) Owner(principal, id string) (node, key string, ok bool) {
	plain, name, ok := e.unseal(id)
	if !ok {
		return "", "", false
	}
	// Each request of a cluster comes here, at two nodes: only what is asked for is read.
	v, _ := rawjson.Int(rawjson.Get(plain, "v"))
	born, _ := rawjson.Int(rawjson.Get(plain, "b"))
	if v != stateVersion || rawjson.Text(rawjson.Get(plain, "p")) != principal || left(state{Born: int64(born)}) <= 0 {
		return "", "", false
	}
	node, own := cutNode(name)
	return node, store.SessionKeys + store.Hash(own), true
}

// Adopt returns the session of an id, if it belongs to the principal and has not been ended.
func (e *Endpoint) Adopt(ctx context.Context, id, principal string) (*mcp.Session, error) {
	own, st, ok := e.open(id)
	if !ok || st.Principal != principal || left(st) <= 0 || st.Large {
		return nil, nil
	}
	at := placeOf(principal, own, st.Born)
	kept, err := record{}, error(nil)
	if a, ok := ctx.Value(aheadKey{}).(*ahead); ok && a.at == at && a.ends == e.ids.ends.Load() && !a.used.Swap(true) {
		kept = a.kept
	} else {
		kept, err = e.ids.get(ctx, at)
	}
	switch {
	case err != nil:
		return nil, unavailable(err)
	case kept.Ended:
		return nil, nil
	}
	s := mcp.NewSession(own, principal)
	s.SetVersion(st.Version)
	s.SetClient(st.Info, st.Capabilities)
	s.Value(memoKey{}, func() any {
		return &memo{born: time.Unix(st.Born, 0), late: true, kept: kept, left: e.handed(ctx, id)}
	})
	return s, nil
}

// ahead is a record that was read before Adopt asks for it. It is used once: a second question wants to know of
// changes. If a session was ended here since then, it is not used.
type ahead struct {
	at   place
	kept record
	ends uint64 // Ids.ends before the record was read
	used atomic.Bool
}

type aheadKey struct{}

// Ahead reads what Adopt will ask for. Adopt does not read it again if its context is from with. with is nil if
// there is nothing to read, or it cannot be read now.
func (e *Endpoint) Ahead(ctx context.Context, principal, id string) (with func(context.Context) context.Context) {
	own, st, ok := e.open(id)
	if !ok || st.Principal != principal || st.Large {
		return nil
	}
	a := &ahead{at: placeOf(principal, own, st.Born), ends: e.ids.ends.Load()}
	var err error
	if a.kept, err = e.ids.get(ctx, a.at); err != nil {
		return nil
	}
	return func(ctx context.Context) context.Context { return context.WithValue(ctx, aheadKey{}, a) }
}

// End keeps that a session was ended, as long as its id could be adopted.
func (e *Endpoint) End(ctx context.Context, id string) error {
	own, st, ok := e.open(id)
	if !ok || left(st) <= 0 {
		return nil
	}
	err := e.ids.change(ctx, placeOf(st.Principal, own, st.Born), func(r *record) bool {
		*r = record{Born: st.Born, Ended: true}
		return true
	})
	e.ids.ends.Add(1)
	if err != nil {
		return unavailable(err)
	}
	return nil
}

// left returns how long a session can be adopted from now on.
func left(st state) time.Duration { return time.Until(time.Unix(st.Born, 0).Add(life)) }

// retryAfter is when a client may ask again while the store does not answer.
const retryAfter = 2 * time.Second

func unavailable(err error) error {
	e := mcp.Errorf(mcp.KindStoreUnavailable, "the store of this gateway cannot be asked about the session now; %s: %w", store.Remedy(err), err)
	e.SetRetryAfter(retryAfter)
	return e
}
