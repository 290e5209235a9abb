package plane_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/arrow-go/v18/arrow/ipc"

	"github.com/weir-mcp/weir/internal/artifact"
	_ "github.com/weir-mcp/weir/s2sp/columnar" // the forms that are tested
	"github.com/weir-mcp/weir/s2sp/plane"
	"github.com/weir-mcp/weir/s2sp/table"
)

func serve(t testing.TB, tokens artifact.Tokens) (*httptest.Server, *http.Client) {
	t.Helper()
	server := httptest.NewServer(plane.Handler(tokens, plane.HandlerOptions{}))
	t.Cleanup(server.Close)
	return server, server.Client()
}

func deposit(t testing.TB, store artifact.Tokens, data string) string {
	t.Helper()
	tok, err := store.Deposit(t.Context(), "ann", "alerts", index(t, data, table.Options{}), 0)
	if err != nil {
		t.Fatal(err)
	}
	return tok.Value
}

func post(t testing.TB, client *http.Client, url, body, accept string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(data)
}

func TestFetchShapes(t *testing.T) {
	store := artifact.NewMemory(artifact.Options{})
	defer store.Close()
	server, client := serve(t, store)
	for _, c := range []struct{ name, request, accept, want string }{
		{"everything", ``, "", `{"body":[{"_row_id":0,"event":"Wind","severity":"Moderate","n":12345678901234567890},{"_row_id":1,"event":"Flood","text":"\ud83d\ude00","severity":null}],"total_rows":2,"columns_returned":["_row_id","event","severity","n","text"]}`},
		{"empty lists are everything", `{"row_ids":[],"columns":[]}`, "*/*", `{"body":[{"_row_id":0,"event":"Wind","severity":"Moderate","n":12345678901234567890},{"_row_id":1,"event":"Flood","text":"\ud83d\ude00","severity":null}],"total_rows":2,"columns_returned":["_row_id","event","severity","n","text"]}`},
		{"rows", `{"row_ids":[1,7,1]}`, "application/json", `{"body":[{"_row_id":1,"event":"Flood","text":"\ud83d\ude00","severity":null}],"total_rows":1,"columns_returned":["_row_id","event","severity","n","text"]}`},
		{"columns", `{"columns":["n","no such","_row_id"]}`, "", `{"body":[{"_row_id":0,"n":12345678901234567890},{"_row_id":1}],"total_rows":2,"columns_returned":["_row_id","n"]}`},
		{"both", `{"row_ids":[0],"columns":["event"]}`, "text/html, application/json;q=0.5", `{"body":[{"_row_id":0,"event":"Wind"}],"total_rows":1,"columns_returned":["_row_id","event"]}`},
		{"no such rows", `{"row_ids":[9]}`, "", `{"body":[],"total_rows":0,"columns_returned":["_row_id","event","severity","n","text"]}`},
		{"lines", `{"columns":["n"]}`, "application/x-ndjson", "{\"_row_id\":0,\"n\":12345678901234567890}\n{\"_row_id\":1}\n"},
	} {
		resp, got := post(t, client, server.URL+plane.Path+deposit(t, store, alerts), c.request, c.accept)
		if resp.StatusCode != 200 || got != c.want {
			t.Errorf("%s: %s\n got %s\nwant %s", c.name, resp.Status, got, c.want)
		}
		if want := map[bool]string{true: "application/x-ndjson", false: "application/json"}[c.name == "lines"]; resp.Header.Get("Content-Type") != want {
			t.Errorf("%s: %s", c.name, resp.Header.Get("Content-Type"))
		}
		if resp.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: may be cached", c.name)
		}
		if c.name != "lines" && resp.ContentLength != int64(len(c.want)) {
			t.Errorf("%s: length %d, want %d", c.name, resp.ContentLength, len(c.want))
		}
	}
	resp, got := post(t, client, server.URL+plane.Path+deposit(t, store, alerts), ``, "application/json;q=0.1, application/vnd.apache.arrow.stream")
	reader, err := ipc.NewReader(strings.NewReader(got))
	if err != nil {
		t.Fatalf("%s: %v", resp.Header.Get("Content-Type"), err)
	}
	defer reader.Release()
	if f := reader.Schema().Field(0); f.Name != "_row_id" || f.Type.Name() != "int64" {
		t.Errorf("first field %v", f)
	}
}

// Nothing is read for a token that nobody knows, so that a stranger's bytes fill
// no memory: the answer is there before the body is.
func TestUnknownTokenIsRefusedBeforeTheBody(t *testing.T) {
	store := artifact.NewMemory(artifact.Options{})
	defer store.Close()
	server, client := serve(t, store)
	spent := deposit(t, store, alerts)
	post(t, client, plane.URL(server.URL, spent), "", "")
	for name, head := range map[string]string{
		"large":   "Content-Length: 10000000\r\n\r\n{",
		"small":   "Content-Length: 100\r\n\r\n{",
		"chunked": "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
		"waiting": "Content-Length: 100\r\nExpect: 100-continue\r\n\r\n",
	} {
		for _, token := range []string{"x", spent} {
			conn, err := net.Dial("tcp", server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := fmt.Fprintf(conn, "POST %s%s HTTP/1.1\r\nHost: localhost\r\n%s", plane.Path, token, head); err != nil {
				t.Fatal(err)
			}
			_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if body, err := io.ReadAll(resp.Body); resp.StatusCode != http.StatusNotFound || string(body) != `{"error":"Unknown or expired resource"}` || err != nil {
				t.Errorf("%s: %s %s %v", name, resp.Status, body, err)
			}
			conn.Close()
		}
	}
}

// A refused request whose small body is there leaves its connection to the next one.
func TestRefusedFetchKeepsItsConnection(t *testing.T) {
	store := artifact.NewMemory(artifact.Options{})
	defer store.Close()
	server, _ := serve(t, store)
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	in := bufio.NewReader(conn)
	for range 3 {
		if _, err := fmt.Fprintf(conn, "POST %sx HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}", plane.Path); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(resp.Body); resp.StatusCode != http.StatusNotFound || resp.Close || err != nil {
			t.Fatalf("%s, the connection ends: %v, %v", resp.Status, resp.Close, err)
		}
	}
}

// A reader who wants to be told of what does not exist is told, and may ask again.
func TestStrictFetch(t *testing.T) {
	store := artifact.NewMemory(artifact.Options{})
	defer store.Close()
	server, client := serve(t, store)
	url := plane.URL(server.URL, deposit(t, store, alerts))
	ask := func(body, prefer string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Prefer", prefer)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		data, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(data)
	}
	for _, prefer := range []string{"handling=strict", `respond-async, Handling="strict"; x=1`} {
		if code, body := ask(`{"columns":["event","nope"]}`, prefer); code != http.StatusBadRequest || !strings.Contains(body, `no column \"nope\"; there are event`) {
			t.Errorf("a column: %d %s", code, body)
		}
	}
	if code, body := ask(`{"columns":["event","nope"],"row_ids":[0,7]}`, "handling=lenient"); code != http.StatusOK || !strings.Contains(body, `"columns_returned":["_row_id","event"]`) {
		t.Errorf("otherwise: %d %s", code, body)
	}
}

func TestFetchErrors(t *testing.T) {
	store := artifact.NewMemory(artifact.Options{})
	defer store.Close()
	server, client := serve(t, store)
	token := deposit(t, store, alerts)
	for _, body := range []string{`x`, `{"row_ids":`, `[1]`, `{"row_ids":"all"}`} {
		if resp, got := post(t, client, server.URL+plane.Path+token, body, ""); resp.StatusCode != 400 || !strings.HasPrefix(got, `{"error":"`) {
			t.Errorf("%s: %s %s", body, resp.Status, got)
		}
	}
	if resp, got := post(t, client, server.URL+plane.Path+token, `{"row_ids":["`+strings.Repeat("1", 11<<20)+`"]}`, ""); resp.StatusCode != 413 {
		t.Errorf("a large request: %s %s", resp.Status, got)
	}
	if resp, got := post(t, client, server.URL+plane.Path+token, ``, ""); resp.StatusCode != 200 {
		t.Errorf("bad requests spent the token: %s %s", resp.Status, got)
	}
	for _, wrong := range []string{token, "unknown", "", token + "/"} {
		resp, got := post(t, client, server.URL+plane.Path+wrong, `{}`, "")
		if resp.StatusCode != 404 || got != `{"error":"Unknown or expired resource"}` || resp.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %s %s", wrong, resp.Status, got)
		}
	}
	resp, err := client.Get(server.URL + "/s2sp/health")
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || string(data) != `{"status":"ok"}` || resp.StatusCode != 200 {
		t.Errorf("health: %s %s, %v", resp.Status, data, err)
	}
	resp, err = client.Get(server.URL + plane.Path + token)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 405 || resp.Header.Get("Allow") != "POST" || resp.Header.Get("Content-Type") != "application/json" {
		t.Errorf("GET of a resource: %s %v", resp.Status, resp.Header)
	}
	a, err := store.Put(t.Context(), "ann", "text/plain", "", []byte("no table"))
	if err != nil {
		t.Fatal(err)
	}
	tok, err := store.Offer(t.Context(), "ann", a.Handle, 0)
	if err != nil {
		t.Fatal(err)
	}
	if resp, _ := post(t, client, server.URL+plane.Path+tok.Value, ``, ""); resp.StatusCode != 500 {
		t.Errorf("no table: %s", resp.Status)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if resp, _ := post(t, client, server.URL+plane.Path+tok.Value, ``, ""); resp.StatusCode != 503 {
		t.Errorf("a closed store: %s", resp.Status)
	}
}

func TestOneOfAThousandFetches(t *testing.T) {
	store := artifact.NewMemory(artifact.Options{})
	defer store.Close()
	handler := plane.Handler(store, plane.HandlerOptions{})
	token := deposit(t, store, alerts)
	var ok, gone atomic.Int32
	var wg sync.WaitGroup
	start := make(chan struct{})
	for range 1000 {
		wg.Go(func() {
			<-start
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, plane.Path+token, strings.NewReader(`{}`)))
			switch w.Code {
			case 200:
				ok.Add(1)
			case 404:
				gone.Add(1)
			}
		})
	}
	close(start)
	wg.Wait()
	if ok.Load() != 1 || gone.Load() != 999 {
		t.Errorf("%d times 200 and %d times 404, want 1 and 999", ok.Load(), gone.Load())
	}
}

// patient is a store whose claims wait until their reader has gone.
type patient struct {
	*artifact.Local
	claimed chan struct{}
}

func (s *patient) Claim(ctx context.Context, token string) (*artifact.Claim, error) {
	c, err := s.Local.Claim(ctx, token)
	if err == nil {
		s.claimed <- struct{}{}
		<-ctx.Done()
	}
	return c, err
}

// A reader that goes away before the first byte leaves the token as it was.
func TestReaderGoesBeforeTheFirstByte(t *testing.T) {
	store := &patient{artifact.NewMemory(artifact.Options{}), make(chan struct{})}
	defer store.Close()
	server, client := serve(t, store)
	token := deposit(t, store, alerts)
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+plane.Path+token, strings.NewReader(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		resp, err := client.Do(req)
		if err == nil {
			resp.Body.Close()
		}
		ended <- err
	}()
	<-store.claimed
	if _, err := store.Local.Claim(t.Context(), token); !errors.Is(err, artifact.ErrToken) {
		t.Errorf("a token in use was claimed: %v", err)
	}
	cancel()
	if err := <-ended; err == nil {
		t.Fatal("the reader stayed")
	}
	server.Close() // waits for the handler
	c, err := store.Local.Claim(t.Context(), token)
	if err != nil {
		t.Fatalf("the token is gone: %v", err)
	}
	c.Close()
}

// failing takes so many bytes of a body and then fails.
type failing struct {
	*httptest.ResponseRecorder
	left int
}

func (f *failing) Write(p []byte) (int, error) {
	if len(p) <= f.left {
		f.left -= len(p)
		return f.ResponseRecorder.Write(p)
	}
	n := f.left
	f.left = 0
	f.ResponseRecorder.Write(p[:n])
	return n, errors.New("broken pipe")
}

func TestFirstByteSpends(t *testing.T) {
	store := artifact.NewMemory(artifact.Options{})
	defer store.Close()
	handler := plane.Handler(store, plane.HandlerOptions{})
	for _, taken := range []int{0, 1, 20} {
		token := deposit(t, store, alerts)
		func() {
			defer func() {
				if got := recover(); got != http.ErrAbortHandler {
					t.Errorf("after %d bytes: panic %v, want an abort", taken, got)
				}
			}()
			handler.ServeHTTP(&failing{httptest.NewRecorder(), taken}, httptest.NewRequest(http.MethodPost, plane.Path+token, nil))
		}()
		c, err := store.Claim(t.Context(), token)
		if (err == nil) != (taken == 0) {
			t.Errorf("after %d bytes the token gives %v", taken, err)
		}
		if err == nil {
			c.Close()
		}
	}
}

// buffering takes what is written as net/http does, and finds out that the
// connection is broken when it sends that on.
type buffering struct {
	*httptest.ResponseRecorder
	good int // flushes that succeed
}

func (b *buffering) FlushError() error {
	if b.good--; b.good < 0 {
		return errors.New("broken pipe")
	}
	return nil
}

// A small body fits into a buffer: that is not written yet.
func TestBufferedByteSpendsNothing(t *testing.T) {
	store := artifact.NewMemory(artifact.Options{})
	defer store.Close()
	handler := plane.Handler(store, plane.HandlerOptions{})
	for _, accept := range []string{plane.TypeJSON, plane.TypeNDJSON, plane.TypeArrow, "text/csv", "application/vnd.apache.parquet"} {
		for _, good := range []int{0, 1} { // the headers go first
			token := deposit(t, store, alerts)
			r := httptest.NewRequest(http.MethodPost, plane.Path+token, nil)
			r.Header.Set("Accept", accept)
			func() {
				defer func() {
					if got := recover(); got != http.ErrAbortHandler {
						t.Errorf("%s, %d flushes: panic %v, want an abort", accept, good, got)
					}
				}()
				handler.ServeHTTP(&buffering{httptest.NewRecorder(), good}, r)
			}()
			c, err := store.Claim(t.Context(), token)
			if err != nil {
				t.Errorf("%s, %d flushes: nothing has left, and the token gives %v", accept, good, err)
				continue
			}
			c.Close()
		}
	}
}

// leaving ends the request's context once the headers are out.
type leaving struct {
	http.ResponseWriter
	cancel func()
}

func (l *leaving) FlushError() error {
	defer l.cancel()
	return http.NewResponseController(l.ResponseWriter).Flush()
}

// An answer that breaks off before its first byte does not look like one without
// rows, and leaves the token as it was.
func TestAnswerThatBreaksOffIsNone(t *testing.T) {
	store := artifact.NewMemory(artifact.Options{})
	defer store.Close()
	handler := plane.Handler(store, plane.HandlerOptions{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		handler.ServeHTTP(&leaving{w, cancel}, r.WithContext(ctx))
	}))
	defer server.Close()
	for _, accept := range []string{plane.TypeJSON, plane.TypeNDJSON, plane.TypeArrow, "text/csv", "application/vnd.apache.parquet"} {
		token := deposit(t, store, alerts)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+plane.Path+token, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", accept)
		resp, err := server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err == nil {
			t.Errorf("%s: %s with %q", accept, resp.Status, data)
		}
		c, err := store.Claim(t.Context(), token)
		if err != nil {
			t.Errorf("%s: the token gives %v", accept, err)
			continue
		}
		c.Close()
	}
}

// An answer without rows is an answer, also where its body has no byte.
func TestEmptyAnswerSpends(t *testing.T) {
	store := artifact.NewMemory(artifact.Options{})
	defer store.Close()
	server, client := serve(t, store)
	for _, accept := range []string{plane.TypeJSON, plane.TypeNDJSON, plane.TypeArrow, "text/csv", "application/vnd.apache.parquet"} {
		url := server.URL + plane.Path + deposit(t, store, alerts)
		for _, want := range []int{200, 404} {
			if resp, got := post(t, client, url, `{"row_ids":[9]}`, accept); resp.StatusCode != want {
				t.Errorf("%s: %s %s, want %d", accept, resp.Status, got, want)
			}
		}
	}
}

// Expiry during a slow read does not cut it off.
func TestExpiryWhileReading(t *testing.T) {
	for name, dir := range map[string]string{"memory": "", "files": t.TempDir()} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, err := artifact.Open(artifact.Options{Dir: dir, MemoryBytes: 1 << 40 * int64(1-min(len(dir), 1)), TokenTTL: time.Minute})
				if err != nil {
					t.Fatal(err)
				}
				defer store.Close()
				var rows bytes.Buffer
				rows.WriteByte('[')
				for i := range 5000 {
					if i > 0 {
						rows.WriteByte(',')
					}
					fmt.Fprintf(&rows, `{"n":%d,"text":"%s"}`, i, strings.Repeat("x", 100))
				}
				rows.WriteByte(']')
				token := deposit(t, store, rows.String())
				handler := plane.Handler(store, plane.HandlerOptions{Stall: time.Hour})
				here, there := net.Pipe()
				server := &http.Server{Handler: handler}
				listener := &oneConn{conn: there, done: make(chan struct{})}
				ended := make(chan error, 1)
				go func() { ended <- server.Serve(listener) }()
				fmt.Fprintf(here, "POST %s%s HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", plane.Path, token)
				resp, err := http.ReadResponse(bufio.NewReader(here), nil)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				if got := store.Totals(); got.Count != 0 || got.Tokens != 0 {
					t.Errorf("after its time there are %+v", got)
				}
				data, err := io.ReadAll(resp.Body)
				if err != nil || !bytes.HasSuffix(data, []byte(`"columns_returned":["_row_id","n","text"]}`)) || bytes.Count(data, []byte("_row_id")) != 5001 {
					t.Errorf("%d bytes, %v", len(data), err)
				}
				here.Close()
				server.Close()
				<-ended
				synctest.Wait()
				if got := store.Totals(); got != (artifact.Totals{}) {
					t.Errorf("after the reader there are %+v", got)
				}
			})
		})
	}
}

// oneConn is a listener with one connection.
type oneConn struct {
	conn net.Conn
	once sync.Once
	done chan struct{}
}

func (l *oneConn) Accept() (net.Conn, error) {
	if c := l.conn; c != nil {
		l.conn = nil
		return c, nil
	}
	<-l.done
	return nil, net.ErrClosed
}

func (l *oneConn) Close() error   { l.once.Do(func() { close(l.done) }); return nil }
func (l *oneConn) Addr() net.Addr { return &net.TCPAddr{} }

func ExampleHandler() {
	store := artifact.NewMemory(artifact.Options{})
	defer store.Close()
	rows, err := table.Index([]byte(`[{"event":"Wind","text":"North winds"},{"event":"Flood","text":"Rain"}]`), table.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	token, err := store.Deposit(context.Background(), "ann", "alerts", rows, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	handler := plane.Handler(store, plane.HandlerOptions{})
	for range 2 {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("POST", plane.Path+token.Value, strings.NewReader(`{"row_ids":[0],"columns":["text"]}`)))
		fmt.Println(w.Code, w.Body)
	}
	// Output:
	// 200 {"body":[{"_row_id":0,"text":"North winds"}],"total_rows":1,"columns_returned":["_row_id","text"]}
	// 404 {"error":"Unknown or expired resource"}
}

// A reader that accepts no form that is there is told so, and spends nothing.
func TestFormsThatAreNotThere(t *testing.T) {
	store := artifact.NewMemory(artifact.Options{})
	defer store.Close()
	handler := plane.Handler(store, plane.HandlerOptions{})
	for _, c := range []struct {
		accept []string
		want   string // "" is 406
	}{
		{[]string{"text/html"}, ""},
		{[]string{"application/vnd.ms-excel, image/*;q=0.5"}, ""},
		{[]string{"text/csv"}, "text/csv"},
		{[]string{"text/*"}, "text/csv"},
		{[]string{"application/vnd.apache.parquet, text/*;q=0.5"}, "application/vnd.apache.parquet"},
		{[]string{"application/json;q=0"}, ""},
		{[]string{"text/html", "application/x-ndjson;q=0.1"}, plane.TypeNDJSON},
		{[]string{"text/html, */*;q=0.1"}, plane.TypeJSON},
		{[]string{"application/*"}, plane.TypeJSON},
		{[]string{"*/*"}, plane.TypeJSON},
		{[]string{""}, plane.TypeJSON},
		{[]string{"nonsense;;"}, plane.TypeJSON},
		{nil, plane.TypeJSON},
	} {
		token := deposit(t, store, alerts)
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, plane.Path+token, nil)
		r.Header["Accept"] = c.accept
		handler.ServeHTTP(w, r)
		if c.want != "" {
			if got := w.Header().Get("Content-Type"); w.Code != http.StatusOK || got != c.want {
				t.Errorf("%q: %d %s, want %s", c.accept, w.Code, got, c.want)
			}
			continue
		}
		if w.Code != http.StatusNotAcceptable || !strings.Contains(w.Body.String(), plane.TypeArrow) {
			t.Errorf("%q: %d %s", c.accept, w.Code, w.Body)
		}
		claim, err := store.Claim(t.Context(), token)
		if err != nil {
			t.Errorf("%q spent the token: %v", c.accept, err)
			continue
		}
		claim.Close()
	}
}
