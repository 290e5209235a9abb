package cluster

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/store"
)

// lines is a log that may be read while it is written.
type lines struct {
	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.buf.String(), text)
}

// fastClock is a store whose writer has a clock that is ahead.
type fastClock struct {
	store.Docs
	from, to string // digits of the clock
}

// Set implements store.Docs.
func (d fastClock) Set(ctx context.Context, key string, value []byte, rev uint64, ttl time.Duration) (uint64, error) {
	return d.Docs.Set(ctx, key, bytes.Replace(value, []byte(d.from), []byte(d.to), 1), rev, ttl)
}

// TestStatus: nodes tell their version, their configuration and their load. The log is told once of a clock
// that differs, and of different configurations when they last.
func TestStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		log := &lines{}
		var mu sync.Mutex // guards self
		self := Self{Version: "v2", Config: "one", Load: Load{Calls: 3, Sessions: 4, CPU: .5}}
		start := func(name string, docs store.Docs, self func() Self) *Node {
			n, err := Start(t.Context(), Options{Docs: docs, Bus: w.bus, Name: name, Dial: w.dial, Logger: slog.New(slog.NewTextHandler(log, nil))})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { n.Close(context.Background()) })
			Describe(n, self)
			n.lease.Renew()
			return n
		}
		a := start("a", w.docs, func() Self { return Self{Version: "v1", Config: "one"} })
		// The years of the bubble begin in 2000: its milliseconds begin with 9466.
		b := start("b", fastClock{w.docs, `"clock":9466`, `"clock":9467`}, func() Self {
			mu.Lock()
			defer mu.Unlock()
			return self
		})
		time.Sleep(2*renewEvery + time.Second)
		all := Status(a)
		if len(all) != 2 || !all[0].Self || all[0].Version != "v1" || all[0].Skewed() || all[1].Self || all[1].Load != self.Load || all[1].Version != "v2" || !all[1].Skewed() || all[1].Skew < time.Hour {
			t.Errorf("%+v", all)
		}
		if s := Status(b); !s[1].Self || s[0].Load != (Load{}) {
			t.Errorf("%+v", s)
		}
		if Differing(all) != nil || log.count("different configurations") != 0 {
			t.Error("equal configurations differ")
		}
		mu.Lock()
		self.Config = "two"
		mu.Unlock()
		time.Sleep(configTime / 2)
		if by := Differing(Status(a)); len(by) != 2 || by["two"][0] != "b" {
			t.Errorf("%v", by)
		}
		if log.count("different configurations") != 0 {
			t.Error("the log was told at once")
		}
		time.Sleep(2 * configTime)
		if told, skewed := log.count("different configurations"), log.count("the clocks of two nodes differ"); told != 2 || skewed != 1 {
			t.Errorf("the log was told %d times of configurations, %d times of a clock", told, skewed)
		}
		if f := Count(a); f.Nodes[stateUp] != 2 || f.Nodes[stateDraining] != 0 || f.Renewals < 10 || f.Fenced != 0 {
			t.Errorf("%+v", f)
		}
	})
}
