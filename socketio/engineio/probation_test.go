package engineio

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// Until a session is admitted its messages are small, on both transports, and the client is told why one is refused.
func TestProbationMessage(t *testing.T) {
	p := setup(t, Config{MaxPayload: 1 << 20, Probation: &Probation{MaxMessage: 1000}})
	small, large := "4"+strings.Repeat("s", 900), "4"+strings.Repeat("l", 5000)

	url, session, r := p.open()
	if response, text := do(t, http.MethodPost, url, small); response.StatusCode != http.StatusOK {
		t.Errorf("a small POST: %s %s", response.Status, text)
	}
	if got := r.next(t); len(got) != 900 {
		t.Errorf("a small message arrived with %d bytes", len(got))
	}
	response, text := do(t, http.MethodPost, url, large)
	if response.StatusCode != http.StatusRequestEntityTooLarge || !strings.Contains(text, "more than 1000 bytes before CONNECT") {
		t.Errorf("a large POST: %s %s", response.Status, text)
	}
	if err := session.Admit(); err != nil || session.OnProbation() {
		t.Fatalf("not admitted: %v", err)
	}
	if response, text := do(t, http.MethodPost, url, large); response.StatusCode != http.StatusOK {
		t.Errorf("a large POST when admitted: %s %s", response.Status, text)
	}
	if got := r.next(t); len(got) != 5000 {
		t.Errorf("a large message arrived with %d bytes", len(got))
	}
	if err := session.Admit(); err != nil {
		t.Errorf("admitted twice: %v", err)
	}

	near, _, far, farSide := p.dial(ClientConfig{Transports: []Transport{WebSocket}})
	// The reader waits for a frame by now, with the bound of the probation.
	if err := far.Admit(); err != nil {
		t.Fatal(err)
	}
	if err := near.Send(Text([]byte(large[1:]))); err != nil {
		t.Fatal(err)
	}
	if got := farSide.next(t); len(got) != 5000 {
		t.Errorf("a large message arrived with %d bytes", len(got))
	}

	ws, _, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(p.url, "http")+"?EIO=4&transport=websocket", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Close()
	if _, _, err := ws.ReadMessage(); err != nil {
		t.Fatal(err)
	}
	if err := ws.WriteMessage(websocket.TextMessage, []byte(large)); err != nil {
		t.Fatal(err)
	}
	_, _, err = ws.ReadMessage()
	var closed *websocket.CloseError
	if !errors.As(err, &closed) || closed.Code != websocket.CloseMessageTooBig || !strings.Contains(closed.Text, "more than 1000 bytes before CONNECT") {
		t.Errorf("a large frame: %v", err)
	}
}

// What comes with an upgrade is small, too.
func TestProbationUpgrade(t *testing.T) {
	p := setup(t, Config{MaxPayload: 1 << 20, Probation: &Probation{MaxMessage: 1000}})
	url, _, _ := p.open()
	ws, _, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(strings.Replace(url, "transport=polling", "transport=websocket", 1), "http"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Close()
	w, err := ws.NextWriter(websocket.TextMessage)
	if err != nil {
		t.Fatal(err)
	}
	// More than gorilla's buffer: it goes out as a frame that is not the last.
	if _, err := w.Write(repeat("p", 100_000)); err != nil {
		return // closed already
	}
	_ = ws.SetReadDeadline(time.Now().Add(5 * time.Second)) // within UpgradeTimeout
	if _, _, err := ws.ReadMessage(); err == nil || strings.Contains(err.Error(), "timeout") {
		t.Errorf("the connection was not closed: %v", err)
	}
}

// Sessions on probation have a pool of their own; who is admitted counts among MaxSessions, and nobody else does.
func TestProbationPool(t *testing.T) {
	p := setup(t, Config{MaxSessions: 2, Probation: &Probation{
		MaxSessions: 5, MaxPerAddress: 3, Address: func(h *Handshake) string { return h.Header().Get("From") },
		Exempt: func(h *Handshake) bool { return h.Header().Get("From") == "known" },
	}})
	from := func(address string) (int, string, *Session) {
		t.Helper()
		response, text := get(t, p.url+"?EIO=4&transport=polling", "From", address)
		if response.StatusCode != http.StatusOK {
			if response.Header.Get("Retry-After") == "" {
				t.Error("a refusal does not say when to come back")
			}
			return response.StatusCode, text, nil
		}
		<-p.opened
		p.mu.Lock()
		defer p.mu.Unlock()
		return response.StatusCode, text, p.sessions[len(p.sessions)-1]
	}
	var newcomers []*Session
	for _, address := range []string{"a", "a", "a", "b", "b"} {
		code, text, session := from(address)
		if code != http.StatusOK || !session.OnProbation() {
			t.Fatalf("%s: %d %s", address, code, text)
		}
		newcomers = append(newcomers, session)
	}
	if n := p.server.Newcomers(); n != 5 {
		t.Errorf("%d newcomers", n)
	}
	for address, want := range map[string]string{"a": "of this address", "c": "Too many sessions that have"} {
		if code, text, _ := from(address); code != http.StatusServiceUnavailable || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", address, code, text)
		}
	}
	if code, text, session := from("known"); code != http.StatusOK || session.OnProbation() {
		t.Errorf("who is known has to wait for strangers: %d %s", code, text)
	}
	if err := newcomers[0].Admit(); err != nil {
		t.Fatal(err)
	}
	if err := newcomers[1].Admit(); !errors.Is(err, ErrTooManySessions) {
		t.Errorf("a third of two sessions: %v", err)
	}
	if code, text, _ := from("known"); code != http.StatusServiceUnavailable || !strings.Contains(text, "Too many sessions") {
		t.Errorf("a third of two sessions: %d %s", code, text)
	}
	if code, text, _ := from("a"); code != http.StatusOK {
		t.Errorf("the place of who was admitted is not free: %d %s", code, text)
	}
	newcomers[3].CloseWith("some reason")
	if err := newcomers[3].Admit(); !errors.Is(err, ErrClosed) {
		t.Errorf("admitted when closed: %v", err)
	}
	waitFor(t, func() bool { return p.server.Newcomers() == 4 })
}

// A stranger who does not read is not sent much.
func TestProbationQueue(t *testing.T) {
	p := setup(t, Config{Probation: &Probation{}})
	_, far, _ := p.open() // a client of the package would poll, and take messages out of the queue meanwhile
	sent := 0
	for ; sent < 1000; sent++ {
		if far.SendLater(Text([]byte("no"))) != nil {
			break
		}
	}
	if sent != probationQueueFrames {
		t.Errorf("%d messages were queued, and %d have room", sent, probationQueueFrames)
	}
}

func TestAddressOf(t *testing.T) {
	for in, want := range map[string]string{
		"10.0.0.1:80": "10.0.0.1", "10.0.0.1": "10.0.0.1", "[2001:db8:1:2:3::4]:80": "2001:db8:1:2::/64", "2001:db8:1:2::9": "2001:db8:1:2::/64",
		"[::ffff:10.0.0.1]:80": "10.0.0.1", "[::1]:9": "::1", "[fe80::1%eth0]:9": "fe80::/64", "memory": "memory", "": "",
	} {
		if got := AddressOf(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
