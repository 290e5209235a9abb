package hub_test

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/weir-mcp/weir/internal/cluster"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/link"
	"github.com/weir-mcp/weir/internal/office/a2c"
	"github.com/weir-mcp/weir/internal/office/roster"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/store/natsstore"
	"github.com/weir-mcp/weir/internal/testkit/natstest"
	"github.com/weir-mcp/weir/smcp/hub"
	"github.com/weir-mcp/weir/socketio"
)

// mesh is a few hubs that share offices.
type mesh struct {
	t      testing.TB
	docs   store.Docs
	bus    store.Bus
	linked bool // the nodes have peer links with TLS, and their hubs connections for messages
}

// lossy is a Bus that loses the messages for which drop says so.
type lossy struct {
	store.Bus
	drop atomic.Pointer[func(h store.Header) bool]
}

func (l *lossy) Tell(subject string, h store.Header, body []byte) error {
	if drop := l.drop.Load(); drop != nil && (*drop)(h) {
		return nil
	}
	return l.Bus.Tell(subject, h, body)
}

// meshed is one of them.
type meshed struct {
	*hub.Hub
	node   *cluster.Node
	shared *roster.Shared
	url    string
	server *httptest.Server
	link   *link.Server // nil unless mesh.linked, as direct
	direct *link.Messages
}

func newMesh(t testing.TB) *mesh {
	return &mesh{t: t, docs: store.NewMemory(store.MemoryOptions{}), bus: store.NewMemoryBus()}
}

// newNATS is a mesh over a NATS server.
func newNATS(t testing.TB) *mesh {
	t.Helper()
	at := natstest.Start(t, natsserver.Options{})
	docs, _, err := natsstore.Open(t.Context(), at.Conn(), natsstore.Options{Bucket: "weir_test", Changes: "weir.test.d", Replicas: 1, MaxBytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	bus := natsstore.NewBus(at.Conn())
	t.Cleanup(func() { bus.Close(); docs.Close() })
	return &mesh{t: t, docs: docs, bus: bus}
}

func (m *mesh) start(o hub.Options) *meshed {
	m.t.Helper()
	n := m.bare(o)
	m.t.Cleanup(n.stop)
	return n
}

// bare starts a hub that the caller stops.
func (m *mesh) bare(o hub.Options) *meshed {
	m.t.Helper()
	nodes, shared := cluster.Options{Docs: m.docs, Bus: m.bus, Name: "n"}, roster.Options{Docs: m.docs, Bus: m.bus, Name: "test", Logger: o.Logger}
	var listener net.Listener
	if m.linked {
		var err error
		if listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			m.t.Fatal(err)
		}
		key, err := link.Parse(testKey)
		if err != nil {
			m.t.Fatal(err)
		}
		nodes.URL, nodes.TLS = "https://"+listener.Addr().String(), link.NewAuthority("n", key, nil, nil).TLS()
	}
	node, err := cluster.Start(m.t.Context(), nodes)
	if err != nil {
		m.t.Fatal(err)
	}
	n := &meshed{node: node}
	if m.linked {
		n.direct = link.NewMessages(link.MessageOptions{
			Bus: m.bus, Process: roster.NodeOf(shared.Name), Gone: node.Gone,
			Dial: func(ctx context.Context, inc string) (net.Conn, error) {
				return node.Link().Open(ctx, inc, "/messages", "messages")
			},
		})
		shared.Direct = n.direct
		n.link = node.Serve(listener, nodes.TLS, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if conn, err := link.TakeOver(w, r, "messages"); err == nil {
				n.direct.Accept(conn)
			}
		}))
	}
	shared.Node = node
	o.Shared = roster.NewShared(shared)
	n.Hub, n.shared = hub.New(o), o.Shared
	n.server = httptest.NewServer(n.Hub)
	n.url = n.server.URL
	return n
}

const testKey = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="

func (n *meshed) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	_ = n.Shutdown(ctx)
	if n.direct != nil {
		n.direct.Close()
	}
	n.server.Close()
	n.node.Close(ctx)
	n.link.Shutdown(ctx)
}

// answers are a Computer's, which says the name of the tool.
func answers() map[string]socketio.Handler {
	return map[string]socketio.Handler{
		"client:tool_call": func(e *socketio.Event) {
			tool := rawjson.Text(rawjson.Get(e.Arg(0), "tool_name"))
			if tool == "never" {
				return
			}
			out, _ := json.Marshal(map[string]any{"content": []any{map[string]string{"type": "text", "text": tool}}})
			_ = e.Ack(out)
		},
	}
}

func toolCall(agent, computer, tool string) string {
	return fmt.Sprintf(`{"agent":%q,"req_id":"r1","computer":%q,"tool_name":%q,"params":{},"timeout":20}`, agent, computer, tool)
}

// eventually polls until f is true.
func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("never: " + what)
		}
	}
}

// TestOfficeOfTwoNodes: an Agent and Computers of one office are at different nodes, and notice nothing.
func TestOfficeOfTwoNodes(t *testing.T) {
	t.Run("memory", func(t *testing.T) { testOfficeOfTwoNodes(t, newMesh(t)) })
	t.Run("NATS", func(t *testing.T) { testOfficeOfTwoNodes(t, newNATS(t)) })
	t.Run("connections", func(t *testing.T) { m := newMesh(t); m.linked = true; testOfficeOfTwoNodes(t, m) })
}

func testOfficeOfTwoNodes(t *testing.T, m *mesh) {
	a, b := m.start(hub.Options{}), m.start(hub.Options{})
	agent := join(t, a.url, peerOptions{}, "agent", "o", "o")
	desk := join(t, b.url, peerOptions{answer: answers()}, "computer", "desk", "o")
	agent.hears(`notify:enter_office {"office_id":"o","computer":"desk"}`)
	if got := agent.call("client:tool_call", toolCall("o", "desk", "t1")); !strings.Contains(got, `"text":"t1"`) {
		t.Errorf("a call at another node: %s", got)
	}
	if got := agent.code("client:tool_call", toolCall("o", "nobody", "t1")); got != "404" {
		t.Errorf("a Computer that is not there: %s", got)
	}
	big := strings.Repeat("x", 300<<10)
	if got := agent.call("client:tool_call", toolCall("o", "desk", big)); !strings.Contains(got, big) {
		t.Errorf("a large call: %.200s", got)
	}
	if room := agent.call("server:list_room", `{"agent":"o","req_id":"r","office_id":"o"}`); !strings.Contains(room, `"name":"desk"`) || !strings.Contains(room, `"name":"o"`) {
		t.Errorf("the room: %s", room)
	}
	if room := desk.call("server:list_room", `{"agent":"desk","req_id":"r","office_id":"o"}`); !strings.Contains(room, `"name":"o"`) {
		t.Errorf("the room at the other node: %s", room)
	}
	desk.call("server:update_tool_list", `{"computer":"desk"}`)
	agent.hears(`notify:update_tool_list {"computer":"desk"}`)
	agent.call("server:tool_call_cancel", `{"agent":"o","req_id":"r9"}`)
	desk.hears(`notify:tool_call_cancel {"agent":"o","req_id":"r9","robot_id":"o"}`)
	other := join(t, b.url, peerOptions{}, "computer", "other", "o")
	if got := other.call("server:leave_office", `{"office_id":"o"}`); got != "true null" {
		t.Errorf("leave: %s", got)
	}
	agent.hears(`notify:enter_office {"office_id":"o","computer":"other"}`)
	agent.hears(`notify:leave_office {"office_id":"o","computer":"other"}`)
	if got := refusedJoin(t, b.url, "agent", "p", "o"); !strings.Contains(got, "Agent already in room") {
		t.Errorf("a second agent: %s", got)
	}
	_ = desk.client.Close()
	agent.hears(`notify:leave_office {"office_id":"o","computer":"desk"}`)
	_ = agent.client.Close()
	eventually(t, "an Agent can come at the other node", func() bool {
		return refusedJoin(t, b.url, "agent", "o", "o") == "true null"
	})
}

func refusedJoin(t testing.TB, url, role, name, office string) string {
	t.Helper()
	p, err := newPeer(t, url, peerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.client.Close() }()
	return p.call("server:join_office", fmt.Sprintf(`{"role":%q,"name":%q,"office_id":%q}`, role, name, office))
}

// TestRoomsOverNodes: a Computer changes rooms by joining; the members of both offices hear of it wherever
// they are.
func TestRoomsOverNodes(t *testing.T) {
	m := newMesh(t)
	a, b := m.start(hub.Options{}), m.start(hub.Options{})
	one := join(t, a.url, peerOptions{}, "agent", "o1", "o1")
	two := join(t, a.url, peerOptions{}, "agent", "o2", "o2")
	desk := join(t, b.url, peerOptions{answer: answers()}, "computer", "desk", "o1")
	one.hears(`notify:enter_office {"office_id":"o1","computer":"desk"}`)
	if got := desk.call("server:join_office", `{"role":"computer","name":"desk","office_id":"o2"}`); got != "true null" {
		t.Fatal(got)
	}
	one.hears(`notify:leave_office {"office_id":"o1","computer":"desk"}`)
	two.hears(`notify:enter_office {"office_id":"o2","computer":"desk"}`)
	if got := two.call("client:tool_call", toolCall("o2", "desk", "t")); !strings.Contains(got, `"text":"t"`) {
		t.Errorf("in the new room: %s", got)
	}
	if got := one.code("client:tool_call", toolCall("o1", "desk", "t")); got != "404" && got != "4104" {
		t.Errorf("in the old room: %s", got)
	}
}

// TestTakenNameOverNodes: a name stays its holder's while the holder answers, and is free as soon as its
// connection, or its node, is gone.
func TestTakenNameOverNodes(t *testing.T) {
	m := newMesh(t)
	a, b := m.start(hub.Options{}), m.start(hub.Options{})
	desk := join(t, a.url, peerOptions{}, "computer", "desk", "o")
	if got := refusedJoin(t, b.url, "computer", "desk", "o"); !strings.Contains(got, "already exists") {
		t.Fatalf("a name that is taken: %s", got)
	}
	_ = desk.client.Close()
	eventually(t, "the name is free", func() bool { return refusedJoin(t, b.url, "computer", "desk", "o") == "true null" })
	// The holder's node has ended without a word.
	c := m.bare(hub.Options{})
	join(t, c.url, peerOptions{}, "computer", "desk2", "o")
	c.shared.Close() // its hub does not answer, and cannot take the Computer out
	if got := refusedJoin(t, b.url, "computer", "desk2", "o"); got != "true null" {
		t.Errorf("the holder's hub is silent: %s", got)
	}
	c.stop()
}

// TestGoneNode: when a node is found dead, calls to its Computers end at once, its Computers leave, and the
// node itself, if it lives, puts them out. They come back and calls go on.
func TestGoneNode(t *testing.T) {
	m := newMesh(t)
	a, b := m.start(hub.Options{}), m.start(hub.Options{})
	agent := join(t, a.url, peerOptions{}, "agent", "o", "o")
	desk := join(t, b.url, peerOptions{answer: answers()}, "computer", "desk", "o")
	agent.hears(`notify:enter_office {"office_id":"o","computer":"desk"}`)
	var answer string
	var ended sync.WaitGroup
	ended.Go(func() { answer = agent.call("client:tool_call", toolCall("o", "desk", "never")) })
	eventually(t, "the call is at the Computer", func() bool { return busy(b, "desk") })
	gone := desk.client.Done()
	inc := b.node.Inc()
	doc, err := m.docs.Get(t.Context(), "n."+inc)
	if err == nil {
		err = m.docs.Delete(t.Context(), doc.Key, doc.Rev)
	}
	if err != nil {
		t.Fatal(err)
	}
	ended.Wait()
	if !strings.Contains(answer, "node_gone") && !strings.Contains(answer, "disconnected") {
		t.Errorf("a call in flight: %s", answer)
	}
	agent.hears(`notify:leave_office {"office_id":"o","computer":"desk"}`)
	select {
	case <-gone:
	case <-time.After(20 * time.Second):
		t.Fatal("the node has lost its INC and keeps the Computer")
	}
	join(t, a.url, peerOptions{answer: answers()}, "computer", "desk", "o")
	agent.hears(`notify:enter_office {"office_id":"o","computer":"desk"}`)
	if got := agent.call("client:tool_call", toolCall("o", "desk", "t")); !strings.Contains(got, `"text":"t"`) {
		t.Errorf("after it: %s", got)
	}
}

// TestOwnAgentEverywhere: the Agents of this program are one Agent at all nodes. Each one reaches every
// Computer, and hears of it.
func TestOwnAgentEverywhere(t *testing.T) {
	m := newMesh(t)
	nodes := []*meshed{m.start(hub.Options{}), m.start(hub.Options{}), m.start(hub.Options{})}
	var agents []*peer
	for _, n := range nodes {
		agents = append(agents, join(t, "", peerOptions{local: n.Attach()}, "agent", "o", "o"))
	}
	join(t, nodes[2].url, peerOptions{answer: answers()}, "computer", "desk", "o")
	for i, agent := range agents {
		agent.hears(`notify:enter_office {"office_id":"o","computer":"desk"}`)
		if got := agent.call("client:tool_call", toolCall("o", "desk", "t")); !strings.Contains(got, `"text":"t"`) {
			t.Errorf("from node %d: %s", i, got)
		}
	}
	if got := refusedJoin(t, nodes[1].url, "agent", "x", "o"); !strings.Contains(got, "Agent already in room") {
		t.Errorf("another agent: %s", got)
	}
	_ = agents[0].client.Close()
	if got := agents[1].call("client:tool_call", toolCall("o", "desk", "t2")); !strings.Contains(got, `"text":"t2"`) {
		t.Errorf("after one has left: %s", got)
	}
	again, err := newPeer(t, "", peerOptions{local: nodes[0].Attach()})
	if err != nil {
		t.Fatal(err)
	}
	// Its hub hears a moment after Close that the other one has left.
	joins, ends := "", time.Now().Add(20*time.Second)
	for joins != "true null" {
		joins = again.call("server:join_office", `{"role":"agent","name":"o","office_id":"o"}`)
		if joins != "true null" && (!strings.Contains(joins, "Agent already in room") || time.Now().After(ends)) {
			t.Fatalf("join: %s", joins)
		}
	}
	if got := again.call("client:tool_call", toolCall("o", "desk", "t3")); !strings.Contains(got, `"text":"t3"`) {
		t.Errorf("after it came back: %s", got)
	}
}

// TestLostChannelMessage: the messages of a channel are numbered between nodes. Where one is lost, the
// Computer's connection ends, and no later message arrives as if nothing were missing.
func TestLostChannelMessage(t *testing.T) {
	for _, direction := range []roster.Op{roster.OpSend, roster.OpUp} {
		t.Run(string(direction), func(t *testing.T) {
			m := newMesh(t)
			bus := &lossy{Bus: m.bus}
			m.bus = bus
			a, b := m.start(hub.Options{}), m.start(hub.Options{})
			var mu sync.Mutex
			var got []string
			sid := ""
			agent := joinChannels(t, a.url, "agent", "o", map[string]socketio.Handler{"notify:mcp": func(e *socketio.Event) {
				mu.Lock()
				defer mu.Unlock()
				got = append(got, rawjson.Text(rawjson.Get(e.Arg(0), "message")))
			}})
			desk := joinChannels(t, b.url, "computer", "desk", map[string]socketio.Handler{"client:mcp": func(e *socketio.Event) {
				mu.Lock()
				defer mu.Unlock()
				sid = rawjson.Text(rawjson.Get(e.Arg(0), "agent_sid"))
				got = append(got, rawjson.Text(rawjson.Get(e.Arg(0), "message")))
				if e.WantsAck() {
					_ = e.Ack(json.RawMessage("null"))
				}
			}})
			send := func(message string) {
				var err error
				if direction == roster.OpSend {
					err = agent.client.Emit("client:mcp", json.RawMessage(fmt.Sprintf(`{"agent":"o","req_id":"c","computer":"desk","channel":"c","op":"send","message":%q}`, message)))
				} else {
					mu.Lock()
					payload := fmt.Sprintf(`{"agent_sid":%q,"channel":"c","message":%q}`, sid, message)
					mu.Unlock()
					err = desk.client.Emit("server:mcp", json.RawMessage(payload))
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			arrived := func(want string) {
				t.Helper()
				eventually(t, "it gets "+want, func() bool {
					mu.Lock()
					defer mu.Unlock()
					return strings.Join(got, " ") == want
				})
			}
			agent.hears(`notify:enter_office {"office_id":"o","computer":"desk"}`)
			agent.call("client:mcp", `{"agent":"o","req_id":"c","computer":"desk","channel":"c","op":"open","message":"open"}`)
			arrived("open")
			send("one")
			arrived("open one")
			lost := make(chan struct{})
			drop := func(h store.Header) bool {
				if h.Get("Weir-Op") != string(direction) {
					return false
				}
				bus.drop.Store(nil)
				close(lost)
				return true
			}
			bus.drop.Store(&drop)
			send("two")
			<-lost
			send("three")
			select {
			case <-desk.client.Done():
			case <-time.After(20 * time.Second):
				t.Fatal("the Computer's connection goes on")
			}
			arrived("open one")
		})
	}
}

// TestProvenKeyOverNodes: a Computer that has proven its key takes its place at another node at once, and
// its older connection ends.
func TestProvenKeyOverNodes(t *testing.T) {
	m := newMesh(t)
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	o := hub.Options{Devices: []hub.Device{{Name: "desk", Key: public}}}
	a, b := m.start(o), m.start(o)
	agent := join(t, a.url, peerOptions{}, "agent", "o", "o")
	keyed := func(url, instance string) (*peer, string) {
		p, err := newPeer(t, url, peerOptions{answer: answers()})
		if err != nil {
			t.Fatal(err)
		}
		nonce := rawjson.Text(rawjson.Get(json.RawMessage(p.call("server:challenge", "{}")), "nonce"))
		proof, err := json.Marshal(a2c.Prove(private, nonce, p.client.Socket().ID(), "desk", "o"))
		if err != nil {
			t.Fatal(err)
		}
		return p, p.call("server:join_office", fmt.Sprintf(`{"role":"computer","name":"desk","office_id":"o","instance":%q,"proof":%s}`, instance, proof))
	}
	first, ack := keyed(a.url, "i1")
	if ack != "true null" {
		t.Fatal(ack)
	}
	agent.hears(`notify:enter_office {"office_id":"o","computer":"desk"}`)
	if _, ack = keyed(b.url, "i2"); ack != "true null" {
		t.Fatalf("with the key at another node: %s", ack)
	}
	agent.hears(`notify:leave_office {"office_id":"o","computer":"desk"}`)
	agent.hears(`notify:enter_office {"office_id":"o","computer":"desk"}`)
	select {
	case <-first.client.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("the older connection goes on")
	}
	if got := agent.call("client:tool_call", toolCall("o", "desk", "t")); !strings.Contains(got, `"text":"t"`) {
		t.Errorf("a call: %s", got)
	}
	if _, ack = keyed(a.url, "i1"); !strings.Contains(ack, "newer") && !strings.Contains(ack, "false") {
		t.Errorf("the process that was replaced: %s", ack)
	}
}

// joinChannels joins the office "o" as a peer that has channels of MCP.
func joinChannels(t *testing.T, url, role, name string, answer map[string]socketio.Handler) *peer {
	t.Helper()
	p, err := newPeer(t, url, peerOptions{answer: answer})
	if err != nil {
		t.Fatal(err)
	}
	if got := p.call("server:join_office", fmt.Sprintf(`{"role":%q,"name":%q,"office_id":"o","mcp":true}`, role, name)); got != "true null" {
		t.Fatal(got)
	}
	return p
}

// busy reports whether one call is at a Computer.
func busy(m *meshed, computer string) bool {
	return slices.ContainsFunc(m.Members(), func(member hub.Member) bool { return member.Name == computer && member.InFlight == 1 })
}
