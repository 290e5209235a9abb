package membership

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/store/nodestore"
	"github.com/weir-mcp/weir/internal/upstream"
	registry "github.com/weir-mcp/weir/internal/upstream/agents"
)

// TestRounds: calls during a round share the next one.
func TestRounds(t *testing.T) {
	t.Parallel()
	const callers = 100
	var r rounds
	var all sync.WaitGroup
	began, hold := 0, make(chan struct{})
	all.Go(func() { r.run(func() { began++; <-hold }) })
	waitFor := func(calls uint64) {
		for end := time.Now().Add(20 * time.Second); r.asked.Load() < calls && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
	}
	waitFor(1)
	for r.mu.TryLock() { // the first round has not begun
		r.mu.Unlock()
		time.Sleep(time.Millisecond)
	}
	for range callers {
		all.Go(func() {
			if r.run(func() { began++ }); began != 2 {
				t.Errorf("a call returned after %d rounds, want 2", began)
			}
		})
	}
	waitFor(1 + callers)
	close(hold)
	all.Wait()
	if r.run(func() { began++ }); began != 3 {
		t.Errorf("%d rounds for a call, %d calls during its round, and one after them", began, callers)
	}
}

// TestWorkOfARegistration: what the change of one agent costs for each of the others is a few
// allocations. Reading the defaults of servers from their tags took a hundred times as many.
func TestWorkOfARegistration(t *testing.T) {
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // else the end of the connection is not noticed
		<-r.Context().Done()
	}))
	defer silent.Close()
	c, _, err := config.Parse("weir.yaml", []byte("mode: gateway\nmcpServers: {}\n"), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	manager := upstream.New(upstream.Options{Logger: log})
	kept := nodestore.Memory(log)
	defer kept.Close()
	agents, err := New(c, Needs{
		Log: log, Config: func() *config.Config { return c }, Owners: NewOwners(c, log), Store: kept,
		Servers: func() *upstream.Manager { return manager }, Place: func(all []*config.Server) []*config.Server { return all },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		silent.CloseClientConnections()
		agents.Close()
		_ = manager.Close(context.WithoutCancel(t.Context()))
	}()
	const few, many = 10, 110
	var work [2]float64
	for i, n := range []int{few, many} {
		var routes []registry.Route
		for j := range n {
			routes = append(routes, registry.Route{Name: fmt.Sprint("agent", j), URL: silent.URL})
		}
		agents.registry.SetRoutes(routes)
		first, _ := manager.Upstream("agent1")
		work[i] = testing.AllocsPerRun(20, agents.Merge)
		if again, ok := manager.Upstream("agent1"); !ok || again != first || len(manager.Names()) != n {
			t.Fatal("an update of the same agents changed them")
		}
	}
	if each := (work[1] - work[0]) / (many - few); each > 40 {
		t.Errorf("%.0f allocations for each agent that is there, want at most 40", each)
	}
}
