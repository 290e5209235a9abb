package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
)

// slowStream takes messages at once while it is awake; a Write waits until it is.
type slowStream struct {
	mu    sync.Mutex // guards below
	wake  *sync.Cond
	awake bool
	now   int // messages that were taken without waiting
	got   []string

	closed chan struct{}
	once   sync.Once
}

func newSlowStream() *slowStream {
	s := &slowStream{awake: true, closed: make(chan struct{})}
	s.wake = sync.NewCond(&s.mu)
	return s
}

func (s *slowStream) Read() ([]byte, error) {
	<-s.closed
	return nil, context.Canceled
}

func (s *slowStream) Write(msg []byte) error {
	_, err := s.WriteAll([][]byte{msg}, true)
	return err
}

func (s *slowStream) WriteAll(msgs [][]byte, wait bool) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.awake && wait {
		s.wake.Wait()
	}
	if !s.awake {
		return false, nil
	}
	for _, msg := range msgs {
		s.got = append(s.got, string(msg))
	}
	if !wait {
		s.now++
	}
	return true, nil
}

func (s *slowStream) Close() error {
	s.once.Do(func() { close(s.closed) })
	s.set(true)
	return nil
}

func (s *slowStream) set(awake bool) {
	s.mu.Lock()
	s.awake = awake
	s.wake.Broadcast()
	s.mu.Unlock()
}

// Messages leave in the order in which they were sent, also those that a caller writes itself. A
// stream that does not take them holds no caller up.
func TestCallersWriteInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlowStream()
		c := NewConn(s, ConnOptions{Client: true})
		defer c.Close()
		n := 0
		send := func(count int) {
			t.Helper()
			for range count {
				if err := c.Notify(t.Context(), "n", json.RawMessage(fmt.Sprintf(`{"n":%d}`, n))); err != nil {
					t.Fatal(err)
				}
				n++
			}
		}
		send(3)
		if s.now != 3 {
			t.Errorf("%d of 3 messages were written by their senders", s.now)
		}
		for range 20 {
			s.set(false)
			send(5) // all wait for the writer
			s.set(true)
			send(5) // no earlier message may be overtaken
		}
		synctest.Wait()
		if len(s.got) != n {
			t.Fatalf("%d of %d messages were written", len(s.got), n)
		}
		for i, msg := range s.got {
			if want := fmt.Sprintf(`{"jsonrpc":"2.0","method":"n","params":{"n":%d}}`, i); msg != want {
				t.Fatalf("message %d is %s", i, msg)
			}
		}
		send(1)
		if s.now < 4 {
			t.Error("after a queue the senders do not write any more")
		}
	})
}
