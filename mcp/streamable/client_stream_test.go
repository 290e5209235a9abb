package streamable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// wireless is a RoundTripper that calls a handler without a network, so that
// timers can be tested with a fake clock. Streams end with their request's
// context.
type wireless struct{ h http.Handler }

func (t wireless) RoundTrip(req *http.Request) (*http.Response, error) {
	pr, pw := io.Pipe()
	w := &wirelessWriter{header: http.Header{}, pw: pw, begun: make(chan struct{})}
	ctx, cancel := context.WithCancel(req.Context())
	in := req.Clone(ctx)
	if in.Body == nil {
		in.Body = http.NoBody
	}
	go func() {
		defer cancel()
		t.h.ServeHTTP(w, in)
		w.WriteHeader(http.StatusOK)
		pw.Close()
	}()
	select {
	case <-w.begun:
	case <-req.Context().Done():
		pr.CloseWithError(req.Context().Err())
		return nil, req.Context().Err()
	}
	stop := context.AfterFunc(req.Context(), func() { pr.CloseWithError(req.Context().Err()) })
	return &http.Response{
		StatusCode: w.status, Header: w.header, Body: closing{pr, func() { stop(); cancel() }}, ContentLength: -1, Request: req,
	}, nil
}

type closing struct {
	*io.PipeReader
	f func()
}

func (c closing) Close() error { c.f(); return c.PipeReader.Close() }

type wirelessWriter struct {
	header http.Header
	pw     *io.PipeWriter
	status int
	begun  chan struct{}
}

func (w *wirelessWriter) Header() http.Header { return w.header }
func (w *wirelessWriter) FlushError() error   { w.WriteHeader(http.StatusOK); return nil }
func (w *wirelessWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
		close(w.begun)
	}
}

func (w *wirelessWriter) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.pw.Write(b)
}

// dialWireless must run in a synctest bubble.
func dialWireless(t *testing.T, f *fake, edit func(*ClientOptions)) *Client {
	t.Helper()
	opts := ClientOptions{URL: "http://fake/mcp", HTTPClient: &http.Client{Transport: wireless{f}}}
	if edit != nil {
		edit(&opts)
	}
	c, err := Dial(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestClientResumesACallsStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended time.Time
		var pending jsonrpc.Message
		polls := 0
		f := &fake{}
		f.call = func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) {
			pending = jsonrpc.Message{ID: m.ID}
			send := events(w)
			_, _ = w.Write(AppendEvent(nil, Event{ID: "e0", Data: []byte{}, HasRetry: true, Retry: 1500 * time.Millisecond}))
			send("e1", `{"jsonrpc":"2.0","method":"notifications/message","params":{"n":1}}`)
			_, _ = w.Write([]byte("id: e2\ndata: {\"jsonrpc\":\"2.0\",\"meth")) // breaks in mid-event
			ended = time.Now()
		}
		f.get = func(w http.ResponseWriter, r *http.Request) {
			last := r.Header.Get(HeaderLastEventID)
			if last == "" {
				http.Error(w, "", http.StatusMethodNotAllowed)
				return
			}
			if took := time.Since(ended); took != 1500*time.Millisecond {
				t.Errorf("came back after %s, want the server's retry time", took)
			}
			ended = time.Now()
			send := events(w)
			if polls++; polls < 4 {
				send(fmt.Sprint("p", polls), fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/message","params":{"poll":%d}}`, polls))
				return
			}
			send("e9", result(pending, `{"done":true}`))
		}
		c := dialWireless(t, f, nil)
		defer c.Close()
		var back recorder
		got, err := c.Call(t.Context(), "x", nil, &back)
		if err != nil || string(got) != `{"done":true}` {
			t.Errorf("got %s, %v", got, err)
		}
		if s := strings.Join(back.all(), ","); s != `message {"n":1},message {"poll":1},message {"poll":2},message {"poll":3}` {
			t.Errorf("back got %s", s)
		}
		gets := ""
		for _, s := range f.seen() {
			if strings.HasPrefix(s, "GET ") {
				gets += s + ","
			}
		}
		if gets != "GET ,GET e1,GET p1,GET p2,GET p3," {
			t.Errorf("the server saw %s", gets)
		}
	})
}

func TestClientResumptionHasAnEnd(t *testing.T) {
	tests := []struct {
		name   string
		first  string // the POST's stream
		modern bool
		get    func(w http.ResponseWriter)
		want   string
		gets   int
		within time.Duration
	}{
		{"no event id", "data: {}\n\n", false, nil, "ended the stream of tools/call before it answered", 0, 0},
		{"modern", "id: 1\ndata: \n\n", true, nil, "ended the stream of tools/call before it answered", 0, 0},
		{"not resumable", "id: 1\ndata: \n\n", false, func(w http.ResponseWriter) { http.Error(w, "", http.StatusMethodNotAllowed) }, "does not resume it", 1, time.Second},
		{"gone", "id: 1\ndata: \n\n", false, func(w http.ResponseWriter) { http.Error(w, "", 404) }, "does not resume it", 1, time.Second},
		{"brings nothing", "id: 1\ndata: \n\n", false, func(w http.ResponseWriter) { events(w) }, "6 attempts to resume it brought nothing", 5, time.Minute},
		{"fails", "id: 1\nretry: 0\ndata: \n\n", false, func(w http.ResponseWriter) { http.Error(w, "", http.StatusServiceUnavailable) }, "6 attempts to resume it brought nothing", 5, time.Minute},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gets := 0
				f := &fake{modern: tt.modern}
				f.call = func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) {
					events(w)
					_, _ = w.Write([]byte(tt.first))
				}
				f.get = func(w http.ResponseWriter, r *http.Request) {
					if r.Header.Get(HeaderLastEventID) == "" {
						http.Error(w, "", http.StatusMethodNotAllowed)
						return
					}
					gets++
					tt.get(w)
				}
				c := dialWireless(t, f, nil)
				defer c.Close()
				start := time.Now()
				_, err := c.Call(t.Context(), "tools/call", json.RawMessage(`{"name":"x"}`), nil)
				if kindOf(err) != mcp.KindUpstreamUnavailable || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("err = %v, want %q", err, tt.want)
				}
				if errors.Is(err, mcp.ErrNotSent) || errors.Is(err, mcp.ErrRefused) {
					t.Error("the error says that the call was not taken, but it was")
				}
				if took := time.Since(start); took > tt.within || gets != tt.gets {
					t.Errorf("%d GETs in %s", gets, took)
				}
				if c.Err() != nil {
					t.Errorf("the client ended: %v", c.Err())
				}
			})
		})
	}
}

func TestClientCancelsWhileItWaitsToResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{call: func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) {
			events(w)
			_, _ = w.Write([]byte("id: 1\nretry: 60000\ndata: \n\n"))
		}}
		c := dialWireless(t, f, nil)
		defer c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if _, err := c.Call(ctx, "x", nil, nil); err != context.DeadlineExceeded || time.Since(start) != time.Second {
			t.Errorf("err = %v after %s", err, time.Since(start))
		}
		synctest.Wait()
		if !strings.Contains(strings.Join(f.seen(), ""), "notifications/cancelled") {
			t.Error("the server still works on it")
		}
	})
}

func TestClientGetStream(t *testing.T) {
	answered := make(chan string, 1)
	var opened atomic.Int32
	more := make(chan struct{})
	f := &fake{}
	f.told = func(m jsonrpc.Message) {
		if m.Method == "" {
			answered <- string(m.ID) + " " + string(m.Result)
		}
	}
	release := make(chan struct{})
	f.call = func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) {
		f.note("token %s", m.ID)
		<-release
		writeJSON(w, []byte(result(m, `{}`)))
	}
	f.get = func(w http.ResponseWriter, r *http.Request) {
		send := events(w)
		switch opened.Add(1) {
		case 1:
			_, _ = w.Write([]byte("retry: 1\n\n"))
			send("a", `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
			send("b", `[{"jsonrpc":"2.0","method":"notifications/message","params":{"n":1}},{"jsonrpc":"2.0","id":3,"method":"roots/list"}]`)
		case 2:
			if got := r.Header.Get(HeaderLastEventID); got != "b" {
				t.Errorf("came back after %q, want b", got)
			}
			send("c", `{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}`)
			<-more
			f.waitForAny("token ")
			send("d", `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":2,"progress":5}}`)
			send("e", `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":77,"progress":5}}`)
			send("f", `{"jsonrpc":"2.0","id":1,"result":{}}`)
			<-r.Context().Done()
		}
	}
	h := &recorder{answer: func(context.Context, *mcp.Request) (json.RawMessage, error) {
		return json.RawMessage(`{"roots":[]}`), nil
	}}
	c := dial(t, f, func(o *ClientOptions) { o.Handler = h })
	h.waitFor(t, "prompts/list_changed")
	if got := <-answered; got != `3 {"roots":[]}` {
		t.Errorf("answered %s", got)
	}
	got := h.all()
	var notes []string
	for _, s := range got {
		if !strings.HasPrefix(s, "roots") {
			notes = append(notes, s)
		}
	}
	if strings.Join(notes, "|") != `tools/list_changed |message {"n":1}|prompts/list_changed ` {
		t.Errorf("got %q", got)
	}
	close(more)
	back := &recorder{each: func(*mcp.Request) { close(release) }}
	if _, err := c.Call(t.Context(), "x", json.RawMessage(`{"_meta":{"progressToken":"mine"}}`), back); err != nil {
		t.Error(err)
	}
	if s := strings.Join(back.all(), "|"); s != `progress {"progressToken":"mine","progress":5}` {
		t.Errorf("the call got %q", s)
	}
	c.Close()
	if len(h.all()) != len(got) {
		t.Errorf("somebody's progress went to the handler: %q", h.all())
	}
}

func TestClientGetStreamRetries(t *testing.T) {
	tests := []struct {
		name string
		get  func(w http.ResponseWriter, n int32)
		want int32 // GETs within ten minutes; -1 is many
		lost bool
	}{
		{"not offered", func(w http.ResponseWriter, _ int32) { http.Error(w, "", http.StatusMethodNotAllowed) }, 1, false},
		{"not found", func(w http.ResponseWriter, _ int32) { http.Error(w, "", 404) }, 1, false},
		{"not SSE", func(w http.ResponseWriter, _ int32) { w.WriteHeader(200) }, 1, false},
		{"never works", func(w http.ResponseWriter, _ int32) { http.Error(w, "", http.StatusServiceUnavailable) }, maxAttempts + 1, false},
		{"works once", func(w http.ResponseWriter, n int32) {
			if n > 1 {
				http.Error(w, "", http.StatusBadGateway)
				return
			}
			events(w)
		}, -1, false},
		{"session ends", func(w http.ResponseWriter, n int32) {
			if n > 1 {
				http.Error(w, "", 404)
				return
			}
			events(w)
		}, 2, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n atomic.Int32
				f := &fake{get: func(w http.ResponseWriter, _ *http.Request) { tt.get(w, n.Add(1)) }}
				c := dialWireless(t, f, nil)
				time.Sleep(10 * time.Minute)
				got := n.Load()
				if tt.want >= 0 && got != tt.want {
					t.Errorf("%d GETs, want %d", got, tt.want)
				}
				if tt.want < 0 && (got < 15 || got > 40) {
					t.Errorf("%d GETs in ten minutes, want one every %s", got, maxBackoff)
				}
				if err := c.Err(); errors.Is(err, ErrSessionLost) != tt.lost {
					t.Errorf("Err = %v", err)
				}
				c.Close()
			})
		})
	}
}
