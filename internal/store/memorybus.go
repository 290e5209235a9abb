package store

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// busQueue bounds the messages that wait for one listener of a MemoryBus. Further ones are lost.
const busQueue = 4096

// MemoryBus is a Bus between parties of one process. Tests of rooms use it.
type MemoryBus struct {
	mu        sync.Mutex // guards below
	listeners map[string][]*listener
}

// listener is one Listen. Its messages wait in a slice: a channel for so many is 300 KB, waiting or not.
type listener struct {
	wake    chan struct{} // capacity 1
	stopped atomic.Bool

	mu       sync.Mutex // guards below
	messages []Message
}

// put adds a message. One that finds no room is lost.
func (l *listener) put(m Message) {
	l.mu.Lock()
	if len(l.messages) < busQueue {
		l.messages = append(l.messages, m)
	}
	l.mu.Unlock()
	l.signal()
}

func (l *listener) signal() {
	select {
	case l.wake <- struct{}{}:
	default: // it is awake
	}
}

// run hands messages to f until the listener is stopped.
func (l *listener) run(f func(Message)) {
	for range l.wake {
		l.mu.Lock()
		messages := l.messages
		l.messages = nil
		l.mu.Unlock()
		for _, m := range messages {
			if l.stopped.Load() {
				return
			}
			f(m)
		}
		if l.stopped.Load() {
			return
		}
	}
}

var _ Bus = (*MemoryBus)(nil)

// NewMemoryBus returns a MemoryBus without listeners.
func NewMemoryBus() *MemoryBus { return &MemoryBus{listeners: map[string][]*listener{}} }

// send hands a message to the listeners of its subject, and reports whether there are any.
func (b *MemoryBus) send(m Message) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.listeners[m.Subject]
	for _, l := range all {
		m.Header, m.Body = slices.Clone(m.Header), slices.Clone(m.Body)
		l.put(m)
	}
	return len(all) > 0
}

// Tell implements Bus.
func (b *MemoryBus) Tell(subject string, h Header, body []byte) error {
	if err := CheckMessage(subject, h, body); err != nil {
		return err
	}
	b.send(Message{Subject: subject, Header: h, Body: body})
	return nil
}

// Ask implements Bus.
func (b *MemoryBus) Ask(subject string, h Header, body []byte, timeout time.Duration, f func(Message, error)) {
	if err := CheckMessage(subject, h, body); err != nil {
		go f(Message{}, err)
		return
	}
	var done atomic.Bool
	late := time.AfterFunc(timeout, func() {
		if done.CompareAndSwap(false, true) {
			f(Message{}, ErrUnavailable)
		}
	})
	reply := func(h Header, body []byte) error {
		if err := CheckMessage(subject, h, body); err != nil {
			return err
		}
		if done.CompareAndSwap(false, true) {
			late.Stop()
			go f(Message{Subject: subject, Header: slices.Clone(h), Body: slices.Clone(body)}, nil)
		}
		return nil
	}
	if !b.send(Message{Subject: subject, Header: h, Body: body, Reply: reply}) && done.CompareAndSwap(false, true) {
		late.Stop()
		go f(Message{}, ErrNobody)
	}
}

// Listen implements Bus.
func (b *MemoryBus) Listen(subject string, f func(Message)) (stop func(), err error) {
	if err := CheckKey(subject, false); err != nil {
		return nil, err
	}
	l := &listener{wake: make(chan struct{}, 1)}
	b.mu.Lock()
	b.listeners[subject] = append(b.listeners[subject], l)
	b.mu.Unlock()
	go l.run(f)
	return func() {
		if l.stopped.Swap(true) {
			return
		}
		l.signal()
		b.mu.Lock()
		defer b.mu.Unlock()
		rest := slices.DeleteFunc(slices.Clone(b.listeners[subject]), func(x *listener) bool { return x == l })
		if b.listeners[subject] = rest; len(rest) == 0 {
			delete(b.listeners, subject)
		}
	}, nil
}
