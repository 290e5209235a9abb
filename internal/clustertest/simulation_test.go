package clustertest_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/cluster"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/memnet"
	"github.com/weir-mcp/weir/internal/memory"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/store/storetest"
	"github.com/weir-mcp/weir/internal/taskqueue"
)

var (
	seedFlag    = flag.Uint64("seed", 0, "the seed of what tests break; 0: another one each time")
	simulations = flag.Int("simulations", 4, "how many seeds TestSimulation takes")
)

const (
	simNodes = 5
	simTime  = 90 * time.Second // in which things break
)

// simulation is a cluster in one bubble of time: the code of nodes, sessions, claims and tasks over a store and a bus
// that fail, and peer links that are cut.
type simulation struct {
	t     *testing.T
	docs  *store.Memory
	bus   *store.MemoryBus
	nodes []*simNode
	until time.Time // things break
	end   chan struct{}

	mu       sync.Mutex // guards below
	random   *rand.Rand
	runs     map[string]int // of calls and tasks
	strict   string         // the node that has the strict claim
	accepted []string       // tasks
	answers  map[int]int    // by HTTP status
	held     int            // strict claims
}

// simNode is a node of a simulation.
type simNode struct {
	*cluster.Node
	s        *simulation
	name     string
	docs     *storetest.Faults
	bus      *storetest.BusFaults
	listener *memnet.Listener
	sessions http.Handler
	tasks    *taskqueue.Shared

	mu    sync.Mutex // guards below
	apart bool       // from other nodes
	conns []net.Conn // to the peer link
	here  map[string]bool
}

func (s *simulation) n(most int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.random.IntN(most)
}

func (s *simulation) ran(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs[id]++
}

// fault lets three of a hundred requests to the store and messages fail until all is mended.
func (s *simulation) fault() storetest.Fault {
	if time.Now().After(s.until) || s.n(100) >= 3 {
		return storetest.None
	}
	return storetest.Fault(1 + s.n(4))
}

func (s *simulation) pause(most time.Duration) { time.Sleep(time.Duration(s.n(int(most)))) }

func (n *simNode) isApart() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.apart
}

// dial connects to the peer link of another node.
func (n *simNode) dial(ctx context.Context, network, address string) (net.Conn, error) {
	name, _, _ := strings.Cut(address, ":")
	for _, to := range n.s.nodes {
		if to.name == name && !to.isApart() && !n.isApart() {
			conn, err := to.listener.DialContext(ctx, network, address)
			if err == nil {
				to.mu.Lock()
				to.conns = append(to.conns, conn)
				to.mu.Unlock()
			}
			return conn, err
		}
	}
	return nil, errors.New("refused")
}

// ServeHTTP is a session's handler: it makes a session anew that it does not have, and counts calls.
func (n *simNode) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n.mu.Lock()
	n.here[r.Header.Get("Session")] = true
	n.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var call struct {
		ID     int `json:"id"`
		Params struct {
			Name string `json:"name"`
		} `json:"params"`
	}
	if json.Unmarshal(body, &call) == nil && call.Params.Name != "" {
		n.s.ran(call.Params.Name)
	}
	n.s.pause(200 * time.Millisecond)
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%d,"result":{}}`, call.ID)
}

func (s *simulation) join(i int) {
	n := &simNode{s: s, name: fmt.Sprint("n", i), listener: memnet.New(), here: map[string]bool{}}
	n.docs = &storetest.Faults{Docs: s.docs, Next: s.fault, Wait: 200 * time.Millisecond}
	n.bus = &storetest.BusFaults{Bus: s.bus, Next: s.fault, Wait: 200 * time.Millisecond}
	s.nodes = append(s.nodes, n)
	var err error
	n.Node, err = cluster.Start(s.t.Context(), cluster.Options{Docs: n.docs, Bus: n.bus, Name: n.name, URL: "http://" + n.name + ":1", Dial: n.dial})
	if err != nil {
		s.t.Fatal(err)
	}
	forget := func(id string) {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.here, id)
	}
	n.sessions = n.Sessions(cluster.Endpoint{
		Path: "/", Next: n, MaxBody: 1 << 20, Memory: memory.NewPool(memory.Options{}), Forget: forget,
		ID: func(r *http.Request) string { return r.Header.Get("Session") },
		Owner: func(_, id string) (inc, key string, ok bool) {
			inc, _, ok = strings.Cut(id, "-")
			return inc, "s." + id, ok
		},
		Here: func(id string) bool { n.mu.Lock(); defer n.mu.Unlock(); return n.here[id] },
		ForgetAll: func() {
			n.mu.Lock()
			defer n.mu.Unlock()
			clear(n.here)
		},
	})
	link := n.Serve(n.listener, nil, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, _, _ := cluster.Caller(r.Context())
		n.sessions.ServeHTTP(w, r.WithContext(identity.With(r.Context(), id)))
	}))
	n.tasks, err = taskqueue.NewShared(taskqueue.SharedOptions{
		Docs: n.docs, Group: "g",
		Options: taskqueue.Options{Run: func(ctx context.Context, job *taskqueue.Job) (json.RawMessage, error) {
			s.ran("task " + job.ID)
			select {
			case <-time.After(time.Duration(s.n(int(3 * time.Second)))):
			case <-ctx.Done():
			}
			return json.RawMessage("{}"), ctx.Err()
		}},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = n.tasks.Close(ctx)
		_ = n.listener.Close()
		n.listener.Cut()
		link.Shutdown(ctx)
		n.Close(ctx)
	})
}

// lost is how long a system keeps a connection on which nothing is acknowledged.
const lost = 5 * time.Second

// separate cuts the connections of a node to others, and lets no new ones be made.
func (n *simNode) separate() {
	n.listener.Cut()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.apart = true
	conns := n.conns
	n.conns = nil
	time.AfterFunc(lost, func() {
		for _, c := range conns {
			_ = c.Close()
		}
	})
}

// breaks separates a node from the store, the bus or the other nodes, one at a time, until the time is over.
func (s *simulation) breaks() {
	for time.Now().Before(s.until) {
		s.pause(6 * time.Second)
		n, what := s.nodes[s.n(len(s.nodes))], 1+s.n(7)
		n.docs.Cut(what&1 != 0)
		n.bus.Cut(what&2 != 0)
		if what&4 != 0 {
			n.separate()
		}
		s.pause(40 * time.Second)
		n.docs.Cut(false)
		n.bus.Cut(false)
		n.mu.Lock()
		n.apart = false
		n.mu.Unlock()
	}
}

// over reports whether the simulation ends.
func (s *simulation) over() bool {
	select {
	case <-s.end:
		return true
	default:
		return false
	}
}

// claims takes the strict claim again and again, and checks that no other node has it.
func (n *simNode) claims() {
	s := n.s
	for !s.over() {
		ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
		c, err := n.Claim(ctx, "u.thing", true)
		cancel()
		if err != nil {
			s.pause(2 * time.Second)
			continue
		}
		s.mu.Lock()
		if s.strict != "" {
			s.t.Errorf("%s has a strict claim while %s has it", n.name, s.strict)
		}
		s.strict = n.name
		s.held++
		s.mu.Unlock()
		select {
		case <-c.Lost():
		case <-time.After(time.Duration(s.n(int(10 * time.Second)))):
		}
		s.mu.Lock()
		s.strict = ""
		s.mu.Unlock()
		ctx, cancel = context.WithTimeout(context.Background(), 30*time.Second)
		_ = c.Release(ctx)
		cancel()
		s.pause(time.Second)
	}
}

// ask makes a call in a session at a node and returns the status.
func (n *simNode) ask(session, name string, number int) (status int, answer string) {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q}}`, number, name)
	ctx := identity.With(n.s.t.Context(), &identity.Identity{Principal: "ann"})
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", strings.NewReader(body))
	r.Header.Set("Session", session)
	w := httptest.NewRecorder()
	n.sessions.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// calls makes calls in a session at one node after another, and checks that each is answered in time.
func (s *simulation) calls(session string) {
	for number := 1; !s.over(); number++ {
		n := s.nodes[s.n(len(s.nodes))]
		began := time.Now()
		status, answer := n.ask(session, fmt.Sprint(session, " ", number), number)
		if took := time.Since(began); took > 30*time.Second {
			s.t.Errorf("a call at %s was answered after %v", n.name, took)
		}
		if status != http.StatusOK && status != http.StatusBadGateway && status != http.StatusServiceUnavailable {
			s.t.Errorf("a call at %s: %d %s", n.name, status, answer)
		}
		s.mu.Lock()
		s.answers[status]++
		s.mu.Unlock()
		s.pause(2 * time.Second)
	}
}

// submits adds tasks at one node after another.
func (s *simulation) submits() {
	for time.Now().Before(s.until) {
		s.pause(3 * time.Second)
		task, err := s.nodes[s.n(len(s.nodes))].tasks.Submit(taskqueue.Spec{Owner: "ann", Name: "t"})
		if err == nil {
			s.mu.Lock()
			s.accepted = append(s.accepted, task.ID)
			s.mu.Unlock()
		}
	}
}

// settle checks that everything goes on after all is mended.
func (s *simulation) settle(sessions []string) {
	for _, session := range sessions {
		for _, n := range s.nodes {
			status, answer := 0, ""
			for try := range 10 {
				if status, answer = n.ask(session, fmt.Sprint("after ", session, n.name, try), try); status == http.StatusOK {
					break
				}
				time.Sleep(time.Second)
			}
			if status != http.StatusOK {
				s.t.Errorf("a session does not go on at %s: %d %s", n.name, status, answer)
			}
		}
	}
	for _, id := range s.accepted {
		ctx, cancel := context.WithTimeout(s.t.Context(), 2*time.Minute)
		task, err := s.nodes[0].tasks.Wait(ctx, "ann", id)
		cancel()
		if err != nil || task.Ended.IsZero() {
			s.t.Errorf("an accepted task has not ended: %s, %v", task.State, err)
		}
	}
	for id, runs := range s.runs {
		if runs > 1 {
			s.t.Errorf("%s ran %d times", id, runs)
		}
	}
}

// simulate runs one seed.
func simulate(t *testing.T, seed uint64) {
	synctest.Test(t, func(t *testing.T) {
		s := &simulation{
			t: t, docs: store.NewMemory(), bus: store.NewMemoryBus(), until: time.Now().Add(simTime), end: make(chan struct{}),
			random: rand.New(rand.NewPCG(seed, 0)), runs: map[string]int{}, answers: map[int]int{},
		}
		for i := range simNodes {
			s.join(i)
		}
		var all sync.WaitGroup
		var sessions []string
		for i := range 4 {
			session := fmt.Sprintf("%s-%d", s.nodes[i].Inc(), i)
			sessions = append(sessions, session)
			all.Go(func() { s.calls(session) })
		}
		for _, n := range s.nodes {
			all.Go(n.claims)
		}
		all.Go(s.submits)
		s.breaks()
		time.Sleep(time.Minute) // nodes that were fenced are back
		close(s.end)
		all.Wait()
		s.settle(sessions)
		if s.held == 0 {
			t.Error("no node had the strict claim")
		}
		if t.Failed() {
			t.Logf("seed %d: answers %v, %d tasks, %d strict claims", seed, s.answers, len(s.accepted), s.held)
		}
	})
}

// TestSimulation: with a store and a bus that fail, and nodes that are apart from each other, by many seeds: a strict claim has
// one holder, calls are answered and run once at most, tasks that were accepted end and start once at most, and sessions go on.
// A seed does not fix the order of goroutines that are ready at the same time.
func TestSimulation(t *testing.T) {
	first, count, began := *seedFlag, *simulations, time.Now()
	if first == 0 {
		first = rand.Uint64N(1 << 40)
	}
	t.Logf("seeds %d to %d: go test ./internal/clustertest -run TestSimulation -simulations 1 -seed N", first, first+uint64(count)-1)
	for i := range count {
		simulate(t, first+uint64(i))
		if t.Failed() {
			t.Fatalf("seed %d fails", first+uint64(i))
		}
	}
	t.Logf("%d seeds of %v in %v", count, simTime+time.Minute, time.Since(began).Round(time.Millisecond))
}
