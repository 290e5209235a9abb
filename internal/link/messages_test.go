package link_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/link"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/testkit/storetest"
)

// pair is a sender and a receiver, with another Bus between them.
type pair struct {
	room  *memory.Pool // of messages of a
	other store.Bus
	a, b  *link.Messages
	count *counted

	mu    sync.Mutex // guards below
	conns []net.Conn // of both ends
	down  bool

	gone  atomic.Bool          // b is not known to the sender
	gate  atomic.Pointer[gate] // of writes of the sender; nil lets them pass
	dials chan struct{}        // dials wait until it is closed; nil lets them pass
}

// gate holds writes back.
type gate struct {
	entered chan struct{} // one for each write
	pass    chan struct{}
}

// gated is a connection whose writes pass a gate.
type gated struct {
	net.Conn
	gate *atomic.Pointer[gate]
}

func (c gated) Write(b []byte) (int, error) {
	if g := c.gate.Load(); g != nil {
		g.entered <- struct{}{}
		<-g.pass
	}
	return c.Conn.Write(b)
}

// counted counts the messages of the other Bus, without the questions before a change.
type counted struct {
	store.Bus
	messages, changes atomic.Int64
	deaf              atomic.Bool // the questions before a change are lost
}

func (c *counted) Tell(subject string, h store.Header, body []byte) error {
	c.messages.Add(1)
	return c.Bus.Tell(subject, h, body)
}

func (c *counted) Ask(subject string, h store.Header, body []byte, timeout time.Duration, f func(store.Message, error)) {
	if h.Get("Weir-Direct") != "" {
		c.changes.Add(1)
		if c.deaf.Load() {
			go f(store.Message{}, store.ErrUnavailable)
			return
		}
	} else {
		c.messages.Add(1)
	}
	c.Bus.Ask(subject, h, body, timeout, f)
}

// newPair returns processes that reach each other over TCP. Subjects that begin with "b." or "bus" are of b.
func newPair(t *testing.T) *pair {
	p := &pair{other: store.NewMemoryBus()}
	p.count = &counted{Bus: p.other}
	process := func(subject string) string {
		if strings.HasPrefix(subject, "b") {
			return "b"
		}
		return ""
	}
	gone := func(string) bool { return p.gone.Load() }
	p.room = memory.NewPool(memory.Options{Limit: 4 << 20})
	p.b = link.NewMessages(link.MessageOptions{Bus: p.other, Process: func(string) string { return "" }, Gone: gone})
	p.a = link.NewMessages(link.MessageOptions{Bus: p.count, Process: process, Dial: p.dial, Gone: gone, Room: p.room.Account("hub")})
	t.Cleanup(func() { p.a.Close(); p.b.Close() })
	return p
}

func (p *pair) dial(context.Context, string) (net.Conn, error) {
	if p.dials != nil {
		<-p.dials
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down {
		return nil, errors.New("down")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer func() { _ = l.Close() }()
	near, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return nil, err
	}
	far, err := l.Accept()
	if err != nil {
		return nil, err
	}
	p.conns = append(p.conns, near, far)
	p.b.Accept(far)
	return gated{near, &p.gate}, nil
}

// cut ends the connections for good.
func (p *pair) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = true
	for _, c := range p.conns {
		_ = c.Close()
	}
}

// eventually polls until f is true.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("never: " + what)
		}
	}
}

// connected waits until messages of a subject go over the connection.
func (p *pair) connected(t *testing.T, subject string) {
	t.Helper()
	eventually(t, "a message over the connection", func() bool {
		before := p.count.messages.Load() + p.count.changes.Load()
		ask(p.a, subject, nil, "")
		return p.count.messages.Load()+p.count.changes.Load() == before
	})
}

func ask(b store.Bus, subject string, h store.Header, body string) (store.Message, error) {
	type answer struct {
		m   store.Message
		err error
	}
	got := make(chan answer, 1)
	b.Ask(subject, h, []byte(body), 20*time.Second, func(m store.Message, err error) { got <- answer{m, err} })
	a := <-got
	return a.m, a.err
}

// broken reports whether a question was failed because its connection has ended.
func broken(err error) bool {
	return errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrNobody) && strings.Contains(err.Error(), "ended")
}

// TestContract: it is a Bus, with and without connections.
func TestContract(t *testing.T) {
	t.Run("connections", func(t *testing.T) {
		p := newPair(t)
		storetest.Bus(t, p.a, p.b)
		if p.count.changes.Load() == 0 {
			t.Error("no subject has changed to the connection")
		}
	})
	t.Run("no connections", func(t *testing.T) {
		p := newPair(t)
		p.cut()
		storetest.Bus(t, p.a, p.b)
	})
	t.Run("no answers to the question before a change", func(t *testing.T) {
		p := newPair(t)
		p.count.deaf.Store(true)
		storetest.Bus(t, p.a, p.b)
	})
}

// TestChange: no message overtakes another one of its subject while the messages change to the connection, and back
// when it breaks. What is lost then is at the break.
func TestChange(t *testing.T) {
	p := newPair(t)
	var mu sync.Mutex
	var heard []string
	stop, err := p.b.Listen("b.x", func(m store.Message) {
		mu.Lock()
		defer mu.Unlock()
		if m.Reply != nil {
			_ = m.Reply(nil, nil)
			return
		}
		heard = append(heard, string(m.Body))
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	sent := 0
	tell := func() {
		if err := p.a.Tell("b.x", nil, fmt.Appendf(nil, "%06d", sent)); err != nil {
			t.Fatal(err)
		}
		sent++
	}
	for p.count.changes.Load() == 0 { // the other Bus carries the first ones, some hundred at a time
		tell()
		eventually(t, "room in the other Bus", func() bool { mu.Lock(); defer mu.Unlock(); return len(heard) > sent-500 })
	}
	for range 500 {
		tell()
	}
	p.connected(t, "b.x")
	over := p.count.messages.Load()
	for range 500 {
		tell()
	}
	eventually(t, "all messages", func() bool { mu.Lock(); defer mu.Unlock(); return len(heard) == sent })
	if now := p.count.messages.Load(); now != over {
		t.Errorf("%d messages went over the other Bus while there was a connection", now-over)
	}
	p.cut()
	last := ""
	eventually(t, "messages over the other Bus", func() bool {
		tell()
		mu.Lock()
		defer mu.Unlock()
		last = heard[len(heard)-1]
		return p.count.messages.Load() > over+10
	})
	mu.Lock()
	defer mu.Unlock()
	if !slices.IsSorted(heard) || last == "" {
		t.Errorf("a message has overtaken another one: %v", heard)
	}
}

// TestQueue: a message has its place when Queue returns. What is queued behind it, and sent before, arrives after it, in
// one write with it.
func TestQueue(t *testing.T) {
	p := newPair(t)
	var mu sync.Mutex
	var heard []string
	stop, err := p.b.Listen("b.x", func(m store.Message) {
		mu.Lock()
		heard = append(heard, string(m.Body))
		mu.Unlock()
		if m.Reply != nil {
			_ = m.Reply(nil, nil)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	p.connected(t, "b.x")
	mu.Lock()
	heard = nil
	mu.Unlock()
	g := &gate{entered: make(chan struct{}, 100), pass: make(chan struct{})}
	close(g.pass)
	p.gate.Store(g)
	answered := make(chan error, 1)
	body := []byte("1")
	one, err := p.a.Queue("b.x", nil, body, 20*time.Second, func(_ store.Message, err error) { answered <- err })
	if err != nil {
		t.Fatal(err)
	}
	body[0] = 'x' // the caller's again
	two, err := p.a.Queue("b.x", nil, []byte("2"), 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(g.entered) != 0 {
		t.Error("Queue writes")
	}
	two()
	one()
	if err := <-answered; err != nil {
		t.Error(err)
	}
	eventually(t, "both messages", func() bool { mu.Lock(); defer mu.Unlock(); return len(heard) == 2 })
	if writes := len(g.entered); writes != 1 || heard[0] != "1" || heard[1] != "2" {
		t.Errorf("%d writes, heard %q", writes, heard)
	}
	send, err := p.a.Queue("bus.*", nil, nil, time.Second, func(store.Message, error) { t.Error("the function of a message that was refused is called") })
	if send(); err == nil {
		t.Error("a subject with a wildcard is taken")
	}
}

// TestBroken: questions whose connection ends are told so at once, and the next ones go over the other Bus.
func TestBroken(t *testing.T) {
	p := newPair(t)
	asked := make(chan struct{}, 1)
	stop, err := p.b.Listen("b.x", func(m store.Message) {
		if string(m.Body) == "wait" {
			asked <- struct{}{}
			return
		}
		_ = m.Reply(store.Header{{"A", "b"}}, m.Body)
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	p.connected(t, "b.x")
	failed := make(chan error, 1)
	p.a.Ask("b.x", nil, []byte("wait"), time.Minute, func(_ store.Message, err error) { failed <- err })
	<-asked
	p.cut()
	if err := <-failed; !broken(err) {
		t.Errorf("a question whose connection has ended: %v", err)
	}
	if m, err := ask(p.a, "b.x", nil, "again"); err != nil || string(m.Body) != "again" || m.Header.Get("A") != "b" {
		t.Errorf("the next question: %+v, %v", m, err)
	}
}

// TestNobody: a question to a subject that has lost its listener is answered at once, and one that a Close finds, too.
func TestNobody(t *testing.T) {
	p := newPair(t)
	asked := make(chan struct{}, 1)
	stop, err := p.b.Listen("b.x", func(m store.Message) {
		if string(m.Body) == "wait" {
			asked <- struct{}{}
			return
		}
		_ = m.Reply(nil, nil)
	})
	if err != nil {
		t.Fatal(err)
	}
	p.connected(t, "b.x")
	waiting := make(chan error, 1)
	p.a.Ask("b.x", nil, []byte("wait"), time.Minute, func(_ store.Message, err error) { waiting <- err })
	<-asked
	stop()
	if _, err := ask(p.a, "b.x", nil, ""); !errors.Is(err, store.ErrNobody) || broken(err) {
		t.Errorf("a question without a listener: %v", err)
	}
	p.b.Close()
	if err := <-waiting; !broken(err) {
		t.Errorf("a question that Close finds: %v", err)
	}
}

// TestUnchanged: a subject whose question before the change has no answer stays at the other Bus for a while. Questions
// of other subjects go on over the connection.
func TestUnchanged(t *testing.T) {
	p := newPair(t)
	p.dials = make(chan struct{})
	asked, answers := make(chan struct{}, 1), make(chan func(), 1)
	for _, subject := range []string{"b.x", "b.y"} {
		stop, err := p.b.Listen(subject, func(m store.Message) {
			if string(m.Body) == "wait" {
				answers <- func() { _ = m.Reply(nil, nil) }
				asked <- struct{}{}
				return
			}
			_ = m.Reply(nil, m.Body)
		})
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
	}
	if _, err := ask(p.a, "b.y", nil, ""); err != nil {
		t.Fatal(err)
	}
	close(p.dials)
	p.connected(t, "b.x")
	waiting := make(chan error, 1)
	p.a.Ask("b.x", nil, []byte("wait"), time.Minute, func(_ store.Message, err error) { waiting <- err })
	<-asked
	p.count.deaf.Store(true)
	over, changes := p.count.messages.Load(), p.count.changes.Load()
	for i := range 3 {
		if m, err := ask(p.a, "b.y", nil, "again"); err != nil || string(m.Body) != "again" {
			t.Errorf("question %d without a change: %+v, %v", i, m, err)
		}
	}
	if messages := p.count.messages.Load() - over; messages == 0 || p.count.changes.Load()-changes > messages {
		t.Errorf("%d questions before a change, and %d messages over the other Bus", p.count.changes.Load()-changes, messages)
	}
	(<-answers)()
	if err := <-waiting; err != nil {
		t.Errorf("the question over the connection: %v", err)
	}
}

// TestWriters: a caller that writes to the connection does not write what others send meanwhile.
func TestWriters(t *testing.T) {
	p := newPair(t)
	stop, err := p.b.Listen("b.x", func(m store.Message) {
		if m.Reply != nil {
			_ = m.Reply(nil, nil)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	p.connected(t, "b.x")
	g := &gate{make(chan struct{}), make(chan struct{})}
	p.gate.Store(g)
	done := make(chan error, 1)
	go func() { done <- p.a.Tell("b.x", nil, []byte("first")) }()
	<-g.entered
	if err := p.a.Tell("b.x", nil, make([]byte, 100<<10)); err != nil {
		t.Fatal(err)
	}
	g.pass <- struct{}{}
	<-g.entered // the second message is written
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("the first caller writes the message of the second one")
	}
	p.gate.Store(nil)
	close(g.pass)
}

// TestStranger: messages to a process that was not known at first are not overtaken by those that follow over the
// connection.
func TestStranger(t *testing.T) {
	p := newPair(t)
	heard := make(chan string, 16)
	for _, subject := range []string{"b.x", "b.y"} {
		stop, err := p.b.Listen(subject, func(m store.Message) {
			if m.Reply != nil {
				_ = m.Reply(nil, nil)
				return
			}
			heard <- string(m.Body)
		})
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
	}
	tell := func(body string) {
		if err := p.a.Tell("b.x", nil, []byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	p.gone.Store(true)
	tell("1")
	p.gone.Store(false)
	p.connected(t, "b.y")
	asked := p.count.changes.Load()
	tell("2")
	if p.count.changes.Load() != asked+1 {
		t.Error("the messages change to the connection, and no question makes sure that those before have arrived")
	}
	for _, want := range []string{"1", "2"} {
		select {
		case got := <-heard:
			if got != want {
				t.Errorf("%q came before %q", got, want)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("%q has not come", want)
		}
	}
}

// TestWaitingMessagesAreCounted: messages that wait for a connection count, and one that finds no room is refused. Its
// sender hears of it, and it does not go another way. When the rest is written, nothing counts.
func TestWaitingMessagesAreCounted(t *testing.T) {
	p := newPair(t)
	var got atomic.Int64
	stop, err := p.b.Listen("b.x", func(m store.Message) {
		got.Add(int64(len(m.Body)))
		if m.Reply != nil {
			_ = m.Reply(nil, nil)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	p.connected(t, "b.x")
	before := p.count.messages.Load()
	got.Store(0)
	g := &gate{make(chan struct{}), make(chan struct{})}
	p.gate.Store(g)
	first := make(chan error, 1)
	go func() { first <- p.a.Tell("b.x", nil, []byte("first")) }()
	<-g.entered
	body, taken := make([]byte, 60<<10), 0
	for err = nil; err == nil && taken < 200; taken++ {
		err = p.a.Tell("b.x", nil, body)
	}
	taken--
	full := (*memory.Error)(nil)
	if !errors.As(err, &full) || taken*len(body) > 2<<20 || p.room.Usage().Memory < int64((taken-1)*len(body)) {
		t.Errorf("%d messages wait, %+v, %v", taken, p.room.Usage(), err)
	}
	asked := make(chan error, 1)
	p.a.Ask("b.x", nil, body, time.Minute, func(_ store.Message, err error) { asked <- err })
	if err := <-asked; !errors.As(err, &full) {
		t.Errorf("a question without room: %v", err)
	}
	p.gate.Store(nil)
	close(g.pass)
	if err := <-first; err != nil {
		t.Error(err)
	}
	eventually(t, "all messages that had room arrive", func() bool { return got.Load() == int64(5+taken*len(body)) })
	eventually(t, "nothing counts", func() bool { return p.room.Usage().Memory == 0 })
	if n := p.count.messages.Load() - before; n != 0 {
		t.Errorf("%d messages went another way", n)
	}
}
