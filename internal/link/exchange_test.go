package link

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// patience bounds what a test waits for.
const patience = 20 * time.Second

// pair is an exchangeClient and an exchangeServer with connections between them.
type pair struct {
	*exchangeClient
	server *exchangeServer
	dials  atomic.Int64
	mu     sync.Mutex // guards below
	last   net.Conn   // the server's end of the last connection
}

// newPair returns a pair whose connections have TLS, if encrypted is set.
func newPair(t *testing.T, encrypted bool, handler http.HandlerFunc) *pair {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dial := func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", l.Addr().String())
	}
	accepted := l
	if encrypted {
		certified := httptest.NewTLSServer(nil)
		certified.Close()
		roots := x509.NewCertPool()
		roots.AddCert(certified.Certificate())
		accepted = tls.NewListener(l, &tls.Config{Certificates: certified.TLS.Certificates})
		config := &tls.Config{RootCAs: roots, ServerName: "example.com"}
		dial = func(ctx context.Context) (net.Conn, error) {
			d := tls.Dialer{Config: config}
			return d.DialContext(ctx, "tcp", l.Addr().String())
		}
	}
	p := &pair{server: newExchangeServer(handler, slog.New(slog.DiscardHandler))}
	p.exchangeClient = newExchangeClient(func(ctx context.Context) (net.Conn, error) {
		p.dials.Add(1)
		return dial(ctx)
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			nc, err := accepted.Accept()
			if err != nil {
				return
			}
			p.mu.Lock()
			p.last = nc
			p.mu.Unlock()
			p.server.Serve(nc)
		}
	}()
	t.Cleanup(func() {
		p.Close()
		_ = l.Close()
		<-done
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		p.server.Shutdown(ctx)
	})
	return p
}

// both runs a test without and with TLS.
func both(t *testing.T, f func(t *testing.T, encrypted bool)) {
	t.Run("plain", func(t *testing.T) { f(t, false) })
	t.Run("TLS", func(t *testing.T) { f(t, true) })
}

func post(t *testing.T, ctx context.Context, body string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://node/mcp?x=1", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// ask makes an exchange and reads the whole body.
func (p *pair) ask(r *http.Request) (*http.Response, string, error) {
	resp, err := p.RoundTrip(r)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp, string(text), err
}

// TestExchanges: requests and responses arrive as they are sent, one after the other on one connection, and values of
// one exchange are not those of the next.
func TestExchanges(t *testing.T) {
	both(t, func(t *testing.T, encrypted bool) {
		p := newPair(t, encrypted, func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil || r.Method != http.MethodPost || r.URL.Path != "/mcp" || r.URL.RawQuery != "x=1" || r.Host != "node" || int64(len(body)) != r.ContentLength {
				t.Errorf("%v %s %v %s %d, %v", r.Method, r.URL, r.Host, body, r.ContentLength, err)
			}
			h := w.Header()
			for name, values := range r.Header {
				h["Was-"+name] = values
			}
			if r.Header.Get("Status") != "" {
				w.WriteHeader(http.StatusMisdirectedRequest)
				h.Set("Late", "1")
				return
			}
			_, _ = w.Write(body)
		})
		for i, size := range []int{0, 3, 20 << 10, MaxBody, 5, 0} {
			r := post(t, t.Context(), strings.Repeat("x", size))
			r.Header = http.Header{"A": {"1", "2"}, "Empty": {""}, "Number": {fmt.Sprint(i % 2)}, "Long": {strings.Repeat("l", 2000*i)}}
			resp, text, err := p.ask(r)
			if err != nil || len(text) != size || resp.StatusCode != http.StatusOK {
				t.Fatalf("%d bytes: %v, %v", size, resp, err)
			}
			for name, want := range r.Header {
				if !slices.Equal(resp.Header["Was-"+name], want) {
					t.Errorf("%s: %q", name, resp.Header["Was-"+name])
				}
			}
			if size > 0 && size < maxOut && (resp.ContentLength != int64(size) || resp.Header.Get("Content-Length") != fmt.Sprint(size) || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain")) {
				t.Errorf("%d bytes: %d, %v", size, resp.ContentLength, resp.Header)
			}
		}
		r := post(t, t.Context(), "")
		r.Header.Set("Status", "1")
		if resp, text, err := p.ask(r); err != nil || resp.StatusCode != http.StatusMisdirectedRequest || text != "" || resp.Header.Get("Late") != "" {
			t.Errorf("%v, %q, %v", resp, text, err)
		}
		if n := p.dials.Load(); n != 1 {
			t.Errorf("%d connections", n)
		}
	})
}

// TestStream: what a handler flushes arrives before its end, and a response of any length arrives whole.
func TestStream(t *testing.T) {
	both(t, func(t *testing.T, encrypted bool) {
		go1 := make(chan struct{})
		p := newPair(t, encrypted, func(w http.ResponseWriter, r *http.Request) {
			rc := http.NewResponseController(w)
			w.Header().Set("Content-Type", "text/event-stream")
			_ = rc.SetReadDeadline(time.Time{})
			_ = rc.SetWriteDeadline(time.Now().Add(patience))
			if rc.Flush() != nil {
				t.Error("it cannot be flushed")
			}
			_, _ = io.WriteString(w, "one")
			_ = rc.Flush()
			<-go1
			_, _ = w.Write(bytes.Repeat([]byte("y"), 300<<10))
		})
		resp, err := p.RoundTrip(post(t, t.Context(), "x"))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		one := make([]byte, 3)
		if _, err := io.ReadFull(resp.Body, one); err != nil || string(one) != "one" {
			t.Fatalf("%s, %v", one, err)
		}
		close(go1)
		rest, err := io.ReadAll(resp.Body)
		if err != nil || len(rest) != 300<<10 || bytes.Trim(rest, "y") != nil && len(bytes.Trim(rest, "y")) > 0 {
			t.Errorf("%d bytes, %v", len(rest), err)
		}
		if _, text, err := p.ask(post(t, t.Context(), "x")); err != nil || len(text) != 3+300<<10 || p.dials.Load() != 1 {
			t.Errorf("%d bytes, %v, %d connections", len(text), err, p.dials.Load())
		}
	})
}

// TestClientLeaves: the handler of a client that leaves is told, before and in the middle of the response.
func TestClientLeaves(t *testing.T) {
	both(t, func(t *testing.T, encrypted bool) {
		ended := make(chan bool, 1)
		ctx, cancel := context.WithCancel(t.Context())
		p := newPair(t, encrypted, func(w http.ResponseWriter, r *http.Request) {
			cancel() // the request runs
			if r.Header.Get("Stream") != "" {
				_ = http.NewResponseController(w).Flush()
			}
			select {
			case <-r.Context().Done():
				ended <- true
			case <-time.After(patience):
				ended <- false
			}
		})
		if _, err := p.RoundTrip(post(t, ctx, "x")); !errors.Is(err, context.Canceled) || errors.Is(err, ErrNotSent) {
			t.Errorf("a canceled exchange: %v", err)
		}
		if !<-ended {
			t.Error("the handler was not told")
		}
		r := post(t, t.Context(), "x")
		r.Header.Set("Stream", "1")
		resp, err := p.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		read := make(chan error, 1)
		go func() {
			_, err := resp.Body.Read(make([]byte, 1))
			read <- err
		}()
		_ = resp.Body.Close()
		if !<-ended {
			t.Error("the handler of a stream was not told")
		}
		if err := <-read; err == nil {
			t.Error("a closed body was read")
		}
		ctx, cancel = context.WithCancel(t.Context())
		cancel()
		if _, err := p.RoundTrip(post(t, ctx, "x")); !errors.Is(err, ErrNotSent) {
			t.Errorf("an exchange that was canceled before: %v", err)
		}
	})
}

// TestSlowExchange: an exchange that lasts long enough to be watched leaves its connection usable.
func TestSlowExchange(t *testing.T) {
	both(t, func(t *testing.T, encrypted bool) {
		p := newPair(t, encrypted, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Slow") != "" {
				time.Sleep(3 * watchAfter)
			}
			_, _ = io.WriteString(w, "ok")
		})
		for i := range 6 {
			r := post(t, t.Context(), "x")
			if i%2 == 0 {
				r.Header.Set("Slow", "1")
			}
			if _, text, err := p.ask(r); err != nil || text != "ok" {
				t.Errorf("%q, %v", text, err)
			}
		}
		if n := p.dials.Load(); n != 1 {
			t.Errorf("%d connections", n)
		}
	})
}

// TestServerBreaks: a handler that gives up breaks its response off; the request may have run. A connection that the
// server has closed while it was idle is replaced by another one.
func TestServerBreaks(t *testing.T) {
	both(t, func(t *testing.T, encrypted bool) {
		p := newPair(t, encrypted, func(w http.ResponseWriter, r *http.Request) {
			switch r.Header.Get("How") {
			case "at once":
				panic(http.ErrAbortHandler)
			case "later":
				_, _ = w.Write([]byte("some"))
				_ = http.NewResponseController(w).Flush()
				panic("a mistake")
			case "part": // the body is not read
			}
			_, _ = io.WriteString(w, "ok")
		})
		for _, how := range []string{"at once", "later"} {
			r := post(t, t.Context(), "x")
			r.Header.Set("How", how)
			if _, text, err := p.ask(r); err == nil || errors.Is(err, ErrNotSent) {
				t.Errorf("%s: %q, %v", how, text, err)
			}
			r = post(t, t.Context(), "unread")
			r.Header.Set("How", "part")
			if _, text, err := p.ask(r); err != nil || text != "ok" {
				t.Errorf("after %s: %q, %v", how, text, err)
			}
		}
		before := p.dials.Load()
		p.mu.Lock()
		_ = p.last.Close()
		p.mu.Unlock()
		for end := time.Now().Add(patience); p.dials.Load() == before && time.Now().Before(end); {
			if _, text, err := p.ask(post(t, t.Context(), "x")); err != nil && p.dials.Load() == before {
				continue // its end has not arrived when the request is sent
			} else if err != nil || text != "ok" {
				t.Fatalf("%q, %v", text, err)
			}
		}
		if p.dials.Load() != before+1 {
			t.Errorf("%d connections, then %d", before, p.dials.Load())
		}
	})
}

// TestBadFrames: a connection whose bytes are no request ends, and nothing of them runs. Other connections go on.
func TestBadFrames(t *testing.T) {
	both(t, func(t *testing.T, encrypted bool) {
		var runs atomic.Int64
		p := newPair(t, encrypted, func(w http.ResponseWriter, r *http.Request) {
			runs.Add(1)
			<-r.Context().Done() // a client that sends before its answer has left
		})
		good, _ := appendRequest(nil, post(t, t.Context(), "")) // without its body
		end(good, 0)
		oversized := append([]byte{kindRequest, 0xff, 0xff, 0xff}, make([]byte, 64<<10)...)
		badTarget := slices.Concat([]byte{kindRequest, 0, 0, 0}, appendText(appendText(appendText(nil, "POST"), "no target"), "node"), []byte{0, 0})
		end(badTarget, 0)
		manyLines := slices.Concat([]byte{kindRequest, 0, 0, 0}, appendText(appendText(appendText(nil, "POST"), "/"), "node"), []byte{0xff, 0xff})
		end(manyLines, 0)
		longText := []byte{kindRequest, 0, 0, 3, 0xff, 0xff, 0x7f}
		for _, c := range []struct {
			what string
			sent []byte
			cut  bool // the client closes the connection after these bytes
		}{
			{"nothing", nil, true},
			{"a part of the begin", good[:3], true},
			{"a part of a request", good[:len(good)-1], true},
			{"an oversized frame", oversized, false},
			{"a response", append([]byte{kindWhole}, good[1:]...), false},
			{"an unknown kind", append([]byte{0xff}, good[1:]...), false},
			{"HTTP", []byte("POST /mcp HTTP/1.1\r\nHost: node\r\n\r\n"), false},
			{"an empty request", []byte{kindRequest, 0, 0, 0}, false},
			{"a bad target", badTarget, false},
			{"more lines than there are", manyLines, false},
			{"a text longer than the frame", longText, false},
		} {
			runs.Store(0)
			nc, err := p.dial(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			_ = nc.SetDeadline(time.Now().Add(patience))
			if c.sent != nil {
				_, _ = nc.Write(c.sent) // the server may have closed it after the first bytes
			}
			if c.cut {
				_ = nc.Close()
			}
			for buf := make([]byte, 512); err == nil; {
				var n int
				if n, err = nc.Read(buf); n > 0 {
					t.Errorf("%s is answered with %q", c.what, buf[:n])
				}
			}
			if errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("the connection stays after %s", c.what)
			}
			_ = nc.Close()
			if got := runs.Load(); got != 0 {
				t.Errorf("%s runs %d requests", c.what, got)
			}
		}
		// A second request before the answer to the first: the first is canceled, the second does not run.
		runs.Store(0)
		nc, err := p.dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		_ = nc.SetDeadline(time.Now().Add(patience))
		if _, err := nc.Write(good); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(patience); runs.Load() == 0 && time.Now().Before(end); time.Sleep(time.Millisecond) {
		}
		time.Sleep(2 * watchAfter)
		if _, err := nc.Write(good); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, nc); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error("the connection stays")
		}
		if got := runs.Load(); got != 1 {
			t.Errorf("%d requests have run", got)
		}
	})
}

// TestShutdown: exchanges that run end by themselves, or with the time for the shutdown. A request that comes afterwards
// does not run, and its client knows.
func TestShutdown(t *testing.T) {
	both(t, func(t *testing.T, encrypted bool) {
		began, goOn := make(chan struct{}, 2), make(chan struct{})
		p := newPair(t, encrypted, func(w http.ResponseWriter, r *http.Request) {
			began <- struct{}{}
			select {
			case <-goOn:
			case <-r.Context().Done():
			}
			_, _ = io.WriteString(w, "ok")
		})
		results := make(chan error, 1)
		go func() {
			_, text, err := p.ask(post(t, t.Context(), "x"))
			if err == nil && text != "ok" {
				err = errors.New(text)
			}
			results <- err
		}()
		<-began
		over := make(chan struct{})
		go func() {
			defer close(over)
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			p.server.Shutdown(ctx)
		}()
		for !p.server.ends() {
			time.Sleep(time.Millisecond)
		}
		close(goOn)
		if err := <-results; err != nil {
			t.Errorf("an exchange that ran: %v", err)
		}
		for range 2 { // the second one has a connection of its own
			if _, _, err := p.ask(post(t, t.Context(), "x")); !errors.Is(err, ErrNotSent) {
				t.Errorf("an exchange at a server that has ended: %v", err)
			}
		}
		<-over
	})
	t.Run("in time", func(t *testing.T) {
		began := make(chan struct{}, 1)
		p := newPair(t, true, func(w http.ResponseWriter, r *http.Request) {
			began <- struct{}{}
			<-r.Context().Done()
		})
		results := make(chan error, 1)
		go func() {
			_, _, err := p.ask(post(t, t.Context(), "x"))
			results <- err
		}()
		<-began
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		p.server.Shutdown(ctx)
		if err := <-results; err == nil || errors.Is(err, ErrNotSent) {
			t.Errorf("an exchange that was ended: %v", err)
		}
	})
	t.Run("a handler that does not end", func(t *testing.T) {
		began, end := make(chan struct{}), make(chan struct{})
		p := newPair(t, false, func(http.ResponseWriter, *http.Request) {
			close(began)
			<-end
		})
		defer close(end)
		results := make(chan error, 1)
		go func() {
			_, _, err := p.ask(post(t, t.Context(), "x"))
			results <- err
		}()
		<-began
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		over := make(chan struct{})
		go func() {
			defer close(over)
			p.server.Shutdown(ctx)
		}()
		select {
		case <-over:
		case <-time.After(patience):
			t.Error("the shutdown waits for it")
		}
		p.mu.Lock()
		_ = p.last.Close()
		p.mu.Unlock()
		if err := <-results; err == nil || errors.Is(err, ErrNotSent) {
			t.Errorf("its exchange: %v", err)
		}
	})
	t.Run("bye", func(t *testing.T) {
		p := newPair(t, true, func(w http.ResponseWriter, r *http.Request) {})
		if _, _, err := p.ask(post(t, t.Context(), "x")); err != nil {
			t.Fatal(err)
		}
		x := p.pop()
		over := make(chan struct{})
		go func() {
			defer close(over)
			p.server.Shutdown(context.Background())
		}()
		for !p.server.ends() {
			time.Sleep(time.Millisecond)
		}
		frame, err := encode(nil, post(t, t.Context(), "x"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := x.exchange(t.Context(), post(t, t.Context(), "x"), frame); !errors.Is(err, ErrNotSent) {
			t.Errorf("a request that was on its way: %v", err)
		}
		<-over
	})
}

// TestManyCallers: exchanges at the same time do not see one another.
func TestManyCallers(t *testing.T) {
	p := newPair(t, true, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for k := range 50 {
				want := strings.Repeat(fmt.Sprint(i), 10+500*k)
				if _, text, err := p.ask(post(t, t.Context(), want)); err != nil || text != want {
					t.Errorf("%.20q, %v", text, err)
				}
			}
		})
	}
	all.Wait()
	if n := p.dials.Load(); n > 8 {
		t.Errorf("%d connections", n)
	}
}

// TestSmall: everything that is no small POST, or waits for its client, is for HTTP.
func TestSmall(t *testing.T) {
	small := post(t, t.Context(), "x")
	if !isSmall(small) {
		t.Error("a small POST is not taken")
	}
	for name, change := range map[string]func(r *http.Request){
		"GET":     func(r *http.Request) { r.Method = http.MethodGet },
		"large":   func(r *http.Request) { r.ContentLength = MaxBody + 1 },
		"unknown": func(r *http.Request) { r.ContentLength = -1 },
		"slow":    func(r *http.Request) { r.GetBody = nil },
		"silent":  func(r *http.Request) { r.ContentLength, r.GetBody = 0, nil },
		"upgrade": func(r *http.Request) { r.Header.Set("Upgrade", "x") },
		"expect":  func(r *http.Request) { r.Header.Set("Expect", "100-continue") },
		"trailer": func(r *http.Request) { r.Trailer = http.Header{"A": nil} },
	} {
		r := post(t, t.Context(), "x")
		change(r)
		if isSmall(r) {
			t.Errorf("%s is taken", name)
		}
	}
	p := newPair(t, false, func(http.ResponseWriter, *http.Request) { t.Error("it runs") })
	r := post(t, t.Context(), "x")
	r.Header.Set("Long", strings.Repeat("x", maxFrame))
	if _, _, err := p.ask(r); !errors.Is(err, ErrNotSent) {
		t.Errorf("a header that is too long: %v", err)
	}
	r.Header = http.Header{"A": make([]string, maxHeaderLines+2)}
	if _, _, err := p.ask(r); !errors.Is(err, ErrNotSent) {
		t.Errorf("a header of too many lines: %v", err)
	}
}

// TestBodyEnds: the body of a request ends with its exchange. A goroutine of the handler that reads on does not see the
// next request.
func TestBodyEnds(t *testing.T) {
	bodies := make(chan io.Reader, 2)
	p := newPair(t, false, func(w http.ResponseWriter, r *http.Request) { bodies <- r.Body })
	for _, body := range []string{"one", "two"} {
		if _, _, err := p.ask(post(t, t.Context(), body)); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if text, err := io.ReadAll(<-bodies); len(text) > 0 || !errors.Is(err, http.ErrBodyReadAfterClose) {
			t.Errorf("after the exchange: %q, %v", text, err)
		}
	}
}

// TestWriteDeadline: another goroutine than the handler's ends a write that waits for the client, as a shutdown does.
func TestWriteDeadline(t *testing.T) {
	both(t, func(t *testing.T, encrypted bool) {
		writers, failed := make(chan http.ResponseWriter, 1), make(chan error, 1)
		p := newPair(t, encrypted, func(w http.ResponseWriter, r *http.Request) {
			writers <- w
			for {
				if _, err := w.Write(make([]byte, maxOut)); err != nil {
					failed <- err
					return
				}
			}
		})
		resp, err := p.RoundTrip(post(t, t.Context(), "x")) // its body is not read
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if err := http.NewResponseController(<-writers).SetWriteDeadline(time.Now()); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-failed:
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("the write ends with %v", err)
			}
		case <-time.After(patience):
			t.Error("the write goes on")
		}
	})
}

// FuzzHead: no frame breaks the reader, and what was written is read.
func FuzzHead(f *testing.F) {
	r := httptest.NewRequest(http.MethodPost, "/mcp?x", http.NoBody)
	r.Header = http.Header{"A": {"1", "2"}, "B": {""}}
	whole, _ := appendRequest(nil, r)
	f.Add(whole[frameHead:], true)
	f.Add([]byte{0, 200, 0, 1, 1, 'A', 1, 'b', 'x'}, false)
	f.Fuzz(func(t *testing.T, b []byte, request bool) {
		kind := byte(kindHead)
		if request {
			kind = kindRequest
		}
		var m memo
		h, rest, err := readHead(kind, b, &m)
		if err != nil {
			return
		}
		again, rest2, err := readHead(kind, b, &m)
		if err != nil || !bytes.Equal(rest, rest2) || !maps.EqualFunc(h.header, again.header, slices.Equal[[]string]) {
			t.Fatalf("%v is %v the second time, %v", h, again, err)
		}
		lines := 0
		for _, values := range h.header {
			lines += len(values)
		}
		if _, n := appendLines(nil, h.header); n != lines {
			t.Errorf("%d lines of %d", n, lines)
		}
	})
}
