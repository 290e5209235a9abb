package guard_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/internal/testkit/leak"
	"github.com/weir-mcp/weir/mcp"
)

func TestMain(m *testing.M) { leak.Main(m) }

var (
	loopback = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8088}
	lan      = &net.TCPAddr{IP: net.IPv4(10, 0, 0, 7), Port: 8088}
)

// serve sends one request through a Guard and returns the answer; the handler
// behind it tells the principal.
func serve(o guard.Options, local net.Addr, method, host string, header ...string) *http.Response {
	r := httptest.NewRequest(method, "/mcp", nil)
	r.Host = host
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	if local != nil {
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, local))
	}
	w := httptest.NewRecorder()
	guard.New(o).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, guard.Principal(r.Context()))
	})).ServeHTTP(w, r)
	return w.Result()
}

func TestHost(t *testing.T) {
	named := guard.Options{Hosts: []string{"Weir.example.com", "weir.test:9"}}
	tests := []struct {
		name   string
		opts   guard.Options
		local  net.Addr
		host   string
		status int
	}{
		{"loopback address", guard.Options{}, loopback, "127.0.0.1:8088", 200},
		{"another loopback address", guard.Options{}, loopback, "127.1.2.3", 200},
		{"localhost", guard.Options{}, loopback, "LocalHost:8088", 200},
		{"localhost with a dot", guard.Options{}, loopback, "localhost.", 200},
		{"below localhost", guard.Options{}, loopback, "weir.localhost:8088", 200},
		{"IPv6 loopback", guard.Options{}, loopback, "[::1]:8088", 200},
		{"IPv6 loopback without port", guard.Options{}, loopback, "[::1]", 200},
		{"rebound name", guard.Options{}, loopback, "evil.example.com:8088", 403},
		{"name that only starts well", guard.Options{}, loopback, "localhost.evil.example.com", 403},
		{"address that only starts well", guard.Options{}, loopback, "127.0.0.1.evil.example.com", 403},
		{"unspecified address", guard.Options{}, loopback, "0.0.0.0:8088", 403},
		{"no host", guard.Options{}, loopback, "", 403},
		{"configured name", named, loopback, "weir.example.com:443", 200},
		{"configured name and port", named, loopback, "weir.test:9", 200},
		{"configured name, other port", named, loopback, "weir.test:10", 403},
		{"unknown local address counts as loopback", guard.Options{}, nil, "evil.example.com", 403},
		{"open listener, no names configured", guard.Options{}, lan, "whatever.example.com", 200},
		{"open listener, other name", named, lan, "evil.example.com", 403},
		{"open listener, configured name", named, lan, "weir.example.com", 200},
		{"open listener, its own address", named, lan, "10.0.0.7:8088", 200},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := serve(test.opts, test.local, "POST", test.host); got.StatusCode != test.status {
				t.Errorf("status = %d, want %d", got.StatusCode, test.status)
			}
		})
	}
}

func TestOrigin(t *testing.T) {
	app := guard.Options{Origins: []string{"https://App.example.com/"}}
	tests := []struct {
		name, origin string
		opts         guard.Options
		status       int
		credentials  string
	}{
		{"same host", "http://127.0.0.1:8088", guard.Options{}, 200, "true"},
		{"loopback, other port", "http://localhost:3000", guard.Options{}, 200, "true"},
		{"foreign", "https://evil.example.com", guard.Options{}, 403, ""},
		{"foreign that looks local", "http://localhost.evil.example.com", guard.Options{}, 403, ""},
		{"null", "null", guard.Options{}, 403, ""},
		{"no web page", "file://localhost", guard.Options{}, 403, ""},
		{"configured", "https://app.example.com", app, 200, "true"},
		{"configured host, other scheme", "http://app.example.com", app, 403, ""},
		{"configured host, other port", "https://app.example.com:444", app, 403, ""},
		{"any", "https://evil.example.com", guard.Options{Origins: []string{"*"}}, 200, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := serve(test.opts, loopback, "POST", "127.0.0.1:8088", "Origin", test.origin)
			if got.StatusCode != test.status {
				t.Errorf("status = %d, want %d", got.StatusCode, test.status)
			}
			allow := ""
			if test.status == 200 {
				allow = test.origin
			}
			if h := got.Header.Get("Access-Control-Allow-Origin"); h != allow {
				t.Errorf("Access-Control-Allow-Origin = %q, want %q", h, allow)
			}
			if h := got.Header.Get("Access-Control-Allow-Credentials"); h != test.credentials {
				t.Errorf("Access-Control-Allow-Credentials = %q, want %q", h, test.credentials)
			}
			if allow != "" && (!strings.Contains(got.Header.Get("Access-Control-Expose-Headers"), "Mcp-Session-Id") || got.Header.Get("Vary") != "Origin") {
				t.Errorf("headers = %v", got.Header)
			}
		})
	}
}

// TestRefusalsNameTheKey: who reads a refusal learns which list to change.
func TestRefusalsNameTheKey(t *testing.T) {
	o := guard.Options{HostsKey: "http.allowed_hosts", OriginsKey: "http.allowed_origins"}
	named := o
	named.Hosts = []string{"weir.test"}
	for _, c := range []struct {
		opts   guard.Options
		local  net.Addr
		host   string
		origin string
		want   string
	}{
		{o, loopback, "evil.example", "", "add it to http.allowed_hosts"},
		{named, lan, "evil.example", "", "add it to http.allowed_hosts"},
		{o, loopback, "localhost", "https://evil.example", "add it to http.allowed_origins"},
		{guard.Options{}, loopback, "evil.example", "", "add it to the allowed hosts"},
	} {
		resp := serve(c.opts, c.local, "POST", c.host, "Origin", c.origin)
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusForbidden || !strings.Contains(string(body), c.want) {
			t.Errorf("%s, %s: %d %s, %v; want %q", c.host, c.origin, resp.StatusCode, body, err, c.want)
		}
	}
}

// TestTwoHeaders: of two tokens or origins, neither is taken.
func TestTwoHeaders(t *testing.T) {
	for _, name := range []string{"Authorization", "Origin"} {
		r := httptest.NewRequest("POST", "/mcp", nil)
		r.Host = "localhost"
		r.Header[name] = []string{"http://localhost", "https://evil.example"}
		w := httptest.NewRecorder()
		guard.New(guard.Options{}).Wrap(http.NotFoundHandler()).ServeHTTP(w, r)
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "2 "+name+" headers") {
			t.Errorf("two %s: %d %s", name, w.Code, w.Body)
		}
	}
}

func TestBrowserRequestsWithoutOrigin(t *testing.T) {
	for mode, want := range map[string]int{"no-cors": 403, "navigate": 200} {
		got := serve(guard.Options{}, loopback, "GET", "localhost:8088", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", mode)
		if got.StatusCode != want {
			t.Errorf("mode %s: status = %d, want %d", mode, got.StatusCode, want)
		}
	}
}

func TestPreflight(t *testing.T) {
	deny := guard.Options{Authenticate: guard.ByName(func(string) (string, bool) { return "", false })}
	got := serve(deny, loopback, "OPTIONS", "localhost:8088", "Origin", "http://localhost:3000",
		"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "mcp-param-city, content-type",
		"Access-Control-Request-Private-Network", "true")
	want := map[string]string{
		"Access-Control-Allow-Origin":          "http://localhost:3000",
		"Access-Control-Allow-Methods":         "GET, POST, DELETE, OPTIONS",
		"Access-Control-Allow-Headers":         "mcp-param-city, content-type",
		"Access-Control-Allow-Private-Network": "true",
	}
	if got.StatusCode != 204 {
		t.Errorf("status = %d, want 204: a preflight bears no token", got.StatusCode)
	}
	for k, v := range want {
		if got.Header.Get(k) != v {
			t.Errorf("%s = %q, want %q", k, got.Header.Get(k), v)
		}
	}
	if got := serve(deny, loopback, "OPTIONS", "localhost:8088", "Origin", "https://evil.example.com", "Access-Control-Request-Method", "POST"); got.StatusCode != 403 {
		t.Errorf("foreign preflight: status = %d, want 403", got.StatusCode)
	}
	if got := serve(deny, loopback, "OPTIONS", "localhost:8088"); got.StatusCode != 401 {
		t.Errorf("OPTIONS that is no preflight: status = %d, want 401", got.StatusCode)
	}
}

func TestBearer(t *testing.T) {
	one := guard.Options{Realm: `we"ir`, Authenticate: guard.ByName(func(b string) (string, bool) { return "ann", b == "s3cret" })}
	tests := []struct {
		name, authorization string
		status              int
		challenge           string
	}{
		{"known", "Bearer s3cret", 200, ""},
		{"scheme in any case", "bEARER  s3cret ", 200, ""},
		{"unknown", "Bearer other", 401, `Bearer realm="weir", error="invalid_token"`},
		{"missing", "", 401, `Bearer realm="weir"`},
		{"empty", "Bearer ", 401, `Bearer realm="weir"`},
		{"other scheme", "Basic s3cret", 401, `Bearer realm="weir"`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := serve(one, loopback, "POST", "localhost", "Authorization", test.authorization)
			body, _ := io.ReadAll(got.Body)
			if got.StatusCode != test.status || got.Header.Get("WWW-Authenticate") != test.challenge {
				t.Errorf("status = %d, WWW-Authenticate = %q", got.StatusCode, got.Header.Get("WWW-Authenticate"))
			}
			if test.status == 200 {
				if string(body) != "ann" {
					t.Errorf("principal = %q, want ann", body)
				}
				return
			}
			if strings.Contains(string(body), "other") {
				t.Errorf("the answer repeats the token: %s", body)
			}
			if code := rawjson.GetPath(body, "error", "code"); string(code) != "-32001" || string(rawjson.Get(body, "id")) != "null" {
				t.Errorf("body = %s, want a JSON-RPC error -32001 with id null", body)
			}
		})
	}
	if got := serve(guard.Options{}, loopback, "POST", "localhost"); got.StatusCode != 200 {
		t.Errorf("without authentication: status = %d", got.StatusCode)
	} else if body, _ := io.ReadAll(got.Body); string(body) != mcp.LocalPrincipal {
		t.Errorf("without authentication: principal = %q", body)
	}
}

func TestReadBody(t *testing.T) {
	tests := []struct {
		name    string
		body    io.Reader
		length  int64
		limit   int64
		want    string
		wantErr mcp.Kind
	}{
		{"with length", strings.NewReader("hello"), 5, 5, "hello", 0},
		{"chunked", strings.NewReader("hello"), -1, 5, "hello", 0},
		{"byte by byte", iotest.OneByteReader(strings.NewReader(strings.Repeat("x", 700))), -1, 1000, strings.Repeat("x", 700), 0},
		{"larger than the first buffer", strings.NewReader(strings.Repeat("y", 600<<10)), 600 << 10, 1 << 20, strings.Repeat("y", 600<<10), 0},
		{"announced too large", strings.NewReader("hello!"), 6, 5, "", mcp.KindTooLarge},
		{"turns out too large", strings.NewReader("hello!"), -1, 5, "", mcp.KindTooLarge},
		{"breaks off", io.MultiReader(strings.NewReader("he"), iotest.ErrReader(io.ErrUnexpectedEOF)), 5, 5, "", mcp.KindInvalidRequest},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := httptest.NewRequest("POST", "/", test.body)
			r.ContentLength = test.length
			w := httptest.NewRecorder()
			got, err := guard.ReadBody(w, r, test.limit, nil, nil)
			if test.wantErr == 0 {
				if err != nil || string(got) != test.want {
					t.Fatalf("got %d bytes, %v; want %d bytes", len(got), err, len(test.want))
				}
				return
			}
			var e *mcp.Error
			if !errors.As(err, &e) || e.Kind != test.wantErr {
				t.Fatalf("err = %v, want kind %v", err, test.wantErr)
			}
			if w.Header().Get("Connection") != "close" {
				t.Error("the connection stays open in the middle of a body")
			}
		})
	}
	if got, err := guard.ReadBody(httptest.NewRecorder(), httptest.NewRequest("POST", "/", nil), 5, nil, nil); err != nil || len(got) != 0 {
		t.Errorf("no body: %q, %v", got, err)
	}
}

// A client that writes its whole request before it reads anything must learn why it was
// refused: where the connection closed on unread bytes, it would see a broken pipe.
func TestReadBodyTooLargeIsAnswered(t *testing.T) {
	const limit = 1 << 20
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := guard.ReadBody(w, r, limit, nil, nil); err != nil {
			guard.WriteError(w, http.StatusRequestEntityTooLarge, "", err)
		}
	}))
	defer server.Close()
	body := strings.Repeat("x", 8<<20) // more than the buffers of a connection
	for _, test := range []struct{ name, head, tail string }{
		{"announced", fmt.Sprintf("Content-Length: %d\r\n\r\n", len(body)), ""},
		{"chunked", fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n", len(body)), "\r\n0\r\n\r\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			conn, err := net.Dial("tcp", server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: localhost\r\n"+test.head+body+test.tail); err != nil {
				t.Fatalf("writing the request: %v", err)
			}
			answer, err := io.ReadAll(conn)
			if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 413 ") {
				t.Fatalf("read %.100q, %v; want the status 413 and the end of the connection", answer, err)
			}
		})
	}
}

// Who asks first whether to send is told before it has sent anything.
func TestReadBodyTooLargeIsNotAskedFor(t *testing.T) {
	r := httptest.NewRequest("POST", "/", iotest.ErrReader(errors.New("the body was read")))
	r.ContentLength = 6
	r.Header.Set("Expect", "100-continue")
	_, err := guard.ReadBody(httptest.NewRecorder(), r, 5, nil, nil)
	if k, _ := mcp.KindOf(err); k != mcp.KindTooLarge {
		t.Errorf("err = %v, want kind %v", err, mcp.KindTooLarge)
	}
}

// A server for this machine and one web application, whose callers bear a token.
// A stranger is refused while the body is still to come.
func TestRefusalDoesNotWaitForTheBody(t *testing.T) {
	g := guard.New(guard.Options{Authenticate: guard.ByName(func(string) (string, bool) { return "", false })})
	server := httptest.NewServer(g.Wrap(http.NotFoundHandler()))
	defer server.Close()
	for _, head := range []string{"Content-Length: 100000\r\n\r\n{", "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n"} {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: localhost\r\n%s", head); err != nil {
			t.Fatal(err)
		}
		_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%q: %v", head, err)
		}
		if resp.Body.Close(); resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("%q: %s", head, resp.Status)
		}
	}
}

// A refusal has the id of its request, wherever it stands, and the connection can
// be used again. It does not wait for an id that does not come.
func TestRefusalsHaveTheirID(t *testing.T) {
	g := guard.New(guard.Options{Authenticate: guard.ByName(func(string) (string, bool) { return "", false })})
	server := httptest.NewServer(g.Wrap(http.NotFoundHandler()))
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	answers := bufio.NewReader(conn)
	ask := func(method, header, body string) (status int, answer string, last bool) {
		t.Helper()
		if _, err := fmt.Fprintf(conn, "%s /mcp HTTP/1.1\r\nHost: localhost\r\n%s\r\n%s", method, header, body); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text), resp.Close
	}
	call := func(id string) string {
		return `{"method":"tools/call","params":{"id":3},"jsonrpc":"2.0","id":` + id + `}`
	}
	length := func(n int) string { return fmt.Sprintf("Content-Length: %d\r\n", n) }
	for _, test := range []struct{ method, header, body, want string }{
		{"POST", length(len(call("7"))), call("7"), `"id":7,`},
		{"POST", "Transfer-Encoding: chunked\r\n", fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(call(`"a"`)), call(`"a"`)), `"id":"a",`},
		{"POST", length(len(call("8"))) + "Origin: https://evil.example\r\n", call("8"), `"id":8,`},
		{"POST", length(0), "", `"id":null,`},
		{"GET", "", "", `"id":null,`},
		{"POST", length(12), `{"result":7}`, `"id":null,`},
		// The last one on this connection: half a body.
		{"POST", length(100), `{"id":9,"method":"x","a":`, `"id":9,`},
	} {
		status, answer, last := ask(test.method, test.header, test.body)
		if status != 401 && status != 403 || !strings.Contains(answer, test.want) {
			t.Errorf("%s %q %q: %d %s, want %s", test.method, test.header, test.body, status, answer, test.want)
		}
		if last != strings.Contains(test.header, "100") && !strings.Contains(test.header, "chunked") {
			t.Errorf("%s %q: the connection ends: %v", test.method, test.header, last)
		}
		if last && strings.Contains(test.header, "chunked") {
			conn.Close()
			if conn, err = net.Dial("tcp", server.Listener.Addr().String()); err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			answers.Reset(conn)
		}
	}
}

// The id of a body that is too large may stand anywhere in it.
func TestTooLargeHasItsID(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	for body, want := range map[string]string{
		`{"id":1,"method":"m","params":"` + long + `"}`: "1",
		`{"method":"m","params":"` + long + `","id":2}`: "2",
		`{"method":"m","params":"` + long + `"}`:        "",
		long:                                            "",
	} {
		for _, announced := range []bool{true, false} {
			r := httptest.NewRequest("POST", "/", strings.NewReader(body))
			if !announced {
				r.ContentLength = -1
			}
			_, err := guard.ReadBody(httptest.NewRecorder(), r, 50_000, nil, nil)
			if k, _ := mcp.KindOf(err); k != mcp.KindTooLarge || string(guard.RequestID(err)) != want {
				t.Errorf("%.40s, announced %v: %v with the id %q, want %q", body, announced, err, guard.RequestID(err), want)
			}
		}
	}
	if id := guard.RequestID(mcp.Errorf(mcp.KindParse, "x")); id != "" {
		t.Errorf("another error has the id %q", id)
	}
}

func ExampleGuard() {
	g := guard.New(guard.Options{
		Origins:      []string{"https://app.example.com"},
		Authenticate: guard.ByName(func(bearer string) (string, bool) { return "ann", bearer == "s3cret" }),
	})
	server := httptest.NewServer(g.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "hello %s", guard.Principal(r.Context()))
	})))
	defer server.Close()

	req, err := http.NewRequest("GET", server.URL, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	req.Header.Set("Authorization", "Bearer s3cret")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	fmt.Printf("%s\n", body)
	// Output: hello ann
}

// Bodies are counted. What finds no room is refused with the id of its request.
func TestReadBodyCounts(t *testing.T) {
	pool := memory.NewPool(memory.Options{Limit: 4 << 20, Wait: time.Millisecond})
	body := `{"jsonrpc":"2.0","id":7,"method":"x","params":"` + strings.Repeat("x", 1<<20) + `"}`
	read := func() (*memory.Hold, error) {
		hold := pool.Hold("principal ", "ann")
		got, err := guard.ReadBody(httptest.NewRecorder(), httptest.NewRequest("POST", "/", strings.NewReader(body)), 2<<20, nil, &hold)
		if err == nil && string(got) != body {
			t.Errorf("%d bytes came", len(got))
		}
		return &hold, err
	}
	first, err := read()
	if u := pool.Usage(); err != nil || u.Memory < 1<<20 {
		t.Fatalf("%v, held is %+v", err, u)
	}
	second, err := read() // over the half of the limit that one principal has
	if k, _ := mcp.KindOf(err); k != mcp.KindMemory || guard.RequestID(err) != "7" {
		t.Errorf("%v of request %q", err, guard.RequestID(err))
	}
	second.Release()
	first.Release()
	if u := pool.Usage(); u.Memory != 0 {
		t.Errorf("in the end there is %+v", u)
	}
}

// TestCheckHostAllocates keeps a check that each request passes free of garbage.
func TestCheckHostAllocates(t *testing.T) {
	g := guard.New(guard.Options{})
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:8080/mcp", nil)
	local := net.Addr(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080})
	r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, local))
	if n := testing.AllocsPerRun(100, func() {
		if err := g.CheckHost(r); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("CheckHost allocates %v times", n)
	}
}
