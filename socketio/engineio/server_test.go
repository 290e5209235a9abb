package engineio

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

func get(t *testing.T, url string, header ...string) (*http.Response, string) {
	t.Helper()
	return do(t, http.MethodGet, url, "", header...)
}

func do(t *testing.T, method, url, body string, header ...string) (*http.Response, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(text)
}

// open begins a polling session by hand.
func (p *pair) open() (url string, session *Session, r *recorder) {
	p.t.Helper()
	_, text := get(p.t, p.url+"?EIO=4&transport=polling")
	var o opening
	if err := json.Unmarshal([]byte(text[1:]), &o); err != nil {
		p.t.Fatal(err)
	}
	<-p.opened
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.url + "?EIO=4&transport=polling&sid=" + o.SID, p.sessions[len(p.sessions)-1], p.received[len(p.received)-1]
}

func TestErrors(t *testing.T) {
	p := setup(t, Config{CheckOrigin: func(r *http.Request) bool { return r.Header.Get("Origin") != "https://evil.example" }})
	tests := []struct {
		name, method, query, origin string
		status                      int
		body                        string
	}{
		{"no transport", "GET", "?EIO=4", "", 400, `{"code":0,"message":"Transport unknown"}`},
		{"unknown transport", "GET", "?EIO=4&transport=smoke", "", 400, `{"code":0,"message":"Transport unknown"}`},
		{"unknown session", "GET", "?EIO=4&transport=polling&sid=x", "", 400, `{"code":1,"message":"Session ID unknown"}`},
		{"POST handshake", "POST", "?EIO=4&transport=polling", "", 400, `{"code":2,"message":"Bad handshake method"}`},
		{"WebSocket without one", "GET", "?EIO=4&transport=websocket", "", 400, `{"code":3,"message":"Bad request"}`},
		{"origin", "GET", "?EIO=4&transport=polling", "https://evil.example", 403, `{"code":4,"message":"Forbidden"}`},
		{"no version", "GET", "?transport=polling", "", 400, `{"code":5,"message":"Unsupported protocol version"}`},
		{"old version", "GET", "?EIO=3&transport=polling", "", 400, `{"code":5,"message":"Unsupported protocol version"}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			response, text := do(t, test.method, p.url+test.query, "", "Origin", test.origin)
			if response.StatusCode != test.status || text != test.body {
				t.Errorf("%d %s, want %d %s", response.StatusCode, text, test.status, test.body)
			}
			if got := response.Header.Get("Content-Type"); got != "application/json" {
				t.Errorf("content-type %q", got)
			}
		})
	}
	if n := p.server.Len(); n != 0 {
		t.Errorf("%d sessions", n)
	}
}

func TestHandshakeHasFiveKeys(t *testing.T) {
	p := setup(t, Config{})
	response, text := get(t, p.url+"?EIO=4&transport=polling")
	var keys map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text[1:]), &keys); err != nil || text[0] != '0' {
		t.Fatalf("%q: %v", text, err)
	}
	want := map[string]string{"upgrades": `["websocket"]`, "pingInterval": "25000", "pingTimeout": "20000", "maxPayload": "1000000"}
	for key, value := range want {
		if string(keys[key]) != value {
			t.Errorf("%s is %s, want %s", key, keys[key], value)
		}
	}
	if len(keys) != 5 || len(keys["sid"]) < 20 {
		t.Errorf("keys of %s", text)
	}
	for header, value := range map[string]string{"Content-Type": "text/plain; charset=UTF-8", "Cache-Control": "no-store"} {
		if got := response.Header.Get(header); got != value {
			t.Errorf("%s: %q, want %q", header, got, value)
		}
	}
}

func TestCORS(t *testing.T) {
	const page = "https://page.example"
	tests := []struct {
		name        string
		cors        *CORS
		origin      string
		status      int
		allow, with string
	}{
		{"none, same host", nil, "", 200, "", ""},
		{"none, other host", nil, page, 403, "", ""},
		{"all", &CORS{Origins: []string{"*"}}, page, 200, "*", ""},
		{"all, and no page", &CORS{Origins: []string{"*"}}, "", 200, "*", ""},
		{"all with credentials", &CORS{Origins: []string{"*"}, Credentials: true}, page, 200, page, "true"},
		{"one", &CORS{Origins: []string{page}}, page, 200, page, ""},
		{"another", &CORS{Origins: []string{page}, Credentials: true}, "https://evil.example", 403, "", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := setup(t, Config{CORS: test.cors})
			response, _ := get(t, p.url+"?EIO=4&transport=polling", "Origin", test.origin)
			if response.StatusCode != test.status {
				t.Errorf("status %d, want %d", response.StatusCode, test.status)
			}
			if got := response.Header.Get("Access-Control-Allow-Origin"); got != test.allow {
				t.Errorf("allow-origin %q, want %q", got, test.allow)
			}
			if got := response.Header.Get("Access-Control-Allow-Credentials"); got != test.with {
				t.Errorf("allow-credentials %q, want %q", got, test.with)
			}
			preflight, _ := do(t, http.MethodOptions, p.url+"?EIO=4&transport=polling", "", "Origin", test.origin, "Access-Control-Request-Headers", "x-api-key")
			wantHeaders := ""
			if test.allow != "" {
				wantHeaders = "x-api-key"
			}
			if got := preflight.Header.Get("Access-Control-Allow-Headers"); got != wantHeaders || preflight.StatusCode != 204 {
				t.Errorf("preflight: %d, %q", preflight.StatusCode, got)
			}
		})
	}
}

// TestAuthenticate asks for the same refusal, with its length, on both transports.
func TestAuthenticate(t *testing.T) {
	const body = `{"code":4008,"message":"Protocol version mismatch"}`
	p := setup(t, Config{Authenticate: func(r *http.Request) (any, *Refusal) {
		if r.URL.Query().Get("version") == "old" {
			return nil, &Refusal{Status: 400, Header: http.Header{"X-Error-Code": {"4008"}}, Body: []byte(body)}
		}
		if r.Header.Get("X-Api-Key") == "" {
			return nil, &Refusal{}
		}
		return "ann", nil
	}})
	for _, transport := range []Transport{Polling, WebSocket} {
		for query, want := range map[string]HandshakeError{
			"?version=old": {Status: 400, Header: http.Header{"X-Error-Code": {"4008"}}, Body: []byte(body)},
			"":             {Status: 403, Body: []byte(`{"code":4,"message":"Forbidden"}`)},
		} {
			_, err := Dial(t.Context(), p.url+query, ClientConfig{Transports: []Transport{transport}}, nil)
			refusal, ok := asHandshakeError(err)
			if !ok {
				t.Fatalf("%s %q: %v", transport, query, err)
			}
			if refusal.Status != want.Status || !bytes.Equal(refusal.Body, want.Body) || refusal.Header.Get("X-Error-Code") != want.Header.Get("X-Error-Code") {
				t.Errorf("%s %q: %d %s %v", transport, query, refusal.Status, refusal.Body, refusal.Header)
			}
			if refusal.Header.Get("Content-Length") == "" {
				t.Errorf("%s %q: no Content-Length", transport, query)
			}
		}
		_, _, far, _ := p.dial(ClientConfig{Transports: []Transport{transport}, Header: http.Header{"X-Api-Key": {"k"}}})
		h := far.Handshake()
		if h.Value != "ann" || h.Header().Get("X-Api-Key") != "k" || h.Query().Get("EIO") != "4" || h.RemoteAddr == "" || h.Host == "" {
			t.Errorf("%s: handshake %+v", transport, h)
		}
		if h.Header().Get("Sec-WebSocket-Key") != "" {
			t.Errorf("%s: the headers of the upgrade are kept: %v", transport, h.Header())
		}
	}
}

func TestMaxSessions(t *testing.T) {
	p := setup(t, Config{MaxSessions: 1})
	p.open()
	for _, transport := range []Transport{Polling, WebSocket} {
		_, err := Dial(t.Context(), p.url, ClientConfig{Transports: []Transport{transport}}, nil)
		if refusal, ok := asHandshakeError(err); !ok || refusal.Status != http.StatusServiceUnavailable {
			t.Errorf("%s: %v", transport, err)
		}
	}
}

func TestMaxPayload(t *testing.T) {
	p := setup(t, Config{MaxPayload: 100})
	url, session, r := p.open()
	for name, body := range map[string]io.Reader{
		"announced":     strings.NewReader("4" + strings.Repeat("x", 100)),
		"not announced": io.MultiReader(strings.NewReader("4" + strings.Repeat("x", 100))),
	} {
		response, err := http.Post(url, "text/plain", body)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: %d", name, response.StatusCode)
		}
	}
	if response, text := do(t, "POST", url, "4"+strings.Repeat("x", 99)); response.StatusCode != 200 || text != "ok" || r.next(t) != strings.Repeat("x", 99) {
		t.Errorf("as much as is allowed: %d %q", response.StatusCode, text)
	}
	session.Close()

	near, nearSide, _, farSide := p.dial(ClientConfig{Transports: []Transport{WebSocket}})
	if err := near.Send(Text(repeat("x", 100))); err == nil {
		t.Error("the client sends more than the server takes")
	}
	near.env.maxFrame = 0 // A client that does not care.
	if err := near.Send(Text(repeat("x", 100))); err != nil {
		t.Fatal(err)
	}
	farSide.reason(t)
	nearSide.reason(t)
}

// TestOverlap has the first of two GETs get 1, and the second 400.
func TestOverlap(t *testing.T) {
	p := setup(t, Config{})
	url, session, r := p.open()
	first := make(chan string, 1)
	go func() {
		_, text := get(t, url)
		first <- text
	}()
	waitFor(t, func() bool {
		session.mu.Lock()
		defer session.mu.Unlock()
		return session.carrier.(*polling).poll != nil
	})
	if response, _ := get(t, url); response.StatusCode != 400 {
		t.Errorf("the second: %d", response.StatusCode)
	}
	if got := <-first; got != "1" {
		t.Errorf("the first: %q", got)
	}
	if reason := r.reason(t); reason != ReasonTransportError {
		t.Errorf("reason %q", reason)
	}
	if response, _ := get(t, url); response.StatusCode != 400 {
		t.Errorf("a later one: %d", response.StatusCode)
	}
}

func TestAbortedGET(t *testing.T) {
	p := setup(t, Config{})
	url, session, r := p.open()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{}
	defer client.CloseIdleConnections()
	ended := make(chan error, 1)
	go func() {
		response, err := client.Do(request)
		if err == nil {
			response.Body.Close()
		}
		ended <- err
	}()
	waitFor(t, func() bool {
		session.mu.Lock()
		defer session.mu.Unlock()
		return session.carrier.(*polling).poll != nil
	})
	cancel()
	if err := <-ended; err == nil {
		t.Fatal("the GET was answered")
	}
	if reason := r.reason(t); reason != ReasonTransportClose {
		t.Errorf("reason %q", reason)
	}
	<-session.Done()
}

// TestCloseTogether sends GET and POST 1 at the same time, in both orders.
func TestCloseTogether(t *testing.T) {
	p := setup(t, Config{})
	for _, getFirst := range []bool{true, false} {
		url, session, r := p.open()
		polled, posted := make(chan string, 1), make(chan string, 1)
		poll := func() {
			response, text := get(t, url)
			polled <- response.Status + " " + text
		}
		post := func() {
			response, text := do(t, "POST", url, "1")
			posted <- response.Status + " " + text
		}
		if getFirst {
			go poll()
			waitFor(t, func() bool {
				session.mu.Lock()
				defer session.mu.Unlock()
				return session.carrier.(*polling).poll != nil
			})
			go post()
		} else {
			go post()
			<-session.Done()
			go poll()
		}
		if got := <-polled; got != "200 OK 6" {
			t.Errorf("GET first %v: GET %q", getFirst, got)
		}
		if got := <-posted; got != "200 OK ok" {
			t.Errorf("GET first %v: POST %q", getFirst, got)
		}
		if reason := r.reason(t); reason != ReasonTransportClose {
			t.Errorf("reason %q", reason)
		}
		if response, _ := get(t, url); response.StatusCode != 400 {
			t.Errorf("GET first %v: afterwards %d", getFirst, response.StatusCode)
		}
	}
}

// TestServerCloses gives the next GET what is queued, and then 1.
func TestServerCloses(t *testing.T) {
	p := setup(t, Config{})
	url, session, _ := p.open()
	if err := session.Send(Text([]byte("last words"))); err != nil {
		t.Fatal(err)
	}
	session.CloseWith("had enough")
	if err := session.Send(Text()); err != ErrClosed {
		t.Errorf("Send: %v", err)
	}
	for _, want := range []string{"4last words", "1"} {
		if _, text := get(t, url); text != want {
			t.Errorf("GET: %q, want %q", text, want)
		}
	}
	if response, _ := get(t, url); response.StatusCode != 400 {
		t.Errorf("afterwards: %d", response.StatusCode)
	}
	if err := session.Err(); err == nil || err.Error() != "engineio: had enough" {
		t.Errorf("Err: %v", err)
	}
}

// TestUpgradeByHand writes nothing to the WebSocket before 5, answers a GET of the meantime after a tenth of a second, and
// refuses polling afterwards.
func TestUpgradeByHand(t *testing.T) {
	p := setup(t, Config{})
	url, session, r := p.open()
	ws := dialWS(t, p.url+"?EIO=4&transport=websocket&sid="+session.ID())
	send(t, ws, "2probe")
	if got := read(t, ws); got != "3probe" {
		t.Fatalf("answer to the probe: %q", got)
	}
	began := time.Now()
	if _, text := get(t, url); text != "6" {
		t.Errorf("GET: %q", text)
	}
	if took := time.Since(began); took < 80*time.Millisecond || took > 10*time.Second {
		t.Errorf("the GET took %v", took)
	}
	if err := session.Send(Text([]byte("queued"))); err != nil {
		t.Fatal(err)
	}
	if _, text := get(t, url); text != "4queued" {
		t.Errorf("messages before 5 come by polling: %q", text)
	}
	if err := session.Send(Text([]byte("waits"))); err != nil {
		t.Fatal(err)
	}
	send(t, ws, "5")
	send(t, ws, "4up")
	if got := read(t, ws); got != "4waits" {
		t.Errorf("on the WebSocket: %q", got)
	}
	if got := r.next(t); got != "up" {
		t.Errorf("received %q", got)
	}
	for _, method := range []string{"GET", "POST"} {
		if response, _ := do(t, method, url, "4x"); response.StatusCode != 400 {
			t.Errorf("%s after the upgrade: %d", method, response.StatusCode)
		}
	}
	second := dialWS(t, p.url+"?EIO=4&transport=websocket&sid="+session.ID())
	if _, _, err := second.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseNormalClosure) {
		t.Errorf("a second WebSocket: %v", err)
	}
	if session.Transport() != WebSocket {
		t.Errorf("transport %q", session.Transport())
	}
}

func TestUpgradeThatFails(t *testing.T) {
	p := setup(t, Config{UpgradeTimeout: 200 * time.Millisecond})
	for name, frames := range map[string][]string{
		"wrong probe": {"2prob"}, "a message": {"4hi"}, "a message after the probe": {"2probe", "4hi"}, "silence": {}, "silence after the probe": {"2probe"},
	} {
		t.Run(name, func(t *testing.T) {
			url, session, r := p.open()
			ws := dialWS(t, p.url+"?EIO=4&transport=websocket&sid="+session.ID())
			for _, frame := range frames {
				send(t, ws, frame)
			}
			for {
				if _, _, err := ws.ReadMessage(); err != nil {
					break
				}
			}
			if _, text := do(t, "POST", url, "4still here"); text != "ok" || r.next(t) != "still here" {
				t.Errorf("polling does not go on: %q", text)
			}
			session.Close()
		})
	}
}

func dialWS(t *testing.T, url string) *websocket.Conn {
	t.Helper()
	ws, response, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(url, "http"), nil)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	t.Cleanup(func() { ws.Close() })
	_ = ws.SetReadDeadline(time.Now().Add(30 * time.Second))
	return ws
}

func send(t *testing.T, ws *websocket.Conn, text string) {
	t.Helper()
	if err := ws.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, ws *websocket.Conn) string {
	t.Helper()
	_, data, err := ws.ReadMessage()
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func waitFor(t *testing.T, done func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it did not come to that")
		}
	}
}

// TestDeadlinesOfTheServer holds a GET longer than the HTTP server's own limits.
func TestDeadlinesOfTheServer(t *testing.T) {
	p := newPair(t, Config{})
	hs := httptest.NewUnstartedServer(p.server)
	hs.Config.ReadTimeout, hs.Config.WriteTimeout = 200*time.Millisecond, 200*time.Millisecond
	hs.Start()
	defer hs.Close()
	defer p.shutdown()
	p.url = hs.URL + "/"
	url, session, _ := p.open()
	timer := time.AfterFunc(500*time.Millisecond, func() { _ = session.Send(Text([]byte("late"))) })
	defer timer.Stop()
	for range 2 {
		if response, text := get(t, url); response.StatusCode != 200 || text != "4late" {
			t.Errorf("%d %q", response.StatusCode, text)
		}
		_ = session.Send(Text([]byte("late")))
	}
}
