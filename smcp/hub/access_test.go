package hub_test

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/office/a2c"
	"github.com/weir-mcp/weir/smcp"
	"github.com/weir-mcp/weir/smcp/hub"
	"github.com/weir-mcp/weir/socketio"
	"github.com/weir-mcp/weir/socketio/engineio"
)

// Who is not let in any more is put out, and nobody else.
func TestSetAccess(t *testing.T) {
	pub, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	agents := hub.Token{Name: "agents", SHA256: hashed("t-agent"), Role: smcp.RoleAgent}
	desks := hub.Token{Name: "desks", SHA256: hashed("t-desk"), Role: smcp.RoleComputer}
	both := hub.Token{Name: "both", SHA256: hashed("t-both")}
	bound := hub.Device{Name: "bound", Key: pub}
	h, url := start(t, hub.Options{Auth: hub.Static{Tokens: []hub.Token{agents, desks, both}, Devices: []hub.Device{bound}}, Devices: []hub.Device{bound}})
	called := make(chan struct{}, 1)
	mute := map[string]socketio.Handler{"client:tool_call": func(*socketio.Event) { called <- struct{}{} }}
	peers := map[string]*peer{
		"agent": join(t, url, peerOptions{token: "t-agent", version: "0.4.0"}, "agent", "a", "lab"),
		"desk":  join(t, url, peerOptions{token: "t-desk", version: "0.4.0", answer: mute}, "computer", "desk", "lab"),
		"other": join(t, url, peerOptions{token: "t-both", version: "0.4.0"}, "computer", "other", "lab"),
	}
	connect := func(name string, o peerOptions) *peer {
		t.Helper()
		p, err := newPeer(t, url, o)
		if err != nil {
			t.Fatal(err)
		}
		peers[name] = p
		return p
	}
	connect("outside", peerOptions{token: "t-desk"})
	p := connect("bound", peerOptions{auth: `{"key":"` + smcp.EncodeKey(pub) + `"}`, version: "0.4.0"})
	nonce := rawjson.Text(rawjson.Get(json.RawMessage(p.call("server:challenge", `{}`)), "nonce"))
	raw, err := json.Marshal(smcp.Join{Role: smcp.RoleComputer, Name: "bound", OfficeID: "lab", Proof: a2c.Prove(key, nonce, p.client.Socket().ID(), "bound", "lab")})
	if err != nil {
		t.Fatal(err)
	}
	if ack := p.call("server:join_office", string(raw)); ack != "true null" {
		t.Fatalf("join with a proof: %s", ack)
	}
	set := func(tokens []hub.Token, devices []hub.Device, out ...string) {
		t.Helper()
		h.SetAccess(hub.Static{Tokens: tokens, Devices: devices}, devices)
		for _, name := range out {
			select {
			case <-peers[name].client.Done():
			case <-time.After(30 * time.Second):
				t.Fatalf("%s is still there", name)
			}
			delete(peers, name)
		}
		for name, p := range peers {
			if got := p.code("server:nothing", `{}`); got != "400" {
				t.Errorf("%s is not there: %s", name, got)
			}
		}
	}
	set([]hub.Token{agents, desks, both}, []hub.Device{bound})

	answer := make(chan string, 1)
	go func() {
		answer <- peers["agent"].call("client:tool_call", `{"computer":"desk","req_id":"1","tool_name":"t","params":{},"timeout":60}`)
	}()
	<-called
	set([]hub.Token{agents, both}, []hub.Device{bound}, "desk", "outside")
	if got := <-answer; !strings.Contains(got, "Computer with name 'desk' disconnected") {
		t.Errorf("the call at a Computer that was put out: %s", got)
	}
	var unknown *engineio.HandshakeError
	if _, err := newPeer(t, url, peerOptions{token: "t-desk"}); !errors.As(err, &unknown) || unknown.Status != http.StatusUnauthorized {
		t.Errorf("a token that is gone: %v", err)
	}
	var refused *socketio.ConnectError
	if _, err := newPeer(t, url, peerOptions{auth: `{"token":"t-desk"}`}); !errors.As(err, &refused) {
		t.Errorf("a token that is gone, in the auth: %v", err)
	}

	_, second, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	stranger := hub.Device{Name: "other", Key: second.Public().(ed25519.PublicKey)}
	set([]hub.Token{agents, both}, []hub.Device{bound, stranger}, "other") // its name is somebody's now
	set([]hub.Token{agents}, []hub.Device{{Name: "bound", Key: stranger.Key}}, "bound")
	agents.Offices = []string{"elsewhere"}
	set([]hub.Token{agents}, nil, "agent")
	connect("agent", peerOptions{token: "t-agent", version: "0.4.0"})
	for _, test := range []struct{ office, want string }{{"lab", "false "}, {"elsewhere", "true null"}} {
		if got := peers["agent"].call("server:join_office", `{"role":"agent","name":"a","office_id":"`+test.office+`"}`); !strings.HasPrefix(got, test.want) {
			t.Errorf("joining %s: %s", test.office, got)
		}
	}
	left := func(m hub.Member) bool { return m.Office == "lab" }
	for end := time.Now().Add(30 * time.Second); slices.ContainsFunc(h.Members(), left); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("somebody is left in the office: %+v", h.Members())
		}
	}
}
