package syslog

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// header is the header of RFC 5424 with version 1 and no structured data (RFC 5424 §6).
var header = regexp.MustCompile(`^<(\d{1,3})>1 (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{1,6}Z|-) ([!-~]{1,255}) ([!-~]{1,48}) ([!-~]{1,128}) ([!-~]{1,32}) - (.*)$`)

func lineOf(seq int, more string) string {
	return fmt.Sprintf(`{"seq":%d,"time":"2026-11-29T10:00:00.123456789Z","kind":"end","principal":"ann"%s,"prev":"00","hash":"ff"}`+"\n", seq, more)
}

// readFrame reads a message with its length before it (RFC 6587 §3.4.1).
func readFrame(r *bufio.Reader) (string, error) {
	length, err := r.ReadString(' ')
	if err != nil {
		return "", err
	}
	n, err := strconv.Atoi(strings.TrimSuffix(length, " "))
	if err != nil || n <= 0 || length[0] == '0' {
		return "", fmt.Errorf("the length %q: %w", length, err)
	}
	message := make([]byte, n)
	_, err = io.ReadFull(r, message)
	return string(message), err
}

// collect takes connections one after the other and sends their messages.
func collect(l net.Listener, out chan<- string) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		r := bufio.NewReader(c)
		for {
			message, err := readFrame(r)
			if err != nil {
				break
			}
			out <- message
		}
		c.Close()
	}
}

func next(t *testing.T, out <-chan string) string {
	t.Helper()
	select {
	case m := <-out:
		return m
	case <-time.After(20 * time.Second):
		t.Fatal("no message has come")
		return ""
	}
}

// TestStreams: the lines of the log come over TCP, and over TLS to a collector that asks for a certificate, each as a
// message of RFC 5424.
func TestStreams(t *testing.T) {
	authority := httptest.NewTLSServer(nil) // for its certificate
	defer authority.Close()
	roots := x509.NewCertPool()
	roots.AddCert(authority.Certificate())
	mutual := &tls.Config{Certificates: authority.TLS.Certificates, ClientAuth: tls.RequireAnyClientCert}
	for _, network := range []string{"tcp", "tls"} {
		t.Run(network, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			if network == "tls" {
				l = tls.NewListener(l, mutual)
			}
			out, done := make(chan string, 10), make(chan struct{})
			go func() { defer close(done); collect(l, out) }()
			f := New(Options{Network: network, Address: l.Addr().String(), TLS: &tls.Config{RootCAs: roots, ServerName: "example.com", Certificates: authority.TLS.Certificates}})
			f.Add([]byte(lineOf(1, `,"detail":"ü"`) + lineOf(2, "")))
			f.Add([]byte(strings.Replace(lineOf(3, ""), `"end"`, `"refusal"`, 1)))
			for i, more := range []string{`,"detail":"ü"`, "", ""} {
				m := header.FindStringSubmatch(next(t, out))
				want := strings.TrimSpace(lineOf(i+1, more))
				priority, kind := "110", "end"
				if i == 2 {
					want, priority, kind = strings.Replace(want, `"end"`, `"refusal"`, 1), "108", "refusal"
				}
				if m == nil || m[1] != priority || m[2] != "2026-11-29T10:00:00.123456Z" || m[4] != "weir" || m[6] != kind || m[7] != want {
					t.Errorf("message %d: %q, want %s", i, m, want)
				}
			}
			f.Close()
			l.Close()
			<-done
			if sent, dropped := f.Figures(); sent != 3 || dropped != 0 {
				t.Errorf("sent %d, dropped %d", sent, dropped)
			}
		})
	}
}

// TestDatagrams: a message of UDP has no length before it. One with long arguments comes without them.
func TestDatagrams(t *testing.T) {
	l, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f := New(Options{Network: "udp", Address: l.LocalAddr().String()})
	defer f.Close()
	f.Add([]byte(lineOf(1, "") + lineOf(2, `,"args":{"a":"`+strings.Repeat("x", 20<<10)+`"}`)))
	for _, want := range []string{lineOf(1, ""), lineOf(2, "")} {
		buf := make([]byte, 64<<10)
		if err := l.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		n, _, err := l.ReadFrom(buf)
		if m := header.FindSubmatch(buf[:n]); err != nil || m == nil || string(m[7]) != strings.TrimSpace(want) {
			t.Errorf("%.300s %v", buf[:n], err)
		}
	}
}

// TestCollectorAway: records wait within bounds while the collector is away, further ones are dropped and counted, no
// call of Add waits, and what waited comes when the collector is back.
func TestCollectorAway(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	l.Close()
	var log bytes.Buffer
	f := New(Options{Network: "tcp", Address: at, Logger: slog.New(slog.NewTextHandler(&log, nil)), retry: 50 * time.Millisecond})
	began := time.Now()
	for i := range maxQueue + 100 {
		f.Add([]byte(lineOf(i, "")))
	}
	big := []byte(lineOf(0, `,"detail":"`+strings.Repeat("x", 1<<20)+`"`))
	for range 20 {
		f.Add(big)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("Add waited: %v", took)
	}
	if _, dropped := f.Figures(); dropped < 100 || dropped > 120 || f.waiting.Load() > maxBytes {
		t.Errorf("dropped %d, and %d bytes wait", dropped, f.waiting.Load())
	}
	if l, err = net.Listen("tcp", at); err != nil {
		t.Fatal(err)
	}
	out, done := make(chan string, 2*maxQueue), make(chan struct{})
	go func() { defer close(done); collect(l, out) }()
	for i := range 100 {
		if m := next(t, out); !strings.Contains(m, fmt.Sprintf(`{"seq":%d,`, i)) {
			t.Fatalf("message %d is %s", i, m)
		}
	}
	f.Close()
	l.Close()
	<-done
	sent, dropped := f.Figures()
	if sent+dropped != maxQueue+120 || sent < 100 {
		t.Errorf("sent %d, dropped %d", sent, dropped)
	}
	if text := log.String(); strings.Count(text, "does not take records") != 1 || strings.Count(text, "takes records again") != 1 {
		t.Errorf("the log:\n%s", text)
	}
}

// TestReconnect: a connection that the collector closes is opened again.
func TestReconnect(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f := New(Options{Network: "tcp", Address: l.Addr().String(), retry: 10 * time.Millisecond})
	defer f.Close()
	for i := range 3 {
		f.Add([]byte(lineOf(i, "")))
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if m, err := readFrame(bufio.NewReader(c)); err != nil || !strings.Contains(m, fmt.Sprintf(`"seq":%d`, i)) {
			t.Errorf("%s %v", m, err)
		}
		c.Close()
		<-f.gone
	}
}

// TestEnd: Close gives a collector that takes nothing a bounded time.
func TestEnd(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and reads nothing
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f := New(Options{Network: "tcp", Address: l.Addr().String(), drain: 200 * time.Millisecond})
	for range 8 {
		f.Add(bytes.Repeat([]byte(lineOf(0, `,"detail":"`+strings.Repeat("x", 7<<10)+`"`)), 128))
	}
	began := time.Now()
	f.Close()
	f.Close()
	f.Add([]byte(lineOf(1, "")))
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("the end took %v", took)
	}
	if sent, dropped := f.Figures(); sent+dropped != 8*128+1 || dropped == 0 {
		t.Errorf("sent %d, dropped %d", sent, dropped)
	}
}

// TestPublic: without TLS nothing is sent to a public address.
func TestPublic(t *testing.T) {
	for _, network := range []string{"udp", "tcp"} {
		f := &Forwarder{o: Options{Network: network, Address: "8.8.8.8:514"}, ctx: t.Context()}
		if err := f.dial(); err == nil || !strings.Contains(err.Error(), errPublic.Error()) {
			t.Errorf("%s: %v", network, err)
		}
	}
}

// TestFields: a header has only printable ASCII.
func TestFields(t *testing.T) {
	got := []string{field("a b\nü", 9), field("", 9), field("abc", 2), timestamp("x"), timestamp("2026-11-29T10:00:00+02:00")}
	if want := []string{"ab", "-", "ab", "-", "2026-11-29T08:00:00.000000Z"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
