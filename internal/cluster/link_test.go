package cluster

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/cluster/clusterkey"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/store"
)

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
	n := &Node{callers: newCallers()}
	got, ok := readAs(n, h)
	if !ok {
		t.Fatal("it cannot be read")
	}
	want, _ := json.Marshal(id)
	if is, _ := json.Marshal(got); string(is) != string(want) || got.Bearer != id.Bearer {
		t.Errorf("%s\nwant %s", is, want)
	}
	h.Set("Authorization", "Bearer another") // the same caller, known by now
	if again, ok := readAs(n, h); !ok || again.Bearer != "another" || got.Bearer != "the-token" {
		t.Error("the credential of an earlier request")
	}
	id.Bearer = "" // the caller's credential is of another kind
	h.Set(headerAs, asHeader(id))
	if got, ok := readAs(n, h); !ok || got.Bearer != "" {
		t.Error("a credential that the guard has not read")
	}
}

// TestLinkRefuses: without a certificate of the cluster no request comes through, and none without a
// caller. The handler sees no header of the link.
func TestLinkRefuses(t *testing.T) {
	n, err := Start(t.Context(), Options{Docs: store.NewMemory(store.MemoryOptions{}), Bus: store.NewMemoryBus(), Name: "n"})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close(t.Context())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	key := func(digits string) *clusterkey.Key {
		k, err := clusterkey.Parse(strings.Repeat(digits, 32))
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	ours := clusterkey.NewAuthority("a", key("0a"), nil, nil)
	link := n.Serve(l, ours.TLS(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
	defer link.Shutdown(t.Context())
	ask := func(config *tls.Config, as string) (int, string, error) {
		links := newLinks(dialer().DialContext, config)
		defer links.CloseIdleConnections()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+l.Addr().String(), nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{headerAs: {as}, headerFrom: {"aaaaaa"}, headerTo: {n.Inc()}, headerHops: {"1"}, headerOwner: {"x"}}
		resp, err := links.RoundTrip(r)
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
	stranger := clusterkey.NewAuthority("a", key("0b"), nil, nil).TLS()
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
	links := newLinks(dialer().DialContext, ours.TLS())
	defer links.CloseIdleConnections()
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+there.Addr().String(), nil)
	r.Header.Set(headerAs, as)
	if resp, err := links.RoundTrip(r); err == nil {
		resp.Body.Close()
		t.Error("a stranger was believed")
	}
	if count := <-read; count != 0 {
		t.Errorf("the stranger has read %d bytes", count)
	}
}

// muteBus is a Bus on which no answer of one node comes.
type muteBus struct {
	store.Bus
	mute atomic.Value // INC; none: all answers come
}

func (m *muteBus) Ask(subject string, h store.Header, body []byte, timeout time.Duration, f func(store.Message, error)) {
	if inc, _ := m.mute.Load().(string); inc != "" && strings.Contains(subject, inc) {
		time.AfterFunc(timeout, func() { f(store.Message{}, store.ErrUnavailable) })
		return
	}
	m.Bus.Ask(subject, h, body, timeout, f)
}

// TestStalledLink: a request to a node that takes requests over its link without an answer ends within 5 seconds, like
// one on a connection that breaks. The node may answer on the bus, or be stopped as a whole.
func TestStalledLink(t *testing.T) {
	t.Run("link", func(t *testing.T) { testStalledLink(t, false) })
	t.Run("node", func(t *testing.T) { testStalledLink(t, true) })
}

func testStalledLink(t *testing.T, stopped bool) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		b := w.join("b")
		bus := &muteBus{Bus: w.bus}
		var ends []net.Conn
		var mu sync.Mutex
		a, err := Start(t.Context(), Options{Docs: w.docs, Bus: bus, Name: "a", Dial: func(context.Context, string, string) (net.Conn, error) {
			near, far := net.Pipe()
			mu.Lock()
			defer mu.Unlock()
			ends = append(ends, far)
			return near, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if stopped {
			bus.mute.Store(b.Inc())
		}
		silent, stop := a.Watch(b.Inc())
		began := time.Now()
		<-silent
		if took := time.Since(began); took > 5*time.Second || took < 2*time.Second {
			t.Errorf("given up after %v", took)
		}
		stop()
		if a.Gone(b.Inc()) {
			t.Error("a node whose link is stalled counts as gone")
		}
		for _, far := range ends {
			_ = far.Close()
		}
		a.Close(t.Context())
		b.Close(t.Context())
	})
}

// TestUnusedConnection: a node that ends does not wait for connections on which nothing has come.
func TestUnusedConnection(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n, err := Start(t.Context(), Options{Docs: store.NewMemory(store.MemoryOptions{}), Bus: store.NewMemoryBus(), Name: "a", URL: "http://" + l.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close(context.Background())
	link := n.Serve(l, nil, http.NotFoundHandler())
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		link.mu.Lock()
		known := len(link.unused)
		link.mu.Unlock()
		if known == 1 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the connection was not accepted")
		}
	}
	began := time.Now()
	link.Shutdown(context.Background())
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("the end took %v", took)
	}
}
