//go:build unix

package hop

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/testkit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// base returns a transport as the router has it.
func base() *http.Transport {
	return &http.Transport{
		DialContext: (&net.Dialer{Timeout: 10 * time.Second}).DialContext, DisableCompression: true,
		MaxIdleConns: 8, MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute,
	}
}

func newTransport(t *testing.T, of *http.Transport) *Transport {
	t.Helper()
	tr := New(of)
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

func post(t *testing.T, ctx context.Context, url, text string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// answer is what a caller sees of a response, without the date.
type answer struct {
	Status   string
	Header   http.Header
	Length   int64
	Encoding []string
	Close    bool
	Body     string
	Trailer  http.Header
	Failed   bool
}

func ask(rt http.RoundTripper, req *http.Request) (answer, error) {
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return answer{Failed: true}, err
	}
	defer resp.Body.Close()
	resp.Header.Del("Date")
	text, err := io.ReadAll(resp.Body)
	return answer{resp.Status, resp.Header, resp.ContentLength, resp.TransferEncoding, resp.Close, string(text), resp.Trailer, err != nil}, err
}

// TestAsNetHTTP sends requests both ways. The server must see the same, and so must the caller.
func TestAsNetHTTP(t *testing.T) {
	var conns atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		seen, _ := json.Marshal(map[string]any{
			"method": r.Method, "uri": r.RequestURI, "host": r.Host, "header": r.Header, "length": r.ContentLength, "encoding": r.TransferEncoding,
		})
		w.Header().Set("X-Seen", string(seen))
		switch r.URL.Path {
		case "/chunked":
			w.Header().Set("Trailer", "X-Sum")
			for range 3 {
				fmt.Fprint(w, strings.Repeat("piece ", 1000))
				_ = http.NewResponseController(w).Flush()
			}
			w.Header().Set("X-Sum", "3")
		case "/204":
			w.WriteHeader(http.StatusNoContent)
		case "/304":
			w.WriteHeader(http.StatusNotModified)
		case "/hints":
			w.WriteHeader(http.StatusEarlyHints)
			fmt.Fprint(w, "after the hints")
		case "/close":
			w.Header().Set("Connection", "close")
			fmt.Fprint(w, "the last one")
		default:
			_, _ = w.Write(text)
		}
	}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			conns.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	ours, theirs := newTransport(t, base()), base()
	t.Cleanup(theirs.CloseIdleConnections)
	for _, c := range []struct {
		method, path, body string
		header             http.Header
		fails, elsewhere   bool
	}{
		{method: "POST", path: "/echo", body: "x"},
		{method: "POST", path: "/echo", body: strings.Repeat("small ", 1000)},
		{method: "POST", path: "/echo", body: strings.Repeat("large ", 100_000)},
		{method: "POST", path: "/echo"},
		{method: "PUT", path: "/echo?a=b&c=%20", body: "x", header: http.Header{"User-Agent": nil}},
		{method: "GET", path: "/echo", header: http.Header{"User-Agent": {"mine", "other"}}},
		{method: "GET", path: "", header: http.Header{"X-Two": {"a", "b"}, "X-Space": {"  c\t"}, "X-Empty": {""}, "X-None": {}, "X-Utf8": {"grün"}}},
		{method: "GET", path: "/echo", header: http.Header{"Content-Length": {"7"}, "Host": {"other"}, "x-lower": {"2"}}},
		{method: "", path: "/a%2fb/./c"},
		{method: "HEAD", path: "/echo"},
		{method: "HEAD", path: "/chunked"},
		{method: "DELETE", path: "/204"},
		{method: "GET", path: "/304"},
		{method: "GET", path: "/chunked"},
		{method: "GET", path: "/hints"},
		{method: "GET", path: "/close"},
		{method: "GET", path: "/echo", header: http.Header{"X-Line": {"a\r\nX-Smuggled: b"}}, fails: true, elsewhere: true},
		{method: "GET", path: "/echo", header: http.Header{"X Name": {"a"}}, fails: true, elsewhere: true},
		{method: "BAD METHOD", path: "/echo", fails: true, elsewhere: true},
		{method: "GET", path: "/grün", elsewhere: true},
		{method: "GET", path: "/echo?q=a b", elsewhere: true},
	} {
		request := func() *http.Request {
			req := post(t, t.Context(), server.URL+strings.ReplaceAll(c.path, " ", "+"), c.body)
			req.Method, req.URL.RawQuery = c.method, strings.ReplaceAll(req.URL.RawQuery, "+", " ")
			req.Header = c.header.Clone()
			if req.Header == nil {
				req.Header = http.Header{}
			}
			return req
		}
		want, werr := ask(theirs, request())
		got, gerr := ask(ours, request())
		if !reflect.DeepEqual(got, want) || (gerr != nil) != c.fails || (werr != nil) != c.fails {
			t.Errorf("%s %s %v:\ngot  %.300v %v\nwant %.300v %v", c.method, c.path, c.header, got, gerr, want, werr)
		}
	}
	// One of each way, and after /close and a head that lasted no longer another one of each.
	if n := conns.Load(); n > 6 {
		t.Errorf("%d connections", n)
	}
	for _, req := range []*http.Request{
		{Method: "GET", URL: post(t, t.Context(), server.URL, "").URL, Header: http.Header{"Connection": {"close"}}},
		{Method: "POST", URL: post(t, t.Context(), server.URL, "").URL, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("of unknown length")), ContentLength: -1},
	} {
		if got, err := ask(ours, req); err != nil || !strings.HasPrefix(got.Status, "200") {
			t.Errorf("a request for net/http: %v %v", got, err)
		}
	}
}

// raw answers each request on each connection with the next of its texts. After the last one it
// closes the connection, unless keep is set.
type raw struct {
	net.Listener
	conns, requests atomic.Int32
	wg              sync.WaitGroup
}

func serveRaw(t *testing.T, keep bool, texts ...string) *raw {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &raw{Listener: l}
	var open sync.Map
	s.wg.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			s.conns.Add(1)
			open.Store(nc, true)
			s.wg.Go(func() {
				defer nc.Close()
				in := bufio.NewReader(nc)
				for _, text := range texts {
					req, err := http.ReadRequest(in)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, req.Body)
					s.requests.Add(1)
					if _, err := io.WriteString(nc, text); err != nil {
						return
					}
				}
				if keep {
					_, _ = io.Copy(io.Discard, in)
				}
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		open.Range(func(nc, _ any) bool { nc.(net.Conn).Close(); return true })
		s.wg.Wait()
	})
	return s
}

func (s *raw) url() string { return "http://" + s.Addr().String() + "/mcp" }

// shapes are responses of a server that is broken or hostile. One of them that is followed by
// another request must not be taken for its answer.
var shapes = []struct {
	name, text string
	conns      int32 // after two requests
}{
	{"plain", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 1},
	{"lines without CR", "HTTP/1.1 200 OK\nContent-Length: 2\n\nok", 1},
	{"a folded header", "HTTP/1.1 200 OK\r\nX-A: b\r\n c\r\nContent-Length: 2\r\n\r\nok", 1},
	{"a length twice", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok", 1},
	{"two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok", 2},
	{"a length that is a list", "HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nok", 2},
	{"a signed length", "HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok", 2},
	{"a length and chunks", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", 1},
	{"an unknown coding", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", 2},
	{"bytes after the body", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", 2},
	{"bytes after no body", "HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", 2},
	{"bytes after the chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\nevil", 2},
	{"a chunk that is too long", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nokay\r\n0\r\n\r\n", 2},
	{"interim responses", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nX-A: b\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 1},
	{"HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", 2},
	{"no HTTP", "220 mail.example.com ESMTP\r\n\r\n", 2},
	{"another version", "HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\nok", 1},
	{"connection: close", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", 2},
	{"a head without a bound", "HTTP/1.1 200 OK\r\nX-A: " + strings.Repeat("a", 2<<20) + "\r\n\r\n", 2},
}

// TestShapes compares what callers see of broken responses with net/http, and how many connections
// two requests take.
func TestShapes(t *testing.T) {
	for _, c := range shapes {
		t.Run(c.name, func(t *testing.T) {
			s := serveRaw(t, true, c.text, c.text)
			of := base()
			of.MaxResponseHeaderBytes = 1 << 20
			ours := newTransport(t, of)
			for range 2 {
				theirs := base()
				theirs.MaxResponseHeaderBytes = 1 << 20
				want, werr := ask(theirs, post(t, t.Context(), s.url(), "{}"))
				theirs.CloseIdleConnections()
				s.conns.Store(s.conns.Load() - 1)
				got, gerr := ask(ours, post(t, t.Context(), s.url(), "{}"))
				if !reflect.DeepEqual(got, want) {
					t.Errorf("got %.200v %v\nwant %.200v %v", got, gerr, want, werr)
				}
			}
			if n := s.conns.Load(); n != c.conns {
				t.Errorf("%d connections for two requests, want %d", n, c.conns)
			}
		})
	}
}

// TestBreaksOff reads responses that end too early, and one that only its end ends.
func TestBreaksOff(t *testing.T) {
	for text, want := range map[string]error{
		"":             io.EOF,
		"HTTP/1.1 200": io.ErrUnexpectedEOF,
		"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf":               io.ErrUnexpectedEOF,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhalf": io.ErrUnexpectedEOF,
		"HTTP/1.1 200 OK\r\n\r\nall of it":                               nil,
	} {
		s := serveRaw(t, false, text)
		if got, err := ask(newTransport(t, base()), post(t, t.Context(), s.url(), "{}")); !errors.Is(err, want) || want == nil && got.Body != "all of it" {
			t.Errorf("%q: %v %v", text, got, err)
		}
		if n := s.requests.Load(); n != 1 {
			t.Errorf("%q: the server got %d requests", text, n)
		}
	}
}

// TestClosedConnections has a server close connections between and during requests.
func TestClosedConnections(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	t.Run("between requests", func(t *testing.T) {
		s := serveRaw(t, false, ok)
		ours := newTransport(t, base())
		for range 3 {
			if got, err := ask(ours, post(t, t.Context(), s.url(), "{}")); err != nil || got.Body != "ok" {
				t.Fatal(got, err)
			}
			for _, list := range ours.idle.conns { // until the end of the connection has arrived
				for len(list) > 0 && list[0].fresh() {
				}
			}
		}
	})
	for _, c := range []struct {
		method string
		key    string
		fails  bool
	}{{"POST", "", true}, {"POST", "once", false}, {"GET", "", false}} {
		t.Run(c.method+c.key+" during a request", func(t *testing.T) {
			s := serveRaw(t, false, ok, "")
			ours := newTransport(t, base())
			for i := range 2 {
				req := post(t, t.Context(), s.url(), "")
				req.Method = c.method
				if c.key != "" {
					req.Header.Set("Idempotency-Key", c.key)
				}
				if got, err := ask(ours, req); (err != nil) != (c.fails && i == 1) {
					t.Errorf("request %d: %v %v", i, got, err)
				}
			}
			if got, want := s.requests.Load(), int32(3); c.fails && got != 2 || !c.fails && got != want {
				t.Errorf("the server got %d requests", got)
			}
		})
	}
}

// TestCancel ends requests before the head and within the body, small and large.
func TestCancel(t *testing.T) {
	cause := errors.New("the caller has gone")
	for _, size := range []int{2, 4 << 20} {
		// A server that reads the head of a request alone.
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		ours := newTransport(t, base())
		for _, text := range []string{"", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"} {
			ctx, cancel := context.WithCancelCause(t.Context())
			accepted := make(chan net.Conn, 1)
			go func() {
				nc, err := l.Accept()
				if err != nil {
					accepted <- nil
					return
				}
				_, _ = nc.Read(make([]byte, 100))
				_, _ = io.WriteString(nc, text)
				accepted <- nc
				if text == "" {
					cancel(cause)
				}
			}()
			req := post(t, ctx, "http://"+l.Addr().String(), strings.Repeat("a", size))
			resp, err := ours.RoundTrip(req)
			if text != "" {
				if err != nil {
					t.Fatal(err)
				}
				four := make([]byte, 4)
				if _, err := io.ReadFull(resp.Body, four); err != nil || string(four) != "half" {
					t.Fatal(string(four), err)
				}
				cancel(cause)
				_, err = io.ReadAll(resp.Body)
				if !errors.Is(err, cause) {
					t.Errorf("%d bytes, in the body: %v", size, err)
				}
				resp.Body.Close()
			} else if !errors.Is(err, cause) {
				t.Errorf("%d bytes, before the head: %v", size, err)
			}
			nc := <-accepted
			if _, err := io.Copy(io.Discard, nc); err != nil && !errors.Is(err, syscall.ECONNRESET) {
				t.Error(err) // the connection was closed
			}
			nc.Close()
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		if _, err := ours.RoundTrip(post(t, ctx, "http://"+l.Addr().String(), "{}")); !errors.Is(err, cause) {
			t.Errorf("before the request: %v", err)
		}
	}
}

// TestCloseWhileReading closes a body while a Read waits for the server.
func TestCloseWhileReading(t *testing.T) {
	s := serveRaw(t, true, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")
	resp, err := newTransport(t, base()).RoundTrip(post(t, t.Context(), s.url(), "{}"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(resp.Body, make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { _, err := resp.Body.Read(make([]byte, 4)); done <- err }()
	resp.Body.Close()
	if err := <-done; !errors.Is(err, http.ErrBodyReadAfterClose) {
		t.Error(err)
	}
}

// TestEarlyResponse has a server answer before it has read the request, which never gets that far.
func TestEarlyResponse(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		http.Error(w, "too large", http.StatusRequestEntityTooLarge)
	}))
	t.Cleanup(server.Close)
	ours := newTransport(t, base())
	if got, err := ask(ours, post(t, t.Context(), server.URL, strings.Repeat("a", 16<<20))); err != nil || got.Body != "too large\n" {
		t.Error(got.Status, got.Body, err)
	}
	if ours.idle.count != 0 {
		t.Error("the connection is used again")
	}
}

// TestFailures checks the errors by which callers know what has happened.
func TestFailures(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free := "http://" + l.Addr().String()
	l.Close()
	of := base()
	of.ResponseHeaderTimeout = 10 * time.Millisecond
	ours := newTransport(t, of)
	var op *net.OpError
	if _, err := ours.RoundTrip(post(t, t.Context(), free, "{}")); !errors.Is(err, syscall.ECONNREFUSED) || !errors.As(err, &op) || op.Op != "dial" {
		t.Errorf("a closed port: %v", err)
	}
	s := serveRaw(t, true, "")
	var timeout net.Error
	if _, err := ours.RoundTrip(post(t, t.Context(), s.url(), "{}")); !errors.As(err, &timeout) || !timeout.Timeout() || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a silent server: %v", err)
	}
	for _, n := range []int64{1, 3} {
		req := post(t, t.Context(), s.url(), "{}")
		req.ContentLength = n
		if _, err := ours.RoundTrip(req); err == nil || !strings.Contains(err.Error(), "ContentLength") {
			t.Errorf("a body of 2 bytes and a length of %d: %v", n, err)
		}
	}
}

// TestPool checks the bounds of idle connections.
func TestPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pool{perHost: 2, total: 3, after: time.Minute}
		open := map[*conn]net.Conn{}
		idle := func(host string) *conn {
			here, there := net.Pipe()
			c := &conn{to: origin{"http", host}, nc: here}
			open[c] = there
			p.put(c)
			return c
		}
		closed := func(c *conn) bool {
			_ = open[c].SetReadDeadline(time.Now().Add(time.Millisecond))
			_, err := open[c].Read(make([]byte, 1))
			return errors.Is(err, io.EOF)
		}
		a1, a2 := idle("a"), idle("a")
		if a3 := idle("a"); !closed(a3) || closed(a1) || closed(a2) {
			t.Error("more than two connections to a host are idle")
		}
		time.Sleep(30 * time.Second)
		b1 := idle("b")
		if c1 := idle("c"); !closed(a1) || closed(a2) || closed(b1) || closed(c1) {
			t.Error("the bound of all hosts closes another one than the oldest")
		}
		if p.pop(origin{"http", "c"}) == nil || p.pop(origin{"http", "c"}) != nil {
			t.Error("the connection to c")
		}
		time.Sleep(31 * time.Second)
		synctest.Wait()
		if !closed(a2) || closed(b1) {
			t.Error("a connection was idle for more or less than a minute")
		}
		p.close()
		if late := idle("b"); !closed(b1) || !closed(late) || p.count != 0 {
			t.Error("a connection is idle after close")
		}
		if p.pop(origin{"http", "b"}) != nil {
			t.Error("a closed connection")
		}
		if again := idle("b"); closed(again) {
			t.Error("the pool stays closed")
		}
		p.close()
	})
}

// FuzzResponse compares what callers get of any bytes with net/http.
func FuzzResponse(f *testing.F) {
	for _, c := range shapes {
		f.Add([]byte(c.text[:min(len(c.text), 400)]))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		text = bytes.ReplaceAll(text, []byte(" 101"), []byte(" 200")) // net/http gives out the connection
		var results [2]answer
		for i := range results {
			of := base()
			var served sync.WaitGroup
			of.DialContext = func(context.Context, string, string) (net.Conn, error) {
				here, there := net.Pipe()
				served.Go(func() {
					defer there.Close()
					if req, err := http.ReadRequest(bufio.NewReader(there)); err == nil {
						_, _ = io.Copy(io.Discard, req.Body)
						_, _ = there.Write(text)
					}
				})
				return here, nil
			}
			var rt http.RoundTripper = of
			if i == 1 {
				rt = New(of)
			}
			results[i], _ = ask(rt, post(t, t.Context(), "http://mcp.example/mcp", "{}"))
			of.CloseIdleConnections()
			served.Wait()
		}
		if !reflect.DeepEqual(results[0], results[1]) {
			t.Errorf("net/http: %+v\nhop:      %+v", results[0], results[1])
		}
	})
}

// refusing is a connection that takes the head of a request, and fails the write of the body at a time.
type refusing struct {
	net.Conn
	fail chan struct{}
}

func (c *refusing) Write(p []byte) (int, error) {
	if len(p) < 16<<10 {
		return c.Conn.Write(p)
	}
	<-c.fail
	return 0, io.ErrClosedPipe
}

// TestSlowEarlyResponse: a server answers before it has read the request, and takes longer for the body
// of its answer than weir waits for the head of one.
func TestSlowEarlyResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		fail := make(chan struct{})
		go func() {
			_, _ = far.Read(make([]byte, 1<<10))
			_, _ = io.WriteString(far, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")
			close(fail)
			time.Sleep(time.Second)
			_, _ = io.WriteString(far, "world")
			far.Close()
		}()
		tr := New(&http.Transport{DisableCompression: true, DialContext: func(context.Context, string, string) (net.Conn, error) {
			return &refusing{near, fail}, nil
		}})
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://server.example/", bytes.NewReader(make([]byte, 1<<20)))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if b, err := io.ReadAll(resp.Body); string(b) != "helloworld" || err != nil {
			t.Errorf("%q, %v", b, err)
		}
	})
}

// countedBody is a body in memory that says how long it is.
type countedBody struct {
	*bytes.Reader
	writes, closes int
}

func (b *countedBody) WriteTo(w io.Writer) (int64, error) {
	b.writes++
	return b.Reader.WriteTo(w)
}

func (b *countedBody) Close() error {
	b.closes++
	return nil
}

// A body in memory is written as it is, but only if it has the announced length: more bytes would be
// the begin of another request.
func TestBodyInMemory(t *testing.T) {
	for _, size := range []int{oneWrite + 1, 3 * oneWrite} {
		for _, more := range []int{0, 1} {
			body := &countedBody{Reader: bytes.NewReader(make([]byte, size+more))}
			m := &message{buf: []byte("head"), rest: body, length: int64(size)}
			var wire bytes.Buffer
			w := m.write(&wire)
			if (w.err != nil) != (more > 0) || wire.Len() != len("head")+size || body.writes != 1-more || body.closes != 1 {
				t.Errorf("%d bytes and %d more: %v, %d written, %d at once, %d closed", size, more, w.err, wire.Len(), body.writes, body.closes)
			}
		}
	}
}
