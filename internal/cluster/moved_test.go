package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/link"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/testkit/memnet"
	"github.com/weir-mcp/weir/internal/testkit/storetest"
)

// countingDocs counts the requests for some documents.
type countingDocs struct {
	store.Docs
	mu   sync.Mutex // guards below
	keys map[string]int
}

func (c *countingDocs) count(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keys[key]++
}

// of returns how many requests there were for documents, and forgets all.
func (c *countingDocs) of(keys ...string) (sum int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range keys {
		sum += c.keys[key]
	}
	clear(c.keys)
	return sum
}

func (c *countingDocs) Get(ctx context.Context, key string) (store.Doc, error) {
	c.count(key)
	return c.Docs.Get(ctx, key)
}

func (c *countingDocs) Set(ctx context.Context, key string, value []byte, rev uint64, ttl time.Duration) (uint64, error) {
	c.count(key)
	return c.Docs.Set(ctx, key, value, rev, ttl)
}

// movers are nodes that serve sessions. An id of a session is INC.NAME, and its document s.NAME.
type movers struct {
	t    *testing.T
	docs *store.Memory
	bus  *store.MemoryBus
	run  func(name string) // is called when a request runs at a node; nil does nothing
}

// join starts a node that knows the earlier ones. served says which sessions were served there.
func (m *movers) join(name string, docs store.Docs, dial func(ctx context.Context, network, address string) (net.Conn, error)) (n *Node, front http.Handler, served *[]string) {
	m.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		m.t.Fatal(err)
	}
	if n, err = Start(m.t.Context(), Options{Docs: docs, Bus: m.bus, Name: name, URL: "http://" + l.Addr().String(), Dial: dial}); err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { n.Close(context.Background()) })
	served = &[]string{}
	front = n.Sessions(Endpoint{
		Path: "/mcp", ID: func(r *http.Request) string { return r.Header.Get("Session") },
		Owner: func(_, id string) (inc, key string, ok bool) {
			inc, name, ok := strings.Cut(id, ".")
			return inc, "s." + name, ok
		},
		Here: func(string) bool { return false }, Forget: func(string) {}, ForgetAll: func() {}, MaxBody: 1 << 20,
		Next: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			*served = append(*served, r.Header.Get("Session")) // one request at a time
			if m.run != nil {
				m.run(name)
			}
			_, _ = io.WriteString(w, name)
		}),
	})
	link := n.Serve(l, nil, front)
	m.t.Cleanup(func() { link.Shutdown(context.Background()) })
	return n, front, served
}

// call makes a call in a session at a node.
func call(front http.Handler, session string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}`))
	r.Header.Set("Session", session)
	w := httptest.NewRecorder()
	front.ServeHTTP(w, r)
	return w
}

// TestCallInASessionRunsOnce: a call whose connection breaks off when it has run at the node of its session does not run
// again, whether that node lives or has ended, and the answer says that it may have run.
func TestCallInASessionRunsOnce(t *testing.T) {
	for _, ends := range []bool{false, true} {
		t.Run(fmt.Sprintf("the node ends: %v", ends), func(t *testing.T) {
			m := newMovers(t)
			var b *Node
			var atA, atB atomic.Int32 // the test and the broken connection share nothing else
			m.run = func(name string) {
				if name == "a" {
					atA.Add(1)
					return
				}
				atB.Add(1)
				if ends {
					b.Close(context.Background()) // its document is gone
				}
				panic(http.ErrAbortHandler)
			}
			b, _, _ = m.join("b", m.docs, nil)
			_, front, _ := m.join("a", m.docs, nil)
			w := call(front, b.Inc()+".one")
			var answer struct {
				Error struct {
					Data struct {
						Kind  string `json:"kind"`
						Maybe bool   `json:"maybe_ran"`
					} `json:"data"`
				} `json:"error"`
			}
			if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != http.StatusBadGateway || answer.Error.Data.Kind != "node_gone" || !answer.Error.Data.Maybe {
				t.Errorf("%d %s", w.Code, w.Body)
			}
			if atB.Load() != 1 || atA.Load() != 0 {
				t.Errorf("the call ran %d times at its node, and %d times at another one", atB.Load(), atA.Load())
			}
		})
	}
}

func newMovers(t *testing.T) *movers {
	return &movers{t: t, docs: store.NewMemory(store.MemoryOptions{}), bus: store.NewMemoryBus()}
}

// TestAdoptionAsksOnce: to take over a session of a node that is known to be gone or to drain, a node writes the
// session's document.
func TestAdoptionAsksOnce(t *testing.T) {
	m := newMovers(t)
	b, _, _ := m.join("b", m.docs, nil)
	c, _, _ := m.join("c", m.docs, nil)
	docs := &countingDocs{Docs: m.docs, keys: map[string]int{}}
	a, front, served := m.join("a", docs, nil)
	c.Close(t.Context())
	for end := time.Now().Add(20 * time.Second); !a.Gone(c.Inc()); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the end of a node is not known")
		}
	}
	a.nodes.drains(b.Inc())
	for name, inc := range map[string]string{"gone": c.Inc(), "drains": b.Inc()} {
		docs.of()
		if w := call(front, inc+"."+name); w.Code != http.StatusOK || len(*served) == 0 {
			t.Fatalf("%s: %d %s", name, w.Code, w.Body)
		}
		if asked := docs.of("s."+name, "n."+inc); asked != 1 {
			t.Errorf("a session whose node %s took %d requests to the store", name, asked)
		}
	}
}

// TestDrainsBeforeItsDocument: a session that a draining node has taken over once goes on elsewhere, also while
// the store does not take that node's document.
func TestDrainsBeforeItsDocument(t *testing.T) {
	m := newMovers(t)
	faults := &storetest.Faults{Docs: m.docs, Next: func() storetest.Fault { return storetest.None }}
	b, _, servedB := m.join("b", faults, nil)
	_, front, served := m.join("a", m.docs, nil)
	if inc, err := b.Take(t.Context(), "s.x", time.Hour); err != nil || inc != b.Inc() {
		t.Fatal(inc, err)
	}
	if w := call(front, "zzzzzz.x"); w.Code != http.StatusOK || len(*servedB) != 1 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	faults.Cut(true)
	defer faults.Cut(false)
	b.Drain()
	if w := call(front, "zzzzzz.x"); w.Code != http.StatusOK || len(*served) != 1 || len(*servedB) != 1 {
		t.Errorf("%d %s; the other node served %d requests", w.Code, w.Body, len(*served))
	}
}

// TestUnreachable: a call whose node lives and cannot be reached did not run, and the answer says so.
func TestUnreachable(t *testing.T) {
	m := newMovers(t)
	b, _, servedB := m.join("b", m.docs, nil)
	a, front, _ := m.join("a", m.docs, func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("refused") })
	w := call(front, b.Inc()+".x")
	var answer struct {
		Error struct {
			Message string
			Data    struct {
				Kind, Node string
				MaybeRan   *bool `json:"maybe_ran"`
			}
		}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != http.StatusBadGateway {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	e := answer.Error
	if e.Data.Kind != "node_gone" || e.Data.Node != b.Inc() || e.Data.MaybeRan == nil || *e.Data.MaybeRan || len(*servedB) != 0 {
		t.Errorf("%s", w.Body)
	}
	if !strings.Contains(e.Message, "the node b ") || !strings.Contains(e.Message, "cluster.advertise") || !strings.Contains(e.Message, "did not run") {
		t.Errorf("%s", e.Message)
	}
	if broken := Count(a).Broken; broken != 0 {
		t.Errorf("%d requests count as broken off", broken)
	}
}

// TestSessionsOfAFencedNode: a node that has fenced itself takes its sessions up again at once, although the document
// of its older incarnation has not ended yet. A request for one of them never runs to and fro between the nodes.
func TestSessionsOfAFencedNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs, bus, listener := store.NewMemory(store.MemoryOptions{}), store.NewMemoryBus(), memnet.New()
		faults := &storetest.Faults{Docs: docs, Next: func() storetest.Fault { return storetest.None }}
		start := func(name string, docs store.Docs) *Node {
			n, err := Start(t.Context(), Options{Docs: docs, Bus: bus, Name: name, URL: "http://" + name + ":1", Dial: listener.DialContext})
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		a, b := start("a", faults), start("b", docs)
		front := func(n *Node) http.Handler {
			return n.Sessions(Endpoint{
				Path: "/mcp", ID: func(r *http.Request) string { return r.Header.Get("Session") },
				Owner: func(_, id string) (inc, key string, ok bool) {
					inc, name, ok := strings.Cut(id, ".")
					return inc, "s." + name, ok
				},
				Here: func(string) bool { return false }, Forget: func(string) {}, ForgetAll: func() {}, MaxBody: 1 << 20,
				Next: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, n.o.Name) }),
			})
		}
		link := a.Serve(listener, nil, front(a))
		session, fenced := a.Inc()+".x", a.Fenced()
		// Only the renewals fail for so long that the document is there when the node has given up.
		time.Sleep(renewEvery + time.Second)
		faults.Cut(true)
		<-fenced
		faults.Cut(false)
		time.Sleep(time.Millisecond)
		if doc, err := docs.Get(t.Context(), "n."+strings.TrimSuffix(session, ".x")); err != nil || doc.Rev == 0 {
			t.Fatalf("the document of the older incarnation is gone: %v", err)
		}
		if w := call(front(b), session); w.Code != http.StatusOK || w.Body.String() != "a" {
			t.Errorf("at another node: %d %s", w.Code, w.Body)
		}
		if _, there := a.nodes.of(strings.TrimSuffix(session, ".x")); there {
			t.Error("the node takes its older incarnation for another node")
		}
		link.Shutdown(t.Context())
		_ = listener.Close()
		a.Close(t.Context())
		b.Close(t.Context())
		time.Sleep(2 * time.Minute) // idle connections end
	})
}

// TestSessionsOfARestartedNode: a request for a session of a node that was killed and started again at once waits until
// the new process knows that the old one is gone, and is served.
func TestSessionsOfARestartedNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs, bus, listener := store.NewMemory(store.MemoryOptions{}), store.NewMemoryBus(), memnet.New()
		faults := &storetest.Faults{Docs: docs, Next: func() storetest.Fault { return storetest.None }}
		deaf := &deafBus{Bus: bus}
		start := func(name string, docs store.Docs, bus store.Bus) *Node {
			n, err := Start(t.Context(), Options{Docs: docs, Bus: bus, Name: name, URL: "http://" + name + ":1", Dial: listener.DialContext})
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		a, b := start("a", faults, deaf), start("b", docs, bus)
		front := func(n *Node, name string) http.Handler {
			return n.Sessions(Endpoint{
				Path: "/mcp", ID: func(r *http.Request) string { return r.Header.Get("Session") },
				Owner: func(_, id string) (inc, key string, ok bool) {
					inc, name, ok := strings.Cut(id, ".")
					return inc, "s." + name, ok
				},
				Here: func(string) bool { return false }, Forget: func(string) {}, ForgetAll: func() {}, MaxBody: 1 << 20,
				Next: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, name) }),
			})
		}
		faults.Cut(true)
		deaf.cut()
		again := start("a", docs, bus)
		link := again.Serve(listener, nil, front(again, "again"))
		if w := call(front(b, "b"), a.Inc()+".x"); w.Code != http.StatusOK { // at either of the two
			t.Errorf("%d %s", w.Code, w.Body)
		}
		link.Shutdown(t.Context())
		_ = listener.Close()
		faults.Cut(false)
		for _, n := range []*Node{a, b, again} {
			n.Close(t.Context())
		}
		time.Sleep(2 * time.Minute) // idle connections end
	})
}

// TestStreamWaitsForStore: a stream of a session that has to be taken over waits for a store that is away, and is
// answered when the store is back. A store that stays away is named after a bounded time, except to a client that opens
// streams of events: it has one without events, which ends when the store is back.
func TestStreamWaitsForStore(t *testing.T) {
	for name, away := range map[string]time.Duration{"back": 8 * time.Second, "away": time.Minute, "of events": time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				docs, bus := store.NewMemory(store.MemoryOptions{}), store.NewMemoryBus()
				faults := &storetest.Faults{Docs: docs, Next: func() storetest.Fault { return storetest.None }}
				n, err := Start(t.Context(), Options{Docs: faults, Bus: bus, Name: "a"})
				if err != nil {
					t.Fatal(err)
				}
				front := n.Sessions(Endpoint{
					Path: "/mcp", ID: func(r *http.Request) string { return r.Header.Get("Session") },
					Owner: func(_, id string) (inc, key string, ok bool) { return "gone00", "s." + id, true },
					Here:  func(string) bool { return false }, Forget: func(string) {}, ForgetAll: func() {}, MaxBody: 1 << 20,
					Next: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "stream") }),
				})
				faults.Cut(true)
				healed := time.AfterFunc(away, func() { faults.Cut(false) })
				r := httptest.NewRequest(http.MethodGet, "/mcp", nil)
				r.Header.Set("Session", "x")
				if name == "of events" {
					r.Header.Set("Accept", "text/event-stream")
				}
				w := httptest.NewRecorder()
				began := time.Now()
				front.ServeHTTP(w, r)
				switch took := time.Since(began); name {
				case "back":
					if w.Code != http.StatusOK || took < away || took > away+attemptTime+retryEvery {
						t.Errorf("%d %s after %v", w.Code, w.Body, took)
					}
				case "of events":
					rest := strings.ReplaceAll(w.Body.String(), ": the stream of this session is opened later\n\n", "")
					if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "text/event-stream" || rest != "" || took < away || took > away+writeTime+laterCheck+spreadTime {
						t.Errorf("%d %v %s after %v", w.Code, w.Header(), w.Body, took)
					}
				default:
					if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "2" || took < 10*time.Second || took > electionTime+attemptTime {
						t.Errorf("%d %v %s after %v", w.Code, w.Header(), w.Body, took)
					}
				}
				healed.Stop()
				faults.Cut(false)
				n.Close(t.Context())
			})
		})
	}
}

// TestDrainSpreads: sessions of a draining node, and requests without one, go to all nodes that take work.
func TestDrainSpreads(t *testing.T) {
	m := newMovers(t)
	_, _, servedB := m.join("b", m.docs, nil)
	_, _, servedC := m.join("c", m.docs, nil)
	a, front, served := m.join("a", m.docs, nil)
	if !Retire(t.Context(), a) { // when it returns, the other nodes know it
		t.Fatal("there are no other nodes")
	}
	const requests = 32
	for i := range requests {
		if w := call(front, fmt.Sprintf("%s.%d", a.Inc(), i)); w.Code != http.StatusOK {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		if w := call(front, ""); w.Code != http.StatusOK {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	b, c := len(*servedB), len(*servedC)
	if b < requests/4 || c < requests/4 || b+c != 2*requests || len(*served) != 0 {
		t.Errorf("the other nodes served %d and %d requests, the draining one %d", b, c, len(*served))
	}
}

// TestMovesTooOften: a session of which each node says that another one has it is no fault of the store.
func TestMovesTooOften(t *testing.T) {
	m := newMovers(t)
	// These two nodes send the session to each other.
	var incs [2]string
	for i, name := range []string{"b", "c"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		n, err := Start(t.Context(), Options{Docs: m.docs, Bus: m.bus, Name: name, URL: "http://" + l.Addr().String()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { n.Close(context.Background()) })
		incs[i] = n.Inc()
		link := n.Serve(l, nil, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(link.HeaderOwner, incs[1-i])
			w.WriteHeader(http.StatusMisdirectedRequest)
		}))
		t.Cleanup(func() { link.Shutdown(context.Background()) })
	}
	_, front, _ := m.join("a", m.docs, nil)
	w := call(front, incs[0]+".x")
	if said := w.Body.String(); w.Code != http.StatusBadGateway || !strings.Contains(said, "moved") || !strings.Contains(said, `"maybe_ran":false`) || strings.Contains(said, "store") {
		t.Errorf("%d %s", w.Code, said)
	}
}
