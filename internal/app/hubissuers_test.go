package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/authn"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/fakeidp"
	"github.com/weir-mcp/weir/internal/memnet"
	"github.com/weir-mcp/weir/smcp/hub"
	"github.com/weir-mcp/weir/socketio"
	"github.com/weir-mcp/weir/socketio/engineio"
)

const issuedHub = `
public_url: https://weir.example
auth: {issuers: {corp: {issuer: "https://id.example", scopes: [mcp], require: {tid: t1}, introspection: {url: "https://id.example/introspect"}}}}
hub:
  issuers:
    - {issuer: corp, groups: [robots], role: computer, offices: ["lab*"]}
    - {issuer: corp, principals: ["corp:ann"], role: agent}
`

// issuedHubs is a hub in memory whose peers have tokens of an issuer.
type issuedHubs struct {
	idp    *fakeidp.Provider
	hub    *hub.Hub
	rules  hubRules
	listen *memnet.Listener
	set    func(text string)
}

func startIssuedHub(t *testing.T) (h *issuedHubs, end func()) {
	t.Helper()
	h = &issuedHubs{idp: fakeidp.New(fakeidp.Options{Issuer: "https://id.example"}), listen: memnet.New()}
	issued := &issuedPeers{callers: authn.New(authn.Options{Client: h.idp.Client()})}
	h.set = func(text string) {
		t.Helper()
		c, _, err := config.Parse("weir.yaml", []byte(text), config.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if h.rules, err = hubAccess(c, func() *config.Auth { return &c.Auth }, issued); err != nil {
			t.Fatal(err)
		}
		if h.hub != nil {
			h.hub.SetAccess(h.rules, h.rules.Devices)
		}
	}
	h.set(issuedHub)
	h.hub = hub.New(hub.Options{Auth: h.rules})
	server := &http.Server{Handler: h.hub, ReadHeaderTimeout: time.Minute}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(h.listen)
	}()
	return h, func() {
		if err := h.hub.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		_ = server.Close()
		<-served
		issued.close()
	}
}

// token returns a good token of a user, with changes.
func (h *issuedHubs) token(sub string, changes map[string]any) string {
	claims := map[string]any{"sub": sub, "aud": "https://weir.example", "scope": "mcp", "tid": "t1"}
	for name, value := range changes {
		claims[name] = value
	}
	return h.idp.Token(claims)
}

// connect connects a peer that shows a token: in a header, or in the CONNECT.
func (h *issuedHubs) connect(t *testing.T, token string, inHeader bool) (c *socketio.Client, lost chan struct{}, err error) {
	t.Helper()
	lost = make(chan struct{}, 1)
	o := socketio.ClientConfig{
		Namespace: "/smcp", Engine: engineio.ClientConfig{Transports: []engineio.Transport{engineio.WebSocket}, DialContext: h.listen.DialContext},
		OnDisconnect: func(socketio.Reason, error) { lost <- struct{}{} },
		Retry:        func(int, error) (time.Duration, bool) { return 0, false },
	}
	if inHeader {
		o.Engine.Header = http.Header{"Authorization": {"Bearer " + token}}
	} else {
		o.Auth = func(context.Context) (json.RawMessage, error) { return json.Marshal(map[string]string{"token": token}) }
	}
	c = socketio.NewClient("http://memory/socket.io/", o)
	return c, lost, c.Connect(t.Context())
}

func joinAs(t *testing.T, c *socketio.Client, role, office string) string {
	t.Helper()
	ack, err := c.EmitWithAck(t.Context(), "server:join_office", json.RawMessage(fmt.Sprintf(`{"role":%q,"name":"n","office_id":%q}`, role, office)))
	if err != nil {
		t.Fatal(err)
	}
	return string(ack.Arg(0))
}

// TestIssuedPeers: a peer with a token of an issuer has what the first entry that fits it allows, and a
// token that does not open the gateway does not open the hub (spec/offices §2).
func TestIssuedPeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, end := startIssuedHub(t)
		defer end()
		robot := map[string]any{"groups": []string{"robots"}}
		for name, tt := range map[string]struct {
			token  string
			status int // of a handshake with the token in a header; 0: admitted
		}{
			"a group":             {h.token("r1", robot), 0},
			"a principal":         {h.token("ann", nil), 0},
			"without an entry":    {h.token("bob", nil), http.StatusForbidden},
			"another audience":    {h.token("ann", map[string]any{"aud": "https://weir.example/mcp"}), http.StatusUnauthorized},
			"another tenant":      {h.token("ann", map[string]any{"tid": "t2"}), http.StatusUnauthorized},
			"without the scope":   {h.token("ann", map[string]any{"scope": "other"}), http.StatusForbidden},
			"past its end":        {h.token("ann", map[string]any{"exp": time.Now().Add(-2 * time.Minute).Unix()}), http.StatusUnauthorized},
			"another issuer":      {h.token("ann", map[string]any{"iss": "https://other.example"}), http.StatusUnauthorized},
			"another key":         {fakeidp.NewSigner("ES256").Sign(nil, map[string]any{"iss": "https://id.example", "sub": "ann", "aud": "https://weir.example", "exp": time.Now().Add(time.Hour).Unix()}), http.StatusUnauthorized},
			"opaque":              {h.idp.Opaque(map[string]any{"sub": "ann", "aud": "https://weir.example", "scope": "mcp", "tid": "t1"}), 0},
			"opaque and inactive": {"unknown-token", http.StatusUnauthorized},
		} {
			for _, inHeader := range []bool{true, false} {
				c, _, err := h.connect(t, tt.token, inHeader)
				var handshake *engineio.HandshakeError
				switch {
				case (err == nil) != (tt.status == 0):
					t.Errorf("%s, header %v: %v", name, inHeader, err)
				case inHeader && tt.status != 0 && (!errors.As(err, &handshake) || handshake.Status != tt.status):
					t.Errorf("%s: %v, want status %d", name, err, tt.status)
				}
				_ = c.Close()
			}
		}
		for _, tt := range []struct {
			sub, role, office string
			groups            []string
			want              bool
		}{
			{"r1", "computer", "lab1", []string{"robots"}, true}, {"r1", "computer", "else", []string{"robots"}, false}, {"r1", "agent", "lab1", []string{"robots"}, false},
			{"ann", "agent", "else", nil, true}, {"ann", "computer", "else", nil, false},
			{"ann", "agent", "lab1", []string{"robots"}, false}, // the first entry decides
		} {
			c, _, err := h.connect(t, h.token(tt.sub, map[string]any{"groups": tt.groups}), false)
			if err != nil {
				t.Fatal(err)
			}
			if got := joinAs(t, c, tt.role, tt.office); (got == "true") != tt.want {
				t.Errorf("%+v: %s", tt, got)
			}
			if members := h.hub.Members(); tt.want && (len(members) != 1 || members[0].Principal != "corp:"+tt.sub) {
				t.Errorf("%+v: members %+v", tt, members)
			}
			_ = c.Close()
			synctest.Wait()
		}
	})
}

// TestIssuedPeersEnd: the end of a token, its revocation, and a reload that takes its entry away end
// the connection; an issuer that cannot be asked does not make a token unknown.
func TestIssuedPeersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, end := startIssuedHub(t)
		defer end()
		connect := func(token string) chan struct{} {
			t.Helper()
			c, lost, err := h.connect(t, token, false)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close() })
			return lost
		}
		put := func(lost chan struct{}) bool {
			synctest.Wait()
			select {
			case <-lost:
				return true
			default:
				return false
			}
		}
		opaque := h.idp.Opaque(map[string]any{"sub": "ann", "aud": "https://weir.example", "scope": "mcp", "tid": "t1"})
		ends, lasts, revoked := connect(h.token("ann", map[string]any{"exp": time.Now().Add(17 * time.Minute).Unix()})), connect(h.token("ann", map[string]any{"exp": time.Now().Add(3 * time.Hour).Unix()})), connect(opaque)
		time.Sleep(16 * time.Minute)
		if put(ends) || put(lasts) || put(revoked) {
			t.Fatal("a peer with a good token was put out")
		}
		h.idp.Revoke(opaque)
		time.Sleep(7 * time.Minute)
		if !put(ends) || !put(revoked) || put(lasts) {
			t.Fatal("a token that has ended or is revoked keeps its connection, or another one was put out")
		}
		h.idp.Outage(true)
		_, _, err := h.connect(t, "some-opaque-token", true)
		var handshake *engineio.HandshakeError
		if !errors.As(err, &handshake) || handshake.Status != http.StatusServiceUnavailable {
			t.Errorf("the issuer cannot be asked: %v", err)
		}
		h.set(strings.Replace(issuedHub, "corp:ann", "corp:bob", 1))
		if !put(lasts) {
			t.Error("a peer whose entry is gone stays connected")
		}
	})
}
