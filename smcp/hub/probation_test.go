package hub

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/office/a2c"
	"github.com/weir-mcp/weir/internal/testkit/memnet"
	"github.com/weir-mcp/weir/smcp"
	"github.com/weir-mcp/weir/socketio"
	"github.com/weir-mcp/weir/socketio/engineio"
)

// inMemory serves a hub for a synctest bubble and returns what connects to it.
func inMemory(t *testing.T, o Options) (*Hub, *memnet.Listener) {
	h := New(o)
	listener := memnet.New()
	server := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		if err := h.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		_ = server.Close()
		<-served
	})
	return h, listener
}

// nothing is a receiver of a client that listens to nobody.
type nothing struct{}

func (nothing) Message([]byte, bool)          {}
func (nothing) Pause()                        {}
func (nothing) Closed(engineio.Reason, error) {}

// stranger opens a connection that never sends a CONNECT.
func stranger(t *testing.T, listener *memnet.Listener, header http.Header) (*engineio.Session, error) {
	t.Helper()
	s, err := engineio.Dial(t.Context(), "http://memory/socket.io/", engineio.ClientConfig{
		Transports: []engineio.Transport{engineio.WebSocket}, DialContext: listener.DialContext, Header: header,
	}, func(*engineio.Session) engineio.Receiver { return nothing{} })
	if err == nil {
		t.Cleanup(s.Close)
	}
	return s, err
}

// Strangers take no room from peers that show who they are, and are gone soon.
func TestStrangersDoNotShutTheHub(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sum := sha256.Sum256([]byte("t-ann"))
		h, listener := inMemory(t, Options{MaxConnections: 2, Auth: Static{Tokens: []Token{{Name: "ann", SHA256: hex.EncodeToString(sum[:])}}}})
		var strangers []*engineio.Session
		for range engineio.DefaultProbationPerAddress {
			s, err := stranger(t, listener, nil)
			if err != nil {
				t.Fatal(err)
			}
			strangers = append(strangers, s)
		}
		var refused *engineio.HandshakeError
		if _, err := stranger(t, listener, nil); !errors.As(err, &refused) || refused.Status != http.StatusServiceUnavailable {
			t.Errorf("one stranger more: %v", err)
		}
		connect := func(header http.Header, auth string) error {
			c := socketio.NewClient("http://memory/socket.io/", socketio.ClientConfig{
				Namespace: smcp.Namespace, Engine: engineio.ClientConfig{Transports: []engineio.Transport{engineio.WebSocket}, DialContext: listener.DialContext, Header: header},
				Auth:  func(context.Context) (json.RawMessage, error) { return json.RawMessage(auth), nil },
				Retry: func(int, error) (time.Duration, bool) { return 0, false },
			})
			t.Cleanup(func() { _ = c.Close() })
			return c.Connect(t.Context())
		}
		token := http.Header{"X-Api-Key": {"t-ann"}}
		if err := connect(token, `{}`); err != nil {
			t.Errorf("a peer with a token: %v", err)
		}
		began := time.Now()
		for _, s := range strangers {
			<-s.Done()
		}
		if took := time.Since(began); took > defaultConnectTimeout+time.Second {
			t.Errorf("strangers stay for %v", took)
		}
		time.Sleep(5 * time.Second) // until they are forgotten
		if err := connect(nil, `{"token":"t-ann"}`); err != nil {
			t.Errorf("a peer with a token in its auth, among strangers no more: %v", err)
		}
		if err := connect(nil, `{"token":"t-ann"}`); err == nil || !strings.Contains(err.Error(), "Too many peers") {
			t.Errorf("a third of two peers: %v", err)
		}
		if n := h.Connections(); n > 3 {
			t.Errorf("%d connections", n)
		}
	})
}

// Keys are public: who shows one and has not proven it sends no more than any
// other stranger.
func TestUnprovenKeysSendLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pub, key, err := ed25519.GenerateKey(nil)
		if err != nil {
			t.Fatal(err)
		}
		_, listener := inMemory(t, Options{Devices: []Device{{Name: "bound", Key: pub}}})
		connect := func() (*socketio.Client, chan struct{}) {
			lost := make(chan struct{}, 1)
			c := socketio.NewClient("http://memory/socket.io/", socketio.ClientConfig{
				Namespace: smcp.Namespace, Engine: engineio.ClientConfig{Transports: []engineio.Transport{engineio.WebSocket}, DialContext: listener.DialContext},
				Auth: func(context.Context) (json.RawMessage, error) {
					return json.RawMessage(`{"key":"` + smcp.EncodeKey(pub) + `"}`), nil
				},
				OnDisconnect: func(socketio.Reason, error) { lost <- struct{}{} },
				Retry:        func(int, error) (time.Duration, bool) { return 0, false },
			})
			t.Cleanup(func() { _ = c.Close() })
			if err := c.Connect(t.Context()); err != nil {
				t.Fatal(err)
			}
			return c, lost
		}
		long := json.RawMessage(`"` + strings.Repeat("x", 100_000) + `"`)
		bad, badLost := connect()
		if err := bad.Emit("server:nothing", long); err != nil {
			t.Fatal(err)
		}
		select {
		case <-badLost:
		case <-time.After(30 * time.Second):
			t.Error("an unproven peer sent 100,000 bytes")
		}
		good, goodLost := connect()
		ack, err := good.EmitWithAck(t.Context(), smcp.EventChallenge, json.RawMessage(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		join, err := json.Marshal(smcp.Join{Role: smcp.RoleComputer, Name: "bound", OfficeID: "lab",
			Proof: a2c.Prove(key, rawjson.Text(rawjson.Get(ack.Arg(0), "nonce")), good.Socket().ID(), "bound", "lab")})
		if err != nil {
			t.Fatal(err)
		}
		if ack, err = good.EmitWithAck(t.Context(), smcp.EventJoin, join); err != nil || string(ack.Arg(0)) != "true" {
			t.Fatalf("join: %s, %v", ack.Args, err)
		}
		if _, err = good.EmitWithAck(t.Context(), "server:nothing", long); err != nil {
			t.Errorf("a proven peer sent 100,000 bytes: %v", err)
		}
		select {
		case <-goodLost:
			t.Error("a proven peer was put out")
		default:
		}
	})
}

func TestPeerAddress(t *testing.T) {
	for _, test := range []struct{ remote, forwarded, want string }{
		{"203.0.113.7:1000", "", "203.0.113.7"},
		{"203.0.113.7:1000", "198.51.100.1", "203.0.113.7"}, // anybody can say so
		{"127.0.0.1:1000", "", "127.0.0.1"},
		{"127.0.0.1:1000", "198.51.100.1", "198.51.100.1"},
		{"127.0.0.1:1000", "10.9.9.9, 198.51.100.1", "198.51.100.1"}, // what stands before is the client's word
		{"[::1]:1000", "2001:db8::1", "2001:db8::/64"},
		{"127.0.0.1:1000", "unknown", "127.0.0.1"},
		{"memory", "198.51.100.1", "memory"},
	} {
		header := http.Header{}
		if test.forwarded != "" {
			header.Set("X-Forwarded-For", test.forwarded)
		}
		if got := peerAddress(test.remote, func() http.Header { return header }); got != test.want {
			t.Errorf("%s, forwarded for %q: %q, want %q", test.remote, test.forwarded, got, test.want)
		}
	}
}

// A header for a proxy on the way refuses nobody.
func TestInsists(t *testing.T) {
	for header, want := range map[[2]string]bool{
		{"X-Api-Key", "x"}: true, {"Authorization", "Bearer x"}: true, {"Authorization", "bearer x"}: true, {"Authorization", "x"}: true,
		{"Authorization", "Basic eDp5"}: false, {"Authorization", "Negotiate abc"}: false, {"Cookie", "x"}: false,
	} {
		if got := (Credentials{Header: http.Header{header[0]: {header[1]}}}).hasToken(); got != want {
			t.Errorf("%v: %v", header, got)
		}
	}
}
