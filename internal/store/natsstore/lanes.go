package natsstore

import (
	"fmt"
	"hash/maphash"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/weir-mcp/weir/internal/store"
)

// laneLength bounds the messages that wait in a lane. The client drops further ones.
const laneLength = 4096

// lanes are a few goroutines that all subscriptions of a connection share. A callback subscription of
// the client has a goroutine of its own: 4.7 KB each in place of 1.9.
type lanes struct {
	conn   *nats.Conn
	size   int
	length int // of each lane
	seed   maphash.Seed
	done   sync.WaitGroup

	mu     sync.RWMutex // guards below
	queues []chan *nats.Msg
	subs   map[*nats.Subscription]func(*nats.Msg)
	closed bool
	end    chan struct{}
}

func newLanes(conn *nats.Conn, size int) *lanes {
	return &lanes{conn: conn, size: size, length: laneLength, seed: maphash.MakeSeed(), subs: map[*nats.Subscription]func(*nats.Msg){}, end: make(chan struct{})}
}

// subscribe calls f with the messages of a subject, in order. It starts the goroutines when they are
// first needed.
func (l *lanes) subscribe(subject string, f func(*nats.Msg)) (stop func(), err error) {
	l.mu.Lock() // held until f is known: the first message may be there at once
	defer l.mu.Unlock()
	if l.closed {
		return nil, fmt.Errorf("%w: the connection to it has ended", store.ErrUnavailable)
	}
	for len(l.queues) < l.size {
		queue := make(chan *nats.Msg, l.length)
		l.queues = append(l.queues, queue)
		l.done.Go(func() { l.run(queue) })
	}
	sub, err := l.conn.ChanSubscribe(subject, l.queues[maphash.String(l.seed, subject)%uint64(l.size)])
	if err != nil {
		return nil, away(err)
	}
	l.subs[sub] = f
	return func() {
		l.mu.Lock()
		delete(l.subs, sub)
		l.mu.Unlock()
		_ = sub.Unsubscribe() // fails where the connection has ended, and the subscription with it
	}, nil
}

func (l *lanes) run(queue chan *nats.Msg) {
	for {
		select {
		case m := <-queue:
			l.mu.RLock()
			f := l.subs[m.Sub]
			l.mu.RUnlock()
			if f != nil {
				f(m)
			}
		case <-l.end:
			return
		}
	}
}

// has reports whether a subscription is one of these.
func (l *lanes) has(sub *nats.Subscription) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	_, ok := l.subs[sub]
	return ok
}

// dropped returns how many messages of the current subscriptions have found no room.
func (l *lanes) dropped() (n int) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for sub := range l.subs {
		if one, err := sub.Dropped(); err == nil {
			n += one
		}
	}
	return n
}

// close ends all subscriptions and waits for the goroutines.
func (l *lanes) close() {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return
	}
	l.closed = true
	subs := l.subs
	l.subs = nil
	l.mu.Unlock()
	for sub := range subs {
		_ = sub.Unsubscribe()
	}
	close(l.end)
	l.done.Wait()
}
