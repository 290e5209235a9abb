package cluster

import (
	"context"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/store"
)

// muteBus is a Bus on which no answer of one node comes.
type muteBus struct {
	store.Bus
	mute atomic.Value // INC; none: all answers come
}

func (m *muteBus) Ask(subject string, h store.Header, body []byte, timeout time.Duration, f func(store.Message, error)) {
	if inc, _ := m.mute.Load().(string); inc != "" && strings.Contains(subject, inc) {
		time.AfterFunc(timeout, func() { f(store.Message{}, store.ErrUnavailable) })
		return
	}
	m.Bus.Ask(subject, h, body, timeout, f)
}

// TestStalledLink: a request to a node that takes requests over its link without an answer ends within 5 seconds, like
// one on a connection that breaks. The node may answer on the bus, or be stopped as a whole.
func TestStalledLink(t *testing.T) {
	t.Run("link", func(t *testing.T) { testStalledLink(t, false) })
	t.Run("node", func(t *testing.T) { testStalledLink(t, true) })
}

func testStalledLink(t *testing.T, stopped bool) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		b := w.join("b")
		bus := &muteBus{Bus: w.bus}
		var ends []net.Conn
		var mu sync.Mutex
		a, err := Start(t.Context(), Options{Docs: w.docs, Bus: bus, Name: "a", Dial: func(context.Context, string, string) (net.Conn, error) {
			near, far := net.Pipe()
			mu.Lock()
			defer mu.Unlock()
			ends = append(ends, far)
			return near, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if stopped {
			bus.mute.Store(b.Inc())
		}
		silent, stop := a.Watch(b.Inc())
		began := time.Now()
		<-silent
		if took := time.Since(began); took > 5*time.Second || took < 2*time.Second {
			t.Errorf("given up after %v", took)
		}
		stop()
		if a.Gone(b.Inc()) {
			t.Error("a node whose link is stalled counts as gone")
		}
		for _, far := range ends {
			_ = far.Close()
		}
		a.Close(t.Context())
		b.Close(t.Context())
	})
}
