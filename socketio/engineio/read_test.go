package engineio

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// clientFrame is a frame as a client sends it.
func clientFrame(first byte, payload []byte) []byte {
	f := []byte{first}
	switch n := len(payload); {
	case n < 126:
		f = append(f, maskBit|byte(n))
	case n <= 0xFFFF:
		f = binary.BigEndian.AppendUint16(append(f, maskBit|126), uint16(n))
	default:
		f = binary.BigEndian.AppendUint64(append(f, maskBit|127), uint64(n))
	}
	key := [4]byte{1, 2, 3, 4}
	f = append(f, key[:]...)
	start := len(f)
	f = append(f, payload...)
	maskBytes(key, f[start:])
	return f
}

// A rawPeer is the client's end of a WebSocket, byte by byte.
type rawPeer struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

// dialRaw opens a WebSocket at a server and reads the open packet.
func dialRaw(t *testing.T, p *pair) *rawPeer {
	t.Helper()
	u, err := url.Parse(p.url)
	if err != nil {
		t.Fatal(err)
	}
	dial := new(net.Dialer).DialContext
	if p.listener != nil {
		dial = p.listener.DialContext
	}
	conn, err := dial(t.Context(), "tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	r := &rawPeer{t, conn, bufio.NewReader(conn)}
	r.write([]byte("GET " + u.Path + "?EIO=4&transport=websocket HTTP/1.1\r\nHost: " + u.Host + "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"))
	response, err := http.ReadResponse(r.in, nil)
	if err != nil || response.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("handshake: %v, %v", response, err)
	}
	if opcode, data, err := r.frame(); err != nil || opcode != opText || data[0] != packetOpen {
		t.Fatalf("the server began with opcode %d, %q, %v", opcode, data, err)
	}
	return r
}

func (r *rawPeer) write(b []byte) {
	r.t.Helper()
	if _, err := r.conn.Write(b); err != nil {
		r.t.Fatal(err)
	}
}

// frame reads a frame of the server.
func (r *rawPeer) frame() (opcode byte, data []byte, err error) {
	var head [2]byte
	if _, err := io.ReadFull(r.in, head[:]); err != nil {
		return 0, nil, err
	}
	size := int64(head[1])
	switch size {
	case 126:
		var n uint16
		err = binary.Read(r.in, binary.BigEndian, &n)
		size = int64(n)
	case 127:
		err = binary.Read(r.in, binary.BigEndian, &size)
	}
	if err != nil {
		return 0, nil, err
	}
	data = make([]byte, size)
	_, err = io.ReadFull(r.in, data)
	return head[0] & 0xf, data, err
}

// closes reads to the end and returns the codes of the close frames.
func (r *rawPeer) closes() (codes []int) {
	r.t.Helper()
	_ = r.conn.SetReadDeadline(time.Now().Add(30 * time.Second))
	for {
		opcode, data, err := r.frame()
		switch {
		case err != nil:
			if !errors.Is(err, io.EOF) {
				r.t.Errorf("the connection ended with %v", err)
			}
			return codes
		case opcode == opClose && len(data) >= 2:
			codes = append(codes, int(binary.BigEndian.Uint16(data)))
		}
	}
}

// TestProtocolErrors breaks the rules of RFC 6455: there is one close frame, and it says so.
func TestProtocolErrors(t *testing.T) {
	text := byte(finBit | opText)
	for _, test := range []struct {
		name string
		send []byte
		code int
	}{
		{"no mask", []byte{text, 2, '4', 'x'}, 1002},
		{"reserved bit", clientFrame(text|0x40, []byte("4x")), 1002},
		{"unknown opcode", clientFrame(finBit|0x3, []byte("4x")), 1002},
		{"unknown control opcode", clientFrame(finBit|0xB, nil), 1002},
		{"continuation of nothing", clientFrame(finBit|opContinuation, []byte("4x")), 1002},
		{"a message inside a message", append(clientFrame(opText, []byte("4x")), clientFrame(text, []byte("4y"))...), 1002},
		{"fragmented ping", clientFrame(opPing, nil), 1002},
		{"long ping", clientFrame(finBit|opPing, repeat("x", 126)), 1002},
		{"63 bits and one", append([]byte{text, maskBit | 127, 0x80}, make([]byte, 11)...), 1002},
		{"half a close code", clientFrame(finBit|opClose, []byte{3}), 1002},
		{"no close code", clientFrame(finBit|opClose, []byte{0x03, 0xED}), 1002},
		{"close reason that is no text", clientFrame(finBit|opClose, []byte{0x03, 0xE8, 0xFF}), 1002},
		{"too long", append([]byte{text, maskBit | 126}, 0x10, 0x01), 1009},
		{"too long in fragments", append(clientFrame(opText, append([]byte("4"), repeat("x", 4000)...)), clientFrame(finBit|opContinuation, repeat("x", 96))...), 1009},
		{"a promise of 2^62 bytes", append([]byte{text, maskBit | 127, 0x40}, make([]byte, 11)...), 1009},
		{"no packet", clientFrame(text, []byte("x")), 1000},
		{"no UTF-8", clientFrame(text, []byte("4\xff")), 1000},
		{"goodbye", clientFrame(finBit|opClose, []byte{0x03, 0xE8}), 1000},
		{"goodbye without a code", clientFrame(finBit|opClose, nil), 1000},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := setup(t, Config{MaxPayload: 4096})
			peer := dialRaw(t, p)
			send := test.send
			if test.name == "too long" { // the mask, and bytes that nobody asks for
				send = append(send, make([]byte, 4)...)
			}
			peer.write(send)
			if got := peer.closes(); len(got) != 1 || got[0] != test.code {
				t.Errorf("close frames %v, want one with %d", got, test.code)
			}
			<-p.opened
			want := ReasonTransportError
			switch {
			case strings.HasPrefix(test.name, "goodbye"):
				want = ReasonTransportClose
			case test.code == closeNormal:
				want = ReasonParseError
			}
			if got := p.received[0].reason(t); got != want {
				t.Errorf("reason %q, want %q", got, want)
			}
		})
	}
}

// A server that breaks the rules reads one close frame, too.
func TestClientOnProtocolError(t *testing.T) {
	for _, bad := range [][]byte{{finBit | opText | 0x40, 1, '4'}, {finBit | 0x3, 0}, append([]byte{finBit | opText, 126, 0x20, 0}, repeat("x", 0x2000)...)} {
		codes := make(chan []int, 1)
		hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			g, err := NewServer(Config{Accept: func(*Session) Receiver { return nil }}).upgrader.Upgrade(hijacker{w}, r, nil)
			if err != nil {
				t.Error(err)
				return
			}
			conn := g.NetConn()
			defer conn.Close()
			_, _ = conn.Write(controlFrame(packetOpen, `{"sid":"s","upgrades":[],"pingInterval":25000,"pingTimeout":20000,"maxPayload":100}`).wire)
			_, _ = conn.Write(bad)
			in := &reading{session: &Session{}, conn: serverConn(conn, 1000)}
			var got []int
			for {
				_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
				h, err := in.header(true)
				if err != nil {
					break
				}
				if err := in.have(int(h.size), true); err != nil {
					break
				}
				data := bytes.Clone(in.buf[in.from : in.from+int(h.size)])
				in.from += int(h.size)
				maskBytes(h.key, data)
				if h.opcode == opClose {
					got = append(got, int(binary.BigEndian.Uint16(data)))
				}
			}
			codes <- got
		}))
		side := newRecorder()
		near, err := Dial(t.Context(), hs.URL, ClientConfig{Transports: []Transport{WebSocket}, MaxMessage: 1000}, func(*Session) Receiver { return side })
		if err != nil {
			t.Fatal(err)
		}
		if got := side.reason(t); got != ReasonTransportError {
			t.Errorf("reason %q", got)
		}
		if got := <-codes; len(got) != 1 || got[0] != closeProtocol && got[0] != closeTooBig {
			t.Errorf("%v: close frames %v, want one", bad[:2], got)
		}
		near.Wait()
		hs.Close()
	}
}

// TestFragments sends messages in pieces, with control frames between them, and in writes that end anywhere.
func TestFragments(t *testing.T) {
	p := setup(t, Config{})
	peer := dialRaw(t, p)
	<-p.opened
	random := rand.New(rand.NewPCG(1, 2))
	var stream []byte
	var want []string
	for range 300 {
		size := []int{0, 1, 100, 125, 126, 4096, 70_000}[random.IntN(7)]
		data := append([]byte("4"), repeat(string(rune('a'+random.IntN(26))), size)...)
		want = append(want, string(data[1:]))
		first := byte(opText)
		for len(data) > 0 || first != opContinuation {
			n := min(len(data), random.IntN(len(data)+1))
			if random.IntN(2) == 0 {
				n = len(data)
			}
			if n == len(data) {
				stream = append(stream, clientFrame(finBit|first, data)...)
				break
			}
			stream = append(stream, clientFrame(first, data[:n])...)
			data, first = data[n:], opContinuation
			if random.IntN(3) == 0 {
				stream = append(stream, clientFrame(finBit|opPing, []byte("ping"))...)
				stream = append(stream, clientFrame(finBit|opPong, nil)...)
			}
		}
	}
	go func() {
		for len(stream) > 0 {
			n := min(len(stream), 1+random.IntN(9000))
			if _, err := peer.conn.Write(stream[:n]); err != nil {
				return
			}
			stream = stream[n:]
		}
	}()
	for i, message := range want {
		if got := p.received[0].next(t); got != message {
			t.Fatalf("message %d: %d bytes of %.10q, want %d of %.10q", i, len(got), got, len(message), message)
		}
	}
	if opcode, data, err := peer.frame(); err != nil || opcode != opPong || string(data) != "ping" {
		t.Errorf("a ping was answered by opcode %d, %q, %v", opcode, data, err)
	}
}

// TestRest has sessions go to rest and wake: nothing is lost or delayed, whatever arrives when.
func TestRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := setupInMemory(t, Config{})
		peer := dialRaw(t, p)
		<-p.opened
		side := p.received[0]
		go func() { _, _ = io.Copy(io.Discard, peer.in) }() // or the server's pings could not be written
		pause := func(d time.Duration) {
			time.Sleep(d)
			synctest.Wait()
		}
		began := time.Now()
		for i := range 40 {
			// Just before, at and after the moment in which it would go to rest, and much later.
			pause([]time.Duration{0, lingerTime - time.Nanosecond, lingerTime, lingerTime + time.Nanosecond, 2 * lingerTime, time.Second}[i%6])
			text := fmt.Sprint("message ", i)
			frame := clientFrame(finBit|opText, []byte("4"+text))
			cut := i % len(frame) // and in two pieces, at any place
			peer.write(frame[:cut])
			pause(time.Duration(i%3) * lingerTime)
			sent := time.Now()
			peer.write(frame[cut:])
			if got := side.next(t); got != text || time.Since(sent) != 0 {
				t.Fatalf("got %q after %s, want %q", got, time.Since(sent), text)
			}
			peer.write(clientFrame(finBit|opText, []byte("3"))) // in case it was pinged
		}
		if time.Since(began) < 5*time.Second {
			t.Error("the test has not waited")
		}
		// One that is at rest notices its end.
		pause(time.Second)
		peer.conn.Close()
		if got := side.reason(t); got != ReasonTransportClose {
			t.Errorf("reason %q", got)
		}
	})
}

// A session at rest is closed as fast as one that is not.
func TestCloseAtRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, pause := range []time.Duration{0, lingerTime / 2, 3 * lingerTime} {
			p := setupInMemory(t, Config{})
			peer := dialRaw(t, p)
			<-p.opened
			peer.write(clientFrame(finBit|opText, []byte("4x")))
			time.Sleep(pause)
			synctest.Wait()
			began := time.Now()
			p.sessions[0].Close()
			if opcode, data, err := peer.frame(); err != nil || opcode != opClose || binary.BigEndian.Uint16(data) != closeNormal {
				t.Errorf("opcode %d, %q, %v", opcode, data, err)
			}
			peer.conn.Close()
			p.shutdown() // waits for what belongs to the session
			if d := time.Since(began); d > closeTimeout {
				t.Errorf("after %s: the end took %s", pause, d)
			}
			p.server.shut = false // for the clean-up, which shuts down again
		}
	})
}

func TestProbe(t *testing.T) {
	for name, transports := range ways {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := setupInMemory(t, Config{})
				near, _, far, farSide := p.dial(ClientConfig{Transports: transports})
				probe := func() (time.Duration, error) {
					ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
					defer cancel()
					began := time.Now()
					err := far.Probe(ctx)
					return time.Since(began), err
				}
				for range 3 {
					time.Sleep(5 * time.Second)
					synctest.Wait()
					if took, err := probe(); err != nil || took > time.Second {
						t.Errorf("a peer that is there: %v after %s", err, took)
					}
				}
				// Many ask at the same time.
				answers := make(chan error, 8)
				for range cap(answers) {
					go func() { _, err := probe(); answers <- err }()
				}
				for range cap(answers) {
					if err := <-answers; err != nil {
						t.Error(err)
					}
				}
				synctest.Wait() // for the pongs that nobody needed
				p.listener.Cut()
				if took, err := probe(); !errors.Is(err, context.DeadlineExceeded) || took != 2*time.Second {
					t.Errorf("a peer that is gone: %v after %s", err, took)
				}
				if far.Err() != nil {
					t.Error("the probe has ended the session")
				}
				if reason := farSide.reason(t); reason != ReasonPingTimeout {
					t.Errorf("reason %q", reason)
				}
				if _, err := probe(); !errors.Is(err, ErrClosed) {
					t.Errorf("a session that has ended: %v", err)
				}
				near.Close()
				near.Wait()
			})
		})
	}
}

// A probe changes nothing about when the next heartbeat is due.
func TestProbeLeavesHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := setupInMemory(t, Config{})
		peer := dialRaw(t, p)
		<-p.opened
		began := time.Now()
		pings := make(chan time.Duration, 10)
		go func() {
			for {
				_, data, err := peer.frame()
				if err != nil {
					return
				}
				if string(data) == "2" {
					pings <- time.Since(began)
					if _, err := peer.conn.Write(clientFrame(finBit|opText, []byte("3"))); err != nil {
						return
					}
				}
			}
		}()
		time.Sleep(10 * time.Second)
		if err := p.sessions[0].Probe(t.Context()); err != nil {
			t.Error(err)
		}
		for _, want := range []time.Duration{10 * time.Second, 25 * time.Second, 50 * time.Second} {
			if got := <-pings; got != want {
				t.Errorf("a ping after %s, want %s", got, want)
			}
		}
	})
}

// FuzzFrames reads whatever a peer may send: no more is kept than has come, and a message that is read has been sent.
func FuzzFrames(f *testing.F) {
	f.Add(clientFrame(finBit|opText, []byte("4hello")), uint8(3))
	f.Add(append(clientFrame(opText, []byte("4he")), clientFrame(finBit|opContinuation, []byte("llo"))...), uint8(1))
	f.Add(append([]byte{finBit | opText, maskBit | 127, 0x40}, make([]byte, 20)...), uint8(9))
	f.Add(clientFrame(finBit|opClose, []byte{0x03, 0xE8, 'b', 'y', 'e'}), uint8(2))
	f.Fuzz(func(t *testing.T, data []byte, step uint8) {
		in := &reading{session: &Session{}, conn: serverConn(&stream{data: data, step: int(step) + 1}, 1<<16)}
		read := 0
		for {
			p, err := in.next()
			if err != nil {
				break
			}
			read += len(p.data)
		}
		if read > len(data) || cap(in.message) > 2*len(data)+2*len(in.buf) {
			t.Errorf("%d bytes are read and room for %d kept, of %d", read, cap(in.message), len(data))
		}
	})
}

// A stream is a connection from which bytes come in steps.
type stream struct {
	net.Conn
	data []byte
	step int
}

func (s *stream) Read(p []byte) (int, error) {
	if len(s.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), s.step)], s.data)
	s.data = s.data[n:]
	return n, nil
}

// A server that ends waits for no peer that has answered its close frame, even if the peer keeps its
// connection, and for a silent one for a moment.
func TestShutdownWithoutWaiting(t *testing.T) {
	for name, c := range map[string]struct {
		answers bool
		most    time.Duration
	}{
		"a peer that answers and stays": {true, 0},
		"a silent peer":                 {false, shutdownTimeout},
	} {
		synctest.Test(t, func(t *testing.T) {
			for _, pause := range []time.Duration{0, lingerTime / 2, 3 * lingerTime} {
				p := setupInMemory(t, Config{})
				peer := dialRaw(t, p)
				<-p.opened
				peer.write(clientFrame(finBit|opText, []byte("4x")))
				time.Sleep(pause)
				synctest.Wait()
				began := time.Now()
				go func() {
					opcode, data, err := peer.frame()
					if err != nil || opcode != opClose || binary.BigEndian.Uint16(data) != closeNormal {
						t.Errorf("%s: opcode %d, %q, %v", name, opcode, data, err)
					}
					if c.answers {
						peer.write(clientFrame(finBit|opClose, data))
					}
				}()
				p.shutdown() // waits for what belongs to the session
				if d := time.Since(began); d > c.most {
					t.Errorf("%s, after %s: the end took %s", name, pause, d)
				}
				p.server.shut = false // for the clean-up, which shuts down again
			}
		})
	}
}
