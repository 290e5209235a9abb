package roster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/store"
)

// heard are Events that keep what arrives, in order.
type heard struct {
	mu   sync.Mutex // guards below
	args []string
}

func (h *heard) Gone(string)   {}
func (h *heard) Fenced(string) {}
func (h *heard) Drained()      {}
func (h *heard) Message(m *Message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	arg := string(m.Args[0])
	h.args = append(h.args, m.From+arg[:min(len(arg), 2)])
}

func (h *heard) all() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.args, " ")
}

// sender is another node, as far as roster asks it.
type sender struct {
	alone
	inc string
}

func (s sender) Inc() string { return s.inc }

// TestLineOfOneSender: while the body of a message is fetched from its sender, which may be gone, later messages
// of that sender wait, in order, and those of others do not.
func TestLineOfOneSender(t *testing.T) {
	for _, fails := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			docs, bus := store.NewMemory(store.MemoryOptions{}), store.NewMemoryBus()
			fetched := make(chan struct{})
			var of Bodies
			open := func(inc string, b *Bodies) (*Shared, *heard) {
				s, h := NewShared(Options{Docs: docs, Bus: bus, Node: sender{inc: inc}, Name: "test", Bodies: b}), &heard{}
				if err := s.Open(h); err != nil {
					t.Fatal(err)
				}
				return s, h
			}
			fetch := func(_ context.Context, _, path string, _ int64) ([]byte, error) {
				<-fetched
				if fails {
					return nil, errors.New("it is gone")
				}
				return of.take(strings.TrimPrefix(path, BodyPath)).bytes, nil
			}
			receiver, got := open("aaaaaa", &Bodies{Fetch: fetch})
			defer receiver.Close()
			one, _ := open("bbbbbb", &of)
			defer one.Close()
			two, _ := open("cccccc", nil)
			defer two.Close()
			tell := func(s *Shared, arg string) {
				t.Helper()
				if err := s.Tell("aaaaaa", "desk", &Message{Op: OpSend, Args: []json.RawMessage{json.RawMessage(arg)}}); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
			}
			tell(one, "1"+strings.Repeat(" ", maxInline))
			tell(one, "2")
			tell(one, "3"+strings.Repeat(" ", maxInline))
			tell(one, "4")
			tell(two, "5")
			if all := got.all(); all != "cccccc5" {
				t.Errorf("while the body is fetched: %q", all)
			}
			close(fetched)
			synctest.Wait()
			want := "cccccc5 bbbbbb1  bbbbbb2 bbbbbb3  bbbbbb4"
			if fails {
				want = "cccccc5 bbbbbb2 bbbbbb4"
			}
			if all := got.all(); all != want {
				t.Errorf("afterwards: %q, want %q", all, want)
			}
			tell(one, "6")
			if all := got.all(); all != want+" bbbbbb6" {
				t.Errorf("at the end: %q", all)
			}
		})
	}
}

// TestLostBody: the sender hears of a message that is lost because its body cannot be fetched, also if a roll has found
// the message while the body was fetched. What has waited behind it is handled, and is not reported.
func TestLostBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs, bus := store.NewMemory(store.MemoryOptions{}), store.NewMemoryBus()
		fetched := make(chan struct{})
		open := func(inc string, b *Bodies) (*Shared, *heard) {
			s, h := NewShared(Options{Docs: docs, Bus: bus, Node: sender{inc: inc}, Name: "test", Bodies: b}), &heard{}
			if err := s.Open(h); err != nil {
				t.Fatal(err)
			}
			return s, h
		}
		receiver, got := open("aaaaaa", &Bodies{Fetch: func(context.Context, string, string, int64) ([]byte, error) {
			<-fetched
			return nil, errors.New("it is gone")
		}})
		defer receiver.Close()
		one, _ := open("bbbbbb", &Bodies{})
		defer one.Close()
		var lost atomic.Int64
		for i, arg := range []string{"1" + strings.Repeat(" ", maxInline), "2"} {
			m := &Message{Op: OpSend, Args: []json.RawMessage{json.RawMessage(arg)}, Lost: func() { lost.Add(int64(1 + 100*i)) }}
			if err := one.Tell("aaaaaa", "desk", m); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		time.Sleep(5 * time.Second)
		if lost.Load() != 0 {
			t.Errorf("while the body is fetched: %d", lost.Load())
		}
		close(fetched)
		time.Sleep(5 * time.Second)
		if all := got.all(); lost.Load() != 1 || all != "bbbbbb2" {
			t.Errorf("afterwards: %d, %q", lost.Load(), all)
		}
	})
}

// TestTrace: the trace context of a call is a header of its message. A text of another form is none, because not
// every text can be a header.
func TestTrace(t *testing.T) {
	good := "00-" + strings.Repeat("a", 32) + "-" + strings.Repeat("b", 16) + "-01"
	for trace, want := range map[string]string{"": "", good: good, good + "-9": good + "-9", "00-short": "", good[:54] + "\n": "", strings.Repeat("a", 513): ""} {
		h, body := (&Message{Op: OpCall, Trace: trace}).pack()
		if h.Get("Traceparent") != want {
			t.Errorf("%.60q: %q", trace, h.Get("Traceparent"))
		}
		if m, err := unpack(h, body); err != nil || m.Trace != want {
			t.Errorf("%.60q: %+v %v", trace, m, err)
		}
	}
}

// TestCaller: a Caller arrives as it was sent, also from a build that says more.
func TestCaller(t *testing.T) {
	for _, c := range []Caller{{}, {Name: "ä\"\\\x01", SID: "s"}, {Name: "a", SID: "s", Version: "0.2", Dialect: 255}} {
		if got, err := decodeCaller(c.append(nil)); err != nil || got != c {
			t.Errorf("%+v: %+v %v", c, got, err)
		}
	}
	if got, err := decodeCaller([]byte(`{"name":"a","sid":"s","more":[1]}`)); err != nil || got.SID != "s" {
		t.Errorf("with a member of a later build: %+v %v", got, err)
	}
	for _, bad := range []string{`[]`, `{"name":"a","sid":"s","dialect":256}`, `{"sid":"s","dialect":"x"}`, `{`} {
		if got, err := decodeCaller([]byte(bad)); err == nil {
			t.Errorf("%s: %+v", bad, got)
		}
	}
	if h, _ := (&Message{Op: OpCall, Agent: Caller{Name: "a", SID: "s"}}).pack(); h.Get(headerAgent) == "" {
		t.Error("no caller in the header")
	}
}

// TestBodiesMakeRoom: a large message that does not arrive keeps no room, and one without room is refused.
func TestBodiesMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := memory.NewPool(memory.Options{Limit: 1 << 20})
		bodies := &Bodies{Room: pool.Account("hub")}
		s := NewShared(Options{Docs: store.NewMemory(store.MemoryOptions{}), Bus: store.NewMemoryBus(), Node: alone{}, Name: "test", Bodies: bodies})
		inc := "aaaaaa"
		s.inc.Store(&inc)
		ask := func() (err error) {
			large := json.RawMessage(strings.Repeat(" ", maxInline) + "1")
			s.Ask("bbbbbb", "desk", &Message{Op: OpCall, Args: []json.RawMessage{large}}, keepBody/2, func(_ *Message, e error) { err = e })
			synctest.Wait()
			return err
		}
		if err := ask(); !errors.Is(err, ErrNobody) || pool.Usage().Memory != 0 || len(bodies.kept) != 0 {
			t.Errorf("%v, %d bytes of a message to a node that is gone", err, pool.Usage().Memory)
		}
		id, err := bodies.put(make([]byte, 500<<10))
		if err != nil || pool.Usage().Memory < 500<<10 {
			t.Fatalf("%v, %+v", err, pool.Usage())
		}
		if err := ask(); !errors.Is(err, ErrNoRoom) {
			t.Errorf("without room: %v", err)
		}
		s.Close()
		if err := ask(); !errors.Is(err, ErrNoRoom) {
			t.Errorf("after Close: %v", err)
		}
		time.Sleep(2 * keepBody) // its timer
		if bodies.take(id) != nil || pool.Usage().Memory != 0 {
			t.Errorf("in the end there is %+v", pool.Usage())
		}
	})
}

// TestNoticesOfSeveral: events have their numbers before another goroutine can see them; the race detector says so.
func TestNoticesOfSeveral(t *testing.T) {
	s := NewShared(Options{Docs: store.NewMemory(store.MemoryOptions{}), Bus: store.NewMemoryBus(), Node: sender{inc: "aaaaaa"}, Name: "test"})
	defer s.Close()
	inc := "aaaaaa"
	s.inc.Store(&inc)
	var work sync.WaitGroup
	defer work.Wait()
	for range 2 {
		work.Go(func() {
			for range 200 {
				if err := s.Notify(&Message{Office: "o"}, []string{"bbbbbb"}); err != nil {
					t.Error(err)
				}
				s.confirmed(route{"aaaaaa", "cccccc"}, nil, nil, nil)
				s.confirmed(route{"aaaaaa", "bbbbbb"}, []uint64{1}, nil, nil)
			}
		})
	}
}

// TestManyUnknownSenders: the messages of hubs whose nodes are not known here yet are not found lost, also where there
// are many of them.
func TestManyUnknownSenders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, got := NewShared(Options{Docs: store.NewMemory(store.MemoryOptions{}), Bus: store.NewMemoryBus(), Node: alone{}, Name: "test"}), &heard{}
		defer s.Close()
		s.events = got
		l := &inbox{s: s, inc: "aaaaaa", receivers: map[string]*receiver{}}
		senders := 2 * maxReceivers
		send := func(number int) {
			for i := range senders {
				h := store.Header{{headerV, "1"}, {headerOp, string(OpSend)}, {headerFrom, fmt.Sprint("s", i)}, {headerNumber, strconv.Itoa(number)}}
				l.take(store.Message{Header: h, Body: []byte("1")})
			}
		}
		lost := func() (found int) {
			for i := range senders {
				in := store.Message{Header: store.Header{{headerV, "1"}, {headerOp, string(opRoll)}, {headerFrom, fmt.Sprint("s", i)}, {headerNumber, "2"}}, Body: []byte("[1,2]")}
				in.Reply = func(_ store.Header, body []byte) error {
					var answer rollAnswer
					if err := json.Unmarshal(body, &answer); err != nil {
						return err
					}
					found += len(answer.Lost)
					return nil
				}
				l.take(in)
			}
			return found
		}
		send(1)
		send(2)
		if n := lost(); n != 0 {
			t.Errorf("%d messages are said to be lost", n)
		}
		if n := len(strings.Fields(got.all())); n != 2*senders {
			t.Errorf("%d of %d messages have come", n, 2*senders)
		}
		time.Sleep(2 * receiverTime) // they are gone
		l.take(store.Message{Header: store.Header{{headerV, "1"}, {headerOp, string(OpSend)}, {headerFrom, "new"}, {headerNumber, "1"}}, Body: []byte("1")})
		if len(l.receivers) != 1 {
			t.Errorf("%d senders are remembered", len(l.receivers))
		}
	})
}

// TestFencedSender: a hub without an INC sends nothing: others in that state would be the same sender. A question has the
// error that it was not handled.
func TestFencedSender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewShared(Options{Docs: store.NewMemory(store.MemoryOptions{}), Bus: store.NewMemoryBus(), Node: alone{}, Name: "test"})
		defer s.Close()
		if err := s.Tell("bbbbbb", "desk", &Message{Op: OpSend}); !errors.Is(err, ErrLost) {
			t.Errorf("Tell: %v", err)
		}
		asked := make(chan error, 1)
		s.Ask("bbbbbb", "desk", &Message{Op: OpCall}, time.Second, func(_ *Message, err error) { asked <- err })
		if err := <-asked; !errors.Is(err, ErrLost) {
			t.Errorf("Ask: %v", err)
		}
		if err := s.Notify(&Message{Office: "o"}, []string{"bbbbbb"}); !errors.Is(err, ErrLost) {
			t.Errorf("Notify: %v", err)
		}
	})
}
