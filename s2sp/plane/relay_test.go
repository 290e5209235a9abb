package plane_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/ipc"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/s2sp/plane"
)

// behind is a data plane whose rows are at another one.
type behind struct {
	*httptest.Server
	store   *artifact.Local
	asked   atomic.Pointer[string] // what the other one was asked for last
	fetches atomic.Int32
	from    string // the other one
}

func relaying(t testing.TB, opts artifact.Options, there http.Handler) *behind {
	t.Helper()
	b := &behind{store: artifact.NewMemory(opts)}
	t.Cleanup(func() { b.store.Close() })
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		asked := string(body)
		b.asked.Store(&asked)
		b.fetches.Add(1)
		r.Body = io.NopCloser(strings.NewReader(asked))
		there.ServeHTTP(w, r)
	}))
	t.Cleanup(other.Close)
	b.from = other.URL
	b.Server = httptest.NewServer(plane.Handler(b.store, plane.HandlerOptions{}))
	t.Cleanup(b.Server.Close)
	return b
}

// url makes a resource_url of the first plane for one of the other.
func (b *behind) url(t testing.TB, token string, columns ...string) string {
	t.Helper()
	f := fetcher(t, plane.FetchOptions{Allow: []string{strings.TrimPrefix(b.from, "http://")}, Timeout: 10 * time.Second})
	tok, err := b.store.DepositSource(t.Context(), "ann", "weather:list", &plane.Relay{Fetcher: f, URL: plane.URL(b.from, token), Columns: columns}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return plane.URL(b.URL, tok.Value)
}

func say(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, body) }
}

// What a reader asks for goes on to where the rows are, and the answer is the one
// that comes from there.
func TestRelayPassesOn(t *testing.T) {
	there := artifact.NewMemory(artifact.Options{})
	defer there.Close()
	b := relaying(t, artifact.Options{}, plane.Handler(there, plane.HandlerOptions{}))
	for _, request := range []string{`{}`, `{"row_ids":[1]}`, `{"columns":["text","event"]}`, `{"row_ids":[1,0,7],"columns":["n"]}`, `{"row_ids":[9]}`} {
		for _, accept := range []string{plane.TypeJSON, plane.TypeNDJSON} {
			_, want := post(t, b.Client(), plane.URL(b.from, deposit(t, there, alerts)), request, accept)
			url := b.url(t, deposit(t, there, alerts))
			resp, got := post(t, b.Client(), url, request, accept)
			if resp.StatusCode != 200 || got != want || resp.Header.Get("Content-Type") != accept || !strings.Contains(*b.asked.Load(), strings.TrimSuffix(request, "}")) {
				t.Errorf("%s as %s:\n got %s\nwant %s\nasked %s", request, accept, got, want, *b.asked.Load())
			}
			if resp, _ := post(t, b.Client(), url, request, accept); resp.StatusCode != 404 {
				t.Errorf("%s as %s: twice: %s", request, accept, resp.Status)
			}
		}
	}
	resp, err := b.Client().Do(arrowRequest(t, b.url(t, deposit(t, there, alerts))))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	r, err := ipc.NewReader(resp.Body)
	if err != nil || !r.Next() || r.RecordBatch().NumRows() != 2 {
		t.Errorf("arrow: %s, %v", resp.Status, err)
	}
	if got := b.store.Totals(); got != (artifact.Totals{}) {
		t.Errorf("left %+v", got)
	}
}

func arrowRequest(t *testing.T, url string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", plane.TypeArrow)
	return req
}

// A server that sends more than it was asked for, in another order, or rows
// without a number, is put right.
func TestRelaySelectsItself(t *testing.T) {
	b := relaying(t, artifact.Options{}, say(` { "total_rows": 9, "columns_returned":["v","_row_id"],
 "body" : [ {"v":1, "w":"x","_row_id":0} , {"v":NaN,"_row_id":1},{"v":3},{"_row_id":null,"v":4},{"v":5,"_row_id":4} ] }`))
	for request, want := range map[string]string{
		`{}`: `{"body":[{"_row_id":0,"v":1,"w":"x"},{"_row_id":1,"v":null},{"_row_id":4,"v":5}],"total_rows":3,"columns_returned":["_row_id","v","w"]}`,
		`{"row_ids":[4,0,2],"columns":["w","v"]}`: `{"body":[{"_row_id":0,"w":"x","v":1},{"_row_id":4,"v":5}],"total_rows":2,"columns_returned":["_row_id","w","v"]}`,
	} {
		if resp, got := post(t, b.Client(), b.url(t, "x"), request, ""); resp.StatusCode != 200 || got != want {
			t.Errorf("%s: %s\n got %s\nwant %s", request, resp.Status, got, want)
		}
	}
}

// Of what fails, the reader gets the reason, and the token stays where another
// try may help.
func TestRelayFails(t *testing.T) {
	fail := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			io.WriteString(w, body)
		}
	}
	for name, c := range map[string]struct {
		there  http.Handler
		status int
		says   string
		stays  bool
	}{
		"busy":             {fail(503, `{"error":"reading\nthe disk"}`), 503, "weather:list: fetching the resource failed: 127.0.0.1:", true},
		"its reason":       {fail(503, `{"error":"reading\nthe disk"}`), 503, "status 503: reading the disk", true},
		"no reason":        {fail(503, `busy`), 503, "status 503", true},
		"broken":           {fail(500, `{"error":"NaN"}`), 502, "status 500: NaN", true},
		"gone":             {fail(404, `{"error":"x"}`), 404, "Unknown or expired resource", false},
		"no answer":        {say(`<html>`), 502, "no S2SP body", true},
		"a broken row":     {say(`{"body":[{"_row_id":0,"a":}]}`), 502, "no table", true},
		"nothing":          {say(``), 502, "ends early", true},
		"a redirect":       {http.RedirectHandler("http://127.0.0.1:1/", http.StatusTemporaryRedirect), 502, "redirect", true},
		"an unknown name":  {fail(400, `{"error":"there is no column \"x\""}`), 400, `there is no column \"x\"`, true},
		"breaks off early": {http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }), 503, "weather:list", true},
	} {
		b := relaying(t, artifact.Options{}, c.there)
		url := b.url(t, "x")
		resp, got := post(t, b.Client(), url, `{}`, "")
		if resp.StatusCode != c.status || !strings.Contains(got, c.says) || rawjson.Get([]byte(got), "error") == nil {
			t.Errorf("%s: %s %s, want %d with %q", name, resp.Status, got, c.status, c.says)
		}
		if got := b.store.Totals().Tokens == 1; got != c.stays {
			t.Errorf("%s: the token stays: %v", name, got)
		}
		// A consumer reads it, too.
		if c.status >= 500 {
			_, err := fetcher(t, plane.FetchOptions{Allow: []string{b.Listener.Addr().String()}}).Fetch(t.Context(), url, nil, nil)
			if err == nil || !strings.Contains(err.Error(), c.says) || errors.Is(err, plane.ErrAnswer) != (c.status == 502) {
				t.Errorf("%s: a consumer reads %v", name, err)
			}
		}
	}
	// A server that is down.
	b := relaying(t, artifact.Options{}, say(``))
	down := httptest.NewServer(say(``))
	down.Close()
	b.from = down.URL
	if resp, got := post(t, b.Client(), b.url(t, "x"), `{}`, ""); resp.StatusCode != 503 || !strings.Contains(got, "refused") {
		t.Errorf("a server that is down: %s %s", resp.Status, got)
	}
	// What breaks off in the middle has no end.
	b = relaying(t, artifact.Options{}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"body":[{"_row_id":0,"a":1},`)
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}))
	resp, err := b.Client().Post(b.url(t, "x"), "", strings.NewReader(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if data, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("it looks whole: %s", data)
	}
	if b.store.Totals().Tokens != 0 {
		t.Error("the token is good after a byte has gone")
	}
}

// A column that does not exist is refused before anything is asked for, where the
// columns are known, and else by the server that knows them.
func TestRelayStrict(t *testing.T) {
	there := artifact.NewMemory(artifact.Options{})
	defer there.Close()
	b := relaying(t, artifact.Options{}, plane.Handler(there, plane.HandlerOptions{}))
	for name, columns := range map[string][]string{"known": {"event", "text"}, "not known": nil} {
		url := b.url(t, deposit(t, there, alerts), columns...)
		before := b.fetches.Load()
		ask := func(column string) (int, string) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(`{"columns":["`+column+`"]}`))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Prefer", "handling=strict")
			resp, err := b.Client().Do(req)
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
		if status, got := ask("nope"); status != 400 || !strings.Contains(got, "nope") || !strings.Contains(got, "event") {
			t.Errorf("%s: %d %s", name, status, got)
		}
		if asked := b.fetches.Load() > before; asked != (columns == nil) {
			t.Errorf("%s: the other server was asked: %v", name, asked)
		}
		if status, got := ask("text"); status != 200 {
			t.Errorf("%s: afterwards: %d %s", name, status, got)
		}
	}
}

// gone is a reader that goes away at some point.
type gone struct {
	name  string
	w     func() http.ResponseWriter
	early bool // while the other server answers
}

// A reader that goes away before the first byte leaves the token as it was,
// although the other server has given its rows out: what it asked for is kept, and
// no more than that.
func TestRelayKeepsWhatNobodyRead(t *testing.T) {
	for _, reader := range []gone{
		{"before the headers", func() http.ResponseWriter { return httptest.NewRecorder() }, true},
		{"at the headers", func() http.ResponseWriter { return &buffering{httptest.NewRecorder(), 0} }, false},
		{"at the first byte", func() http.ResponseWriter { return &buffering{httptest.NewRecorder(), 1} }, false},
		{"at the first byte, unbuffered", func() http.ResponseWriter { return &failing{httptest.NewRecorder(), 0} }, false},
	} {
		for _, accept := range []string{plane.TypeJSON, plane.TypeNDJSON, plane.TypeArrow, "text/csv", "application/vnd.apache.parquet"} {
			there := artifact.NewMemory(artifact.Options{})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			b := relaying(t, artifact.Options{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if reader.early {
					cancel()
				}
				plane.Handler(there, plane.HandlerOptions{}).ServeHTTP(w, r)
			}))
			url := b.url(t, deposit(t, there, alerts))
			token := url[strings.LastIndexByte(url, '/')+1:]
			func() {
				defer func() { _ = recover() }()
				r := httptest.NewRequest(http.MethodPost, plane.Path+token, strings.NewReader(`{"row_ids":[1,0],"columns":["text"]}`)).WithContext(ctx)
				r.Header.Set("Accept", accept)
				plane.Handler(b.store, plane.HandlerOptions{}).ServeHTTP(reader.w(), r)
			}()
			what := reader.name + ", " + accept
			if b.fetches.Load() != 1 || b.store.Totals().Tokens != 1 {
				t.Errorf("%s: %d fetches, %+v", what, b.fetches.Load(), b.store.Totals())
			}
			for _, request := range []string{`{}`, `{"row_ids":[1]}`, `{"row_ids":[1,2],"columns":["text"]}`, `{"row_ids":[0],"columns":["event"]}`} {
				if resp, got := post(t, b.Client(), url, request, ""); resp.StatusCode != 409 || !strings.Contains(got, "row_ids 1 0; columns text") {
					t.Errorf("%s: %s is more than what is left: %s %s", what, request, resp.Status, got)
				}
			}
			resp, got := post(t, b.Client(), url, `{"row_ids":[1],"columns":["text"]}`, "")
			if want := `{"body":[{"_row_id":1,"text":"\ud83d\ude00"}],"total_rows":1,"columns_returned":["_row_id","text"]}`; resp.StatusCode != 200 || got != want {
				t.Errorf("%s: %s %s, want %s", what, resp.Status, got, want)
			}
			if b.fetches.Load() != 1 || b.store.Totals() != (artifact.Totals{}) {
				t.Errorf("%s: in the end %d fetches, %+v", what, b.fetches.Load(), b.store.Totals())
			}
			there.Close()
		}
	}
	// What the store has no room for is lost, and so is the token.
	b := relaying(t, artifact.Options{MaxBytes: 10}, say(`{"body":[{"_row_id":0,"a":"`+strings.Repeat("x", 100)+`"}]}`))
	url := b.url(t, "x")
	func() {
		defer func() { _ = recover() }()
		plane.Handler(b.store, plane.HandlerOptions{}).ServeHTTP(&failing{httptest.NewRecorder(), 0}, httptest.NewRequest(http.MethodPost, plane.Path+url[strings.LastIndexByte(url, '/')+1:], nil))
	}()
	if resp, _ := post(t, b.Client(), url, `{}`, ""); resp.StatusCode != 404 || b.store.Totals() != (artifact.Totals{}) {
		t.Errorf("%s, %+v", resp.Status, b.store.Totals())
	}
}

// A table of any size passes, and takes the memory of a few rows.
func TestRelayOfALargeTable(t *testing.T) {
	const rows, size = 40_000, 1000
	row := strings.Repeat("x", size)
	b := relaying(t, artifact.Options{MaxBytes: 1 << 20}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"body":[`)
		for i := range rows {
			if i > 0 {
				io.WriteString(w, ",")
			}
			fmt.Fprintf(w, `{"_row_id":%d,"a":"%s"}`, i, row)
		}
		fmt.Fprintf(w, `],"total_rows":%d}`, rows)
	}))
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for request, want := range map[string]int{`{}`: rows, fmt.Sprintf(`{"row_ids":[0,%d]}`, rows-1): 2} {
		before := heap()
		resp, err := b.Client().Post(b.url(t, "x"), "", strings.NewReader(request))
		if err != nil {
			t.Fatal(err)
		}
		var read, most int64
		tail := make([]byte, 0, 200)
		piece := make([]byte, 32<<10)
		for next := int64(0); err == nil; {
			var n int
			n, err = resp.Body.Read(piece)
			tail = append(tail, piece[:n]...)
			tail = tail[max(0, len(tail)-100):]
			if read += int64(n); read >= next {
				next += 4 << 20
				most = max(most, int64(heap())-int64(before))
			}
		}
		resp.Body.Close()
		if !errors.Is(err, io.EOF) || !strings.Contains(string(tail), fmt.Sprintf(`],"total_rows":%d,"columns_returned":["_row_id","a"]}`, want)) {
			t.Errorf("%s: ends with %s, %v", request, tail, err)
		}
		if most > 4<<20 {
			t.Errorf("%s: %d bytes of memory for %d bytes", request, most, read)
		}
	}
}
