package clustertest_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/testkit/clustertest"
)

// chaos breaks a cluster by a seed, and remembers what it did.
type chaos struct {
	t     *testing.T
	c     *clustertest.Cluster
	began time.Time
	seed  uint64

	mu   sync.Mutex // guards done
	done []string
}

// newChaos prints the seed. What was done is printed if the test fails.
func newChaos(t *testing.T, c *clustertest.Cluster) *chaos {
	x := &chaos{t: t, c: c, began: time.Now(), seed: *seedFlag}
	if x.seed == 0 {
		x.seed = rand.Uint64()
	}
	t.Logf("seed %d: go test ./internal/testkit/clustertest -run %s -seed %d", x.seed, t.Name(), x.seed)
	t.Cleanup(func() {
		if t.Failed() {
			x.mu.Lock()
			defer x.mu.Unlock()
			for _, line := range x.done {
				t.Log(line)
			}
		}
	})
	return x
}

func (x *chaos) log(format string, args ...any) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.done = append(x.done, fmt.Sprintf("%8.3f s ", time.Since(x.began).Seconds())+fmt.Sprintf(format, args...))
}

// between returns a random duration.
func between(r *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(r.Int64N(int64(most-least)))
}

// sleep waits for a duration or the end of a context.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// endTime is how long a node takes to end: cluster.drain, and what it writes then.
const endTime = 40 * time.Second

// nodes ends, kills and pauses one node at a time until a context ends. All nodes run when it returns.
func (x *chaos) nodes(ctx context.Context) {
	r := rand.New(rand.NewPCG(x.seed, 1))
	_, patience := lasts()
	for ctx.Err() == nil {
		n := x.c.Nodes[r.IntN(len(x.c.Nodes))]
		what, first, then := r.IntN(3), between(r, 100*time.Millisecond, 2*time.Second), between(r, 100*time.Millisecond, 3*time.Second)
		sleep(ctx, first)
		switch what {
		case 0:
			x.log("kill %s", n.Name)
			n.Kill()
			sleep(ctx, then)
		case 1:
			x.log("pause %s", n.Name)
			n.Pause()
			sleep(ctx, 4*then)
			x.log("resume %s", n.Name)
			n.Resume()
			continue
		case 2:
			x.log("end %s", n.Name)
			if err := n.Terminate(endTime + patience()); err != nil {
				x.t.Error(err)
			}
		}
		x.log("start %s", n.Name)
		if err := n.Begin(); err != nil {
			x.t.Error(err)
			return
		}
	}
}

// links breaks one link at a time, between nodes or to NATS, until a context ends.
func (x *chaos) links(ctx context.Context) {
	r := rand.New(rand.NewPCG(x.seed, 2))
	longest := 4 * time.Second
	if *chaosTime > 0 {
		longest = 3 * callTimeout // longer than a call may take
	}
	for ctx.Err() == nil {
		from, to := r.IntN(len(x.c.Nodes)), r.IntN(len(x.c.Nodes))
		l, name := x.c.Nodes[from].Store(), x.c.Nodes[from].Name+" to NATS"
		if from != to {
			l, name = x.c.Link(x.c.Nodes[from], x.c.Nodes[to]), x.c.Nodes[from].Name+" to "+x.c.Nodes[to].Name
		}
		state, first, then := clustertest.State(1+r.IntN(3)), between(r, 100*time.Millisecond, time.Second), between(r, 100*time.Millisecond, longest)
		sleep(ctx, first)
		x.log("%s: %v", name, state)
		l.Set(state)
		sleep(ctx, then)
		x.log("%s: %v", name, clustertest.Open)
		l.Set(clustertest.Open)
	}
}

// stores kills, pauses and fills the disk of one NATS server at a time, until a context ends. All of them work when it
// returns. One server alone is away for a shorter time than nodes live without a store, most of the time.
func (x *chaos) stores(ctx context.Context) {
	r := rand.New(rand.NewPCG(x.seed, 3))
	longest := 4 * time.Second
	if len(x.c.Servers) > 1 {
		longest = 10 * time.Second
	}
	for ctx.Err() == nil {
		at := r.IntN(len(x.c.Servers))
		s, name := x.c.Servers[at], fmt.Sprint("NATS server ", at)
		what, first, then := r.IntN(3), between(r, 2*time.Second, 12*time.Second), between(r, 100*time.Millisecond, longest)
		sleep(ctx, first)
		if ctx.Err() != nil {
			return
		}
		switch what {
		case 0:
			x.log("kill %s", name)
			s.Kill()
		case 1:
			x.log("pause %s", name)
			s.Pause()
		case 2:
			x.log("the disk of %s is full", name)
			if err := s.Limit(1); err != nil {
				x.t.Error(err)
			}
		}
		sleep(ctx, then)
		if what == 1 {
			x.log("resume %s", name)
			s.Resume()
			continue
		}
		s.Kill() // a server that could not write has switched its store off
		x.log("start %s", name)
		if err := s.Start(); err != nil {
			x.t.Error(err)
			return
		}
	}
}

// run breaks things for a time while work runs, and mends them.
func (x *chaos) run(d time.Duration, work func(ctx context.Context)) {
	ctx, cancel := context.WithTimeout(x.t.Context(), d)
	defer cancel()
	var all sync.WaitGroup
	all.Go(func() { x.nodes(ctx) })
	all.Go(func() { x.links(ctx) })
	if *chaosTime > 0 || len(x.c.Servers) > 1 {
		all.Go(func() { x.stores(ctx) })
	}
	working, stop := context.WithCancel(x.t.Context())
	defer stop()
	over := make(chan struct{})
	go func() {
		defer close(over)
		work(working)
	}()
	all.Wait()
	x.c.Heal()
	x.log("all is mended")
	stop()
	<-over
}
