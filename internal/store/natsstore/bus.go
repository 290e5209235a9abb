package natsstore

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weir-mcp/weir/internal/store"
)

// busLanes is how many messages of different subjects are handled at the same time.
const busLanes = 4

// Values of the header with which a server answers for listeners that do not exist.
const (
	headerStatus = "Status"
	statusNobody = "503"
)

// Bus is store.Bus on core NATS. It is safe for concurrent use.
type Bus struct {
	conn  *nats.Conn
	lanes *lanes
	inbox string        // the prefix of subjects on which answers come
	last  atomic.Uint64 // question

	mu        sync.Mutex // guards below
	listening func()     // ends the subscription of the inbox; nil before the first question
	asked     map[string]*question
}

type question struct {
	f    func(store.Message, error)
	late *time.Timer
}

var _ store.Bus = (*Bus)(nil)

// NewBus returns the Bus of a connection. Its goroutines start with the first listener or question.
func NewBus(conn *nats.Conn) *Bus {
	return &Bus{conn: conn, lanes: newLanes(conn, busLanes), inbox: nats.NewInbox() + ".", asked: map[string]*question{}}
}

// Close ends all listeners, fails the questions that wait, and waits for that. The connection stays.
func (b *Bus) Close() {
	b.lanes.close()
	b.mu.Lock()
	var left []*question
	for token := range b.asked {
		left = append(left, b.take(token))
	}
	b.mu.Unlock()
	for _, q := range left {
		q.f(store.Message{}, fmt.Errorf("%w: the connection to it has ended", store.ErrUnavailable))
	}
}

// take removes a question, nil if it has been answered. The caller holds mu.
func (b *Bus) take(token string) *question {
	q := b.asked[token]
	if q != nil {
		delete(b.asked, token)
		q.late.Stop()
	}
	return q
}

// settle calls the function of a question, unless that has been done.
func (b *Bus) settle(token string, m store.Message, err error) {
	b.mu.Lock()
	q := b.take(token)
	b.mu.Unlock()
	if q != nil {
		q.f(m, err)
	}
}

func (b *Bus) publish(subject, reply string, h store.Header, body []byte) error {
	m := &nats.Msg{Subject: subject, Reply: reply, Data: body}
	if len(h) > 0 {
		m.Header = make(nats.Header, len(h))
		values := make([]string, 0, len(h)) // of all headers: one allocation, not one each
		for _, field := range h {
			values = append(values, field[1])
			m.Header[field[0]] = values[len(values)-1 : len(values) : len(values)]
		}
	}
	if err := b.conn.PublishMsg(m); err != nil {
		return away(err)
	}
	return nil
}

// Tell implements store.Bus.
func (b *Bus) Tell(subject string, h store.Header, body []byte) error {
	if err := store.CheckMessage(subject, h, body); err != nil {
		return err
	}
	return b.publish(subject, "", h, body)
}

// Ask implements store.Bus.
func (b *Bus) Ask(subject string, h store.Header, body []byte, timeout time.Duration, f func(store.Message, error)) {
	err := store.CheckMessage(subject, h, body)
	if err == nil {
		err = b.listenForAnswers()
	}
	if err != nil {
		go f(store.Message{}, err)
		return
	}
	token := strconv.FormatUint(b.last.Add(1), 36)
	b.mu.Lock()
	b.asked[token] = &question{f: f, late: time.AfterFunc(timeout, func() {
		b.settle(token, store.Message{}, fmt.Errorf("%w: no answer within %v", store.ErrUnavailable, timeout))
	})}
	b.mu.Unlock()
	if err := b.publish(subject, b.inbox+token, h, body); err != nil {
		go b.settle(token, store.Message{}, err)
	}
}

// listenForAnswers subscribes to the inbox, once.
func (b *Bus) listenForAnswers() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.listening != nil {
		return nil
	}
	stop, err := b.lanes.subscribe(b.inbox+"*", func(m *nats.Msg) {
		token := strings.TrimPrefix(m.Subject, b.inbox)
		if len(m.Data) == 0 && m.Header.Get(headerStatus) == statusNobody {
			b.settle(token, store.Message{}, store.ErrNobody)
			return
		}
		b.settle(token, message(m), nil)
	})
	b.listening = stop
	return err
}

// message returns a message without its way back.
func message(m *nats.Msg) store.Message {
	out := store.Message{Subject: m.Subject, Body: m.Data}
	if len(m.Header) > 0 {
		out.Header = make(store.Header, 0, len(m.Header))
		for name, values := range m.Header {
			if len(values) > 0 {
				out.Header = append(out.Header, [2]string{name, values[0]})
			}
		}
	}
	return out
}

// Listen implements store.Bus.
func (b *Bus) Listen(subject string, f func(store.Message)) (stop func(), err error) {
	if err := store.CheckKey(subject, false); err != nil {
		return nil, err
	}
	return b.lanes.subscribe(subject, func(m *nats.Msg) {
		out := message(m)
		if to := m.Reply; to != "" {
			out.Reply = func(h store.Header, body []byte) error {
				if err := store.CheckMessage(subject, h, body); err != nil {
					return err
				}
				return b.publish(to, "", h, body)
			}
		}
		f(out)
	})
}
