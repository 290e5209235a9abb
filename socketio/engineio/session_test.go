package engineio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
)

func asHandshakeError(err error) (*HandshakeError, bool) { return errors.AsType[*HandshakeError](err) }

func TestMessagesBothWays(t *testing.T) {
	eachWay(t, func(t *testing.T, config ClientConfig) {
		p := setup(t, Config{})
		near, nearSide, far, farSide := p.dial(config)
		frames := []Frame{Text([]byte("one")), Binary([]byte{1, 2}), Text(), Text([]byte("€ 😀")), Text(repeat("x", 100_000)), Binary(repeat("y", 70_000))}
		for _, end := range []struct {
			from *Session
			to   *recorder
		}{{near, farSide}, {far, nearSide}} {
			for _, f := range frames {
				if err := end.from.Send(f); err != nil {
					t.Fatal(err)
				}
			}
			for i, f := range frames {
				want := string(f.Data())
				if f.IsBinary() {
					want = fmt.Sprintf("0x%x", f.Data())
				}
				if got := end.to.next(t); got != want {
					t.Errorf("message %d: %.40q, want %.40q", i, got, want)
				}
			}
		}
	})
}

// countedWrites is a connection that counts its writes.
type countedWrites struct {
	net.Conn
	writes *atomic.Int64
}

func (c countedWrites) Write(b []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(b)
}

// A POST leaves in one write: some servers take for its body what has arrived when they look.
func TestPostInOneWrite(t *testing.T) {
	p := setup(t, Config{})
	var writes atomic.Int64
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return countedWrites{conn, &writes}, err
	}
	near, _, _, farSide := p.dial(ClientConfig{Transports: []Transport{Polling}, DialContext: dial})
	// The greeting, and the poll that waits.
	waitFor(t, func() bool { return writes.Load() == 2 })
	if err := near.Send(Binary(repeat("z", 40_000))); err != nil {
		t.Fatal(err)
	}
	farSide.next(t)
	if n := writes.Load(); n != 3 {
		t.Errorf("40,000 bytes took %d writes, want 1", n-2)
	}
}

// TestOrderDuringAnUpgrade sends without a break while the client goes from polling to WebSocket.
func TestOrderDuringAnUpgrade(t *testing.T) {
	p := setup(t, Config{})
	near, nearSide, far, farSide := p.dial(ClientConfig{})
	const n = 3000
	var senders sync.WaitGroup
	for _, s := range []*Session{near, far} {
		senders.Go(func() {
			for i := range n {
				if err := s.Send(Text(fmt.Appendf(nil, "%d", i))); err != nil {
					t.Errorf("message %d: %v", i, err)
					return
				}
				if i%100 == 0 {
					time.Sleep(5 * time.Millisecond)
				}
			}
		})
	}
	for _, side := range []*recorder{nearSide, farSide} {
		for i := range n {
			if got := side.next(t); got != fmt.Sprint(i) {
				t.Fatalf("message %d: %q", i, got)
			}
		}
	}
	senders.Wait()
	if near.Transport() != WebSocket || far.Transport() != WebSocket {
		t.Errorf("transports %s and %s", near.Transport(), far.Transport())
	}
}

// TestUnits sends units of three from many goroutines: nothing may come between their parts.
func TestUnits(t *testing.T) {
	eachWay(t, func(t *testing.T, config ClientConfig) {
		p := setup(t, Config{})
		_, nearSide, far, _ := p.dial(config)
		const senders, units = 8, 100
		var wg sync.WaitGroup
		for i := range senders {
			wg.Go(func() {
				for j := range units {
					unit := fmt.Sprintf("%d/%d", i, j)
					if err := far.Send(Text([]byte(unit)), Binary([]byte(unit)), Binary([]byte(unit))); err != nil {
						t.Error(err)
					}
				}
			})
		}
		for range senders * units {
			head := nearSide.next(t)
			want := fmt.Sprintf("0x%x", head)
			if a, b := nearSide.next(t), nearSide.next(t); a != want || b != want {
				t.Fatalf("after %q came %q and %q", head, a, b)
			}
		}
		wg.Wait()
	})
}

func TestCloseTellsBothSides(t *testing.T) {
	eachWay(t, func(t *testing.T, config ClientConfig) {
		p := setup(t, Config{})
		near, nearSide, _, farSide := p.dial(config)
		if err := near.Send(Text([]byte("goodbye"))); err != nil {
			t.Fatal(err)
		}
		near.Close()
		if got := farSide.next(t); got != "goodbye" {
			t.Errorf("received %q", got)
		}
		if a, b := nearSide.reason(t), farSide.reason(t); a != ReasonForcedClose || b != ReasonTransportClose {
			t.Errorf("the client closes: %q and %q", a, b)
		}
		near.Wait()

		near, nearSide, far, farSide := p.dial(config)
		if err := far.Send(Text([]byte("goodbye"))); err != nil {
			t.Fatal(err)
		}
		far.Close()
		if got := nearSide.next(t); got != "goodbye" {
			t.Errorf("received %q", got)
		}
		if a, b := nearSide.reason(t), farSide.reason(t); a != ReasonTransportClose || b != ReasonForcedClose {
			t.Errorf("the server closes: %q and %q", a, b)
		}
		near.Wait()
		waitFor(t, func() bool { return p.server.Len() == 0 })
	})
}

func TestShutdown(t *testing.T) {
	eachWay(t, func(t *testing.T, config ClientConfig) {
		p := newPair(t, Config{})
		hs := httptest.NewServer(p.server)
		defer hs.Close()
		p.url = hs.URL + "/"
		near, nearSide, _, farSide := p.dial(config)
		p.shutdown()
		if reason := farSide.reason(t); reason != ReasonShutdown {
			t.Errorf("reason %q", reason)
		}
		nearSide.reason(t)
		near.Wait()
		if err := p.server.Shutdown(t.Context()); !errors.Is(err, ErrServerClosed) {
			t.Errorf("a second time: %v", err)
		}
		if _, err := Dial(t.Context(), p.url, config, nil); err == nil {
			t.Error("a new session after Shutdown")
		}
	})
}

// TestHeartbeat keeps an idle session alive for an hour, both ways.
func TestHeartbeat(t *testing.T) {
	eachWay(t, func(t *testing.T, config ClientConfig) {
		synctest.Test(t, func(t *testing.T) {
			p := setupInMemory(t, Config{})
			near, _, far, _ := p.dial(config)
			time.Sleep(time.Hour)
			if near.Err() != nil || far.Err() != nil {
				t.Errorf("after an hour: %v, %v", near.Err(), far.Err())
			}
		})
	})
}

// TestNetworkCut has both sides find out by their heartbeats alone, no later than these allow.
func TestNetworkCut(t *testing.T) {
	eachWay(t, func(t *testing.T, config ClientConfig) {
		synctest.Test(t, func(t *testing.T) {
			p := setupInMemory(t, Config{})
			near, nearSide, _, farSide := p.dial(config)
			time.Sleep(time.Minute)
			p.listener.Cut()
			began := time.Now()
			if reason := nearSide.reason(t); reason != ReasonPingTimeout {
				t.Errorf("the client: %q", reason)
			}
			if reason := farSide.reason(t); reason != ReasonPingTimeout {
				t.Errorf("the server: %q", reason)
			}
			if took := time.Since(began); took > 45*time.Second {
				t.Errorf("found out after %v", took)
			}
			near.Wait()
			synctest.Wait()
			if n := p.server.Len(); n != 0 {
				t.Errorf("%d sessions are left", n)
			}
		})
	})
}

// TestPingTimeoutIsAbsolute lets a polling client fetch its ping late: the pong is due all the same.
func TestPingTimeoutIsAbsolute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Session{done: make(chan struct{}), env: &environment{
			interval: 25 * time.Second, timeout: 20 * time.Second, queueBytes: 1, queueFrames: 1,
			logger: Config{}.withDefaults().Logger, tasks: tasks{idle: make(chan struct{}, 1)}, forget: func(*Session) {},
		}}
		r := newRecorder()
		s.carrier = &polling{session: s}
		s.begin(func(*Session) Receiver { return r })
		s.mu.Lock()
		s.heart.start(s.env.interval, s.env.interval, s.beat)
		s.mu.Unlock()
		began := time.Now()
		time.Sleep(24 * time.Second)
		s.receive(packet{kind: packetPong}) // Nobody asked: it counts for nothing.
		time.Sleep(20 * time.Second)
		s.mu.Lock()
		body, _, err := s.queue.takePayload(100, nil)
		s.mu.Unlock()
		if err != nil || string(body) != "2" {
			t.Errorf("poll %q, %v", body, err)
		}
		if reason := r.reason(t); reason != ReasonPingTimeout || time.Since(began) != 45*time.Second {
			t.Errorf("%q after %v", reason, time.Since(began))
		}
	})
}

// TestBusyReceiver is silent for a minute because its own receiver is at work: that is not the peer's fault.
func TestBusyReceiver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := setupInMemory(t, Config{})
		near, _, far, farSide := p.dial(ClientConfig{Transports: []Transport{WebSocket}})
		farSide.on = func([]byte, bool) { time.Sleep(time.Minute) }
		for range 3 {
			if err := near.Send(Text()); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10 * time.Minute)
		if near.Err() != nil || far.Err() != nil {
			t.Errorf("%v, %v", near.Err(), far.Err())
		}
	})
}

// TestSlowConsumer closes a session whose client does not read, and only that one.
func TestSlowConsumer(t *testing.T) {
	for _, transport := range []Transport{Polling, WebSocket} {
		t.Run(string(transport), func(t *testing.T) {
			p := setup(t, Config{MaxQueueBytes: 1 << 20})
			_, otherSide, other, _ := p.dial(ClientConfig{Transports: []Transport{WebSocket}})
			var slow *Session
			var r *recorder
			if transport == Polling {
				_, slow, r = p.open()
			} else {
				ws := dialWS(t, p.url+"?EIO=4&transport=websocket")
				_ = read(t, ws)
				<-p.opened
				slow, r = p.sessions[1], p.received[1]
			}
			f := Binary(repeat("x", 64<<10))
			var err error
			for range 1000 { // More than the kernel's buffers and the queue together.
				if err = slow.Send(f); err != nil {
					break
				}
			}
			if !errors.Is(err, ErrSlowConsumer) {
				t.Errorf("Send: %v", err)
			}
			if reason := r.reason(t); reason != ReasonSlowConsumer {
				t.Errorf("reason %q", reason)
			}
			if err := other.Send(Text([]byte("fine"))); err != nil || otherSide.next(t) != "fine" {
				t.Errorf("the other: %v", err)
			}
		})
	}
}

// TestBufferingProxy polls through a proxy that passes nothing on before it is complete.
func TestBufferingProxy(t *testing.T) {
	p := setup(t, Config{})
	target, err := url.Parse(p.url)
	if err != nil {
		t.Fatal(err)
	}
	target.Path = ""
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.ModifyResponse = func(r *http.Response) error {
		body, err := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		return err
	}
	proxy.ErrorLog = log.New(io.Discard, "", 0)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if r.Header.Get("Upgrade") != "" {
			http.Error(w, "no upgrades here", http.StatusNotImplemented)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	defer front.Close()
	p.url = front.URL + "/"
	near, nearSide, far, farSide := p.dial(ClientConfig{}) // The upgrade fails, polling goes on.
	for i := range 50 {
		text := fmt.Sprint(i)
		if err := errors.Join(near.Send(Text([]byte(text))), far.Send(Text([]byte(text)))); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 50 {
		if a, b := nearSide.next(t), farSide.next(t); a != fmt.Sprint(i) || b != a {
			t.Fatalf("message %d: %q, %q", i, a, b)
		}
	}
	if near.Transport() != Polling {
		t.Errorf("transport %q", near.Transport())
	}
	near.Close()
	near.Wait()
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

// TestMalformed sends ten thousand frames and bodies of rubbish. Sessions end; nothing stays (TestMain looks for goroutines).
func TestMalformed(t *testing.T) {
	p := setup(t, Config{MaxPayload: 1000})
	random := rand.New(rand.NewPCG(1, 2))
	rubbish := func() []byte {
		data := make([]byte, random.IntN(40))
		for i := range data {
			data[i] = "0123456\x1eb{}[]\",\xff\x00xyz"[random.IntN(20)]
		}
		return data
	}
	for sent := 0; sent < 5000; {
		ws := dialWS(t, p.url+"?EIO=4&transport=websocket")
		for range 50 {
			sent++
			if err := ws.WriteMessage(1+random.IntN(2), rubbish()); err != nil {
				break
			}
		}
		// Bytes that are no WebSocket frame either.
		_, _ = ws.NetConn().Write(append(rubbish(), 0xff, 0xff, 0xff))
		ws.Close()
	}
	// Sessions of the WebSockets are not taken for the ones that come now.
	waitFor(t, func() bool { return p.server.Len() == 0 })
	for len(p.opened) > 0 {
		<-p.opened
	}
	client := &http.Client{}
	defer client.CloseIdleConnections()
	for range 500 {
		address, session, _ := p.open()
		for range 10 {
			response, err := client.Post(address, "text/plain", bytes.NewReader(rubbish()))
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
		}
		session.Close()
		session.carrier.(*polling).retire()
	}
	waitFor(t, func() bool { return p.server.Len() == 0 })
}

func TestWebSocketPing(t *testing.T) {
	p := setup(t, Config{})
	ws := dialWS(t, p.url+"?EIO=4&transport=websocket")
	_ = read(t, ws)
	pong := make(chan string, 1)
	ws.SetPongHandler(func(data string) error { pong <- data; return nil })
	if err := ws.WriteControl(websocket.PingMessage, []byte("are you there"), time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	go func() { _, _, _ = ws.ReadMessage() }()
	select {
	case got := <-pong:
		if got != "are you there" {
			t.Errorf("pong %q", got)
		}
	case <-time.After(30 * time.Second):
		t.Error("no pong")
	}
}

func TestDialErrors(t *testing.T) {
	for address, want := range map[string]string{
		"ftp://x/": "no http", "http:///": "names no host", "http://a b/": "invalid character", "http://127.0.0.1:1/": "refused",
	} {
		for _, transport := range []Transport{Polling, WebSocket, "smoke"} {
			_, err := Dial(t.Context(), address, ClientConfig{Transports: []Transport{transport}}, nil)
			if transport == "smoke" && want == "refused" {
				want = "unknown transport"
			}
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s over %s: %v", address, transport, err)
			}
		}
	}
}

// TestDialSilence connects to a server that takes the connection and says nothing.
func TestDialSilence(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for _, transport := range []Transport{Polling, WebSocket} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if _, err := Dial(ctx, "http://"+listener.Addr().String(), ClientConfig{Transports: []Transport{transport}}, nil); err == nil {
			t.Errorf("%s: no error", transport)
		}
		cancel()
	}
}

// TestCloseDuringAnUpgrade closes clients at every moment of their way to WebSocket: what they sent arrives, and the server
// does not have to wait for a heartbeat.
func TestCloseDuringAnUpgrade(t *testing.T) {
	p := setup(t, Config{})
	for i := range 100 {
		near, _, _, farSide := p.dial(ClientConfig{})
		if err := near.Send(Text([]byte("goodbye"))); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(i*50) * time.Microsecond)
		near.Close()
		if got := farSide.next(t); got != "goodbye" {
			t.Errorf("after %d µs: %q", i*50, got)
		}
		if reason := farSide.reason(t); reason != ReasonTransportClose {
			t.Errorf("after %d µs: %q", i*50, reason)
		}
		near.Wait()
	}
	waitFor(t, func() bool { return p.server.Len() == 0 })
}
