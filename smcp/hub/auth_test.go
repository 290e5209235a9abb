package hub_test

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
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

func hashed(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// Who may connect, and where to.
func TestAuth(t *testing.T) {
	pub, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	devices := []hub.Device{{Name: "bound", Key: pub, Offices: []string{"lab*"}}}
	_, url := start(t, hub.Options{Devices: devices, Auth: hub.Static{Devices: devices, Tokens: []hub.Token{
		{Name: "all", SHA256: hashed("t-all")}, {Name: "agents", SHA256: hashed("t-agent"), Role: smcp.RoleAgent, Offices: []string{"lab"}},
	}}})
	for name, o := range map[string]peerOptions{
		"nothing": {}, "a wrong auth": {auth: `{"token":"wrong"}`}, "an unknown key": {auth: `{"key":"AAAA"}`},
	} {
		_, err := newPeer(t, url, o)
		var refused *socketio.ConnectError
		if !errors.As(err, &refused) || refused.Message != "Connection refused by server" {
			t.Errorf("%s: %v", name, err)
		}
	}
	// What stands in a header is looked at before there is a session.
	_, err = newPeer(t, url, peerOptions{token: "wrong", auth: `{"token":"t-all"}`})
	var unknown *engineio.HandshakeError
	if !errors.As(err, &unknown) || unknown.Status != http.StatusUnauthorized || !strings.Contains(string(unknown.Body), "x-api-key") {
		t.Errorf("a wrong token in a header: %v", err)
	}
	if _, err := newPeer(t, url, peerOptions{token: "stale", key: smcp.EncodeKey(pub), auth: `{"key":"` + smcp.EncodeKey(pub) + `"}`}); err != nil {
		t.Errorf("a stale token beside a key: %v", err)
	}
	for name, o := range map[string]peerOptions{
		"the header": {token: "t-all"}, "the auth": {auth: `{"token":"t-all"}`}, "the other auth": {auth: `{"Authorization":"Bearer t-all"}`}, "without a scheme": {auth: `{"Authorization":"t-all"}`},
	} {
		if _, err := newPeer(t, url, o); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	p, err := newPeer(t, url, peerOptions{token: "t-agent", version: "0.5.0"})
	if err != nil {
		t.Fatal(err)
	}
	for in, want := range map[string]string{
		`{"role":"computer","name":"a","office_id":"lab"}`: "403",
		`{"role":"agent","name":"a","office_id":"other"}`:  "403",
		`{"role":"agent","name":"a","office_id":"lab"}`:    "",
	} {
		if got := p.code("server:join_office", in); got != want {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
	// A bound name needs the proof, whatever token there is.
	p, err = newPeer(t, url, peerOptions{token: "t-all", version: "0.5.0"})
	if err != nil {
		t.Fatal(err)
	}
	if got := p.code("server:join_office", `{"role":"computer","name":"bound","office_id":"lab2"}`); got != "403" {
		t.Errorf("without a proof: %s", got)
	}
	p, err = newPeer(t, url, peerOptions{auth: `{"key":"` + smcp.EncodeKey(pub) + `"}`, version: "0.5.0"})
	if err != nil {
		t.Fatal(err)
	}
	prove := func(office, signed string) string {
		nonce := rawjson.Text(rawjson.Get(json.RawMessage(p.call("server:challenge", `{}`)), "nonce"))
		raw, err := json.Marshal(smcp.Join{Role: smcp.RoleComputer, Name: "bound", OfficeID: office, Proof: a2c.Prove(key, nonce, p.client.Socket().ID(), "bound", signed)})
		if err != nil {
			t.Fatal(err)
		}
		return p.code("server:join_office", string(raw))
	}
	if got := p.code("server:join_office", `{"role":"computer","name":"other","office_id":"lab2"}`); got != "403" {
		t.Errorf("a key for another name: %s", got)
	}
	if got := prove("lab2", "lab3"); got != "403" {
		t.Errorf("a proof for another office: %s", got)
	}
	if got := prove("elsewhere", "elsewhere"); got != "403" {
		t.Errorf("an office that is not its: %s", got)
	}
	if got := prove("lab2", "lab2"); got != "" {
		t.Errorf("a good proof: %s", got)
	}
}

// Keys are public: who shows one and does not prove it may not stay.
func TestUnprovenKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pub, key, err := ed25519.GenerateKey(nil)
		if err != nil {
			t.Fatal(err)
		}
		devices := []hub.Device{{Name: "bound", Key: pub}}
		h := hub.New(hub.Options{Devices: devices})
		listener := memnet.New()
		server := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
		served := make(chan struct{})
		go func() {
			defer close(served)
			_ = server.Serve(listener)
		}()
		defer func() {
			if err := h.Shutdown(context.Background()); err != nil {
				t.Error(err)
			}
			_ = server.Close()
			<-served
		}()
		connect := func(more string) (*socketio.Client, chan struct{}) {
			lost := make(chan struct{}, 1)
			c := socketio.NewClient("http://memory/socket.io/", socketio.ClientConfig{
				Namespace: "/smcp", Engine: engineio.ClientConfig{Transports: []engineio.Transport{engineio.WebSocket}, DialContext: listener.DialContext},
				Auth: func(context.Context) (json.RawMessage, error) {
					return json.RawMessage(`{"key":"` + smcp.EncodeKey(pub) + `"` + more + `}`), nil
				},
				OnDisconnect: func(socketio.Reason, error) { lost <- struct{}{} },
				Retry:        func(int, error) (time.Duration, bool) { return 0, false },
			})
			if err := c.Connect(t.Context()); err != nil {
				t.Fatal(err)
			}
			return c, lost
		}
		good, goodLost := connect("")
		defer good.Close()
		bad, badLost := connect("")
		defer bad.Close()
		known, knownLost := connect(`,"token":"new"`)
		defer known.Close()
		h.SetAccess(hub.Static{Tokens: []hub.Token{{Name: "new", SHA256: hashed("new")}}, Devices: devices}, devices)
		ack, err := good.EmitWithAck(t.Context(), "server:challenge", json.RawMessage(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		join, err := json.Marshal(smcp.Join{Role: smcp.RoleComputer, Name: "bound", OfficeID: "lab",
			Proof: a2c.Prove(key, rawjson.Text(rawjson.Get(ack.Arg(0), "nonce")), good.Socket().ID(), "bound", "lab")})
		if err != nil {
			t.Fatal(err)
		}
		if ack, err = good.EmitWithAck(t.Context(), "server:join_office", join); err != nil || string(ack.Arg(0)) != "true" {
			t.Fatalf("join: %s, %v", ack.Args, err)
		}
		select {
		case <-badLost:
		case <-time.After(5 * time.Minute):
			t.Error("who proves nothing may stay")
		}
		time.Sleep(time.Minute)
		select {
		case <-goodLost:
			t.Error("who has proven its key was put out")
		case <-knownLost:
			t.Error("who came by a token meanwhile was put out")
		default:
		}
	})
}

// Without tokens it is Local that decides about peers on this machine; a token
// that is not the hub's may be for somebody else, and a key is enough.
func TestLocalPeers(t *testing.T) {
	pub, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	key := `,"key":"` + smcp.EncodeKey(pub) + `"}`
	static := hub.Static{Devices: []hub.Device{{Name: "bound", Key: pub}}, Local: func(tokens []string) (hub.Grant, error) {
		if slices.Contains(tokens, "t-gateway") {
			return hub.Grant{Principal: "gateway"}, nil
		}
		return hub.Grant{}, hub.ErrRefused
	}}
	near, far := "127.0.0.1:5", "192.0.2.1:5"
	for name, test := range map[string]struct {
		remote, header, auth string
		tokens               []hub.Token
		want                 string
	}{
		"nothing":                       {remote: near},
		"a token of another kind":       {remote: near, auth: `{"token":"t-scoped"}`},
		"a token that Local takes":      {remote: near, auth: `{"token":"t-gateway"}`, want: "gateway"},
		"the same beside a proxy's":     {remote: near, header: "Basic dTpw", auth: `{"token":"t-gateway"}`, want: "gateway"},
		"the same from elsewhere":       {remote: far, auth: `{"token":"t-gateway"}`},
		"the same where there are some": {remote: near, auth: `{"token":"t-gateway"}`, tokens: []hub.Token{{Name: "hub", SHA256: hashed("t-hub")}}},
		"the hub's beside a proxy's":    {remote: far, header: "Basic dTpw", auth: `{"token":"t-hub"}`, tokens: []hub.Token{{Name: "hub", SHA256: hashed("t-hub")}}, want: "hub"},
		"a key":                         {remote: near, auth: `{"role":"computer"` + key, want: "key"},
		"a key and a stale token":       {remote: far, auth: `{"token":"old"` + key, tokens: []hub.Token{{Name: "hub", SHA256: hashed("t-hub")}}, want: "key"},
	} {
		t.Run(name, func(t *testing.T) {
			s := static
			s.Tokens = test.tokens
			c := hub.Credentials{RemoteAddr: test.remote, Auth: json.RawMessage(test.auth), Header: http.Header{}}
			if test.header != "" {
				c.Header.Set("Authorization", test.header)
			}
			grant, err := s.Authenticate(t.Context(), c)
			if grant.Principal != test.want || (err == nil) != (test.want != "") || err != nil && !errors.Is(err, hub.ErrRefused) {
				t.Errorf("%+v, %v", grant, err)
			}
			if grant.NeedsProof != (test.want == "key") {
				t.Errorf("the proof of a key: %+v", grant)
			}
		})
	}
}

// Who comes through a proxy on this machine is not on this machine.
func TestLoopback(t *testing.T) {
	for _, test := range []struct {
		remote, header string
		want           bool
	}{
		{"127.0.0.1:1", "", true}, {"[::1]:1", "", true}, {"192.0.2.1:1", "", false}, {"pipe", "", false}, {"127.0.0.1:1", "X-Forwarded-For", false}, {"127.0.0.1:1", "Forwarded", false},
	} {
		c := hub.Credentials{RemoteAddr: test.remote, Header: http.Header{}}
		if test.header != "" {
			c.Header.Set(test.header, "192.0.2.7")
		}
		if got := c.Loopback(); got != test.want {
			t.Errorf("%s %s: %v", test.remote, test.header, got)
		}
	}
}

// Who may know who is connected is who would be let in, in any role and office.
func TestTrusts(t *testing.T) {
	pub, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	devices := []hub.Device{{Name: "bound", Key: pub}}
	tokens := []hub.Token{{Name: "all", SHA256: hashed("all")}, {Name: "role", SHA256: hashed("role"), Role: smcp.RoleComputer}, {Name: "office", SHA256: hashed("office"), Offices: []string{"lab"}}}
	open, closed := hub.New(hub.Options{Devices: devices}), hub.New(hub.Options{Auth: hub.Static{Tokens: tokens, Devices: devices}, Devices: devices})
	for _, h := range []*hub.Hub{open, closed} {
		defer func() { _ = h.Shutdown(context.Background()) }()
	}
	for _, test := range []struct {
		name, remote   string
		header         []string
		open, atTokens bool
	}{
		{"this machine", "127.0.0.1:1", nil, true, false},
		{"elsewhere", "192.0.2.1:1", nil, false, false},
		{"behind a proxy", "127.0.0.1:1", []string{"X-Forwarded-For", "192.0.2.1"}, false, false},
		{"behind a proxy, with a token", "127.0.0.1:1", []string{"X-Forwarded-For", "192.0.2.1", "X-Api-Key", "all"}, false, true},
		{"a token", "192.0.2.1:1", []string{"Authorization", "Bearer all"}, false, true},
		{"a token for one role", "192.0.2.1:1", []string{"X-Api-Key", "role"}, false, false},
		{"a token for one office", "192.0.2.1:1", []string{"X-Api-Key", "office"}, false, false},
		{"a wrong token", "127.0.0.1:1", []string{"X-Api-Key", "wrong"}, true, false},
		{"a key, which is public", "192.0.2.1:1", []string{a2c.HeaderKey, smcp.EncodeKey(pub)}, false, false},
	} {
		r := httptest.NewRequest(http.MethodGet, "/healthz", nil)
		r.RemoteAddr = test.remote
		for i := 0; i+1 < len(test.header); i += 2 {
			r.Header.Set(test.header[i], test.header[i+1])
		}
		if got := open.Trusts(r); got != test.open {
			t.Errorf("%s, without tokens: %v", test.name, got)
		}
		if got := closed.Trusts(r); got != test.atTokens {
			t.Errorf("%s, with tokens: %v", test.name, got)
		}
	}
}

// TestCallsTellNothingOfClosedOffices: who calls a Computer of an office that its
// token does not open reads what it would read if there were none of that name.
func TestCallsTellNothingOfClosedOffices(t *testing.T) {
	_, url := start(t, hub.Options{Auth: hub.Static{Tokens: []hub.Token{
		{Name: "all", SHA256: hashed("t-all")}, {Name: "lab", SHA256: hashed("t-lab"), Offices: []string{"lab*"}},
	}}})
	join(t, url, peerOptions{token: "t-all"}, "computer", "vault", "bank")
	join(t, url, peerOptions{token: "t-all"}, "computer", "bench", "lab2")
	agent := join(t, url, peerOptions{token: "t-lab"}, "agent", "a", "lab")
	call := func(computer string) string {
		return agent.call("client:tool_call", `{"agent":"a","req_id":"1","computer":"`+computer+`","tool_name":"t","params":{},"timeout":1}`)
	}
	if got, want := call("vault"), strings.ReplaceAll(call("nobody"), "nobody", "vault"); got != want {
		t.Errorf("a Computer of another's office: %s, want %s", got, want)
	}
	if got := call("bench"); !strings.Contains(got, "4104") {
		t.Errorf("a Computer of an office that the token opens: %s", got)
	}
}
