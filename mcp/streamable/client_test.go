package streamable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

func TestClientLegacyLifecycle(t *testing.T) {
	var headers sync.Map
	f := &fake{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		headers.Store(r.Method+r.Header.Get(HeaderSession), r.Header.Clone())
		f.ServeHTTP(w, r)
	}))
	defer server.Close()
	c, err := Dial(t.Context(), ClientOptions{
		URL: server.URL, ClientInfo: json.RawMessage(`{"name":"me"}`), Capabilities: json.RawMessage(`{"roots":{}}`),
		Header: http.Header{"authorization": {"Bearer x"}, "Mcp-Session-Id": {"forged"}, "Accept": {"text/html"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if h := c.Hello(); h.Version != mcp.V20251125 || h.Modern || string(h.ServerInfo) != `{"name":"fake"}` || string(h.Capabilities) != `{"tools":{}}` {
		t.Errorf("hello %+v", h)
	}
	f.waitFor(t, "GET ")
	if _, err := c.Call(t.Context(), "tools/list", nil, nil); err != nil {
		t.Error(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := c.Close(); err != nil {
		t.Error("a second Close:", err)
	}
	var posts []string
	for _, s := range f.seen() {
		if !strings.HasPrefix(s, "GET") {
			posts = append(posts, s)
		}
	}
	want := []string{
		`POST {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"roots":{}},"clientInfo":{"name":"me"}}}`,
		`POST {"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`POST {"jsonrpc":"2.0","id":2,"method":"tools/list"}`,
		`DELETE s1`,
	}
	if strings.Join(posts, "\n") != strings.Join(want, "\n") {
		t.Errorf("the server saw %q", posts)
	}
	header := func(key string) http.Header {
		h, ok := headers.Load(key)
		if !ok {
			t.Fatalf("no request %q", key)
		}
		return h.(http.Header)
	}
	if h := header("POST"); h.Get(HeaderVersion) != "" || h.Get("Accept") != "application/json, text/event-stream" || h.Get("Content-Type") != ContentJSON {
		t.Errorf("initialize had the headers %v", h)
	}
	for _, key := range []string{"POSTs1", "GETs1", "DELETEs1"} {
		if h := header(key); h.Get(HeaderVersion) != mcp.V20251125 || h.Get("Authorization") != "Bearer x" {
			t.Errorf("%s had the headers %v", key, h)
		}
	}
	if h := header("GETs1"); h.Get("Accept") != ContentSSE {
		t.Errorf("GET had the headers %v", h)
	}
	if _, err := c.Call(t.Context(), "ping", nil, nil); !errors.Is(err, mcp.ErrNotSent) {
		t.Errorf("a call after Close: %v", err)
	}
	if err := c.Notify(t.Context(), "x", nil); !errors.Is(err, mcp.ErrNotSent) {
		t.Errorf("a notification after Close: %v", err)
	}
}

func TestClientAnswersAreRaw(t *testing.T) {
	const raw = `{ "z":12345678901234567890, "content":[{"type":"hologram","a":1.50}],"é":"\u00e9", "_meta":{"x":null} }`
	answers := map[string]func(m jsonrpc.Message) (contentType, body string){
		"json":         func(m jsonrpc.Message) (string, string) { return ContentJSON, result(m, raw) },
		"charset":      func(m jsonrpc.Message) (string, string) { return "Application/JSON; charset=utf-8", result(m, raw) },
		"no type":      func(m jsonrpc.Message) (string, string) { return "", result(m, raw) },
		"batch":        func(m jsonrpc.Message) (string, string) { return ContentJSON, "[" + result(m, raw) + "]" },
		"sse":          func(m jsonrpc.Message) (string, string) { return ContentSSE, "data: " + result(m, raw) + "\n\n" },
		"sse, CR":      func(m jsonrpc.Message) (string, string) { return ContentSSE, ":\r\rdata:" + result(m, raw) + "\r\r" },
		"sse, unended": func(m jsonrpc.Message) (string, string) { return ContentSSE, "data: " + result(m, raw) },
		"sse, with log": func(m jsonrpc.Message) (string, string) {
			return ContentSSE, "data: junk\n\ndata: " + result(m, raw) + "\n\n"
		},
		"sse, other id": func(m jsonrpc.Message) (string, string) {
			return ContentSSE, `data: {"jsonrpc":"2.0","id":99,"result":{}}` + "\n\ndata: " + result(m, raw) + "\n\n"
		},
	}
	f := &fake{call: func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) {
		contentType, body := answers[strings.Trim(string(m.Params), `[]"`)](m)
		w.Header()["Content-Type"] = []string{contentType}
		_, _ = w.Write([]byte(body))
	}}
	c := dial(t, f, nil)
	for name := range answers {
		t.Run(name, func(t *testing.T) {
			got, err := c.Call(t.Context(), "x", json.RawMessage(`["`+name+`"]`), nil)
			if err != nil || string(got) != raw {
				t.Errorf("got %s, %v", got, err)
			}
		})
	}
}

func TestClientParamsAndTokens(t *testing.T) {
	f := &fake{call: func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) {
		send := events(w)
		send("", `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1,"progressToken":`+string(m.ID)+`,"x":1e400}}`)
		send("", `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"forged","progress":2}}`)
		send("", `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":3}}`)
		send("", result(m, string(m.Params)))
	}}
	c := dial(t, f, nil)
	tests := []struct{ params, sent, progress string }{
		{`{ "name":"a", "_meta" : {"progressToken": "mine","k":1} }`, `{ "name":"a", "_meta" : {"progressToken": ID,"k":1} }`, `progress {"progress":1,"progressToken":"mine","x":1e400}`},
		{`{"_meta":{"progressToken":7}}`, `{"_meta":{"progressToken":ID}}`, `progress {"progress":1,"progressToken":7,"x":1e400}`},
		{`{"_meta":{"progress\u0054oken":[1.0]}}`, `{"_meta":{"progress\u0054oken":ID}}`, `progress {"progress":1,"progressToken":[1.0],"x":1e400}`},
		{`{"_meta":{}}`, `{"_meta":{}}`, ``},
		{`{"a":"_meta","progressToken":4}`, `{"a":"_meta","progressToken":4}`, ``},
	}
	for _, tt := range tests {
		var back recorder
		got, err := c.Call(t.Context(), "x", json.RawMessage(tt.params), &back)
		if err != nil {
			t.Errorf("%s: %v", tt.params, err)
		}
		id := fmt.Sprint(c.nextID.Load())
		if want := strings.Replace(tt.sent, "ID", id, 1); string(got) != want {
			t.Errorf("sent %s, want %s", got, want)
		}
		if s := strings.Join(back.all(), "|"); s != tt.progress {
			t.Errorf("%s: back got %q", tt.params, s)
		}
	}
	for _, params := range []string{`{"_meta":{"progressToken":1,"progressToken":2}}`, `{"_meta":{},"_meta":{}}`, `{"_meta":4}`, `{"_meta":`} {
		if _, err := c.Call(t.Context(), "x", json.RawMessage(params), nil); kindOf(err) != mcp.KindInvalidParams {
			t.Errorf("%s: %v", params, err)
		}
	}
}

func kindOf(err error) mcp.Kind {
	if err == nil {
		return 255
	}
	k, _ := mcp.KindOf(err)
	return k
}

func TestClientDeliversBeforeTheResponse(t *testing.T) {
	f := &fake{call: func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) {
		send := events(w)
		for i := range 20 {
			send("", fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/message","params":{"n":%d}}`, i))
		}
		send("", result(m, `{}`))
	}}
	c := dial(t, f, nil)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 10 {
				var back recorder
				if _, err := c.Call(t.Context(), "x", nil, &back); err != nil {
					t.Error(err)
				}
				got := back.all()
				if len(got) != 20 {
					t.Errorf("%d notifications at the response, want 20", len(got))
				}
				for i, s := range got {
					if s != fmt.Sprintf(`message {"n":%d}`, i) {
						t.Errorf("number %d is %s", i, s)
					}
				}
			}
		})
	}
	wg.Wait()
	if calls, serving := c.InFlight(); calls != 0 || serving != 0 {
		t.Errorf("%d calls, %d requests left", calls, serving)
	}
}

func TestClientSlowCallerCoalescesProgress(t *testing.T) {
	const n = 20 * maxCallMessages
	f := &fake{call: func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) {
		send := events(w)
		for i := range n {
			send("", fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`, m.ID, i))
		}
		send("", result(m, `{}`))
	}}
	c := dial(t, f, nil)
	// queued reports whether the newest progress has been read from the stream.
	queued := func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, cl := range c.calls {
			cl.mu.Lock()
			defer cl.mu.Unlock()
			last := len(cl.queue) - 1
			return last >= 0 && strings.Contains(string(cl.queue[last].m.Params), fmt.Sprint(`"progress":`, n-1))
		}
		return false
	}
	var once sync.Once
	back := &recorder{each: func(*mcp.Request) {
		once.Do(func() {
			for end := time.Now().Add(20 * time.Second); !queued() && time.Now().Before(end); time.Sleep(time.Millisecond) {
			}
		})
	}}
	if _, err := c.Call(t.Context(), "x", json.RawMessage(`{"_meta":{"progressToken":"t"}}`), back); err != nil {
		t.Fatal(err)
	}
	got := back.all()
	if len(got) != maxCallMessages+1 {
		t.Errorf("%d progress notifications were kept for a caller that took one", len(got))
	}
	if last := got[len(got)-1]; !strings.Contains(last, fmt.Sprint(n-1)) {
		t.Errorf("the last is %s, want the newest", last)
	}
}

func TestClientServerRequests(t *testing.T) {
	answers := make(chan string, 8)
	f := &fake{}
	f.told = func(m jsonrpc.Message) {
		if m.Method == "" {
			answers <- string(m.ID) + " " + string(m.Result) + string(m.Err)
		}
	}
	f.call = func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) {
		send := events(w)
		ask := func(msg string) {
			send("", msg)
			send("", result(m, `{"answered":`+string(must(json.Marshal(<-answers)))+`}`))
		}
		switch m.Method {
		case "ask":
			ask(`{"jsonrpc":"2.0","id":"q-1","method":"sampling/createMessage","params":{"n":12345678901234567890}}`)
		case "ping":
			ask(`{"jsonrpc":"2.0","id":5.0,"method":"ping"}`)
		case "leave open":
			send("", `{"jsonrpc":"2.0","id":1,"method":"elicitation/create"}`)
			send("", result(m, `{}`))
		case "cancel early":
			// The request waits behind a notification that is still being handled.
			send("", `{"jsonrpc":"2.0","method":"notifications/message"}`)
			send("", `{"jsonrpc":"2.0","id":3,"method":"elicitation/create"}`)
			send("", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`)
			send("", `{"jsonrpc":"2.0","id":4,"method":"ping"}`)
			<-answers
			f.note("cancelled early")
			send("", result(m, `{}`))
		case "cancel":
			send("", `{"jsonrpc":"2.0","id":2,"method":"elicitation/create"}`)
			f.waitForAny("elicitation is open")
			send("", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
			f.waitForAny("elicitation has ended")
			send("", result(m, `{}`))
		}
	}
	c := dial(t, f, nil)
	t.Run("answered", func(t *testing.T) {
		back := &recorder{answer: func(_ context.Context, r *mcp.Request) (json.RawMessage, error) {
			if r.ID != `"q-1"` || r.Version != mcp.V20251125 || r.Session == nil || r.Peer == nil {
				t.Errorf("request %+v", r)
			}
			return append(json.RawMessage(`{"got":`), append(r.Params, '}')...), nil
		}}
		got, err := c.Call(t.Context(), "ask", nil, back)
		if want := `{"answered":"\"q-1\" {\"got\":{\"n\":12345678901234567890}}"}`; err != nil || string(got) != want {
			t.Errorf("got %s, %v", got, err)
		}
	})
	t.Run("refused", func(t *testing.T) {
		back := &recorder{answer: func(context.Context, *mcp.Request) (json.RawMessage, error) {
			return nil, &jsonrpc.Error{Code: -1, Message: "rejected by the user"}
		}}
		got, err := c.Call(t.Context(), "ask", nil, back)
		if err != nil || !strings.Contains(string(got), `rejected by the user`) {
			t.Errorf("got %s, %v", got, err)
		}
	})
	t.Run("nobody to ask", func(t *testing.T) {
		got, err := c.Call(t.Context(), "ask", nil, nil)
		if err != nil || !strings.Contains(string(got), `-32601`) {
			t.Errorf("got %s, %v", got, err)
		}
	})
	t.Run("ping", func(t *testing.T) {
		got, err := c.Call(t.Context(), "ping", nil, nil)
		if err != nil || string(got) != `{"answered":"5.0 {}"}` {
			t.Errorf("got %s, %v", got, err)
		}
	})
	waits := func(t *testing.T) *recorder {
		return &recorder{answer: func(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
			f.note("elicitation is open")
			<-ctx.Done()
			f.note("elicitation has ended")
			return nil, ctx.Err()
		}}
	}
	t.Run("left open", func(t *testing.T) {
		if _, err := c.Call(t.Context(), "leave open", nil, waits(t)); err != nil {
			t.Error(err)
		}
	})
	t.Run("cancelled before its turn", func(t *testing.T) {
		back := &recorder{each: func(*mcp.Request) { f.waitForAny("cancelled early") }}
		if _, err := c.Call(t.Context(), "cancel early", nil, back); err != nil || len(back.all()) != 1 {
			t.Errorf("back got %q, %v", back.all(), err)
		}
	})
	t.Run("cancelled by the server", func(t *testing.T) {
		if _, err := c.Call(t.Context(), "cancel", nil, waits(t)); err != nil {
			t.Error(err)
		}
		select {
		case a := <-answers:
			t.Errorf("a cancelled request was answered: %s", a)
		default:
		}
	})
	if calls, serving := c.InFlight(); calls != 0 || serving != 0 {
		t.Errorf("%d calls, %d requests left", calls, serving)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// waitForAny is waitFor for handlers, which have no test to fail.
func (f *fake) waitForAny(want string) {
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		for _, s := range f.seen() {
			if strings.Contains(s, want) {
				return
			}
		}
	}
}

func TestClientTooManyServerRequests(t *testing.T) {
	var mu sync.Mutex
	refused := 0
	all := make(chan struct{})
	f := &fake{}
	f.told = func(m jsonrpc.Message) {
		if m.Err != nil && strings.Contains(string(m.Err), "overloaded") {
			mu.Lock()
			defer mu.Unlock()
			if refused++; refused == 3 {
				close(all)
			}
		}
	}
	f.call = func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) {
		send := events(w)
		for i := range maxCallServing + 3 {
			send("", fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"roots/list"}`, i))
		}
		<-all
		send("", result(m, `{}`))
	}
	c := dial(t, f, nil)
	back := &recorder{answer: func(ctx context.Context, _ *mcp.Request) (json.RawMessage, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	if _, err := c.Call(t.Context(), "x", nil, back); err != nil {
		t.Error(err)
	}
	if len(back.all()) != maxCallServing {
		t.Errorf("%d were served at once", len(back.all()))
	}
}

func TestClientCancellation(t *testing.T) {
	for _, era := range []string{"legacy", "modern"} {
		for _, how := range []string{"json", "sse"} {
			t.Run(era+"/"+how, func(t *testing.T) {
				began, gone := make(chan struct{}), make(chan struct{})
				f := &fake{modern: era == "modern", call: func(w http.ResponseWriter, r *http.Request, m jsonrpc.Message) {
					if how == "sse" {
						events(w)("", `{"jsonrpc":"2.0","method":"notifications/message","params":{}}`)
					}
					close(began)
					<-r.Context().Done()
					close(gone)
				}}
				c := dial(t, f, nil)
				ctx, cancel := context.WithCancel(t.Context())
				go func() {
					<-began
					cancel()
				}()
				if _, err := c.Call(ctx, "tools/call", json.RawMessage(`{"name":"x"}`), &recorder{}); err != context.Canceled {
					t.Errorf("err = %v, want the context's", err)
				}
				<-gone
				if era == "legacy" {
					got := f.waitFor(t, "notifications/cancelled")
					if want := fmt.Sprintf(`{"requestId":%d,"reason":"cancelled"}`, c.nextID.Load()); !strings.Contains(got, want) {
						t.Errorf("sent %s, want %s", got, want)
					}
				}
				c.Close()
				if era == "modern" && strings.Contains(strings.Join(f.seen(), ""), "cancelled") {
					t.Error("a modern server was told by more than the closed response")
				}
			})
		}
	}
	t.Run("deadline", func(t *testing.T) {
		var came atomic.Bool
		f := &fake{call: func(_ http.ResponseWriter, r *http.Request, _ jsonrpc.Message) {
			came.Store(true)
			<-r.Context().Done()
		}}
		c := dial(t, f, nil)
		for d := 20 * time.Millisecond; !came.Load() && d < time.Minute; d *= 2 { // a call whose time ends before it is sent tells nothing
			ctx, cancel := context.WithTimeout(t.Context(), d)
			if _, err := c.Call(ctx, "x", nil, nil); err != context.DeadlineExceeded {
				t.Errorf("err = %v", err)
			}
			cancel()
		}
		f.waitFor(t, `"reason":"timed out"`)
	})
	t.Run("before the call", func(t *testing.T) {
		f := &fake{}
		c := dial(t, f, nil)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := c.Call(ctx, "never", nil, nil); err != context.Canceled {
			t.Errorf("err = %v", err)
		}
		if strings.Contains(strings.Join(f.seen(), ""), "never") {
			t.Error("the call was sent")
		}
	})
	t.Run("a back that is waited for", func(t *testing.T) {
		f := &fake{call: func(w http.ResponseWriter, r *http.Request, m jsonrpc.Message) {
			events(w)("", `{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage"}`)
			<-r.Context().Done()
		}}
		c := dial(t, f, nil)
		ctx, cancel := context.WithCancel(t.Context())
		returned := false
		back := &recorder{answer: func(ctx context.Context, _ *mcp.Request) (json.RawMessage, error) {
			cancel()
			<-ctx.Done()
			time.Sleep(10 * time.Millisecond)
			returned = true
			return nil, ctx.Err()
		}}
		if _, err := c.Call(ctx, "x", nil, back); err != context.Canceled || !returned {
			t.Errorf("err = %v; back has returned: %v", err, returned)
		}
	})
}

func TestClientForeignCancellationIsNotSent(t *testing.T) {
	f := &fake{}
	c := dial(t, f, nil)
	if err := c.Notify(t.Context(), "notifications/cancelled", json.RawMessage(`{"requestId":1}`)); err != nil {
		t.Error(err)
	}
	if err := c.Notify(t.Context(), "notifications/roots/list_changed", nil); err != nil {
		t.Error(err)
	}
	f.waitFor(t, "roots/list_changed")
	if strings.Contains(strings.Join(f.seen(), ""), "notifications/cancelled") {
		t.Error("an id of somebody else's was cancelled")
	}
}

func TestClientCloseEndsCalls(t *testing.T) {
	began := make(chan struct{}, 3)
	f := &fake{
		get: func(w http.ResponseWriter, r *http.Request) {
			events(w)
			<-r.Context().Done()
		},
		call: func(w http.ResponseWriter, r *http.Request, m jsonrpc.Message) {
			if m.Method == "sse" {
				events(w)
			}
			began <- struct{}{}
			<-r.Context().Done()
		},
	}
	c := dial(t, f, nil)
	var wg sync.WaitGroup
	for _, method := range []string{"json", "sse"} {
		wg.Go(func() {
			_, err := c.Call(t.Context(), method, nil, nil)
			if kindOf(err) != mcp.KindUpstreamUnavailable || errors.Is(err, mcp.ErrNotSent) || !strings.Contains(err.Error(), "closed") {
				t.Errorf("%s: %v", method, err)
			}
		})
	}
	<-began
	<-began
	start := time.Now()
	c.Close()
	wg.Wait()
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("Close took %s", took)
	}
	select {
	case <-c.Done():
	default:
		t.Error("Done is not closed")
	}
}

func TestClientReusesConnections(t *testing.T) {
	var mu sync.Mutex
	conns := 0
	f := &fake{call: func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) {
		if m.Method == "sse" {
			events(w)("", result(m, `{}`))
			return
		}
		writeJSON(w, []byte(result(m, `{}`)))
	}}
	server := httptest.NewUnstartedServer(f)
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			mu.Lock()
			defer mu.Unlock()
			conns++
		}
	}
	server.Start()
	defer server.Close()
	c, err := Dial(t.Context(), ClientOptions{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 50 {
		for _, method := range []string{"json", "sse"} {
			if _, err := c.Call(t.Context(), method, nil, nil); err != nil {
				t.Fatal(err)
			}
			// The connection of a stream comes back a moment after its response.
			time.Sleep(time.Millisecond)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if conns > 10 {
		t.Errorf("%d connections for 100 calls in a row", conns)
	}
}
