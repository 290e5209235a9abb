package link

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/identity"
)

// testLink returns a Link of the node with an INC that knows of other nodes.
func testLink(t *testing.T, o Options, inc string, others ...Peer) *Link {
	o.Inc, o.Peers, o.Logger = func() string { return inc }, func() []Peer { return others }, slog.New(slog.DiscardHandler)
	o.Peer = func(inc string) (Peer, bool) {
		for _, p := range others {
			if p.Inc == inc {
				return p, true
			}
		}
		return Peer{}, false
	}
	o.Lives = func(context.Context, string) error { return errors.New("no answer") }
	o.Answer = func(http.ResponseWriter, *http.Request) bool { return false }
	l := New(o)
	t.Cleanup(l.Close)
	return l
}

// TestCallerIsCarried: the other node sees the caller as the guard of the entry node found it, numbers of
// claims included. The credential is not in the header.
func TestCallerIsCarried(t *testing.T) {
	id := &identity.Identity{
		Principal: "ann", Issuer: "corp", Client: "cli", Groups: []string{"a", "b"}, Scopes: []string{"s"}, GroupsMissing: true,
		Claims:  map[string]any{"employee": json.Number("12345678901234567"), "nested": map[string]any{"n": json.Number("1.50")}},
		Expires: time.Unix(1_800_000_000, 0).UTC(), Bearer: "the-token",
	}
	h := http.Header{headerAs: {asHeader(id)}, "Authorization": {"Bearer the-token"}}
	if plain, err := base64.RawURLEncoding.DecodeString(h.Get(headerAs)); err != nil || strings.Contains(string(plain), "the-token") {
		t.Errorf("%s, %v", plain, err)
	}
	known := newCallers()
	got, ok := known.read(h)
	if !ok {
		t.Fatal("it cannot be read")
	}
	want, _ := json.Marshal(id)
	if is, _ := json.Marshal(got); string(is) != string(want) || got.Bearer != id.Bearer {
		t.Errorf("%s\nwant %s", is, want)
	}
	h.Set("Authorization", "Bearer another") // the same caller, known by now
	if again, ok := known.read(h); !ok || again.Bearer != "another" || got.Bearer != "the-token" {
		t.Error("the credential of an earlier request")
	}
	id.Bearer = "" // the caller's credential is of another kind
	h.Set(headerAs, asHeader(id))
	if got, ok := known.read(h); !ok || got.Bearer != "" {
		t.Error("a credential that the guard has not read")
	}
}

// TestLinkRefuses: without a certificate of the cluster no request comes through, and none without a
// caller. The handler sees no header of the link.
func TestLinkRefuses(t *testing.T) {
	n := testLink(t, Options{}, "bbbbbb")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	key := func(digits string) *Key {
		k, err := Parse(strings.Repeat(digits, 32))
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	ours := NewAuthority("a", key("0a"), nil, nil)
	server := n.Serve(l, ours.TLS(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, from, ok := Caller(r.Context())
		for name := range r.Header {
			if strings.HasPrefix(name, "Weir-") {
				t.Errorf("the handler sees %s", name)
			}
		}
		_, _ = io.WriteString(w, id.Principal+" "+from)
		if !ok || r.TLS != nil {
			t.Errorf("%v, %v", ok, r.TLS)
		}
	}))
	defer server.Shutdown(t.Context())
	ask := func(config *tls.Config, as string) (int, string, error) {
		transport := newTransport(Dialer().DialContext, config)
		defer transport.CloseIdleConnections()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+l.Addr().String(), nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{headerAs: {as}, headerFrom: {"aaaaaa"}, headerTo: {"bbbbbb"}, headerHops: {"1"}, HeaderOwner: {"x"}}
		resp, err := transport.RoundTrip(r)
		if err != nil {
			return 0, "", err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return resp.StatusCode, string(body), err
	}
	as := asHeader(&identity.Identity{Principal: "ann"})
	if code, body, err := ask(ours.TLS(), as); code != http.StatusOK || body != "ann aaaaaa" {
		t.Errorf("a node: %d %s %v", code, body, err)
	}
	for name, value := range map[string]string{
		"none": "", "no base64": "!", "no JSON": "e30x", "no principal": base64.RawURLEncoding.EncodeToString([]byte(`{"Issuer":"x"}`)),
	} {
		if code, body, err := ask(ours.TLS(), value); code != http.StatusBadRequest {
			t.Errorf("%s: %d %s %v", name, code, body, err)
		}
	}
	bare := ours.TLS()
	bare.GetClientCertificate = nil
	stranger := NewAuthority("a", key("0b"), nil, nil).TLS()
	stranger.VerifyConnection = nil // it does not ask with whom it speaks
	for name, config := range map[string]*tls.Config{"no certificate": bare, "another key": stranger} {
		if code, body, err := ask(config, as); err == nil {
			t.Errorf("%s: %d %s", name, code, body)
		}
	}
	// A stranger that takes the place of a node is not told who calls.
	there, err := tls.Listen("tcp", "127.0.0.1:0", stranger)
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	read := make(chan int, 1)
	go func() {
		conn, err := there.Accept()
		if err != nil {
			read <- 0
			return
		}
		defer conn.Close()
		count, _ := conn.Read(make([]byte, 1))
		read <- count
	}()
	transport := newTransport(Dialer().DialContext, ours.TLS())
	defer transport.CloseIdleConnections()
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+there.Addr().String(), nil)
	r.Header.Set(headerAs, as)
	if resp, err := transport.RoundTrip(r); err == nil {
		resp.Body.Close()
		t.Error("a stranger was believed")
	}
	if count := <-read; count != 0 {
		t.Errorf("the stranger has read %d bytes", count)
	}
}

// TestUnusedConnection: a server that ends does not wait for connections on which nothing has come.
func TestUnusedConnection(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := testLink(t, Options{}, "bbbbbb")
	server := n.Serve(l, nil, http.NotFoundHandler())
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		server.mu.Lock()
		known := len(server.unused)
		server.mu.Unlock()
		if known == 1 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the connection was not accepted")
		}
	}
	began := time.Now()
	server.Shutdown(context.Background())
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("the end took %v", took)
	}
}
