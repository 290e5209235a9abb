package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

// answerWith gives each request on one connection the same bytes.
func answerWith(t *testing.T, response string) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { ln.Close(); <-done })
	go func() {
		defer close(done)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			in := bufio.NewReader(c)
			for {
				r, err := http.ReadRequest(in)
				if err != nil {
					break
				}
				r.Body.Close()
				if _, err := c.Write([]byte(response)); err != nil {
					break
				}
			}
			c.Close()
		}
	}()
	return ln.Addr().String()
}

func TestRoundTrip(t *testing.T) {
	for _, c := range []struct {
		name, response string
		status         int
		session, body  string
		fails          bool
	}{
		{name: "length", response: "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nmcp-session-id: s1\r\n\r\nabc", status: 200, session: "s1", body: "abc"},
		{name: "chunks", response: "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\na\r\n0123456789\r\n0\r\n\r\n", status: 200, body: "abc0123456789"},
		{name: "accepted", response: "HTTP/1.1 202 Accepted\r\n\r\n", status: 202},
		{name: "no length", response: "HTTP/1.1 200 OK\r\n\r\n", fails: true},
		{name: "no HTTP", response: "what?\r\n\r\n", fails: true},
		{name: "bad chunk", response: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", fails: true},
		{name: "too long", response: "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", fails: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn, err := dial(t.Context(), answerWith(t, c.response))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.close()
			_ = conn.tcp.SetDeadline(time.Now().Add(30 * time.Second))
			for range 2 { // the second finds the connection where the first left it
				status, session, err := conn.roundTrip(endpoint{host: "h", path: "/"}.request("", nil, []byte("{}")))
				if c.fails {
					if err == nil {
						t.Fatalf("no error, HTTP %d", status)
					}
					return
				}
				if err != nil || status != c.status || session != c.session || string(conn.body) != c.body {
					t.Fatalf("HTTP %d, session %q, %q, %v", status, session, conn.body, err)
				}
			}
		})
	}
}

// A caller calls the benchmark's own upstream in both eras, and notices every
// answer that is not the right one.
func TestCaller(t *testing.T) {
	upstream := httptest.NewServer(newUpstream().handler())
	defer upstream.Close()
	host := strings.TrimPrefix(upstream.URL, "http://")
	payload := payloadOf(5000)
	for _, e := range []endpoint{legacyAt(host, "/"+legacyName+"/mcp"), modernAt(host, "/"+modernName+"/mcp")} {
		call := func(session string) []byte { return e.call(session, "echo", fmt.Sprintf(`{"text":"%s"}`, payload)) }
		c, err := newCaller(t.Context(), e, []func(string) []byte{call, call}, payload, 0)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := c.call(); err != nil {
				t.Fatal(err)
			}
		}
		if c.id != firstID+5 {
			t.Errorf("%d calls", c.id-firstID)
		}
		c.close()
	}
	id := fmt.Sprint(firstID + 1)
	ok := `{"jsonrpc":"2.0","id":` + id + `,"result":{"content":[{"type":"text","text":"` + string(payload) + `"}]}}`
	for name, body := range map[string]string{
		"":            ok,
		"other id":    strings.Replace(ok, id, "7", 1),
		"cut text":    strings.Replace(ok, string(payload), string(payload[:4000]), 1),
		"other text":  strings.Replace(ok, "weir", "dams", 1),
		"not a match": `{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32603,"message":"no"}}`,
	} {
		e := modernAt(answerWith(t, fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)), "/")
		c, err := newCaller(t.Context(), e, []func(string) []byte{func(string) []byte { return e.call("", "echo", "{}") }}, payload, 0)
		if (err == nil) != (name == "") {
			t.Errorf("%q: %v", name, err)
		}
		if err == nil {
			c.close()
		}
	}
	refused := `{"jsonrpc":"2.0","id":` + id + `,"result":{"content":[],"isError":true}}`
	e := modernAt(answerWith(t, fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(refused), refused)), "/")
	if _, err := newCaller(t.Context(), e, []func(string) []byte{func(string) []byte { return e.call("", "echo", "{}") }}, nil, 0); err == nil {
		t.Error("a failed tool counts as an answer")
	}
}

// Quantiles are within a bucket's width of those of the sorted values.
func TestHistogram(t *testing.T) {
	var h, other histogram
	var all []time.Duration
	for n, v := 0, time.Duration(1); n < 3000; n++ {
		v = (v*16807 + 11) % 2147483647
		d := v >> (n % 25)
		all = append(all, d)
		if n%2 == 0 {
			h.add(d)
		} else {
			other.add(d)
		}
	}
	h.merge(&other)
	slices.Sort(all)
	for _, q := range []float64{0, .5, .9, .99, .999} {
		want, got := all[int(q*float64(len(all)))], h.quantile(q)
		if diff := max(got-want, want-got); diff > want/128+1 {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
	if got := new(histogram).quantile(.5); got != 0 {
		t.Errorf("of nothing: %v", got)
	}
	last := time.Duration(1<<63 - 1)
	h = histogram{}
	h.add(last)
	h.add(-1)
	if got := h.quantile(.9); last-got > last/128 {
		t.Errorf("the longest is %v", got)
	}
}
