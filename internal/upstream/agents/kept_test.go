package agents

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/testkit/storetest"
)

// restart returns a Registry as the next process makes it, while it runs.
func restart(t *testing.T, docs store.Docs, o Options) (*Registry, func()) {
	t.Helper()
	var err error
	if o.Kept, err = ReadKept(t.Context(), docs); err != nil {
		t.Fatal(err)
	}
	r := New(o)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); r.Run(ctx) }()
	return r, func() { cancel(); <-done }
}

func documents(t *testing.T, docs store.Docs) (n int) {
	t.Helper()
	for _, err := range docs.List(t.Context(), keepPrefix) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

const (
	agentA = `{"name":"a","instance":"1","port":7001,"server":{"name":"a"}}`
	agentB = `{"name":"b","instance":"1","port":7002}`
	both   = "a=http://10.0.0.7:7001/mcp b=http://10.0.0.7:7002/mcp"
)

// TestKept: the next process has the agents that were registered, with leases that begin anew. Those
// that left or went silent are not there.
func TestKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sets := 0
		docs := &storetest.Faults{Docs: store.NewMemory(store.MemoryOptions{}), Next: func() storetest.Fault { sets++; return storetest.None }}
		r, stop := restart(t, docs, Options{})
		for _, body := range []string{agentA, agentB} {
			if status, answer := send(r, "ann", http.MethodPost, "/agents", body); status != 200 {
				t.Fatal(status, answer)
			}
		}
		first := r.Agents()[0]
		before := sets
		time.Sleep(20 * time.Second)
		send(r, "ann", http.MethodPost, "/agents", agentA)
		if sets != before {
			t.Errorf("a heartbeat asked the store %d times", sets-before)
		}
		stop()
		time.Sleep(time.Hour) // weir is not running
		r, stop = restart(t, docs, Options{})
		if got := names(r); got != both {
			t.Fatalf("restored: %s", got)
		}
		now := r.Agents()[0]
		if now.Principal != "ann" || now.Instance != "1" || now.From != first.From || string(now.Server) != `{"name":"a"}` || !now.Since.Equal(first.Since) || !now.Until.Equal(time.Now().Add(30*time.Second)) {
			t.Errorf("%+v, was %+v", now, first)
		}
		if status, answer := send(r, "bob", http.MethodPost, "/agents", agentA); status != http.StatusConflict {
			t.Errorf("another principal takes the name: %d %s", status, answer)
		}
		time.Sleep(20 * time.Second)
		if status, answer := send(r, "ann", http.MethodPost, "/agents", agentB); status != 200 {
			t.Error(status, answer)
		}
		time.Sleep(15 * time.Second)
		if got := names(r); got != "b=http://10.0.0.7:7002/mcp" || documents(t, docs) != 1 {
			t.Errorf("after the lease of one: %s, %d documents", got, documents(t, docs))
		}
		stop()
		r, stop = restart(t, docs, Options{May: func(principal, name string) bool { return name != "b" }})
		if got := names(r); got != "" {
			t.Errorf("an agent that may not register any more: %s", got)
		}
		time.Sleep(2 * time.Second)
		if n := documents(t, docs); n != 0 {
			t.Errorf("%d documents are left", n)
		}
		stop()
		r, stop = restart(t, docs, Options{})
		send(r, "ann", http.MethodPost, "/agents", agentA)
		send(r, "ann", http.MethodDelete, "/agents/a?instance=1", "")
		if n := documents(t, docs); n != 0 {
			t.Errorf("an agent that left has %d documents", n)
		}
		stop()
	})
}

// TestKeptLate: agents register and leave while the store does not answer, and are kept once it does.
func TestKeptLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := &storetest.Faults{Docs: store.NewMemory(store.MemoryOptions{})}
		r, stop := restart(t, docs, Options{Lease: time.Hour})
		send(r, "ann", http.MethodPost, "/agents", agentB)
		docs.Cut(true)
		if status, answer := send(r, "ann", http.MethodPost, "/agents", agentA); status != 200 {
			t.Errorf("without the store: %d %s", status, answer)
		}
		send(r, "ann", http.MethodDelete, "/agents/b?instance=1", "")
		time.Sleep(10 * time.Second)
		docs.Cut(false)
		time.Sleep(4 * time.Second)
		stop()
		r, stop = restart(t, docs, Options{})
		if got := names(r); got != "a=http://10.0.0.7:7001/mcp" {
			t.Errorf("restored: %s", got)
		}
		stop()
	})
}
