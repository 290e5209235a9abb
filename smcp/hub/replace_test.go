package hub_test

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/office/a2c"
	"github.com/weir-mcp/weir/internal/testkit/memnet"
	"github.com/weir-mcp/weir/smcp"
	"github.com/weir-mcp/weir/smcp/hub"
	"github.com/weir-mcp/weir/socketio"
	"github.com/weir-mcp/weir/socketio/engineio"
)

// A quietHub is a hub on networks of its own, for a synctest bubble. Peers on the
// failing one can be cut off without a word.
type quietHub struct {
	t             *testing.T
	hub           *hub.Hub
	good, failing *memnet.Listener
}

func startQuiet(t *testing.T, o hub.Options) *quietHub {
	t.Helper()
	q := &quietHub{t: t, hub: hub.New(o), good: memnet.New(), failing: memnet.New()}
	server := &http.Server{Handler: q.hub, ReadHeaderTimeout: time.Minute}
	served := make(chan struct{}, 2)
	for _, l := range []*memnet.Listener{q.good, q.failing} {
		go func() {
			_ = server.Serve(l)
			served <- struct{}{}
		}()
	}
	t.Cleanup(func() {
		if err := q.hub.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		_ = server.Close()
		<-served
		<-served
	})
	return q
}

// cut cuts off the peers on the failing network, when the hub has done all that they have asked for. A connection whose
// reader still hands on a message is not silent: a probe would find its peer there.
func (q *quietHub) cut() {
	synctest.Wait()
	q.failing.Cut()
}

// peer connects over a network.
func (q *quietHub) peer(network *memnet.Listener, o peerOptions) *peer {
	q.t.Helper()
	p := &peer{t: q.t}
	config := socketio.ClientConfig{
		Namespace: smcp.Namespace, Retry: func(int, error) (time.Duration, bool) { return 0, false },
		Engine: engineio.ClientConfig{Transports: []engineio.Transport{engineio.WebSocket}, DialContext: network.DialContext, Header: http.Header{"X-Api-Key": {o.token}}},
	}
	if o.auth != "" {
		config.Auth = func(context.Context) (json.RawMessage, error) { return json.RawMessage(o.auth), nil }
	}
	url := "http://memory/socket.io/"
	if o.version != "" {
		url += "?a2c_version=" + o.version
	}
	p.client = socketio.NewClient(url, config)
	for name, h := range o.answer {
		p.client.OnConcurrent(name, h)
	}
	p.client.OnOther(func(e *socketio.Event) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.heard = append(p.heard, e.Name+" "+string(e.Arg(0)))
	})
	q.t.Cleanup(func() { _ = p.client.Close() })
	if err := p.client.Connect(q.t.Context()); err != nil {
		q.t.Fatal(err)
	}
	return p
}

// prove joins an office as a Computer with the proof of its key.
func (p *peer) prove(key ed25519.PrivateKey, name, office, instance string) string {
	p.t.Helper()
	nonce := rawjson.Text(rawjson.Get(json.RawMessage(p.call("server:challenge", `{}`)), "nonce"))
	raw, err := json.Marshal(smcp.Join{Role: smcp.RoleComputer, Name: name, OfficeID: office, Instance: instance, Proof: a2c.Prove(key, nonce, p.client.Socket().ID(), name, office)})
	if err != nil {
		p.t.Fatal(err)
	}
	return p.call("server:join_office", string(raw))
}

// hang has a tool call wait at a Computer and returns where its answer will be.
func (q *quietHub) hang(agent *peer, computer string) chan string {
	answer := make(chan string, 1)
	go func() {
		answer <- agent.call("client:tool_call", `{"req_id":"1","computer":"`+computer+`","tool_name":"t","params":{},"timeout":600}`)
	}()
	synctest.Wait()
	return answer
}

var mute = map[string]socketio.Handler{"client:tool_call": func(*socketio.Event) {}}

const (
	joinedDesk = `notify:enter_office {"office_id":"lab","computer":"desk"}`
	leftDesk   = `notify:leave_office {"office_id":"lab","computer":"desk"}`
)

// Who proves the key takes the place of its own old connection at once.
func TestKeyReplaces(t *testing.T) {
	pub, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		devices := []hub.Device{{Name: "desk", Key: pub}}
		q := startQuiet(t, hub.Options{Devices: devices, Auth: hub.Static{Devices: devices, Tokens: []hub.Token{{Name: "agent", SHA256: hashed("agent")}}}})
		agent := q.peer(q.good, peerOptions{token: "agent", version: "0.4.0"})
		if got := agent.call("server:join_office", `{"role":"agent","name":"lab","office_id":"lab"}`); got != "true null" {
			t.Fatal(got)
		}
		withKey := peerOptions{auth: `{"key":"` + smcp.EncodeKey(pub) + `"}`, answer: mute}
		old := q.peer(q.failing, withKey)
		if got := old.prove(key, "desk", "lab", "first"); got != "true null" {
			t.Fatal(got)
		}
		agent.hears(joinedDesk)
		waits := q.hang(agent, "desk")
		q.cut()

		again := q.peer(q.good, withKey)
		began := time.Now()
		if got := again.prove(key, "desk", "lab", "second"); got != "true null" || time.Since(began) != 0 {
			t.Errorf("after %s: %s", time.Since(began), got)
		}
		if got := <-waits; !strings.Contains(got, "disconnected") || time.Since(began) != 0 {
			t.Errorf("the call at the old connection, after %s: %s", time.Since(began), got)
		}
		agent.hears(leftDesk)
		agent.hears(joinedDesk)
		time.Sleep(5 * time.Minute) // until all heartbeats of the old one have failed
		agent.silent()
		if m := q.hub.Members(); len(m) != 2 || q.hub.Connections() != 2 {
			t.Errorf("members %+v, %d connections", m, q.hub.Connections())
		}
		// The new one is called.
		if waits = q.hang(agent, "desk"); len(waits) != 0 {
			t.Errorf("a call: %s", <-waits)
		}

		// Two processes with one key: the newer one stays, the other is told why.
		newer := q.peer(q.good, withKey)
		if got := newer.prove(key, "desk", "lab", "third"); got != "true null" {
			t.Errorf("a third process: %s", got)
		}
		<-waits
		<-again.client.Done()
		second := q.peer(q.good, withKey)
		if got := second.prove(key, "desk", "lab", "second"); !strings.Contains(got, "already exists in room 'lab'") || !strings.Contains(got, "newer process") {
			t.Errorf("the older process comes back: %s", got)
		}
		if got := newer.code("server:nothing", `{}`); got != "400" {
			t.Errorf("the newer process was put out: %s", got)
		}
	})
}

// A place that a peer holds which does not answer goes to one of the same
// credentials and name. A peer that is there keeps its place.
func TestProbeReplaces(t *testing.T) {
	for _, role := range []string{"computer", "agent"} {
		t.Run(role, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := startQuiet(t, hub.Options{Auth: hub.Static{Tokens: []hub.Token{{Name: "one", SHA256: hashed("one")}, {Name: "two", SHA256: hashed("two")}}}})
				join := `{"role":"` + role + `","name":"desk","office_id":"lab"}`
				taken := "false \"Internal server error: Computer with name 'desk' already exists in room 'lab'\""
				witness := q.peer(q.good, peerOptions{token: "one", version: "0.4.0"})
				other := map[string]string{"computer": "agent", "agent": "computer"}[role]
				if got := witness.call("server:join_office", `{"role":"`+other+`","name":"w","office_id":"lab"}`); got != "true null" {
					t.Fatal(got)
				}
				if role == "agent" {
					taken = `false "Internal server error: Agent already in room"`
				}
				old := q.peer(q.failing, peerOptions{token: "one", answer: mute})
				if got := old.call("server:join_office", join); got != "true null" {
					t.Fatal(got)
				}
				stranger, again := q.peer(q.good, peerOptions{token: "two"}), q.peer(q.good, peerOptions{token: "one"})
				tries := func(p *peer, want string, within time.Duration) {
					t.Helper()
					began := time.Now()
					if got := p.call("server:join_office", join); got != want || time.Since(began) > within {
						t.Errorf("after %s: %s, want %s", time.Since(began), got, want)
					}
				}
				for range 3 {
					tries(again, taken, 0) // it answers
					tries(stranger, taken, 0)
					time.Sleep(time.Second)
				}
				time.Sleep(30 * time.Second)
				var waits chan string
				if role == "computer" {
					waits = q.hang(witness, "desk")
				}
				q.cut()
				tries(stranger, taken, 0) // it is not its to take
				tries(again, "true null", 2*time.Second)
				if waits != nil {
					if got := <-waits; !strings.Contains(got, "disconnected") {
						t.Errorf("the call at the old connection: %s", got)
					}
				}
				for _, want := range []string{"enter", "leave", "enter"} {
					witness.hears(`notify:` + want + `_office {"office_id":"lab","` + role + `":"desk"}`)
				}
				time.Sleep(5 * time.Minute)
				witness.silent()
				if m := q.hub.Members(); len(m) != 2 {
					t.Errorf("members: %+v", m)
				}
			})
		})
	}
}

// Several that want the place of one that is gone: one gets it.
func TestProbeRace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := startQuiet(t, hub.Options{Auth: hub.Static{Tokens: []hub.Token{{Name: "one", SHA256: hashed("one")}}}})
		const join = `{"role":"computer","name":"desk","office_id":"lab"}`
		if got := q.peer(q.failing, peerOptions{token: "one"}).call("server:join_office", join); got != "true null" {
			t.Fatal(got)
		}
		peers := make([]*peer, 8)
		for i := range peers {
			peers[i] = q.peer(q.good, peerOptions{token: "one"})
		}
		q.cut()
		answers := make(chan string, len(peers))
		for _, p := range peers {
			go func() { answers <- p.call("server:join_office", join) }()
		}
		won := 0
		for range peers {
			if got := <-answers; got == "true null" {
				won++
			} else if !strings.Contains(got, "already exists") {
				t.Error(got)
			}
		}
		if m := q.hub.Members(); won != 1 || len(m) != 1 {
			t.Errorf("%d have got the place; members %+v", won, m)
		}
	})
}
