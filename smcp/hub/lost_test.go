package hub_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/smcp/hub"
	"github.com/weir-mcp/weir/socketio"
)

// answerOp is what leaky.loses is told of an answer.
const answerOp = "answer"

// leaky is a Bus that loses one message: the next for which loses says so.
type leaky struct {
	store.Bus
	loses atomic.Pointer[func(op string, h store.Header) bool]
	lost  chan struct{}
}

func (l *leaky) drops(op string, h store.Header) bool {
	loses := l.loses.Load()
	if loses == nil || !(*loses)(op, h) || !l.loses.CompareAndSwap(loses, nil) {
		return false
	}
	close(l.lost)
	return true
}

// loseOne lets the bus lose the next message with an Op.
func (l *leaky) loseOne(op string) {
	l.lost = make(chan struct{})
	f := func(is string, _ store.Header) bool { return is == op }
	l.loses.Store(&f)
}

func (l *leaky) Tell(subject string, h store.Header, body []byte) error {
	if l.drops(h.Get("Weir-Op"), h) {
		return nil
	}
	return l.Bus.Tell(subject, h, body)
}

func (l *leaky) Ask(subject string, h store.Header, body []byte, timeout time.Duration, f func(store.Message, error)) {
	if l.drops(h.Get("Weir-Op"), h) {
		time.AfterFunc(timeout, func() { f(store.Message{}, store.ErrUnavailable) })
		return
	}
	l.Bus.Ask(subject, h, body, timeout, f)
}

func (l *leaky) Listen(subject string, f func(store.Message)) (stop func(), err error) {
	return l.Bus.Listen(subject, func(m store.Message) {
		if reply := m.Reply; reply != nil {
			asked := m.Header.Get("Weir-Op")
			m.Reply = func(h store.Header, body []byte) error {
				if asked == "call" && l.drops(answerOp, h) {
					return nil
				}
				return reply(h, body)
			}
		}
		f(m)
	})
}

// newLeaky is two hubs with an Agent at the first and a Computer at the second, over a bus that loses messages.
func newLeaky(t *testing.T, m *mesh) (bus *leaky, b *meshed, agent, desk *peer) {
	bus = &leaky{Bus: m.bus}
	m.bus = bus
	a := m.start(hub.Options{})
	b = m.start(hub.Options{})
	agent = join(t, a.url, peerOptions{}, "agent", "o", "o")
	desk = join(t, b.url, peerOptions{answer: answers()}, "computer", "desk", "o")
	agent.hears(`notify:enter_office {"office_id":"o","computer":"desk"}`)
	if got := agent.call("client:tool_call", toolCall("o", "desk", "before")); !strings.Contains(got, `"text":"before"`) {
		t.Fatal(got)
	}
	return bus, b, agent, desk
}

// TestLostCall: a call whose request or answer is lost on the bus ends soon, and says whether it may have run.
// No later message is needed for that. Calls that run go on.
func TestLostCall(t *testing.T) {
	for op, says := range map[string]string{"call": "did not run", answerOp: "may have run"} {
		for _, on := range []string{"memory", "NATS"} {
			t.Run(op+" "+on, func(t *testing.T) {
				t.Parallel()
				m := newMesh(t)
				if on == "NATS" {
					m = newNATS(t)
				}
				bus, b, agent, _ := newLeaky(t, m)
				running := make(chan string, 1)
				go func() { running <- agent.call("client:tool_call", toolCall("o", "desk", "never")) }()
				eventually(t, "a call is at the Computer", func() bool { return busy(b, "desk") })
				bus.loseOne(op)
				began := time.Now()
				got := agent.call("client:tool_call", toolCall("o", "desk", "lost"))
				if took := time.Since(began); !strings.Contains(got, "node_gone") || !strings.Contains(got, says) || took > 10*time.Second {
					t.Errorf("after %v: %s", took, got)
				}
				if got := agent.call("client:tool_call", toolCall("o", "desk", "after")); !strings.Contains(got, `"text":"after"`) {
					t.Errorf("the next call: %s", got)
				}
				select {
				case got := <-running:
					t.Errorf("the call that runs has ended: %s", got)
				default:
				}
				_ = agent.client.Close()
				<-running
			})
		}
	}
}

// TestLostLastMessage: the last message of a channel before a silence is lost. The Computer's connection ends, as if
// another message had shown the gap.
func TestLostLastMessage(t *testing.T) {
	for _, direction := range []string{"send", "up"} {
		t.Run(direction, func(t *testing.T) {
			t.Parallel()
			m := newMesh(t)
			bus := &leaky{Bus: m.bus}
			m.bus = bus
			a, b := m.start(hub.Options{}), m.start(hub.Options{})
			var mu sync.Mutex
			sid := ""
			agent := joinChannels(t, a.url, "agent", "o", nil)
			desk := joinChannels(t, b.url, "computer", "desk", map[string]socketio.Handler{"client:mcp": func(e *socketio.Event) {
				mu.Lock()
				sid = rawjson.Text(rawjson.Get(e.Arg(0), "agent_sid"))
				mu.Unlock()
				if e.WantsAck() {
					_ = e.Ack(json.RawMessage("null"))
				}
			}})
			agent.hears(`notify:enter_office {"office_id":"o","computer":"desk"}`)
			agent.call("client:mcp", `{"agent":"o","req_id":"c","computer":"desk","channel":"c","op":"open","message":"open"}`)
			bus.loseOne(direction)
			var err error
			if direction == "send" {
				err = agent.client.Emit("client:mcp", json.RawMessage(`{"agent":"o","req_id":"c","computer":"desk","channel":"c","op":"send","message":"last"}`))
			} else {
				mu.Lock()
				payload := fmt.Sprintf(`{"agent_sid":%q,"channel":"c","message":"last"}`, sid)
				mu.Unlock()
				err = desk.client.Emit("server:mcp", json.RawMessage(payload))
			}
			if err != nil {
				t.Fatal(err)
			}
			<-bus.lost
			select {
			case <-desk.client.Done():
			case <-time.After(20 * time.Second):
				t.Fatal("the Computer's connection goes on")
			}
		})
	}
}

// TestLostNotice: a notice to an office that is lost on the bus arrives later, once.
func TestLostNotice(t *testing.T) {
	bus, _, agent, desk := newLeaky(t, newMesh(t))
	bus.loseOne("notify")
	desk.call("server:update_tool_list", `{"computer":"desk"}`)
	<-bus.lost
	agent.hears(`notify:update_tool_list {"computer":"desk"}`)
	desk.call("server:update_config", `{"computer":"desk"}`)
	agent.hears(`notify:update_config {"computer":"desk"}`)
}

// TestBrokenConnection: a call ends at once when the connection to the node of its Computer breaks. The node lives: the
// next call reaches it by another way.
func TestBrokenConnection(t *testing.T) {
	m := newMesh(t)
	m.linked = true
	bus, b, agent, _ := newLeaky(t, m)
	var over atomic.Int64 // calls over the bus
	count := func(op string, _ store.Header) bool {
		if op == "call" {
			over.Add(1)
		}
		return false
	}
	bus.loses.Store(&count)
	eventually(t, "a call over the connection", func() bool {
		before := over.Load()
		agent.call("client:tool_call", toolCall("o", "desk", "before"))
		return over.Load() == before
	})
	running := make(chan string, 1)
	go func() { running <- agent.call("client:tool_call", toolCall("o", "desk", "never")) }()
	eventually(t, "a call is at the Computer", func() bool { return busy(b, "desk") })
	b.direct.Close()
	got := <-running
	for _, part := range []string{"node_gone", `"maybe_ran":true`, "connection to the node of Computer with name 'desk' broke"} {
		if !strings.Contains(got, part) {
			t.Errorf("the call whose connection breaks: %s, without %s", got, part)
		}
	}
	if got := agent.call("client:tool_call", toolCall("o", "desk", "after")); !strings.Contains(got, `"text":"after"`) {
		t.Errorf("the next call: %s", got)
	}
}
