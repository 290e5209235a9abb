package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/mcp"
)

// uses are the ids that nodes of a test have used.
type uses struct {
	away atomic.Bool
	mu   sync.Mutex // guards ids
	ids  map[string]bool
}

func (u *uses) once(_ context.Context, id string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.away.Load():
		return errors.New("away")
	case u.ids[id]:
		return errUsed
	}
	u.ids[id] = true
	return nil
}

// asksFirst is a Handler that asks a person before it runs, and counts its runs.
func asksFirst(question string, ran *atomic.Int32, params *atomic.Value) mcp.HandlerFunc {
	return func(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
		a, err := r.Peer.Call(Approval(ctx, ""), methodElicit, json.RawMessage(question), nil)
		if err != nil {
			return nil, err
		}
		if !strings.Contains(string(a), "accept") {
			return nil, errors.New("a person said no")
		}
		ran.Add(1)
		params.Store(string(r.Params))
		return json.RawMessage(`{"ran":true}`), nil
	}
}

// wholeNodes are nodes of a cluster with one Handler.
func wholeNodes(t *testing.T, u *uses, ran *atomic.Int32, questions ...string) (agents []*agent, params *atomic.Value) {
	t.Helper()
	params = &atomic.Value{}
	for i, question := range questions {
		inc := "node0" + string(rune('a'+i))
		x := NewRounds(Options{Nodes: &Nodes{Inc: func() string { return inc }, Keys: [][]byte{[]byte("cluster key")}, Once: u.once}})
		t.Cleanup(x.Close)
		agents = append(agents, newAgent(t, x, asksFirst(question, ran, params)))
	}
	return agents, params
}

const (
	mayRun = `{"message":"Allow it?"}`
	said   = `{"approve-1":{"action":"accept","content":{}}}`
)

// TestWholeAfterRestart: the next process of the only node goes on with a call that waits for the yes of a person, once.
func TestWholeAfterRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran atomic.Int32
		u := &uses{ids: map[string]bool{}}
		process := func() *agent {
			x := NewRounds(Options{Nodes: &Nodes{Inc: func() string { return "" }, Keys: [][]byte{[]byte("the store's key")}, Once: u.once}})
			t.Cleanup(x.Close)
			return newAgent(t, x, asksFirst(mayRun, &ran, &atomic.Value{}))
		}
		asked, err := process().call(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		given, next := answer(t, asked, said), process()
		if result, err := next.call(t.Context(), given); err != nil || string(result) != `{"ran":true}` || ran.Load() != 1 {
			t.Fatalf("%s %v, ran %d times", result, err, ran.Load())
		}
		if result, err := next.call(t.Context(), given); err == nil || !strings.Contains(err.Error(), "given before") {
			t.Errorf("again: %s %v", result, err)
		}
	})
}

// TestWhole: any node goes on with a call that waits for the yes of a person, once, and for that call of that principal
// alone.
func TestWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran atomic.Int32
		u := &uses{ids: map[string]bool{}}
		nodes, params := wholeNodes(t, u, &ran, mayRun, mayRun, `{"message":"Allow another thing?"}`)
		asked, err := nodes[0].call(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		given := answer(t, asked, said)
		refused := func(name, want string, f func() (json.RawMessage, error)) {
			t.Helper()
			if result, err := f(); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %s %v, want %q", name, result, err, want)
			}
		}
		other := &agent{t: t, handler: nodes[1].handler, session: mcp.NewSession("", "bob"), caps: bothCaps}
		refused("another principal", "not for this request", func() (json.RawMessage, error) { return other.call(t.Context(), given) })
		refused("other arguments", "not for this request", func() (json.RawMessage, error) {
			return nodes[1].request(t.Context(), "tools/call", `"name":"t","arguments":{"a":1,"b":3}`+given)
		})
		u.away.Store(true)
		refused("without the store", "send the answers again", func() (json.RawMessage, error) { return nodes[1].call(t.Context(), given) })
		refused("without the store, where the call waits", "send the answers again", func() (json.RawMessage, error) { return nodes[0].call(t.Context(), given) })
		u.away.Store(false)
		if ran.Load() != 0 {
			t.Fatal("it ran")
		}
		if result, err := nodes[1].call(t.Context(), given); err != nil || string(result) != `{"ran":true}` || ran.Load() != 1 {
			t.Fatalf("%s %v, ran %d times", result, err, ran.Load())
		}
		if got := params.Load().(string); strings.Contains(got, "requestState") || strings.Contains(got, "inputResponses") {
			t.Errorf("it ran with %s", got)
		}
		for i, n := range nodes {
			refused("again at "+string(rune('0'+i)), "given before", func() (json.RawMessage, error) { return n.call(t.Context(), given) })
		}

		// Where something else would run than the person has seen, the person is asked again.
		asked, _ = nodes[0].call(t.Context(), "")
		again, err := nodes[2].call(t.Context(), answer(t, asked, said))
		if err != nil || !strings.Contains(string(again), "another thing") {
			t.Errorf("another question: %s %v", again, err)
		}
		asked, _ = nodes[0].call(t.Context(), "")
		again, err = nodes[1].call(t.Context(), `,"hidden":true`+answer(t, asked, said))
		if err != nil || !IsInputRequired(again) {
			t.Errorf("other params: %s %v", again, err)
		}
		asked, _ = nodes[0].call(t.Context(), "")
		again, err = nodes[1].call(t.Context(), answer(t, asked, `{}`))
		if err != nil || !IsInputRequired(again) {
			t.Errorf("without an answer: %s %v", again, err)
		}
		asked, _ = nodes[0].call(t.Context(), "")
		no := answer(t, asked, `{"approve-1":{"action":"decline"}}`)
		refused("no", "said no", func() (json.RawMessage, error) { return nodes[1].call(t.Context(), no) })
		if ran.Load() != 1 {
			t.Errorf("it ran %d times", ran.Load())
		}

		asked, _ = nodes[0].call(t.Context(), "")
		given = answer(t, asked, said)
		time.Sleep(5*time.Minute + 2*time.Second)
		refused("late", "has expired", func() (json.RawMessage, error) { return nodes[1].call(t.Context(), given) })
		if ran.Load() != 1 {
			t.Errorf("it ran %d times", ran.Load())
		}
	})
}

// TestWholeAtOnce: one yes that comes to all nodes at the same time lets one call run.
func TestWholeAtOnce(t *testing.T) {
	t.Parallel()
	var ran atomic.Int32
	nodes, _ := wholeNodes(t, &uses{ids: map[string]bool{}}, &ran, mayRun, mayRun, mayRun)
	for range 20 {
		ran.Store(0)
		asked, err := nodes[0].call(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		given := answer(t, asked, said)
		var all sync.WaitGroup
		for _, n := range nodes {
			all.Go(func() {
				if _, err := n.call(t.Context(), given); err != nil && !strings.Contains(err.Error(), "given before") {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if ran.Load() != 1 {
			t.Fatalf("it ran %d times", ran.Load())
		}
	}
}

// TestNotWhole: only a call whose first question is weir's own, and that brings no answers to a server, goes on elsewhere.
func TestNotWhole(t *testing.T) {
	t.Parallel()
	var ran atomic.Int32
	u := &uses{ids: map[string]bool{}}
	nodes, _ := wholeNodes(t, u, &ran, mayRun, mayRun)
	asked, err := nodes[0].call(t.Context(), `,"requestState":"of a server","inputResponses":{"q":{"action":"accept"}}`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := nodes[1].call(t.Context(), answer(t, asked, said)); err == nil || !strings.Contains(err.Error(), "is gone; make the call again") {
		t.Errorf("with answers to a server: %v", err)
	}
	x := NewRounds(Options{Nodes: &Nodes{Inc: func() string { return "node0x" }, Keys: [][]byte{[]byte("cluster key")}, Once: u.once}})
	t.Cleanup(x.Close)
	server := newAgent(t, x, asks(1))
	if asked, err = server.call(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if _, err := nodes[1].call(t.Context(), answer(t, asked, `{"ask-1":{"action":"accept"}}`)); err == nil || !strings.Contains(err.Error(), "is gone; make the call again") {
		t.Errorf("a question of a server: %v", err)
	}
	if ran.Load() != 0 {
		t.Error("it ran")
	}
}
