package clustertest_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/store/natsstore"
	"github.com/weir-mcp/weir/internal/testkit/clustertest"
)

// follower is what one node knows of the documents.
type follower struct {
	docs *natsstore.Docs

	mu   sync.Mutex // guards seen
	seen map[string]string
}

func (f *follower) has(key, value string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen[key] == value
}

// followers opens the store at each node and follows all documents.
func followers(t *testing.T, c *clustertest.Cluster) (all []*follower) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, n := range c.Nodes {
		conn, err := natsstore.Dial(ctx, natsstore.Servers{URLs: []string{n.StoreURL}})
		if err != nil {
			t.Fatal(err)
		}
		f := &follower{seen: map[string]string{}}
		f.docs, _, err = natsstore.Open(ctx, conn, natsstore.Options{Bucket: "notices", MaxBytes: 16 << 20})
		if err != nil {
			t.Fatal(err)
		}
		stop, err := f.docs.Follow("d.", func(d store.Doc) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.seen[d.Key] = string(d.Value)
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			stop()
			f.docs.Close()
			conn.Close()
		})
		all = append(all, f)
	}
	return all
}

// The times of notices: to all nodes, and to a node that has lost some.
const (
	noticeTime = 100 * time.Millisecond
	lossTime   = time.Minute
)

// change writes a document at one node.
func change(t *testing.T, f *follower, key, value string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := store.Change(ctx, f.docs, key, func(store.Doc) ([]byte, time.Duration, error) { return []byte(value), 0, nil })
	if err != nil {
		t.Fatal(err)
	}
}

// reaches waits until all nodes know a document.
func reaches(t *testing.T, all []*follower, key, value string, within time.Duration) (took time.Duration) {
	t.Helper()
	began := time.Now()
	for _, f := range all {
		for !f.has(key, value) {
			if time.Since(began) > within {
				t.Fatalf("a change has not reached all nodes in %v", within)
			}
			time.Sleep(time.Millisecond)
		}
	}
	return time.Since(began)
}

// TestNotices: a change of a document reaches every node in 100 ms, and after any loss within a minute.
func TestNotices(t *testing.T) {
	c := clustertest.Start(t, clustertest.Options{Nodes: 4})
	all := followers(t, c)
	_, patience := lasts()
	changes := 30
	if *chaosTime > 0 {
		changes = 100
	}
	var times []time.Duration
	for i := range changes {
		key, value := fmt.Sprint("d.k", i%10), fmt.Sprint(i)
		change(t, all[i%len(all)], key, value)
		times = append(times, reaches(t, all, key, value, lossTime+patience()))
	}
	slices.Sort(times)
	median, most := times[len(times)/2], times[len(times)*95/100]
	t.Logf("a change reaches all nodes in %v, 95 of 100 in %v", median, most)
	if most > noticeTime+patience() {
		t.Errorf("95 of 100 changes took up to %v, more than %v", most, noticeTime)
	}
	states := map[int]clustertest.State{1: clustertest.Cut, 2: clustertest.Stalled, 3: clustertest.HalfOpen} // by node
	for i, state := range states {
		c.Nodes[i].Store().Set(state)
	}
	change(t, all[0], "d.lost", "x")
	change(t, all[0], "d.gone", "x")
	reaches(t, all[:1], "d.gone", "x", lossTime+patience())
	for i, state := range states {
		if all[i].has("d.lost", "x") {
			t.Errorf("a node whose link is %v has heard of a change", state)
		}
		c.Nodes[i].Store().Set(clustertest.Open)
	}
	for i, state := range states {
		took := reaches(t, all[i:i+1], "d.lost", "x", lossTime+patience())
		reaches(t, all[i:i+1], "d.gone", "x", lossTime+patience())
		t.Logf("after a link that was %v: %v", state, took)
	}
	c.NATS.Kill()
	if err := c.NATS.Start(); err != nil {
		t.Fatal(err)
	}
	change(t, all[0], "d.again", "x")
	t.Logf("after a kill of the server: %v", reaches(t, all, "d.again", "x", lossTime+patience()))
}
