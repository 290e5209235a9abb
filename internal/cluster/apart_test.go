package cluster

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/lease"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/testkit/memnet"
	"github.com/weir-mcp/weir/internal/testkit/storetest"
)

// pair is two nodes with peer links, each with a store that can be cut off or be silent.
type pair struct {
	t      *testing.T
	docs   *store.Memory
	bus    *store.MemoryBus
	a, b   *Node
	faults [2]*storetest.Faults
	log    lines
	ends   []func()
}

// silent is a store whose answers never come.
func silent() storetest.Fault { return storetest.Delay }

func newPair(t *testing.T) *pair {
	p := &pair{t: t, docs: store.NewMemory(store.MemoryOptions{}), bus: store.NewMemoryBus()}
	listeners := map[string]*memnet.Listener{"a:1": memnet.New(), "b:1": memnet.New()}
	for i, name := range []string{"a", "b"} {
		p.faults[i] = &storetest.Faults{Docs: p.docs, Wait: time.Hour}
		n, err := Start(t.Context(), Options{
			Docs: p.faults[i], Bus: p.bus, Name: name, URL: "http://" + name + ":1", Logger: slog.New(slog.NewTextHandler(&p.log, nil)),
			Dial: func(ctx context.Context, network, address string) (conn net.Conn, err error) {
				return listeners[address].DialContext(ctx, network, address)
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		l := listeners[name+":1"]
		link := n.Serve(l, nil, p.front(n))
		p.ends = append(p.ends, func() {
			link.Shutdown(context.Background())
			_ = l.Close()
			n.Close(context.Background())
		})
		if i == 0 {
			p.a = n
		} else {
			p.b = n
		}
	}
	synctest.Wait()
	return p
}

// front serves sessions whose ids are INC.NAME, none of which lives in memory.
func (p *pair) front(n *Node) http.Handler {
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

func (p *pair) end() {
	for _, f := range p.faults {
		f.Cut(false)
	}
	for _, end := range p.ends {
		end()
	}
	time.Sleep(2 * time.Minute) // idle connections end
}

// shown returns the states in what a node tells of the cluster, itself first.
func shown(n *Node) string {
	var self, others string
	for _, s := range Status(n) {
		if s.Self {
			self = s.State
		} else {
			others += " " + s.State
		}
	}
	return self + others
}

// TestWorse: a node that is apart leaves a balancer while another one has its store. If all are apart, none leaves, at no
// moment. What a node tells of the cluster says so.
func TestWorse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		a, b := p.a, p.b
		if Worse(a) || Worse(b) || shown(a) != "up up" || Silence(a) != 0 {
			t.Errorf("with a store: %v %v, %s, silent for %v", Worse(a), Worse(b), shown(a), Silence(a))
		}

		p.faults[0].Cut(true)
		<-a.Fenced()
		time.Sleep(2 * time.Second)
		if !Worse(a) || Worse(b) || shown(a) != "apart up" || Silence(a) < lease.FenceAfter {
			t.Errorf("one without a store: %v %v, %s, silent for %v", Worse(a), Worse(b), shown(a), Silence(a))
		}
		p.faults[1].Cut(true)
		time.Sleep(lease.FenceAfter + 2*time.Second)
		if !Apart(a) || !Apart(b) || Worse(a) || Worse(b) || shown(a) != "apart apart" {
			t.Errorf("both without a store: %v %v, %s", Worse(a), Worse(b), shown(a))
		}
		if f := Count(a); !f.Apart || f.Silence < lease.FenceAfter || f.Nodes[stateApart] != 2 || f.Nodes[stateUp] != 0 {
			t.Errorf("%+v", f)
		}
		p.faults[1].Cut(false)
		time.Sleep(2 * time.Second)
		if !Worse(a) || Worse(b) {
			t.Errorf("the store is back at one: %v %v", Worse(a), Worse(b))
		}
		p.faults[0].Cut(false)
		time.Sleep(5 * time.Second)
		if Worse(a) || Apart(a) || shown(a) != "up up" {
			t.Errorf("the store is back: %v %v %s", Worse(a), Apart(a), shown(a))
		}

		for _, f := range p.faults { // at the same time
			f.Cut(true)
		}
		for range 60 {
			time.Sleep(time.Second)
			if Worse(a) || Worse(b) {
				t.Fatal("a node leaves while no other one is better off")
			}
		}
		// Nobody answers any more.
		p.ends[1]()
		p.ends = p.ends[:1]
		time.Sleep(5 * time.Second)
		if Worse(a) || shown(a) != "apart unknown" {
			t.Errorf("a node that knows nothing of the other one: %v, %s", Worse(a), shown(a))
		}
		p.end()
	})
}

// TestApartAnswersSoon: a node that is apart says within a second that the store of a session does not answer. Once the
// other node cannot know it better, a session of an older incarnation is that node's.
func TestApartAnswersSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		session := p.a.Inc() + ".x"
		p.faults[0].Next = silent
		<-p.a.Fenced()
		began := time.Now()
		if w := call(p.front(p.a), session); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "store_unavailable") || time.Since(began) > time.Second {
			t.Errorf("%d %s after %v", w.Code, w.Body, time.Since(began))
		}
		began = time.Now()
		if w := call(p.front(p.b), session); w.Code != http.StatusOK || w.Body.String() != "b" || time.Since(began) > time.Second {
			t.Errorf("at the other node: %d %s after %v", w.Code, w.Body, time.Since(began))
		}
		p.faults[0].Next = nil
		p.end()
	})
}

// TestStoreIsSilentInTheLog: the log of a node says once a minute that its store does not answer, and that it does again.
func TestStoreIsSilentInTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		p.faults[0].Cut(true)
		time.Sleep(10*time.Minute + 5*time.Second)
		if count := p.log.count("did not take the renewal"); count < 10 || count > 11 {
			t.Errorf("%d lines in ten minutes", count)
		}
		p.faults[0].Cut(false)
		time.Sleep(time.Minute)
		if count := p.log.count("takes the renewals of this process again"); count != 1 {
			t.Errorf("%d lines say that the store answers again", count)
		}
		p.end()
	})
}
