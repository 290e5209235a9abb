package agents

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/testkit/storetest"
)

// joined returns the Registry of a node, while it runs.
func joined(t *testing.T, docs store.Docs, o Options) (r *Registry, stop func()) {
	t.Helper()
	o.Lease = ShareLease
	r = New(o)
	if err := r.Share(docs); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); r.Run(ctx) }()
	return r, func() { cancel(); <-done; r.Close() }
}

// TestShared: an agent that registers at one node is known at all of them, also at those that start later. A
// heartbeat at any node keeps it, and writes once in 20 seconds. It goes everywhere when it leaves, or when
// its lease ends. A name has one agent in the whole cluster.
func TestShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sets atomic.Int32
		docs := &storetest.Faults{Docs: store.NewMemory(store.MemoryOptions{}), Next: func() storetest.Fault { sets.Add(1); return storetest.None }}
		var changes atomic.Int32
		a, stopA := joined(t, docs, Options{})
		defer stopA()
		b, stopB := joined(t, docs, Options{Changed: func() { changes.Add(1) }})
		defer stopB()
		post := func(r *Registry, principal, body string) int {
			status, _ := send(r, principal, http.MethodPost, "/agents", body)
			synctest.Wait()
			return status
		}
		for _, body := range []string{agentA, agentB} {
			if status := post(a, "ann", body); status != 200 {
				t.Fatal(status)
			}
		}
		if got := names(b); got != both || changes.Load() == 0 {
			t.Errorf("the second node has %q after %d changes", got, changes.Load())
		}
		c, stopC := joined(t, docs, Options{})
		defer stopC()
		if got := names(c); got != both {
			t.Errorf("a node that starts later has %q", got)
		}
		if since := c.Agents()[0].Since; !since.Equal(a.Agents()[0].Since) {
			t.Errorf("registered since %v, and elsewhere %v", a.Agents()[0].Since, since)
		}
		if status := post(b, "bob", agentA); status != http.StatusConflict {
			t.Errorf("a name of another principal: %d", status)
		}
		before, renewals := sets.Load(), 0
		for range 12 { // two minutes
			time.Sleep(10 * time.Second)
			renewals++
			for i, r := range []*Registry{a, b, c} {
				if i == renewals%3 && post(r, "ann", agentA) != 200 {
					t.Error("a heartbeat is refused")
				}
			}
		}
		if n := sets.Load() - before; n > 2*6 { // a read and a write each
			t.Errorf("%d requests to the store for %d heartbeats in two minutes", n, renewals)
		}
		const left = "a=http://10.0.0.7:7001/mcp"
		if one, two, three := names(a), names(b), names(c); one != left || two != left || three != left {
			t.Errorf("after the end of a lease: %q, %q, %q", one, two, three)
		}
		send(c, "ann", http.MethodDelete, "/agents/a?instance=0", "") // an older instance
		synctest.Wait()
		if names(a) == "" {
			t.Error("an older instance removes the agent")
		}
		send(c, "ann", http.MethodDelete, "/agents/a?instance=1", "")
		synctest.Wait()
		if names(a)+names(b)+names(c) != "" || documents(t, docs) != 0 {
			t.Errorf("after the agent has left: %q, %q, %q", names(a), names(b), names(c))
		}
	})
}

// TestSharedWithoutStore: while the store does not answer, agents that are known stay where they are heard
// of, and new ones are told to try again. Afterwards all nodes have them.
func TestSharedWithoutStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := store.NewMemory(store.MemoryOptions{})
		cut := &storetest.Faults{Docs: memory}
		a, stopA := joined(t, cut, Options{})
		defer stopA()
		b, stopB := joined(t, memory, Options{})
		defer stopB()
		send(a, "ann", http.MethodPost, "/agents", agentA)
		cut.Cut(true)
		for range 20 {
			time.Sleep(10 * time.Second)
			if status, answer := send(a, "ann", http.MethodPost, "/agents", agentA); status != 200 {
				t.Fatal(status, answer)
			}
		}
		if names(a) == "" || names(b) != "" {
			t.Errorf("without the store: %q, and at another node %q", names(a), names(b))
		}
		if status, answer := send(a, "ann", http.MethodPost, "/agents", agentB); status != http.StatusServiceUnavailable || !strings.Contains(answer, "store_unavailable") {
			t.Errorf("a new agent: %d %s", status, answer)
		}
		cut.Cut(false)
		time.Sleep(10 * time.Second)
		for _, body := range []string{agentA, agentB} {
			if status, answer := send(a, "ann", http.MethodPost, "/agents", body); status != 200 {
				t.Fatal(status, answer)
			}
		}
		synctest.Wait()
		if names(a) != both || names(b) != both {
			t.Errorf("afterwards: %q and %q", names(a), names(b))
		}
		cut.Cut(true) // and the agents end
		time.Sleep(3 * ShareLease)
		if names(a)+names(b) != "" {
			t.Errorf("silent agents stay: %q and %q", names(a), names(b))
		}
	})
}

// TestSharedFaults: nodes agree on the agents however often the store loses answers.
func TestSharedFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		docs := &storetest.Faults{Docs: store.NewMemory(store.MemoryOptions{}), Next: func() storetest.Fault { n++; return storetest.Fault(n * 7 % 5) }}
		a, stopA := joined(t, docs, Options{})
		defer stopA()
		b, stopB := joined(t, docs, Options{})
		defer stopB()
		both := []*Registry{a, b}
		for i := range 60 {
			send(both[i%2], "ann", http.MethodPost, "/agents", agentA)
			time.Sleep(10 * time.Second)
		}
		if names(a) != "a=http://10.0.0.7:7001/mcp" || names(a) != names(b) {
			t.Errorf("%q and %q", names(a), names(b))
		}
	})
}

// TestSharedFailuresOfOne: an agent whose request is given up, or whose document is of a later version, does not
// keep others from registering.
func TestSharedFailuresOfOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := store.NewMemory(store.MemoryOptions{})
		if _, err := docs.Set(t.Context(), keyOf("a"), []byte(`{"v":99,"name":"a"}`), 0, 0); err != nil {
			t.Fatal(err)
		}
		r, stop := joined(t, docs, Options{})
		defer stop()
		if status, answer := send(r, "ann", http.MethodPost, "/agents", agentA); status != http.StatusServiceUnavailable || !strings.Contains(answer, "later version") {
			t.Errorf("a document of a later version: %d %s", status, answer)
		}
		if status, answer := send(r, "bob", http.MethodPost, "/agents", strings.ReplaceAll(agentB, `"b"`, `"c"`)); status != http.StatusOK {
			t.Errorf("an agent after one with a document of a later version: %d %s", status, answer)
		}
		over, cancel := context.WithCancel(t.Context())
		cancel()
		if err := r.register(over, Agent{Name: "d", URL: "http://10.0.0.7:7001/mcp", Principal: "eve", Instance: "1"}); err == nil {
			t.Error("a request that was given up has registered an agent")
		}
		if status, answer := send(r, "bob", http.MethodPost, "/agents", agentB); status != http.StatusOK {
			t.Errorf("an agent after one that has given up: %d %s", status, answer)
		}
	})
}

// afterSet is a store that calls a function between a write and its answer.
type afterSet struct {
	store.Docs
	then func()
}

func (d *afterSet) Set(ctx context.Context, key string, value []byte, rev uint64, ttl time.Duration) (uint64, error) {
	rev, err := d.Docs.Set(ctx, key, value, rev, ttl)
	if then := d.then; then != nil {
		d.then = nil
		then()
	}
	return rev, err
}

// TestSharedInOrder: a node that hears late of an older registration, or whose own write is answered late,
// keeps the newer one.
func TestSharedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := store.NewMemory(store.MemoryOptions{})
		docs := &afterSet{Docs: memory}
		a, stopA := joined(t, docs, Options{})
		defer stopA()
		b, stopB := joined(t, memory, Options{})
		defer stopB()
		post := func(r *Registry, instance string) {
			t.Helper()
			if status, answer := send(r, "ann", http.MethodPost, "/agents", strings.Replace(agentA, `"instance":"1"`, `"instance":"`+instance+`"`, 1)); status != http.StatusOK {
				t.Fatal(status, answer)
			}
			synctest.Wait()
		}
		post(a, "1")
		old, err := memory.Get(t.Context(), keyOf("a"))
		if err != nil {
			t.Fatal(err)
		}
		post(a, "2")
		a.kept.follow(old)
		synctest.Wait()
		if got := a.Instance("a"); got != "2" {
			t.Errorf("after a change of before: instance %q, want 2", got)
		}
		docs.then = func() { post(b, "4") }
		post(a, "3")
		if one, two := a.Instance("a"), b.Instance("a"); one != "4" || two != "4" {
			t.Errorf("instance %q, and %q at the node that has written last; want 4", one, two)
		}
	})
}
