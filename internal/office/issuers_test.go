package office

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/access"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/testkit/fakeidp"
	"github.com/weir-mcp/weir/internal/testkit/memnet"
	"github.com/weir-mcp/weir/mcp"
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
	issued := &issuedPeers{callers: access.New(access.Options{Client: h.idp.Client()})}
	h.set = func(text string) {
		t.Helper()
		c, _, err := config.Parse("weir.yaml", []byte(text), config.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if h.rules, err = hubAccess(c, func() *config.Auth { return &c.Auth }, issued); err != nil {
			t.Fatal(err)
		}
		issued.apply(c)
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

// putOut reports whether a peer has lost its connection.
func putOut(lost chan struct{}) bool {
	synctest.Wait()
	select {
	case <-lost:
		return true
	default:
		return false
	}
}

// TestIssuedPeersOutage: a peer stays connected while its issuer cannot be asked, but not beyond the
// end of its token. When the issuer answers again, a token that was revoked ends the connection.
func TestIssuedPeersOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, end := startIssuedHub(t)
		defer end()
		claims := map[string]any{"sub": "ann", "aud": "https://weir.example", "scope": "mcp", "tid": "t1"}
		lasts := h.idp.Opaque(claims)
		claims["exp"] = time.Now().Add(20 * time.Minute).Unix()
		lost := map[string]chan struct{}{"lasts": nil, "ends": nil}
		for name, token := range map[string]string{"lasts": lasts, "ends": h.idp.Opaque(claims)} {
			c, l, err := h.connect(t, token, false)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			lost[name] = l
		}
		h.idp.Outage(true)
		c := hub.Credentials{Header: http.Header{"X-Api-Key": {lasts}, "Authorization": {"Bearer " + h.token("ann", map[string]any{"iss": "https://other.example"})}}}
		time.Sleep(18 * time.Minute)
		if _, err := h.rules.Authenticate(t.Context(), c); err == nil {
			t.Error("a token is good during the outage")
		} else if k, _ := mcp.KindOf(err); k != mcp.KindIdentityUnavailable {
			t.Errorf("one of two tokens cannot be checked: %v", err)
		}
		h.hub.SetAccess(h.rules, nil)
		if putOut(lost["lasts"]) || putOut(lost["ends"]) {
			t.Fatal("the outage of an issuer ends a connection")
		}
		time.Sleep(2*time.Minute + time.Second)
		if !putOut(lost["ends"]) || putOut(lost["lasts"]) {
			t.Fatal("a token keeps its connection beyond its end, or another one was put out")
		}
		h.idp.Revoke(lasts)
		h.idp.Outage(false)
		time.Sleep(time.Minute)
		if !putOut(lost["lasts"]) {
			t.Error("the issuer answers again, and a revoked token keeps its connection")
		}
	})
}

// TestStaticPeersEnd: a peer that shows a token of the gateway stays connected until the token ends.
func TestStaticPeersEnd(t *testing.T) {
	auth := config.Auth{Tokens: []config.Token{{Name: "ann", SHA256: hashOf("one"), Expires: "2000-01-01T01:00:10Z"}}}
	synctest.Test(t, func(t *testing.T) {
		c := &config.Config{Auth: auth}
		rules, err := hubAccess(c, func() *config.Auth { return &c.Auth }, newIssuedPeers(slog.New(slog.DiscardHandler)))
		if err != nil {
			t.Fatal(err)
		}
		defer rules.issued.close()
		h := hub.New(hub.Options{Auth: rules})
		listen := memnet.New()
		server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.RemoteAddr = "127.0.0.1:5"
			h.ServeHTTP(w, r)
		})}
		go func() { _ = server.Serve(listen) }()
		defer server.Close()
		defer func() {
			if err := h.Shutdown(context.Background()); err != nil {
				t.Error(err)
			}
		}()
		peers := &issuedHubs{hub: h, listen: listen}
		client, lost, err := peers.connect(t, "one", false)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		if time.Sleep(time.Hour); putOut(lost) {
			t.Fatal("a peer was put out before the end of its token")
		}
		if time.Sleep(11 * time.Second); !putOut(lost) {
			t.Error("a token that has ended keeps its connection")
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
		opaque := h.idp.Opaque(map[string]any{"sub": "ann", "aud": "https://weir.example", "scope": "mcp", "tid": "t1"})
		ends, lasts, revoked := connect(h.token("ann", map[string]any{"exp": time.Now().Add(17 * time.Minute).Unix()})), connect(h.token("ann", map[string]any{"exp": time.Now().Add(3 * time.Hour).Unix()})), connect(opaque)
		time.Sleep(16 * time.Minute)
		if putOut(ends) || putOut(lasts) || putOut(revoked) {
			t.Fatal("a peer with a good token was put out")
		}
		h.idp.Revoke(opaque)
		time.Sleep(7 * time.Minute)
		if !putOut(ends) || !putOut(revoked) || putOut(lasts) {
			t.Fatal("a token that has ended or is revoked keeps its connection, or another one was put out")
		}
		h.idp.Outage(true)
		_, _, err := h.connect(t, "some-opaque-token", true)
		var handshake *engineio.HandshakeError
		if !errors.As(err, &handshake) || handshake.Status != http.StatusServiceUnavailable {
			t.Errorf("the issuer cannot be asked: %v", err)
		}
		h.set(strings.Replace(issuedHub, "corp:ann", "corp:bob", 1))
		if !putOut(lasts) {
			t.Error("a peer whose entry is gone stays connected")
		}
	})
}
